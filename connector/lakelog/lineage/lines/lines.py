"""The line of a table as its versions need it: of each snapshot what it does to the rows, and the batches in it.

Pure but for `steps_of_table`, which reads the living snapshots. Snapshots that have expired are in the line as far as
edges name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from typing import Self

from lakelog.filestore.metadata.manifests.manifest_entries import FileKind
from lakelog.filestore.metadata.origins.cleared_rows import CLEARS_ROWS
from lakelog.filestore.metadata.origins.restored import restored_state
from lakelog.filestore.metadata.origins.row_changes import REPLACES_ROWS, changes_rows
from lakelog.filestore.metadata.origins.row_sources import ORIGIN_MARK, LineKey, RowSources
from lakelog.filestore.metadata.origins.unseen_changes import Given, given_by, gives_late, is_unseen
from lakelog.filestore.metadata.snapshots.snapshot import (
    MERGE_OPERATION,
    PROPERTY_PREFIX,
    RESTORE_OPERATION,
    BranchVerb,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import (
    CLEARED_KEY,
    LINEAGE_KEY,
    LOG_STATE_KEY,
    RESTORES_KEY,
    SOURCES_KEY,
    UNSEEN_KEY,
)
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.lineage.records.record import ReadMode, Source, TableSource, TableVersion
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.lineage.tables.edges import LineBatches, WholeBatch
from lakelog.protocol.state.state import LogState

_TAKES_BRANCH = frozenset(verb.value for verb in BranchVerb)


class Change(StrEnum):
    """What a snapshot does to what its table shows of its sources."""

    NOTHING = "nothing"
    BATCHES = "batches"  # it takes in batches, beside what was there
    OVERWRITE = "overwrite"  # its batches replace all rows
    BY_HAND = "by hand"  # rows change, and it is not known from which sources
    FOREIGN = "foreign"  # likewise, by another engine
    RESTORE = "restore"
    TAKEN = "taken"  # the rows become those of a branch


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBatch:
    """A whole batch. `number` is that of a micro-batch in its query; None for a statement, whose user has no other.

    `merged` is the branch that it merges: what that has read is in batches beside this one.
    """

    user: str
    job: str | None
    number: int | None
    sources: Sequence[Source]
    merged: TableSource | None = None

    @property
    def writer(self) -> str:
        """The writer in words."""
        return named_writer(self.job, self.user)

    @property
    def read(self) -> Sequence[Source]:
        """The sources, with a merged branch."""
        return self.sources if self.merged is None else (*self.sources, self.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One snapshot of a line. `restored` is the state that a restore brings back, None where it is not known; of a
    branch that is taken as a whole the one at which it began, None where nothing of that is left.

    Without `changes_rows` it is the same version as the one before. `is_whole` is False while it holds a batch in part.
    `is_unseen`: streams of the table are not given its changes. `row_sources` is what its rows come from, and `unseen`
    of which snapshots up to it streams are not given the changes, as itself says; None for a snapshot that does not.
    `replaces_all`: no row from before is in it, whatever its batches read. `cleared` is which snapshots up to it took
    rows out as a whole, as itself says.
    """

    version: TableVersion
    time_millis: int
    change: Change
    changes_rows: bool = True
    operation: str = ""
    batches: Sequence[LineBatch] = ()
    is_whole: bool = True
    is_living: bool = True
    is_unseen: bool = False
    given: Given = Given.AT_ONCE
    restored: TableVersion | None = None
    row_sources: str | None = None
    unseen: str | None = None
    replaces_all: bool = False
    cleared: str | None = None

    def told_sources(self) -> RowSources | None:
        """What the snapshot's rows come from, as itself says. Raises CorruptDataError."""
        return None if self.row_sources is None else RowSources.of({SOURCES_KEY: self.row_sources})

    def tells_gap(self, source: LineKey, reader: str) -> bool:
        """Whether the snapshot itself says that a stream has a gap: the commits before it may have been rolled back."""
        told = self.told_sources()
        found = None if told is None else told.sources.get(source)
        state = None if found is None else found.readers.get(reader)
        return state is not None and state.broken is not None and state.broken.why == "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The known snapshots of a line, oldest first. `name` is the table's, `db.t` or `db.t$branch_b`.

    The first step of a branch is the snapshot of its table that it `began` at. `origins` are those of the branches that
    the table has: readers of other ones, which were merged, do not read on. `earlier` are snapshots up to the beginning
    that the branch has and its table has no longer, where they were asked for.
    """

    key: LineKey
    name: str
    steps: Sequence[Step]
    began: TableVersion | None = None
    origins: frozenset[str] = frozenset()
    earlier: Sequence[Step] = ()

    def has_brought(self) -> bool:
        """Whether merged branches have brought readers."""
        mark = f"{ORIGIN_MARK}{PROTECTING_PREFIX}"
        return any(
            mark in (step.row_sources or "") or any(mark in batch.user for batch in step.batches) for step in self.steps
        )


def named_writer(job: str | None, user: str) -> str:
    """The writer of a batch in words."""
    return f"job {job}" if job is not None else f"writer {user}"


def line_key(table: TableStore) -> LineKey:
    """The key of an opened table or branch."""
    return LineKey(uuid_of(table), None if table.branch == MAIN_BRANCH else table.branch)


def source_key(source: TableSource) -> LineKey:
    """The key of a source."""
    return LineKey(source.uuid, None if source.branch == MAIN_BRANCH else source.branch)


def steps_of_table(table: TableStore) -> list[Step]:
    """The steps of the living snapshots of an opened table or branch. Reads them, and the manifests of overwrites."""
    run = StepRun.of(table)
    return [run.take(snapshot) for snapshot in line_snapshots(table, table.branch)]


def steps_of(snapshots: Iterable[Snapshot], *, replaces_all: Callable[[Snapshot], bool]) -> list[Step]:
    """The steps of consecutive snapshots, oldest first. `replaces_all` says whether an overwrite replaces all rows."""
    run = StepRun(replaces_all)
    return [run.take(snapshot) for snapshot in snapshots]


@dataclass(slots=True)
class StepRun:
    """Makes the steps of consecutive snapshots, which are taken oldest first. `newest` is the last one taken.

    `gives_late` says of a schema's number whether compactions give the changes of the snapshots before them.
    """

    replaces_all: Callable[[Snapshot], bool]
    newest: Snapshot | None = None
    gives_late: Callable[[int], bool] = field(default=lambda _: False)
    _batches: LineBatches = field(default_factory=LineBatches)
    _log: str = ""  # the state of the log; snapshots of other engines have none

    @classmethod
    def of(cls, table: TableStore, newest: Snapshot | None = None) -> Self:
        """The run of a table or branch."""
        return cls(partial(replaces_all, table), newest, cache(partial(gives_late, table)))

    def take(self, snapshot: Snapshot) -> Step:
        """The step of the next snapshot."""
        whole = self._batches.take(snapshot)
        self._log = snapshot.properties.get(LOG_STATE_KEY, self._log)
        is_whole = not _holds_parts(self._log)
        step = _step(snapshot, self.newest, whole, is_whole=is_whole, replaces_all=self.replaces_all)
        self.newest = snapshot
        return replace(
            step,
            is_unseen=is_unseen(snapshot, log=self._log),
            given=given_by(snapshot, log=self._log, is_late=self.gives_late(snapshot.schema_id)),
            row_sources=snapshot.properties.get(SOURCES_KEY),
            unseen=snapshot.properties.get(UNSEEN_KEY),
            cleared=snapshot.properties.get(CLEARED_KEY),
        )


def _step(
    snapshot: Snapshot,
    before: Snapshot | None,
    whole: Sequence[WholeBatch],
    *,
    is_whole: bool,
    replaces_all: Callable[[Snapshot], bool],
) -> Step:
    is_changed = changes_rows(snapshot, before)
    found = [_line_batch(one) for one in whole]
    change = _change(snapshot, found, changes_rows=is_changed)
    is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.operation_name in CLEARS_ROWS
    is_whole_overwrite = is_overwrite and replaces_all(snapshot)
    if change is Change.OVERWRITE and not is_whole_overwrite:
        change = Change.BATCHES
    recorded = [one.batch.lineage.operation or "" for one in whole]
    taken = taken_branch(found, recorded)
    if taken is not None:
        change = Change.TAKEN
    return Step(
        version=TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid),
        time_millis=snapshot.time_millis,
        change=change,
        changes_rows=is_changed,
        operation=snapshot.operation_name or next(filter(None, recorded), None) or snapshot.commit_kind.value,
        batches=[one for one in found if one.sources] if change is Change.RESTORE else found,
        is_whole=is_whole,
        restored=_restored(snapshot) if change is Change.RESTORE else None if taken is None else taken.start,
        replaces_all=is_whole_overwrite,
    )


def _holds_parts(log: str) -> bool:
    """Whether the state of a log names parts of batches, also of abandoned ones."""
    if not log:
        return False
    state = LogState.from_json(log, where="a snapshot of a line")
    return any(ledger for one in state.moved for ledger in one.ledger.values()) or any(state.ledger.values())


def _restored(snapshot: Snapshot) -> TableVersion | None:
    found = restored_state(snapshot.properties)
    return None if found is None else TableVersion(snapshot_id=found[0], commit=found[1])


def _line_batch(whole: WholeBatch) -> LineBatch:
    lineage = whole.batch.lineage
    return line_batch(whole.batch.user, lineage.job, lineage.batch_id, whole.sources, lineage.operation)


def line_batch(
    user: str, job: str | None, number: int | None, sources: Sequence[Source], operation: str | None
) -> LineBatch:
    """A batch of a line, by its operation one that merges a branch."""
    merged = None
    if operation == MERGE_OPERATION or operation in _TAKES_BRANCH:
        states = [one for one in sources if isinstance(one, TableSource) and one.mode is ReadMode.BATCH and one.branch]
        merged = states[-1] if states else None
    others = sources if merged is None else [one for one in sources if one is not merged]
    return LineBatch(user=user, job=job, number=number, sources=others, merged=merged)


def taken_branch(batches: Sequence[LineBatch], operations: Sequence[str | None]) -> TableSource | None:
    """The branch that one of the batches takes as a whole, by their operations."""
    named = zip(batches, operations, strict=True)
    return next((one.merged for one, operation in named if operation in _TAKES_BRANCH and one.merged), None)


def _change(snapshot: Snapshot, batches: Sequence[LineBatch], *, changes_rows: bool) -> Change:
    if snapshot.operation_name == RESTORE_OPERATION or RESTORES_KEY in snapshot.properties:
        return Change.RESTORE
    if any(batch.read for batch in batches):
        is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.operation_name in REPLACES_ROWS
        return Change.OVERWRITE if is_overwrite else Change.BATCHES
    if not changes_rows:
        return Change.NOTHING
    if LINEAGE_KEY in snapshot.properties:  # batches without sources, or parts of batches
        return Change.BATCHES
    is_own = any(key.startswith(PROPERTY_PREFIX) for key in snapshot.properties)
    return Change.BY_HAND if is_own else Change.FOREIGN


def replaces_all(table: TableStore, snapshot: Snapshot) -> bool:
    """Whether no file from before an overwrite lives in it."""
    files = table.manifests
    listed = files.read_list(snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size)
    added = (entry.file.row_count for entry in files.read_entries(listed) if entry.kind is FileKind.ADD)
    return sum(added) == snapshot.total_record_count
