"""The phase of a stream that reads the log: where its batches end, and what they consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakelog.common.errors import NotFoundError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import find_changes
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import Position, log_start_offsets
from lakelog.logstore.kafka.records.epochs import check_not_rewritten
from lakelog.protocol.stores import LogTarget
from lakelog.protocol.writing import done_batches
from lakelog.streams.options.log_options import LogReading
from lakelog.streams.phases.stream_align import SnapshotPlace, WriterWait
from lakelog.streams.phases.stream_head import (
    Head,
    TableHead,
    check_is_there,
    check_same_commit,
    log_after,
    position_after,
)
from lakelog.streams.phases.stream_heal import HealedBatch, Healer, LogOfTable, Range
from lakelog.streams.phases.stream_old_rows import OldRows
from lakelog.streams.reading.admission import NO_LIMITS, Limits, advance_log, advance_to_snapshot
from lakelog.streams.reading.lease import log_lease
from lakelog.streams.reading.offsets import LogOffset
from lakelog.streams.reading.packing import pack, part_count
from lakelog.streams.reading.parts import LogPart, NormalizedPart, Part

InHand = Callable[[KafkaTopic, Mapping[int, tuple[int, int]]], bool]
"""Whether all records of ranges of a topic have come already."""


def nothing_in_hand(_topic: KafkaTopic, _ranges: Mapping[int, tuple[int, int]]) -> bool:
    """The answer of a reader that waits for no records."""
    return False


class LogPhase:
    """Plans batches of the log, and holds the records that are still to be read."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget,
        head: TableHead,
        reading: LogReading,
        *,
        looks_up: bool = False,
        allows_foreign: bool = False,
        healer: Healer | None = None,
        patience: Patience | None = None,
        in_hand: InHand = nothing_in_hand,
    ) -> None:
        """Hold nothing yet. With `looks_up`, the rows before the changes are looked up.

        `allows_foreign` is that of `read_state`. A `healer` finds what the log no longer holds, of what is not in hand;
        `patience` says how long to wait for a log that does not answer.
        """
        self._in_hand = in_hand
        self._healer = healer
        self._patience = Patience(0) if patience is None else patience
        self._allows_foreign = allows_foreign
        self.lease = log_lease(table, target.topic_id)
        self.wait = WriterWait(table.name, reading.alignment.timeout_millis)
        self.is_aligned = reading.alignment.is_by_snapshot
        self._versions_max = reading.alignment.versions_max
        self._table = table
        self._target = target
        self._head = head
        self._old_rows = OldRows(table) if looks_up else None
        self._places: dict[int, SnapshotPlace] = {}
        self._has_checked = False
        self._same_log: set[tuple[int, Position, int]] = set()  # leader epochs that were checked and are right

    def after(self, snapshot: Snapshot | None) -> LogOffset:
        """Where the log continues after a snapshot; before the first one, its beginning."""
        return position_after(self._table, snapshot, self._target, allows_foreign=self._allows_foreign)

    def end(self, start: LogOffset, limits: Limits) -> LogOffset:
        """Where the batch that begins at `start` ends."""
        head = self._checked_head(start)
        end = self._aligned_end(start, head, limits) if self.is_aligned else self._end(start, head, limits)
        return end if end == start else replace(end, epochs=head.epochs, reads_rows=None)

    def end_at(self, start: LogOffset, end: LogOffset) -> LogOffset:
        """Like `end`, if a group has decided at which snapshot the batch ends."""
        head = self._checked_head(start)
        self.wait.proceeds()
        return replace(end, epochs=head.epochs, reads_rows=None)

    def wait_for_writers(self, start: LogOffset) -> None:
        """Wait for the writers of unfinished batches behind `start`, if there are any."""
        self._wait_for_writers(start, self._head.now())

    def is_of(self, offset: LogOffset) -> bool:
        """Whether an offset is in this log, not in an older one."""
        return offset.topic_id == self._target.topic_id

    def _checked_head(self, start: LogOffset) -> Head:
        self.lease.renew(self._needed(start))
        self._places = {at: place for at, place in self._places.items() if at >= start.consumed}
        head = self._head.now()
        self._check_same_history(start, head)
        self._check_same_log(start, head)
        return head

    def _end(self, start: LogOffset, head: Head, limits: Limits) -> LogOffset:
        first = head.snapshot_id if limits == NO_LIMITS else start.consumed + 1
        positions = (place.position for place in self.places(first, head.snapshot_id))
        return advance_log(start, positions, head.ends, limits)

    def _aligned_end(self, start: LogOffset, head: Head, limits: Limits) -> LogOffset:
        if limits == NO_LIMITS and self._versions_max is None:
            newest = self.newest_whole(start.consumed, head.snapshot_id)
            found: Iterable[SnapshotPlace] = () if newest is None else (newest,)
        else:
            found = (place for place in self.places(start.consumed + 1, head.snapshot_id) if place.is_whole)
        positions = (place.position for place in found)
        end = advance_to_snapshot(start, positions, limits, versions_max=self._versions_max)
        if end == start:
            self._wait_for_writers(start, head)
        else:
            self.wait.proceeds()
        return end

    def newest_whole(self, consumed: int, newest: int) -> SnapshotPlace | None:
        """The newest snapshot behind `consumed` that holds no batch in part."""
        for snapshot_id in range(newest, consumed, -1):
            place = next(self.places(snapshot_id, snapshot_id), None)
            if place is not None and place.is_whole:
                return place
        return None

    def _wait_for_writers(self, start: LogOffset, head: Head) -> None:
        places = list(self.places(start.consumed + 1, head.snapshot_id))
        whole = max((at for at, place in enumerate(places) if place.is_whole), default=-1)
        if places[whole + 1 :]:
            self.wait.waits_behind(places[whole + 1 :])
        else:
            self.wait.proceeds()

    def _check_same_history(self, start: LogOffset, head: Head) -> None:
        """Raise InvalidRequestError if another snapshot has the id of the one that was read; checked once per run."""
        check_is_there(self._table, start.consumed, newest=head.snapshot_id)
        if self._has_checked or start.commit is None:
            return
        read = find_changes(self._table, start.consumed)
        if read is not None:
            check_same_commit(self._table, start.consumed, found=read.uuid, read=start.commit)
        self._has_checked = True

    def _check_same_log(self, start: LogOffset, head: Head) -> None:
        """Raise LogRewrittenError when a bucket was cut before `start`; checked once per change of a leader."""
        for bucket, epoch in start.epochs.items():
            known = Position(offset=start.offsets[bucket], leader_epoch=epoch)
            if head.epochs.get(bucket, epoch) == epoch or (bucket, known, head.epochs[bucket]) in self._same_log:
                continue
            check_not_rewritten(self._target.topic.partition(bucket), known)
            self._same_log.add((bucket, known, head.epochs[bucket]))

    def places(self, first: int, newest: int) -> Iterator[SnapshotPlace]:
        """The places in the log of the snapshots from `first` to `newest` that have not expired."""
        first = max(first, 1)
        if first <= newest:  # else no file is read: a follower asks for each batch
            first = max(first, self._table.snapshots.earliest_id() or 1)
        for snapshot_id in range(first, newest + 1):
            if snapshot_id not in self._places:
                try:
                    snapshot = self._table.snapshots.get(snapshot_id)
                    log = log_after(self._table, snapshot, self._target, allows_foreign=self._allows_foreign)
                except NotFoundError:  # expired meanwhile, or what it carries on has
                    continue
                self._places[snapshot_id] = SnapshotPlace.of(snapshot, log, self._table.bucket_count)
            yield self._places[snapshot_id]

    def parts(self, start: LogOffset, end: LogOffset, *, has_snapshots: bool = False) -> list[Part]:
        """What the tasks of a batch between two offsets read.

        With `has_snapshots`, tasks know which snapshot has which records.
        """
        ranges = [(bucket, start.offsets.get(bucket, 0), offset) for bucket, offset in sorted(end.offsets.items())]
        wanted = [one for one in ranges if one[2] > one[1]]
        if self._old_rows is not None:
            groups = pack(wanted, lambda one: one[2] - one[1], count=part_count(), size_max=1 << 62)
            base = self._base(start)
            return [NormalizedPart(self._old_rows.ranges(base, group)) for group in groups]
        places = list(self.places(max(start.consumed, 1), end.consumed)) if has_snapshots else []
        done: Mapping[int, Mapping[str, int]] = {}
        if not self._target.topic.is_transactional:
            first = {bucket: first for bucket, first, _ in wanted}
            done = done_batches(self._table, first, topic_id=self._target.topic_id)
        batch = HealedBatch(ranges=wanted)
        has_all = self._in_hand(self._target.topic, {bucket: (first, last) for bucket, first, last in wanted})
        if wanted and self._healer is not None and self._target.topic.is_transactional and not has_all:
            batch = self._healer.healed(self._log(), start, wanted)
        return log_parts(wanted, batch, lambda group: snapshot_ends(group, start, places), done)

    def _log(self) -> LogOfTable:
        """The present log. Raises UnavailableError, after `patience`."""

        topic, count = self._target.topic, self._table.bucket_count
        starts = self._patience.keep_trying(lambda: log_start_offsets(topic, count))
        return LogOfTable(
            topic_id=self._target.topic_id,
            topic=self._target.topic.name,
            starts={bucket: at.offset for bucket, at in starts.items()},
        )

    def let_go(self, end: LogOffset) -> None:
        """Release what comes before `end`."""
        self.lease.hold(self._needed(end))

    def release(self) -> None:
        """Release everything; what a restart needs to look rows up stays until its leases end by themselves."""
        if self._old_rows is None:
            self.lease.release()

    def _needed(self, start: LogOffset) -> Mapping[int, int]:
        """The offsets from which a stream at `start` needs the log."""
        return start.offsets if self._old_rows is None else self._base(start).offsets

    def _base(self, start: LogOffset) -> LogOffset:
        """The base in which the rows before a batch that begins at `start` are looked up."""
        assert self._old_rows is not None
        newer = (place.position for place in self.places(start.consumed + 1, self._head.now().snapshot_id))
        return self._old_rows.base_of(start, newer, self.after)


