"""How much a micro-batch reads. Pure: no clock, no disk, no broker.

Batches end where transactions end. In the log these places are the offsets that snapshots hold, whose running totals
make limits exact, and after the newest snapshot the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakelog.streams.reading.offsets import BucketCount, LogOffset

UNKNOWN_RECORD_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a batch should read; None means no limit."""

    rows: int | None = None
    size_bytes: int | None = None

    def hold(self, rows: int, size_bytes: int) -> bool:
        """True while a batch of this size is within the limits."""
        fits_rows = self.rows is None or rows <= self.rows
        return fits_rows and (self.size_bytes is None or size_bytes <= self.size_bytes)


NO_LIMITS = Limits()


def take_splits(sizes: Sequence[tuple[int, int]], first: int, limits: Limits) -> int:
    """How far to read the splits of a snapshot, from `first` on: at least one split. `sizes` are (rows, bytes)."""
    rows = size_bytes = 0
    for at in range(first, len(sizes)):
        rows += sizes[at][0]
        size_bytes += sizes[at][1]
        if at > first and not limits.hold(rows, size_bytes):
            return at
    return len(sizes)


def take_snapshots(
    sizes: Iterable[tuple[int, int, int]], consumed: int, limits: Limits, *, versions_max: int | None = None
) -> int:
    """How far to follow snapshots, given as (id, rows that they add, bytes): at least one that adds rows.

    Returns `consumed` when none adds rows. With `versions_max` at most that many snapshots that add rows are taken, and
    the last of them ends the batch: later snapshots that change no row come with the next batch.
    """
    rows = size_bytes = versions = 0
    reached = consumed
    for snapshot_id, added, added_bytes in sizes:
        if rows and (added or added_bytes) and not limits.hold(rows + added, size_bytes + added_bytes):
            break
        rows += added
        size_bytes += added_bytes
        reached = snapshot_id
        versions += added > 0
        if versions == versions_max:
            break
    return reached if rows else consumed


def advance_log(start: LogOffset, snapshots: Iterable[LogOffset], ends: Mapping[int, int], limits: Limits) -> LogOffset:
    """The end of the batch that begins at `start`.

    `snapshots` are the log positions of the snapshots after `start.consumed`, oldest first; they are consumed only as
    far as the limits reach. `ends` has the offsets up to which the log may be read now. A batch that reads anything
    reads at least one bucket up to one place where it may end, however large that is.
    """
    walk = _Walk(start, limits)
    for snapshot in snapshots:
        if not walk.take(snapshot.offsets, snapshot.counts):
            return walk.offset()
        walk.pass_snapshot(snapshot)
    walk.take(ends, {})
    return walk.offset()


def advance_to_snapshot(
    start: LogOffset, snapshots: Iterable[LogOffset], limits: Limits, *, versions_max: int | None = None
) -> LogOffset:
    """The end of the batch that begins at `start` when it is to end at a snapshot, one of `snapshots`.

    They are oldest first; a snapshot that is before `start` in a bucket is left out. The batch goes up to the newest
    one within the limits, over at most `versions_max` of those that advance a bucket, and at least to the first of
    these; the end is `start` itself when none does. Of several at the same offsets the first one is taken.
    """
    reached, versions = start, 0
    for snapshot in snapshots:
        if any(offset < start.offsets.get(bucket, 0) for bucket, offset in snapshot.offsets.items()):
            continue
        if not any(offset > reached.offsets.get(bucket, 0) for bucket, offset in snapshot.offsets.items()):
            continue
        if reached is not start and not limits.hold(*_passed(start, snapshot)):
            break
        reached, versions = snapshot, versions + 1
        if versions == versions_max:
            break
    return reached


def _passed(start: LogOffset, end: LogOffset) -> tuple[int, int]:
    """The maximum number of records, and the approximate bytes, between two positions."""
    walk = _Walk(start, NO_LIMITS)
    walk.take(end.offsets, end.counts)
    return walk.passed


class _Walk:
    """A position that advances, and what it has passed."""

    def __init__(self, start: LogOffset, limits: Limits) -> None:
        self._start = start
        self._limits = limits
        self._offsets = dict(start.offsets)
        self._counts = dict(start.counts)
        self._rows = 0
        self._size_bytes = 0
        self._passed_snapshot: LogOffset | None = None

    def pass_snapshot(self, snapshot: LogOffset) -> None:
        """Pass everything of a snapshot."""
        self._passed_snapshot = snapshot

    def take(self, offsets: Mapping[int, int], counts: Mapping[int, BucketCount]) -> bool:
        """Move every bucket up to `offsets`, bucket by bucket while the limits hold; False when one stays behind."""
        is_whole = True
        for bucket, offset in sorted(offsets.items()):
            is_new = offset > self._offsets.get(bucket, 0)
            if is_new and not self._fits(bucket, offset, counts.get(bucket)):
                is_whole = False
                continue
            self._offsets[bucket] = max(offset, self._offsets.get(bucket, 0))
            if bucket in counts:
                self._counts[bucket] = counts[bucket]
        return is_whole

    def _fits(self, bucket: int, offset: int, count: BucketCount | None) -> bool:
        """Whether the bucket may advance to `offset`; if so, what it passes is added to the batch."""
        before = self._counts.get(bucket, BucketCount())
        rows = offset - self._offsets.get(bucket, 0)  # an upper bound of the records: offsets have gaps
        if count is None:
            size_bytes = rows * (before.size_bytes // before.records if before.records else UNKNOWN_RECORD_BYTES)
        else:
            rows = min(rows, count.records - before.records)
            size_bytes = count.size_bytes - before.size_bytes
        is_first = self._rows == 0
        if not is_first and not self._limits.hold(self._rows + rows, self._size_bytes + size_bytes):
            return False
        self._rows += rows
        self._size_bytes += size_bytes
        return True

    @property
    def passed(self) -> tuple[int, int]:
        """Records and bytes so far."""
        return self._rows, self._size_bytes

    def offset(self) -> LogOffset:
        """The position of the walk; the start itself when no bucket has moved."""
        if self._offsets == dict(self._start.offsets):
            return self._start
        newest = self._start if self._passed_snapshot is None else self._passed_snapshot
        return LogOffset(
            topic_id=self._start.topic_id,
            offsets=self._offsets,
            counts=self._counts,
            consumed=newest.consumed,
            commit=newest.commit,
            is_exact=self._offsets == dict(newest.offsets) if newest is self._passed_snapshot else False,
        )
