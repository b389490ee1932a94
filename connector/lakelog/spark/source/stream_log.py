"""The phase of a stream that reads the log: where its batches end, and what they consist of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.kafka.epochs import check_not_rewritten
from lakelog.logstore.kafka.offsets import Position
from lakelog.protocol.stores import LogTarget
from lakelog.spark.source.admission import NO_LIMITS, Limits, advance_log
from lakelog.spark.source.input_partitions import LogPartition, pack, partition_count
from lakelog.spark.source.lease import LogLease
from lakelog.spark.source.offsets import LogOffset
from lakelog.spark.source.stream_head import Head, TableHead, position_after


class LogPhase:
    """Plans batches of the log, and holds the records that are still to be read."""

    def __init__(self, table: FileStoreTable, target: LogTarget, head: TableHead) -> None:
        """Hold nothing yet."""
        self.lease = LogLease(table, target.topic_id)
        self._table = table
        self._target = target
        self._head = head
        self._positions: dict[int, LogOffset] = {}
        self._same_log: set[tuple[int, Position, int]] = set()  # what was asked of leader epochs, and is well

    def after(self, snapshot: Snapshot | None) -> LogOffset:
        """Where the log goes on after a snapshot; its beginning before the first."""
        return position_after(self._table, snapshot, self._target)

    def end(self, start: LogOffset, limits: Limits) -> LogOffset:
        """Where the batch that begins at `start` ends."""
        self.lease.renew(start.offsets)
        head = self._head.now()
        self._check_same_log(start, head)
        first = head.snapshot_id if limits == NO_LIMITS else start.consumed + 1
        end = advance_log(start, self._positions_from(first, head.snapshot_id), head.ends, limits)
        return end if end == start else replace(end, epochs=head.epochs)

    def _check_same_log(self, start: LogOffset, head: Head) -> None:
        """Raise LogRewrittenError when a bucket was cut before `start`; asked once for each change of a leader."""
        for bucket, epoch in start.epochs.items():
            known = Position(offset=start.offsets[bucket], leader_epoch=epoch)
            if head.epochs.get(bucket, epoch) == epoch or (bucket, known, head.epochs[bucket]) in self._same_log:
                continue
            check_not_rewritten(self._target.topic.partition(bucket), known)
            self._same_log.add((bucket, known, head.epochs[bucket]))

    def _positions_from(self, first: int, newest: int) -> Iterator[LogOffset]:
        """Log positions of the snapshots from `first` to `newest` that have not expired."""
        self._positions = {at: position for at, position in self._positions.items() if at >= first}
        earliest = self._table.snapshots.earliest_id() or 1
        for snapshot_id in range(max(first, earliest, 1), newest + 1):
            if snapshot_id not in self._positions:
                try:
                    snapshot = self._table.snapshots.get(snapshot_id)
                    self._positions[snapshot_id] = self.after(snapshot)
                except NotFoundError:  # expired since we looked, or what it carried on has
                    continue
            yield self._positions[snapshot_id]

    def partitions(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[InputPartition]:
        """What the tasks of a batch between two offsets read."""
        ranges = [(bucket, start.get(bucket, 0), offset) for bucket, offset in sorted(end.items())]
        wanted = [one for one in ranges if one[2] > one[1]]
        groups = pack(wanted, lambda one: one[2] - one[1], count=partition_count(), size_max=1 << 62)
        return [LogPartition(group) for group in groups]