def log_parts(
    wanted: Sequence[Range],
    batch: HealedBatch,
    ends_of: Callable[[Sequence[Range]], Mapping[int, Sequence[tuple[int, int]]]],
    done: Mapping[int, Mapping[str, int]],
    *,
    topic: KafkaTopic | None = None,
) -> list[Part]:
    """The partitions of a batch of the ranges `wanted`: each bucket is in one partition, its files before its log.

    `ends_of` gives the snapshots that end in ranges; `done` and `topic` are those of `LogPart`.
    """
    left = {bucket: (bucket, first, end) for bucket, first, end in batch.ranges}
    found: list[Part] = []
    for group in pack(wanted, lambda one: one[2] - one[1], count=part_count(), size_max=1 << 62):
        ranges = [left[bucket] for bucket, _, _ in group]
        files = {bucket: batch.files[bucket] for bucket, _, _ in group if bucket in batch.files}
        found.append(LogPart(ranges, ends_of(group), done, topic=topic, files=files, is_upsert=batch.is_upsert))
    return found


def snapshot_ends(
    ranges: Iterable[tuple[int, int, int]], start: LogOffset, places: Iterable[SnapshotPlace]
) -> dict[int, list[tuple[int, int]]]:
    """Bucket -> (offset, snapshot): the snapshot has the records from the previous offset up to this one, exclusive.

    The ranges begin at `start`, whose snapshot is read. If the snapshot before one has expired, it is not known which
    of the two has a record: then 0 stands for the snapshot. Pure.
    """
    positions = [place.position for place in places]
    found: dict[int, list[tuple[int, int]]] = {}
    for bucket, first, _ in ranges:
        before_id, ends = start.consumed, [(first, 0)]
        for position in positions:
            offset = position.offsets.get(bucket, 0)
            if offset > ends[-1][0]:
                is_next = position.consumed == before_id + 1
                ends.append((offset, position.consumed if is_next else 0))
            before_id = position.consumed
        found[bucket] = ends
    return found
