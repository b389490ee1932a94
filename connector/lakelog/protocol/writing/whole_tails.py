"""Up to where a read shows tails: before what is not in all its buckets."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.state.state import TableState

Logged = tuple[tuple[CommitHeader, int], ...]
"""The transactions of a bucket, in order, each with the offset of its end."""


def statements_in(
    table: TableStore, state: TableState, tails: Mapping[int, Logged]
) -> dict[str, frozenset[int] | None]:
    """The batch statements that are in tails and in no snapshot -> their buckets; None where rows are taken out.

    Rows are taken out of an append-only table by its next snapshot, which writes new files. Raises NotFoundError for a
    statement that has ended meanwhile.
    """
    found: dict[str, frozenset[int] | None] = {}
    commits = PreparedCommits(table)
    for header in (header for logged in tails.values() for header, _ in logged):
        name = header.statement
        if name is not None and name not in found and not state.holds(header.user, header.identifier):
            parts = header.parts or commits.read(name).parts
            found[name] = None if any(part.removed for part in parts.values()) else frozenset(parts)
    return found


def cut_tails(
    tails: Mapping[int, Logged],
    statements: Mapping[str, frozenset[int] | None],
    whole_up_to: Mapping[str, int] | None,
) -> dict[int, Logged]:
    """The tails, each up to the first transaction of something that is not in all its buckets. Pure.

    That is a batch statement, or, with `whole_up_to` (writer -> its last whole batch), a batch of a stream too. What is
    cut off in one bucket may have parts in another one, so the cut is made until nothing is left to cut off.
    """
    dropped: set[object] = set()
    for name, buckets in statements.items():
        there = {bucket for bucket, logged in tails.items() for header, _ in logged if header.statement == name}
        if buckets is None or not buckets <= there:
            dropped.add(name)
    if whole_up_to is not None:
        batches = (header for logged in tails.values() for header, _ in logged if header.statement is None)
        dropped |= {_unit(one) for one in batches if one.identifier > whole_up_to.get(one.user, -1)}
    while True:
        kept = {bucket: logged_before(logged, dropped) for bucket, logged in tails.items()}
        cut_off = (header for bucket, logged in tails.items() for header, _ in logged[len(kept[bucket]) :])
        more = {_unit(one) for one in cut_off if one.statement is not None or whole_up_to is not None} - dropped
        if not more:
            return kept
        dropped |= more


def _unit(header: CommitHeader) -> object:
    """What a transaction is a part of."""
    return header.statement if header.statement is not None else (header.user, header.identifier)


def logged_before(logged: Logged, dropped: set[object]) -> Logged:
    """The transactions before the first one of something that is dropped. Pure."""
    at = next((place for place, (header, _) in enumerate(logged) if _unit(header) in dropped), len(logged))
    return logged[:at]
