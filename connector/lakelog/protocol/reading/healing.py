"""Ranges of a log that Kafka no longer holds, found in the files: which changes of which snapshots they are.

A snapshot names its position in each bucket of the log, and its files have the changes between its position and the
previous one. So an offset is matched to a snapshot with exactly this position in the bucket, separately for each
bucket: a reader that was ahead of the newest snapshot in only one of two buckets has two snapshots, one for each.
Source: docs/rfcs/0031-healing.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.read import find_changes, first_changes
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.table_states import read_state

BEFORE_FIRST = 0  # in place of a snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A snapshot from which the files can be followed, and the state of the log in it."""

    snapshot_id: int
    log: LogState


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedRange:
    """How the offsets [start, end) of a bucket are read: changes of snapshots, then the log.

    The changes are those of the snapshots after `after` up to and including `up_to`; the log is read from `log_from`
    on, which is the end if it is not read. `lost` has the offsets that are in neither.
    """

    after: int
    up_to: int
    log_from: int
    lost: tuple[tuple[int, int], ...] = ()

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
        log = _log_of(table, find_changes(table, number), topic_id)
        if log is None:
            found = []
            continue
        if number == 1:
            found.append(FilePlace(snapshot_id=BEFORE_FIRST, log=LogState(topic_id=topic_id)))
        found.append(FilePlace(snapshot_id=number, log=log))
    if ends is not None and found:
        last_log = found[-1].log
        at_end = {bucket: replace(last_log.position(bucket), offset=offset) for bucket, offset in ends.items()}
        found.append(FilePlace(snapshot_id=found[-1].snapshot_id, log=replace(last_log, positions=at_end)))
    return found


def _log_of(table: TableStore, snapshot: Snapshot | None, topic_id: str) -> LogState | None:
    if snapshot is None:
        return None
    try:
        return read_state(table, snapshot, topic_id=topic_id, allows_foreign=True).logged
    except NotFoundError:  # it has another log, or what it carries on has expired
        return None


def is_held(start: int, log_start: int) -> bool:
    """Whether a log that begins at `log_start` holds all records from `start` on, apart from control records. Pure."""
    return log_start <= start + (1 if start else 0)


def heal_range(
    places: Sequence[tuple[int, int]], start: int, end: int, log_start: int | None, *, accepts_loss: bool = False
) -> HealedRange | None:
    """How [`start`, `end`) of a bucket is read if its log begins after `start`; None if it cannot be read. Pure.

    `places` are (snapshot, its position in the bucket), oldest first; `log_start` is None without a topic. With
    `accepts_loss` reading continues from the first offset that files or log have, so there is always an answer.
    """
    found = _exactly(places, start, end, log_start)
    return _with_losses(places, start, end, log_start) if found is None and accepts_loss else found


def _exactly(places: Sequence[tuple[int, int]], start: int, end: int, log_start: int | None) -> HealedRange | None:
    """The range from a snapshot at `start` to one at `end`, or to one after which the log holds everything."""
    begun = [at for at, (_, offset) in enumerate(places) if _is_at(offset, start)]
    followed = places[begun[-1] :] if begun else ()
    if any(one[1] > other[1] for one, other in pairwise(followed)):
        return None  # a repair has set the log back: an offset has two meanings
    for snapshot, offset in followed:
        if _is_at(offset, end):
            return HealedRange(after=followed[0][0], up_to=snapshot, log_from=end)
        if log_start is not None and offset < end and is_held(offset, log_start):
            return HealedRange(after=followed[0][0], up_to=snapshot, log_from=max(offset, log_start))
    return None


def _with_losses(places: Sequence[tuple[int, int]], start: int, end: int, log_start: int | None) -> HealedRange:
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
    return HealedRange(after=0, up_to=0, log_from=log_first, lost=((start, log_first),))


def _is_at(position: int, offset: int) -> bool:
    """Whether an offset is the position of a snapshot; a control record may follow the last record."""
    return offset == position or (position > 0 and offset == position + 1)
