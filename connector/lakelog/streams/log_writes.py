"""The writes of a Python writer to a table with a log: each is a transaction in every bucket that it touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import StatementChanges
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state import ChangeTracking, StepObserver, TablePosition
from lakelog.protocol.statements import OpenedLog, WriteLog, WritingTable
from lakelog.protocol.stores import LogTarget
from lakelog.protocol.writing import Turns
from lakelog.streams.writes import Lineage


class LogWrites:
    """The writes of one name, in this process. See `WriteLog`."""

    def __init__(
        self,
        user: str,
        opened: Callable[[], tuple[TableStore, LogTarget]],
        *,
        check_run: Callable[[], None],
        observe: StepObserver | None = None,
    ) -> None:
        """`opened` gives the table and its log as they are now, once its topic exists."""
        self._open = opened
        self._table, self._target = opened()
        self._writing = WritingTable(observe)
        self._log: WriteLog[StatementChanges, EncodedRecords] = WriteLog(
            user=user, opened=self._opened, check_run=check_run, turns=Turns(self._table)
        )
        self.begin = self._log.begin
        self.pause = self._log.pause

    @property
    def sources(self) -> Mapping[str, int]:
        """The last identifiers of the sources of the name."""
        return self._log.sources

    @property
    def is_forgotten(self) -> bool:
        """Whether the table may have dropped them."""
        return self._log.is_forgotten

    @property
    def pending(self) -> Sequence[str]:
        """The writes that no snapshot has."""
        return self._log.pending

    @property
    def file_count(self) -> int:
        """The number of their data files."""
        return self._log.file_count

    @property
    def size_bytes(self) -> int:
        """The bytes of their data files."""
        return self._log.size_bytes

    def write(
        self, changes: StatementChanges, sources: Mapping[str, int], lineage: Lineage | None = None
    ) -> tuple[TablePosition, None]:
        """Log a write; returns the position that shows it."""
        self._log.write(changes, sources, lineage)
        return self.position(), None

    def position(self) -> TablePosition:
        """What the log has of this process's writes, over the newest snapshot that it knows."""
        snapshot_id, offsets = self._log.position()
        return TablePosition(
            table_uuid=self._table.uuid,
            branch=self._table.branch,
            snapshot_id=snapshot_id,
            topic_id=self._target.topic_id,
            offsets=offsets,
        )

    def take_in(self) -> Snapshot | None:
        """Make one snapshot of all writes that are in the log alone."""
        return self._table.snapshots.latest() if self._log.take_in() else None

    def close(self) -> None:
        """Close the producers, and end the threads."""
        self._log.close()
        self._writing.close()

    def _opened(self) -> OpenedLog[StatementChanges, EncodedRecords]:
        self._table, target = self._open()
        tracking = ChangeTracking.of(self._table.schema.options, given=None)
        self._target = replace(target, tracking=tracking)
        return self._writing.opened(self._table, self._target)
