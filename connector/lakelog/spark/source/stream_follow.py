"""The phase of a stream that follows the snapshots of a table without a log."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.identity import check_is_of
from lakelog.filestore.metadata.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.read.changes import change_files, snapshot_of_changes
from lakelog.filestore.table import FileStoreTable
from lakelog.spark.source.admission import Limits, take_snapshots
from lakelog.spark.source.input_partitions import PARTITION_BYTES, DeltaPartition, pack, partition_count
from lakelog.spark.source.offsets import FollowOffset
from lakelog.spark.source.stream_head import TableHead


class FollowPhase:
    """Plans batches of the changes that snapshots made."""

    def __init__(self, table: FileStoreTable, head: TableHead) -> None:
        """Read nothing yet."""
        self._table = table
        self._head = head

    def end(self, start: FollowOffset, limits: Limits) -> FollowOffset:
        """Where the batch that begins at `start` ends."""
        newest = self._head.now().snapshot_id
        counts = ((at, self._added_rows(at)) for at in range(start.consumed + 1, newest + 1))
        return FollowOffset(consumed=take_snapshots(counts, start.consumed, limits))

    def _added_rows(self, snapshot_id: int) -> int:
        return sum(entry.file.row_count for entry in change_files(self._table, self._followed(snapshot_id)))

    def _followed(self, snapshot_id: int) -> Snapshot:
        try:
            found = snapshot_of_changes(self._table, snapshot_id)
        except NotFoundError as error:
            raise NotFoundError(
                f"snapshot {snapshot_id} of table {self._table.name} has expired before this query has read it, so its "
                "changes are lost to it; start the query with a new checkpoint location"
            ) from error
        check_is_of(self._table, found)  # created again since it was read
        return found

    def partitions(self, consumed: int, end: int) -> list[InputPartition]:
        """What the tasks of a batch behind the snapshot `consumed` up to `end` read."""
        buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for snapshot_id in range(consumed + 1, end + 1):
            for entry in change_files(self._table, self._followed(snapshot_id)):
                buckets.setdefault(entry.bucket_id, []).append(entry)
        groups = pack(
            list(buckets.values()),
            lambda entries: sum(entry.file.file_size_bytes for entry in entries),
            count=partition_count(),
            size_max=PARTITION_BYTES,
        )
        return [DeltaPartition([entry for entries in group for entry in entries]) for group in groups]
