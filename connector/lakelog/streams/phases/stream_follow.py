"""The phase of a stream that follows the snapshots of a table without a log."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import CommitKind, Snapshot
from lakelog.filestore.metadata.tables import check_is_of
from lakelog.filestore.read import change_files, find_changes, not_continued, snapshot_of_changes
from lakelog.protocol.reading import OperationStops
from lakelog.streams.phases.stream_head import OTHER_HISTORY, Head, TableHead, check_is_there, check_same_commit
from lakelog.streams.reading.admission import Limits, take_snapshots
from lakelog.streams.reading.offsets import FollowOffset
from lakelog.streams.reading.packing import delta_parts
from lakelog.streams.reading.parts import Part


class FollowPhase:
    """Plans batches of the changes that snapshots made."""

    def __init__(
        self, table: FileStoreTable, head: TableHead, *, stops: OperationStops, versions_max: int | None = None
    ) -> None:
        """Read nothing yet. `versions_max` is that of `take_snapshots`."""
        self._versions_max = versions_max
        self._stops = stops
        self._table = table
        self._head = head
        self._checked: tuple[FollowOffset, Head] | None = None

    def end(self, start: FollowOffset, limits: Limits, *, last: int | None = None) -> FollowOffset:
        """The end of the batch that begins at `start`: the snapshot `last` at the latest.

        Raises InvalidRequestError for a start in another history, ConflictError for a snapshot at which the stream must
        stop.
        """
        head = self._head.now()
        self._check_read(start, head)
        commits: dict[int, str | None] = {}

        def size_of(snapshot_id: int) -> tuple[int, int, int]:
            snapshot = self._followed(snapshot_id)
            commits[snapshot_id] = snapshot.uuid
            self._stops.check_snapshot(snapshot)
            files = [entry.file for entry in change_files(self._table, snapshot)]
            return snapshot_id, sum(file.row_count for file in files), sum(file.file_size_bytes for file in files)

        newest = head.snapshot_id if last is None else min(last, head.snapshot_id)
        sizes = map(size_of, range(start.consumed + 1, newest + 1))
        reached = take_snapshots(sizes, start.consumed, limits, versions_max=self._versions_max)
        return start if reached == start.consumed else FollowOffset(consumed=reached, commit=commits[reached])

    def end_at(self, start: FollowOffset, end: FollowOffset) -> FollowOffset:
        """Like `end`, if a group has decided at which snapshot the batch ends."""
        self._check_read(start, self._head.now())
        for snapshot_id in range(start.consumed + 1, end.consumed + 1):
            self._stops.check_snapshot(self._followed(snapshot_id))
        return end

    def _check_read(self, start: FollowOffset, head: Head) -> None:
        """Raise InvalidRequestError unless the newest snapshot continues what the query has read.

        A snapshot that has expired cannot be checked.
        """
        if (start, head) == self._checked:
            return
        check_is_there(self._table, start.consumed, newest=head.snapshot_id)
        if start.commit is not None:
            is_newest = start.consumed == head.snapshot_id
            read = None if is_newest else find_changes(self._table, start.consumed)
            if is_newest or read is not None:
                found = head.commit if read is None else read.uuid
                check_same_commit(self._table, start.consumed, found=found, read=start.commit)
        self._checked = start, head

    def _followed(self, snapshot_id: int) -> Snapshot:
        """A snapshot whose changes are read. Raises NotFoundError, InvalidRequestError."""
        try:
            found = snapshot_of_changes(self._table, snapshot_id)
        except NotFoundError as error:
            raise NotFoundError(
                f"snapshot {snapshot_id} of table {self._table.name} has expired before this query has read it, so its "
                "changes are lost to it; start the query with a new checkpoint location"
            ) from error
        check_is_of(self._table, found)  # the table was created again since it was read
        self._check_continues(found)
        return found

    def _check_continues(self, snapshot: Snapshot) -> None:
        """Raise InvalidRequestError if the changes of a snapshot do not start from the state of the previous one."""
        before = find_changes(self._table, snapshot.id - 1)
        broken = None if before is None else not_continued(self._table, before, snapshot)
        if broken is not None:
            raise InvalidRequestError(f"{broken} {OTHER_HISTORY}")

    def parts(self, start: FollowOffset, end: FollowOffset) -> list[Part]:
        """What the tasks of a batch read. Raises InvalidRequestError for a batch that was planned in another history.

        The changes of a bucket are read in order, by one task. Where keys may have moved into other buckets, one task
        reads the changes of a whole partition, so that no older row of a key comes behind a newer one: a rescale moves
        the keys of fixed buckets, and an overwrite or a restore those of dynamic ones.
        """
        entries: list[ManifestEntry] = []
        has_overwrite = False
        for snapshot_id in range(start.consumed + 1, end.consumed + 1):
            snapshot = self._followed(snapshot_id)
            if snapshot_id == end.consumed:
                check_same_commit(self._table, snapshot_id, found=snapshot.uuid, read=end.commit)
            entries += change_files(self._table, snapshot)
            has_overwrite = has_overwrite or snapshot.commit_kind is CommitKind.OVERWRITE
        moved = self._moved(entries, has_overwrite=has_overwrite)
        in_order: dict[tuple[bytes, int | None], list[ManifestEntry]] = {}
        for entry in entries:
            bucket = None if entry.partition in moved else entry.bucket
            in_order.setdefault((entry.partition, bucket), []).append(entry)
        return [*delta_parts(in_order.values())]

    def _moved(self, entries: Sequence[ManifestEntry], *, has_overwrite: bool) -> set[bytes]:
        """The partitions in which a key may be in two buckets."""
        if not self._table.schema.primary_keys:
            return set()
        if self._table.schema.bucket_count < 1:
            return {entry.partition for entry in entries} if has_overwrite else set()
        counts: dict[bytes, set[int]] = {}
        for entry in entries:
            counts.setdefault(entry.partition, set()).add(entry.total_buckets)
        return {partition for partition, found in counts.items() if len(found) > 1}
