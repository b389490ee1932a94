"""The rows with which a stream begins, those of a snapshot or a tag, in batches of as many splits as limits allow.

Splits have numbers, which are in the offsets; splits without a row that passes `where` have numbers too.
"""

from __future__ import annotations

from dataclasses import replace

from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import DataSplit, plan_splits
from lakelog.logstore.options import LogScan
from lakelog.protocol.stores import LogTarget
from lakelog.streams.options.stream_read import StreamRead
from lakelog.streams.phases.generations import Generations
from lakelog.streams.phases.stream_head import check_same_commit
from lakelog.streams.phases.stream_start import ReadStart
from lakelog.streams.phases.stream_tag import TagStart
from lakelog.streams.reading.admission import Limits, take_splits
from lakelog.streams.reading.lease import Lease
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, Offset, SnapshotOffset, StartOffset
from lakelog.streams.reading.packing import packed_splits
from lakelog.streams.reading.parts import Part, SnapshotMark, SplitsPart


class RowsPhase:
    """Plans the batches of the first rows. A snapshot is held by the `lease` while its rows are read."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        options: StreamRead,
        generations: Generations,
        start: ReadStart,
        *,
        lease: Lease[int],
    ) -> None:
        """Read nothing yet."""
        self._table = table
        self._target = target
        self._state = options.state
        self._is_aligned = options.log.alignment.is_by_snapshot
        self._start = start
        self._lease = lease
        self._tag = TagStart(table, target, generations, start.after, fails_on_loss=options.log.fails_on_loss)
        self._splits: tuple[Snapshot, tuple[DataSplit, ...]] | None = None

    def begin(self, limits: Limits) -> Offset | None:
        """The end of the first batch of rows; None before the first snapshot.

        For a tag, the end is always among its rows: the offset names the tag for all that follows.
        """
        tagged = self._tag.named(self._state)
        if tagged is not None:
            return self._end_in_tag(*tagged, limits)
        base = self._start.snapshot()
        if base is None:
            return None
        return self.end(SnapshotOffset(snapshot=base.id, split=0, commit=base.uuid), limits)

    def end(self, start: SnapshotOffset, limits: Limits) -> Offset:
        """The end of a batch that begins among the rows of a snapshot: among them, or where the changes begin."""
        self._lease.hold(start.snapshot)
        snapshot, splits = self._splits_of(start)
        sizes = [(split.row_count, split.size_bytes) for split in splits]
        end = len(splits) if self._is_aligned else take_splits(sizes, start.split, limits)
        if end < len(splits) or (start.tag is not None and start.split < end):
            return SnapshotOffset(snapshot=snapshot.id, split=end, commit=snapshot.uuid, tag=start.tag)
        if start.tag is not None:
            return self._start.after(self._tag.goes_on_at(snapshot, start.tag))
        reads_rows = True if start.split == 0 else None
        return replace(self._start.after(self._table.snapshots.get(snapshot.id)), reads_rows=reads_rows)

    def parts(self, start: StartOffset | SnapshotOffset, end: Offset) -> list[Part]:
        """The rows between two offsets; after those of a tag, the difference up to where the changes begin."""
        if isinstance(end, SnapshotOffset):
            return self._between(end, start.split if isinstance(start, SnapshotOffset) else 0, end.split)
        if isinstance(start, SnapshotOffset):
            rows = self._between(start, start.split, None)
            if start.tag is None or not isinstance(end, LogOffset | FollowOffset) or end.consumed <= start.snapshot:
                return rows
            return [*rows, *self._tag.difference(self._tag.snapshot_of(start), end.consumed)]
        if not isinstance(end, LogOffset | FollowOffset):
            return []
        reads_rows = LogScan(start.start) is LogScan.FULL if end.reads_rows is None else end.reads_rows
        if not reads_rows or not end.consumed:
            return []
        commit = end.commit if isinstance(end, FollowOffset) else None
        return self._between(SnapshotOffset(snapshot=end.consumed, split=0, commit=commit), 0, None)

    def _end_in_tag(self, snapshot: Snapshot, tag: str, limits: Limits) -> SnapshotOffset:
        self._lease.hold(snapshot.id)
        self._start.check_whole(snapshot)
        self._tag.goes_on_at(snapshot, tag)  # raises before a row is read
        start = SnapshotOffset(snapshot=snapshot.id, split=0, commit=snapshot.uuid, tag=tag)
        end = self.end(start, limits)
        return end if isinstance(end, SnapshotOffset) else start

    def _splits_of(self, place: SnapshotOffset) -> tuple[Snapshot, tuple[DataSplit, ...]]:
        """A snapshot and its splits. Raises InvalidRequestError when another commit made the snapshot."""
        if self._splits is None or self._splits[0].id != place.snapshot:
            snapshot = self._tag.snapshot_of(place)
            is_followed = self._target is None
            self._splits = (snapshot, plan_splits(self._table, snapshot, is_followed=is_followed).splits)
        check_same_commit(self._table, place.snapshot, found=self._splits[0].uuid, read=place.commit)
        return self._splits

    def _between(self, place: SnapshotOffset, first: int, end: int | None) -> list[Part]:
        self._lease.hold(place.snapshot)
        snapshot, found = self._splits_of(place)
        return [SplitsPart(group, SnapshotMark.of(snapshot)) for group in packed_splits(found[first:end])]
