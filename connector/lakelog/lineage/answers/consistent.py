"""Consistent snapshots of several tables: all are made from the same versions of the tables that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.common.timestamps import Timestamp, millis_of, shown_millis
from lakelog.filestore.metadata.origins import LineKey, TableVersion
from lakelog.filestore.metadata.snapshots import newest_at
from lakelog.lineage.answers.hindrances import Explanation
from lakelog.lineage.lines.agreement import Agreement, Domains, Mask
from lakelog.lineage.lines.line_graph import FoundLines, LineGraph, load_lines
from lakelog.lineage.tables.found_tables import line_key
from lakelog.warehouse.warehouse import Warehouse

At = Timestamp | Mapping[str, int]


class NotConsistentError(NotFoundError):
    """No snapshots of the tables are made from the same versions: `hindrances` says why."""

    def __init__(self, message: str, *, hindrances: Sequence[str]) -> None:
        super().__init__(message)
        self.hindrances = tuple(hindrances)


@dataclass(frozen=True, kw_only=True)
class ConsistentSnapshots(Mapping[str, int]):
    """Snapshots of tables that are made from the same versions: {table: id}, by the names in the question.

    `snapshots` also has the uuids of their commits. `versions` are those of the upstream tables, each named by its
    newest snapshot that agrees, which may have expired. `reasons` says why a table is not at its newest version.
    """

    snapshots: Mapping[str, TableVersion]
    versions: Mapping[str, TableVersion]
    reasons: Mapping[str, str]

    def __getitem__(self, table: str) -> int:
        return self.snapshots[table].snapshot_id

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshots)

    def __len__(self) -> int:
        return len(self.snapshots)


def consistent_snapshots(
    catalog: Warehouse, tables: Sequence[str], at: At | None = None, *, catalogs: Sequence[Warehouse] = ()
) -> ConsistentSnapshots:
    """The newest snapshots of tables that are made from the same versions of all tables that they share.

    `tables` are names such as `db.t` and `db.t$branch_b`; a table may be made from another one of them. `at` is a
    timestamp, after which no snapshot of them is taken, or names upstream tables, or some of these tables, with the
    snapshot that each is to be at, `{"db.source": 12}`. `catalogs` are further catalogs with upstream tables. Reads the
    living snapshots of the tables and of everything upstream, but no rows. If a table was restored, so that several
    answers are possible, the first table is as new as possible, then the second. Raises NotConsistentError, which says
    why there are none; InvalidRequestError for an upstream table that none of the tables is made from.
    """
    if not tables:
        raise InvalidRequestError("name the tables that are to be read consistently, such as ['db.a', 'db.b']")
    found = FoundLines([catalog, *catalogs])
    stores = {name: found.named(name) for name in tables}
    graph = load_lines(stores.values(), found)
    return agree(graph, {name: line_key(store) for name, store in stores.items()}, at)


def agree(graph: LineGraph, asked: Mapping[str, LineKey], at: At | None = None) -> ConsistentSnapshots:
    """Like `consistent_snapshots`, for lines that were read. `asked` has the lines by their names in the answer."""
    lines = list(dict.fromkeys(asked.values()))
    above = graph.above(lines)
    agreement = Agreement(shapes={line: graph.shape(line) for line in above}, asked=lines)
    domains = agreement.domains({line: _candidates(graph, line, at) for line in lines})
    if isinstance(at, Mapping):
        _hold(graph, agreement, domains, at)
    _check_recorded(graph, lines)
    chosen = agreement.newest({line: domain.copy() for line, domain in domains.items()})
    why = Explanation(graph, agreement, domains)
    if chosen is None:
        found = why.hindrances()
        raise NotConsistentError(
            f"{listed(asked)} have no consistent snapshots{_shown_at(at)}: {'; '.join(found)}", hindrances=found
        )
    versions = {
        source: steps[chosen[source]].version if chosen[source] < len(steps) else graph.versions[source].first(key)
        for source, key in agreement.above(lines, chosen).items()
        for steps in [graph.lines[source].steps]
    }
    return ConsistentSnapshots(
        snapshots={name: graph.lines[line].steps[chosen[line]].version for name, line in asked.items()},
        versions={graph.names[line]: version for line, version in versions.items() if line not in lines},
        reasons={name: reason for name, line in asked.items() if (reason := why.lagging(chosen, line)) is not None},
    )


def _candidates(graph: LineGraph, line: LineKey, at: At | None) -> Mask:
    """The living whole snapshots of an asked line, up to a timestamp."""
    steps = graph.lines[line].steps
    found = np.array([step.is_living and step.is_whole for step in steps], dtype=np.bool_)
    if at is not None and not isinstance(at, Mapping):
        last = newest_at([step.time_millis for step in steps], millis_of(at), now_millis=system_millis())
        found[0 if last is None else last + 1 :] = False
    if not found.any():
        name = graph.names[line]
        if not steps:
            raise NotFoundError(f"table {name} has no snapshot yet: it cannot be read consistently with others")
        why = "holds all batches whole" if at is None or isinstance(at, Mapping) else f"is as old as {at}"
        raise NotFoundError(f"no living snapshot of table {name} {why}; its oldest is {steps[0].version.snapshot_id}")
    return found


def _hold(graph: LineGraph, agreement: Agreement, domains: Domains, at: Mapping[str, int]) -> None:
    """Restrict lines to the versions that were asked for."""
    by_name = {graph.names[line]: line for line in agreement.shapes}
    for name, snapshot_id in at.items():
        line = by_name.get(name)
        if line is None:
            raise InvalidRequestError(
                f"at= names {name}, but none of the tables is made from it; expected one of {listed(sorted(by_name))}"
            )
        key = graph.versions[line].key_by_id(snapshot_id)
        if key is None:
            raise NotFoundError(
                f"at= names snapshot {snapshot_id} of {name}, but it does not exist, and no snapshot of the tables was "
                "made from it"
            )
        agreement.only(domains, line, key)


def _check_recorded(graph: LineGraph, lines: Sequence[LineKey]) -> None:
    """Raise for a table that records no lineage: it is not known what it shares with the others."""
    for line in lines if len(lines) > 1 else ():
        others = [other for other in lines if other != line]
        recorded = any(step.batches for step in graph.lines[line].steps)
        if recorded or graph.shown[line].sources or line in graph.above(others):
            continue
        name = graph.names[line]
        message = (
            f"table {name} has no lineage: none of its snapshots records what it was made from, and none of the other "
            "tables is made from it"
        )
        raise NotConsistentError(
            f"{message}. Write it by a job that records its sources, or read it by itself, at its newest snapshot",
            hindrances=[message],
        )


def _shown_at(at: At | None) -> str:
    if at is None:
        return ""
    if isinstance(at, Mapping):
        return f" at {listed(f'snapshot {number} of {name}' for name, number in at.items())}"
    return f" at {shown_millis(millis_of(at))}"
