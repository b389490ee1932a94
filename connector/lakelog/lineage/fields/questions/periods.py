"""Which writes count for a question: all, those of a time range, or those behind one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.lineage.fields.questions.field_index import FieldIndex
from lakelog.lineage.fields.questions.index_rows import IndexedDataset, IndexedRun

FOREVER = 1 << 62  # milliseconds

RunName = tuple[int, str | None, str]
"""The write, the job and the id of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The writes that count; None are all.

    `above` are those upstream of what is asked for, `below` those downstream, `first` those that made it itself.
    `start_millis` and `end_millis` are the range, in which runs count that overlap it. For a snapshot these are the
    runs that made it, `first_runs`, and `snapshot_millis`, when it was committed.
    """

    first: frozenset[int] | None = None
    above: frozenset[int] | None = None
    below: frozenset[int] | None = None
    start_millis: int = 0
    end_millis: int = FOREVER
    first_runs: frozenset[RunName] = frozenset()
    snapshot_millis: int | None = None

    def counts(self, run: IndexedRun, *, is_up: bool = True, hop: int = 0) -> bool:
        """Whether a run of a write that counts was in the range; for a snapshot, so many hops above or below it."""
        if self.snapshot_millis is None:
            return run.overlaps(self.start_millis, self.end_millis)
        if not is_up:
            return run.last_millis >= self.snapshot_millis
        return _name(run) in self.first_runs if hop == 1 else run.first_millis <= self.snapshot_millis


ALL_TIME = Period()


def period_between(index: FieldIndex, start_millis: int | None, end_millis: int | None) -> Period:
    """The runs that overlap [start, end); None is open. Raises InvalidRequestError for an end before the start."""
    if start_millis is None and end_millis is None:
        return ALL_TIME
    start = 0 if start_millis is None else start_millis
    end = FOREVER if end_millis is None else end_millis
    if start > end:
        raise InvalidRequestError(f"the range starts at {start} ms and ends at {end} ms; expected an end after it")
    # Numbers beyond those of sqlite are as good as forever.
    start, end = max(start, -FOREVER), min(end, FOREVER)
    writes = index.writes_between(start, end) if start < end else frozenset()
    return Period(first=writes, above=writes, below=writes, start_millis=start, end_millis=end)


def period_at(index: FieldIndex, root: IndexedDataset, snapshot: int, millis: int | None = None) -> Period:
    """What made a snapshot: the runs whose snapshots contain it, and above them the runs up to its time.

    A snapshot without a batch of its own, such as a compaction, was made by the run before it. Below are the runs from
    its time on. `millis` is when it was committed; if None, the runs that contain it say when at the latest. Raises
    NotFoundError if no run is known up to it.
    """
    runs = [run for run in index.runs_of_sink(root.id) if run.first_snapshot is not None]
    containing = [run for run in runs if _first(run) <= snapshot <= _last(run)]
    if not containing:
        before = [_last(run) for run in runs if _last(run) < snapshot]
        containing = [run for run in runs if before and _last(run) == max(before)]
    if not containing:
        raise NotFoundError(
            f"no lineage of fields leads to snapshot {snapshot} of {'.'.join(root.dataset)}; it is known for "
            f"{_known(runs)}"
        )
    time = _time_of(containing, snapshot) if millis is None else millis
    return Period(
        first=frozenset(run.write for run in containing),
        above=index.writes_between(-FOREVER, time + 1),
        below=index.writes_between(time, FOREVER),
        first_runs=frozenset(map(_name, containing)),
        snapshot_millis=time,
    )


def _name(run: IndexedRun) -> RunName:
    return run.write, run.job, run.run


def _time_of(runs: list[IndexedRun], snapshot: int) -> int:
    """When a snapshot was committed, or when at the latest."""
    firsts = [run.first_millis for run in runs if run.first_snapshot == snapshot]
    return firsts[0] if firsts else max(run.last_millis for run in runs)


def _known(runs: list[IndexedRun]) -> str:
    if not runs:
        return "none of its snapshots"
    return f"the snapshots from {min(map(_first, runs))} to {max(map(_last, runs))}"


def _first(run: IndexedRun) -> int:
    assert run.first_snapshot is not None
    return run.first_snapshot


def _last(run: IndexedRun) -> int:
    return _first(run) if run.last_snapshot is None else run.last_snapshot
