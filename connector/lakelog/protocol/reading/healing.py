"""Ranges of a log that Kafka no longer holds, found in the files: which changes of which snapshots they are.

A snapshot names its position in each bucket of the log, and its files have the changes between its position and the
previous one. Where it took in several transactions of a bucket, it names their ends too. So an offset is matched to a
place that is exactly there in the bucket, separately for each bucket: a reader that was ahead of the newest snapshot in
only one of two buckets has two snapshots, one for each.
Source: docs/rfcs/0031-healing.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.read import find_changes, first_changes
from lakelog.protocol.state.state import LogState
from lakelog.protocol.state.transaction_ends import TransactionEnd, ends_in
from lakelog.protocol.stores.log_gaps import held_nothing
from lakelog.protocol.stores.table_states import read_state

BEFORE_FIRST = 0  # in place of a snapshot

Place = tuple[int, int]
"""A snapshot, and how many transactions of the one after it follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A snapshot from which the files can be followed, and the state of the log in it.

    `ends` are those of `lakelog.protocol.state.transaction_ends.ends_in`.
    """

    snapshot_id: int
    log: LogState
    ends: Mapping[int, Sequence[TransactionEnd]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """A place in one bucket's log: the position of a snapshot, or the end of a transaction that it took in with others.

    `sequence` is the next sequence number of the bucket's files; `records` counts everything before the place, None
    inside a snapshot.
    """

    place: Place
    offset: int
    sequence: int
    records: int | None

    @property
    def is_inside(self) -> bool:
        """Whether more transactions of the snapshot follow in the bucket."""
        return self.place[1] > 0

    @property
    def snapshot_id(self) -> int:
        """The last snapshot that has changes before the place."""
        return self.place[0] + (1 if self.is_inside else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedRange:
    """How the offsets [start, end) of a bucket are read: changes of snapshots, then the log.

    The changes are those behind the place `after` up to the place `up_to`; the log is read from `log_from` on, which is
    the end if it is not read. `lost` has the offsets that are in neither. `places` are those of the bucket from `after`
    to `up_to`.
    """

    after: Place
    up_to: Place
    log_from: int
    lost: tuple[tuple[int, int], ...] = ()
    places: tuple[BucketPlace, ...] = ()

    @classmethod
    def of_log(cls, log_from: int, lost: tuple[tuple[int, int], ...] = ()) -> HealedRange:
        """A range of which no files are read."""
        return cls(after=(BEFORE_FIRST, 0), up_to=(BEFORE_FIRST, 0), log_from=log_from, lost=lost)

    @property
    def has_files(self) -> bool:
        """Whether snapshots are read at all."""
        return self.up_to > self.after


def file_places(
    table: TableStore, topic_id: str, *, consumed: int, before: int | None, ends: Mapping[int, int] | None = None
) -> list[FilePlace]:
    """The snapshots of a log from `consumed` on and before `before`, from which the files can be followed.

    They come oldest first. Those before a snapshot whose changes have expired are left out. With `ends`, the ends of a
    log that ended, the last snapshot is after its end: what a log holds when it ends is taken into a snapshot.
    """
    newest = table.snapshots.latest_id() or 0
    last = newest if before is None else min(newest, before - 1)
    found: list[FilePlace] = []
    for number in range(max(consumed, first_changes(table), 1), last + 1):
        snapshot = find_changes(table, number)
        log = None if snapshot is None else _log_of(table, snapshot, topic_id)
        if snapshot is None or log is None:
            found = []
            continue
        if number == 1:
            found.append(FilePlace(snapshot_id=BEFORE_FIRST, log=LogState(topic_id=topic_id)))
        found.append(FilePlace(snapshot_id=number, log=log, ends=ends_in(snapshot)))
    if ends is not None and found:
        last_log = found[-1].log
        at_end = {bucket: replace(last_log.position(bucket), offset=offset) for bucket, offset in ends.items()}
        found.append(FilePlace(snapshot_id=found[-1].snapshot_id, log=replace(last_log, positions=at_end)))
    return found


def bucket_range(  # the arguments of `heal_range`
    places: Sequence[FilePlace], bucket: int, start: int, end: int, log_start: int | None, *, accepts_loss: bool = False
) -> HealedRange | None:
    """As `heal_range`, for a bucket between places in the files. Offsets that held no record are left out. Pure."""
    positions = [one.log.position(bucket) for one in places]
    if log_start is not None and held_nothing(positions, start, log_start):
        return HealedRange.of_log(min(max(start, log_start), end))
    known = _places_in(places, bucket)
    found = heal_range([(at.place, at.offset) for at in known], start, end, log_start, accepts_loss=accepts_loss)
    if found is None:
        return None
    return replace(found, places=tuple(at for at in known if found.after <= at.place <= found.up_to))


def _places_in(places: Sequence[FilePlace], bucket: int) -> list[BucketPlace]:
    """The places of a bucket in log order: before the position of a snapshot the ends that it names."""
    found: list[BucketPlace] = []
    for one in places:
        for number, end in enumerate(one.ends.get(bucket, ()), start=1):
            place = (one.snapshot_id - 1, number)
            found.append(BucketPlace(place=place, offset=end.offset, sequence=end.sequence, records=None))
        at = one.log.position(bucket)
        found.append(
            BucketPlace(place=(one.snapshot_id, 0), offset=at.offset, sequence=at.sequence, records=at.records)
        )
    return found


def _log_of(table: TableStore, snapshot: Snapshot, topic_id: str) -> LogState | None:
    try:
        return read_state(table, snapshot, topic_id=topic_id, allows_foreign=True).logged
    except NotFoundError:  # it has another log, or what it carries on has expired
        return None


def is_held(start: int, log_start: int) -> bool:
    """Whether a log that begins at `log_start` holds all records from `start` on, apart from control records. Pure."""
    return log_start <= start + (1 if start else 0)


def heal_range(
    places: Sequence[tuple[Place, int]], start: int, end: int, log_start: int | None, *, accepts_loss: bool = False
) -> HealedRange | None:
    """How [`start`, `end`) of a bucket is read if its log begins after `start`; None if it cannot be read. Pure.

    `places` are (place, its offset in the bucket), in log order; `log_start` is None without a topic. With
    `accepts_loss` reading continues from the first offset that files or log have, so there is always an answer.
    """
    found = _exactly(places, start, end, log_start)
    return _with_losses(places, start, end, log_start) if found is None and accepts_loss else found


def _exactly(places: Sequence[tuple[Place, int]], start: int, end: int, log_start: int | None) -> HealedRange | None:
    """The range from a place at `start` to one at `end`, or to one after which the log holds everything."""
    begun = [at for at, (_, offset) in enumerate(places) if _is_at(offset, start)]
    followed = places[begun[-1] :] if begun else ()
    if any(one[1] > other[1] for one, other in pairwise(followed)):
        return None  # a repair has set the log back: an offset has two meanings
    for place, offset in followed:
        if _is_at(offset, end):
            return HealedRange(after=followed[0][0], up_to=place, log_from=end)
        if log_start is not None and offset < end and is_held(offset, log_start):
            return HealedRange(after=followed[0][0], up_to=place, log_from=max(offset, log_start))
    return None


def _with_losses(places: Sequence[tuple[Place, int]], start: int, end: int, log_start: int | None) -> HealedRange:
    """What files and log have of [`start`, `end`), and what is in neither."""
    log_first = end if log_start is None else min(max(log_start, start), end)
    for at, (_, offset) in enumerate(places):
        if not start <= offset < log_first:
            continue
        found = _exactly(places[at:], offset, end, log_start)
        lost = [(start, offset)]
        if found is None:
            last = max(one[1] for one in places[at:] if one[1] <= end)
            found = _exactly(places[at:], offset, last, None)
            lost.append((last, log_first))
        if found is not None:
            log_from = found.log_from if len(lost) == 1 else max(last, log_first)
            return replace(found, log_from=log_from, lost=tuple(one for one in lost if one[0] < one[1]))
    return HealedRange.of_log(log_first, lost=((start, log_first),))


def _is_at(position: int, offset: int) -> bool:
    """Whether an offset is that of a place; a control record may follow the last record."""
    return offset == position or (position > 0 and offset == position + 1)
