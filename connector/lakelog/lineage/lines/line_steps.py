"""The steps of the snapshots of a line, from the snapshots and their manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, Self

from lakelog.filestore.metadata.manifests import FileKind
from lakelog.filestore.metadata.origins import CLEARS_ROWS, REPLACES_ROWS, changes_rows, is_unseen, restored_state
from lakelog.filestore.metadata.snapshots import (
    CLEARED_KEY,
    LINEAGE_KEY,
    LOG_STATE_KEY,
    RESTORE_OPERATION,
    RESTORES_KEY,
    SOURCES_KEY,
    UNSEEN_KEY,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.read import Visible, WaitingRows
from lakelog.lineage.lines.lines import Change, LineBatch, Step, line_batch, taken_branch
from lakelog.lineage.records.record import TableVersion
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.lineage.tables.edges import LineBatches, WholeBatch
from lakelog.protocol.state import LogState


def steps_of_table(table: TableStore) -> list[Step]:
    """The steps of the living snapshots of an opened table or branch.

    Reads these snapshots, the manifests of overwrites, and those of tables whose rows wait for compactions.
    """
    run = StepRun.of(table)
    return [run.take(snapshot) for snapshot in line_snapshots(table, table.branch)]


class ReadsOfSnapshots(Protocol):
    """Gives what reads show of consecutive snapshots, like `WaitingRows`."""

    def take(self, snapshot: Snapshot, *, log: str) -> tuple[Visible, Visible]:
        """What a batch read of the next snapshot shows, and what a stream shows that has read up to it."""
        ...


def steps_of(
    snapshots: Iterable[Snapshot],
    *,
    replaces_all: Callable[[Snapshot], bool],
    waiting: ReadsOfSnapshots | None = None,
) -> list[Step]:
    """The steps of consecutive snapshots, oldest first. `replaces_all` says whether an overwrite replaces all rows."""
    run = StepRun(replaces_all, waiting=waiting)
    return [run.take(snapshot) for snapshot in snapshots]


@dataclass(slots=True)
class StepRun:
    """Makes the steps of consecutive snapshots, which are taken oldest first. `newest` is the last one taken.

    `waiting` gives what reads show of them; None if that is not known.
    """

    replaces_all: Callable[[Snapshot], bool]
    newest: Snapshot | None = None
    waiting: ReadsOfSnapshots | None = None
    _batches: LineBatches = field(default_factory=LineBatches)
    _log: str = ""  # the state of the log; snapshots of other engines have none

    @classmethod
    def of(cls, table: TableStore, newest: Snapshot | None = None) -> Self:
        """The run of a table or branch."""
        return cls(partial(replaces_all, table), newest, WaitingRows(table))

    def take(self, snapshot: Snapshot) -> Step:
        """The step of the next snapshot."""
        whole = self._batches.take(snapshot)
        self._log = snapshot.properties.get(LOG_STATE_KEY, self._log)
        is_whole = not _holds_parts(self._log)
        step = _step(snapshot, self.newest, whole, is_whole=is_whole, replaces_all=self.replaces_all)
        self.newest = snapshot
        in_batch, in_stream = (None, None) if self.waiting is None else self.waiting.take(snapshot, log=self._log)
        return replace(
            step,
            is_unseen=is_unseen(snapshot, log=self._log),
            in_batch=in_batch,
            in_stream=in_stream,
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
    """Whether the state of a log names parts of batches, including abandoned ones."""
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
    return Change.BY_HAND if snapshot.has_own_properties else Change.FOREIGN


def replaces_all(table: TableStore, snapshot: Snapshot) -> bool:
    """Whether an overwrite leaves no earlier file in the snapshot."""
    files = table.manifests
    listed = files.read_list(snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size)
    added = (entry.file.row_count for entry in files.read_entries(listed) if entry.kind is FileKind.ADD)
    return sum(added) == snapshot.total_record_count
