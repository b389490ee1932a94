"""What a micro-batch has read from a table, by its start and end offsets."""

from __future__ import annotations

from dataclasses import replace

from lakelog.filestore.metadata.origins import LogRange, TableSource, TableVersion
from lakelog.spark.source.reading.offsets import FollowOffset, LogOffset, Offset, SnapshotOffset


def read_between(source: TableSource, start: Offset | None, end: Offset | None) -> TableSource:
    """The source with what lies between two offsets. None stands for a source that has not been asked yet.

    If the first batch of a stream reads no rows, but only fixes where the stream starts, it begins and ends there.
    """
    newest = _newest_whole(end)
    is_fixing = isinstance(end, LogOffset | FollowOffset) and end.reads_rows is False
    return replace(
        source,
        start=newest if is_fixing else _newest_whole(start),
        end=newest,
        is_exact=isinstance(end, FollowOffset) or (isinstance(end, LogOffset) and end.is_exact is True),
        log=_log_between(start, end),
        why=_why_inexact(end),
    )


def _newest_whole(offset: Offset | None) -> TableVersion | None:
    if isinstance(offset, LogOffset | FollowOffset) and offset.consumed:
        return TableVersion(snapshot_id=offset.consumed, commit=offset.commit)
    return None


def _log_between(start: Offset | None, end: Offset | None) -> LogRange | None:
    if not isinstance(end, LogOffset):
        return None
    is_same = isinstance(start, LogOffset) and start.topic_id == end.topic_id
    before = start.offsets if is_same and isinstance(start, LogOffset) else end.offsets
    return LogRange(topic_id=end.topic_id, start=before, end=end.offsets)


def _why_inexact(end: Offset | None) -> str | None:
    match end:
        case None:
            return "nothing of it is read yet"
        case SnapshotOffset():
            return f"of snapshot {end.snapshot}, with which the stream begins, {end.split} splits are read so far"
        case LogOffset(is_exact=None):
            return "the offsets are of an older version of lakelog, which did not say whether they are a snapshot's"
        case LogOffset(is_exact=False):
            return "the batch ends in the log between two snapshots"
        case _:
            return None
