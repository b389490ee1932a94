"""What is committed in one bucket of a log, read without a fence: committed transactions do not change."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.kafka.clients.offsets import Position
from lakelog.protocol.state.log_generations import check_goes_on
from lakelog.protocol.state.ports import BucketTail
from lakelog.protocol.state.state import TableState
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.tail_checks import check_tail


@dataclass(frozen=True, slots=True)
class CommittedBucket:
    """One bucket of a table's log, and the files that its transactions name."""

    table: TableStore
    target: LogTarget
    bucket: int

    @property
    def table_uuid(self) -> str:
        """The table's identity."""
        return self.table.uuid

    @property
    def log(self) -> TaskLog:
        """The log of the table."""
        return TaskLog(self.table, self.target)

    @property
    def files(self) -> TaskFiles:
        """The files of the table."""
        return TaskFiles(self.table, self.target)

    def read(self, state: TableState, offset: int, end: Position) -> BucketTail:
        """The transactions from an offset, at or behind the position of a snapshot, up to a last stable offset.

        That may lag behind a commit, and so behind a snapshot: then there are none. Raises CorruptDataError for
        transactions that no snapshot would take in, LogTruncatedError, UnavailableError.
        """
        if end.offset <= offset:
            return BucketTail(
                transactions=(), high_watermark=end.offset, leader_epoch=end.leader_epoch, epoch_offset=end.offset
            )
        tail = self.log.committed(self.bucket, offset, state.logged.position(self.bucket), end)
        check_tail(self, state, tail)
        headers = (transaction.header for transaction in tail.transactions)
        check_goes_on(headers, where=f"the log of bucket {self.bucket} of table {self.table.name}")
        return tail
