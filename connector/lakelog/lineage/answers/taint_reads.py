"""What the batches of a snapshot have read, as nodes of the histories of lines: ranges of changes, states, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakelog.filestore.metadata.origins import ORIGIN_MARK, Change, ReadMode, RowBatch, TableSource
from lakelog.lineage.lines.line_history import LineHistories
from lakelog.lineage.lines.line_nodes import LineNodes
from lakelog.lineage.lines.lines import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRead:
    """What a batch has read: the rows that snapshots wrote, and with `of_states` the rows that they hold.

    With `ends` it is the difference of two states: what the snapshots wrote, as far as the `ends` hold it. `base` is
    the number of the older state.
    """

    nodes: frozenset[int]
    of_changes: bool = False
    of_states: bool = False
    ends: Sequence[int] = ()
    base: int = 0


def begun_reads(histories: LineHistories, line: LineNodes) -> Iterator[TaintRead]:
    """What was read before the first known snapshot of a line."""
    for source, step in _begun_before([histories.nodes[at].step for at in line.chain]):
        read = _earlier(histories, source, step)
        if read is not None:
            yield read


def reads_of(histories: LineHistories, at: int, step: Step) -> Iterator[TaintRead]:
    """What the batches of a step have read, a merged branch first.

    The branch's own reads that a merge brings count if the snapshots that have read them are not known.
    """
    seen: set[object] = set()
    for batch in sorted(step.batches, key=lambda one: one.merged is None):
        for source in _tables_of(batch):
            if source is not batch.merged and seen and seen.issuperset(_bounds_of(batch.user, source)):
                continue
            read = _read(histories, at, step, source, batch)
            if read is not None:
                yield read
            if read is not None and source is batch.merged:
                nodes = read.nodes if read.ends else histories.between([*read.nodes], source.start)
                seen = {bound for node in nodes for bound in _bounds_read(histories, node)}


def _bounds_read(histories: LineHistories, node: int) -> Iterator[object]:
    for batch in histories.nodes[node].step.batches:
        for source in _tables_of(batch):
            yield from _bounds_of(batch.user, source)


def _read(histories: LineHistories, at: int, step: Step, source: TableSource, batch: RowBatch) -> TaintRead | None:
    """What a batch has read of a source: a range of changes, or a state.

    If it is not known exactly up to where it has read, it counts as having read everything that existed.
    """
    key = source.line
    if key not in histories.lines:
        return None
    ends = histories.read_up_to(key, source.end, step.time_millis)
    ends = [end for end in ends if end != at] or list(histories.nodes[at].before if ends else ())
    is_merge = source is batch.merged and step.change is not Change.TAKEN
    if source.start is None or (source.mode is ReadMode.BATCH and not is_merge):
        return TaintRead(nodes=frozenset(ends), of_states=True)
    if not source.is_exact:
        ends = [*ends, *histories.later(key, ends, step.time_millis)]
    nodes = frozenset(histories.between(ends, source.start))
    if is_merge:
        return TaintRead(nodes=nodes, ends=ends, base=source.start.snapshot_id)
    return TaintRead(nodes=nodes - {at}, of_changes=True)


def _earlier(histories: LineHistories, source: TableSource, step: Step) -> TaintRead | None:
    """What a stream may have read before its first known batch: everything that its source had."""
    key = source.line
    if key not in histories.lines or (source.mode is ReadMode.STREAM and source.start is None):
        return None
    last = source.start if source.mode is ReadMode.STREAM else source.end
    ends = histories.read_up_to(key, last, step.time_millis)
    return TaintRead(nodes=frozenset(histories.between(ends, None)), of_changes=True, of_states=True)


def _tables_of(batch: RowBatch) -> Iterator[TableSource]:
    """The tables that a batch reads."""
    yield from (source for source in batch.read if isinstance(source, TableSource))


def _bounds_of(user: str, source: TableSource) -> tuple[object, object]:
    """The first and the last version that a user has read; the user without the branch that has brought it."""
    named = user.rpartition(ORIGIN_MARK)[0] or user, source.line, source.mode
    return (*named, "from", source.start), (*named, "to", source.end)


def _begun_before(steps: Sequence[Step]) -> Iterator[tuple[TableSource, Step]]:
    """What streams read in their first known batch, if their earlier batches have expired and are unknown."""
    if steps[0].version.snapshot_id == 1:
        return
    seen: set[str] = set()
    for step in steps:
        is_brought = any(one.merged for one in step.batches)
        for batch in step.batches:
            if batch.user not in seen and batch.number and not is_brought:
                yield from ((source, step) for source in batch.sources if isinstance(source, TableSource))
            seen.add(batch.user)
