"""The steps of the snapshots of a line, from the snapshots and their manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

from lakelog.filestore.metadata.manifests import FileKind
from lakelog.filestore.metadata.origins import RowBatch, row_step
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.read import Visible, WaitingRows
from lakelog.lineage.lines.lines import Step
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.lineage.tables.edges import LineBatches
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
        batches = [RowBatch.of(one.batch, one.sources) for one in self._batches.take(snapshot)]
        self._log = snapshot.properties.get(PropertyKey.LOG_STATE, self._log)
        in_batch, in_stream = (None, None) if self.waiting is None else self.waiting.take(snapshot, log=self._log)
        make = partial(
            Step,
            is_whole=not _holds_parts(self._log),
            in_batch=in_batch,
            in_stream=in_stream,
        )
        before, self.newest = self.newest, snapshot
        return row_step(make, snapshot, before, batches, replaces_all=self.replaces_all, log=self._log)


def _holds_parts(log: str) -> bool:
    """Whether the state of a log names parts of batches, including abandoned ones."""
    if not log:
        return False
    state = LogState.from_json(log, where="a snapshot of a line")
    return any(ledger for one in state.moved for ledger in one.ledger.values()) or any(state.ledger.values())


def replaces_all(table: TableStore, snapshot: Snapshot) -> bool:
    """Whether an overwrite leaves no earlier file in the snapshot."""
    files = table.manifests
    listed = files.read_list(snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size)
    added = (entry.file.row_count for entry in files.read_entries(listed) if entry.kind is FileKind.ADD)
    return sum(added) == snapshot.total_record_count
