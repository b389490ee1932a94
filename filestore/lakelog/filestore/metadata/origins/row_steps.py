"""What the snapshots of a line do to what its rows come from: one step for each snapshot. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

from lakelog.filestore.metadata.origins.cleared_rows import CLEARS_ROWS
from lakelog.filestore.metadata.origins.record import (
    CommittedBatch,
    LineKey,
    ReadMode,
    Source,
    TableSource,
    TableVersion,
)
from lakelog.filestore.metadata.origins.restored import restored_state
from lakelog.filestore.metadata.origins.row_sources import ORIGIN_MARK, Reason, RowSources, WriterName
from lakelog.filestore.metadata.origins.unseen_changes import is_unseen
from lakelog.filestore.metadata.snapshots.snapshot import (
    MERGE_OPERATION,
    REPLACES_ROWS,
    RESTORE_OPERATION,
    BranchVerb,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX

TAKES_BRANCH = frozenset(verb.value for verb in BranchVerb)


class Change(StrEnum):
    """What a snapshot does to what its table shows of its sources."""

    NOTHING = "nothing"
    BATCHES = "batches"  # it takes in batches, beside what was there
    OVERWRITE = "overwrite"  # its batches replace all rows
    BY_HAND = "by hand"  # rows change, but the sources are not known
    FOREIGN = "foreign"  # the same, by another engine
    RESTORE = "restore"
    TAKEN = "taken"  # the rows become those of a branch


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatch:
    """A batch. `number` is that of a micro-batch in its query; None for a statement, the only batch of its user.

    `merged` is the branch that it merges: what the branch has read is in other batches of the step.
    """

    user: str
    identifier: int
    job: str | None
    number: int | None
    sources: Sequence[Source]
    operation: str | None = None
    merged: TableSource | None = None

    @classmethod
    def of(cls, batch: CommittedBatch, sources: Sequence[Source]) -> Self:
        """A batch with the sources of all its parts; its operation says whether it merges a branch."""
        lineage, merged = batch.lineage, None
        if lineage.operation == MERGE_OPERATION or lineage.operation in TAKES_BRANCH:
            tables = [one for one in sources if isinstance(one, TableSource) and one.mode is ReadMode.BATCH]
            merged = next((one for one in reversed(tables) if one.branch), None)
        return cls(
            user=batch.user,
            identifier=batch.identifier,
            job=lineage.job,
            number=lineage.batch_id,
            sources=[one for one in sources if one is not merged],
            operation=lineage.operation,
            merged=merged,
        )

    @property
    def writer(self) -> WriterName:
        """The writer; as a text, in words."""
        return WriterName(self.user, self.job)

    @property
    def read(self) -> Sequence[Source]:
        """The sources, including a merged branch."""
        return self.sources if self.merged is None else (*self.sources, self.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStep:
    """One snapshot of a line.

    `restored` is the state that a restore brings back, None if it is not known; for a branch that is taken as a whole,
    the state at which it began, None if nothing of that is left.

    Without `changes_rows` it is the same version as the previous one. `replaces_all` says that it has no earlier row,
    whatever its batches read. `is_unseen` says that streams of the table do not get its changes. Three members are what
    the snapshot itself records: `row_sources` is what its rows come from, `unseen` names the snapshots up to it whose
    changes streams do not get (both None if it does not record them), and `cleared` names the snapshots up to it that
    took rows out as a whole.
    """

    version: TableVersion
    time_millis: int
    change: Change
    changes_rows: bool = True
    operation: str = ""
    batches: Sequence[RowBatch] = ()
    restored: TableVersion | None = None
    replaces_all: bool = False
    is_unseen: bool = False
    row_sources: str | None = None
    unseen: str | None = None
    cleared: str | None = None

    @property
    def is_merge(self) -> bool:
        """Whether it takes in what a branch brings."""
        return any(batch.merged is not None for batch in self.batches)

    @property
    def has_brought(self) -> bool:
        """Whether it names readers that merged branches have brought."""
        mark = f"{ORIGIN_MARK}{PROTECTING_PREFIX}"
        return mark in (self.row_sources or "") or any(mark in batch.user for batch in self.batches)

    def recorded_sources(self) -> RowSources | None:
        """What the snapshot's rows come from, as the snapshot itself records. Raises CorruptDataError."""
        return None if self.row_sources is None else RowSources.of({PropertyKey.SOURCES: self.row_sources})

    def records_gap(self, source: LineKey, reader: str) -> bool:
        """Whether the snapshot itself records a gap of a stream: the commits before it may have been rolled back."""
        recorded = self.recorded_sources()
        found = None if recorded is None else recorded.sources.get(source)
        state = None if found is None else found.readers.get(reader)
        return state is not None and state.broken is not None and state.broken.reason == Reason.GAP


StepT = TypeVar("StepT", bound=RowStep)


def row_step(
    make: Callable[..., StepT],
    snapshot: Snapshot,
    before: Snapshot | None,
    batches: Sequence[RowBatch],
    *,
    replaces_all: Callable[[Snapshot], bool],
    log: str = "",
) -> StepT:
    """The step of a snapshot, which `make` creates. `replaces_all` says whether an overwrite replaces all rows.

    `log` is the state of the table's log, if any.
    """
    properties = snapshot.properties
    is_changed = snapshot.changes_rows(before)
    change = _change(snapshot, batches, changes_rows=is_changed)
    is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.operation_name in CLEARS_ROWS
    is_whole_overwrite = is_overwrite and replaces_all(snapshot)
    if change is Change.OVERWRITE and not is_whole_overwrite:
        change = Change.BATCHES
    taken = branch_taken_by(batches)
    if taken is not None:
        change = Change.TAKEN
    recorded = next((one.operation for one in batches if one.operation), None)
    return make(
        version=TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid),
        time_millis=snapshot.time_millis,
        change=change,
        changes_rows=is_changed,
        operation=snapshot.operation_name or recorded or snapshot.commit_kind.value,
        batches=[one for one in batches if one.sources] if change is Change.RESTORE else batches,
        restored=_restored(snapshot) if change is Change.RESTORE else None if taken is None else taken.start,
        replaces_all=is_whole_overwrite,
        is_unseen=is_unseen(snapshot, log=log),
        row_sources=properties.get(PropertyKey.SOURCES),
        unseen=properties.get(PropertyKey.UNSEEN),
        cleared=properties.get(PropertyKey.CLEARED),
    )


def branch_taken_by(batches: Sequence[RowBatch]) -> TableSource | None:
    """The branch that one of the batches takes as a whole."""
    return next((one.merged for one in batches if one.operation in TAKES_BRANCH and one.merged), None)


def _restored(snapshot: Snapshot) -> TableVersion | None:
    found = restored_state(snapshot.properties)
    return None if found is None else TableVersion(snapshot_id=found[0], commit=found[1])


def _change(snapshot: Snapshot, batches: Sequence[RowBatch], *, changes_rows: bool) -> Change:
    if snapshot.operation_name == RESTORE_OPERATION or PropertyKey.RESTORES in snapshot.properties:
        return Change.RESTORE
    if any(batch.read for batch in batches):
        is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.operation_name in REPLACES_ROWS
        return Change.OVERWRITE if is_overwrite else Change.BATCHES
    if not changes_rows:
        return Change.NOTHING
    if PropertyKey.LINEAGE in snapshot.properties:  # batches without sources, or parts of batches
        return Change.BATCHES
    return Change.BY_HAND if snapshot.has_own_properties else Change.FOREIGN
