"""What Spark's checkpoint says about a micro-batch: what it reads of each source, and the files of a file source.

The offset of a file source is a number in a log of its own, whose entries name files. A restored checkpoint may give
the same number to other files: a comparison of offsets alone would take other rows for a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, optional, parse_json, parse_object, string, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins import (
    ForeignSource,
    LogRange,
    ReadMode,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
)
from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.streams.reading.offsets import (
    OFFSET_MARK,
    FollowOffset,
    LogOffset,
    Offset,
    SnapshotOffset,
    TableMark,
    offset_from_json,
)

ReadText = Callable[[str], str | None]
"""The text of a file below the checkpoint's folder; None when it is not there."""

_FILE_OFFSET_KEY = "logOffset"
_WATERMARK_KEY = "batchWatermarkMs"


def parse_offset_log(text: str, *, path: str) -> list[str]:
    """The source lines of a file in `<checkpoint>/offsets`: version, metadata, then one line per source.

    Raises CorruptDataError.
    """
    version, *rest = text.rstrip("\n").split("\n")
    if not version.startswith("v") or not rest:
        raise CorruptDataError(f"{path} is no offset log of Spark: it begins with {version[:20]!r}, expected 'v1'")
    return rest[1:]


def parse_watermark(text: str, *, path: str) -> int | None:
    """The event-time watermark of a batch, in milliseconds since 1970, from its file in `<checkpoint>/offsets`.

    It is the watermark in force when the batch runs, from the rows of the previous batches: the `eventTime.watermark`
    in the progress of the batch. Spark's 0, for a query without a watermark or without a row so far, becomes None.
    Raises CorruptDataError.
    """
    parse_offset_log(text, path=path)
    metadata = text.split("\n")[1]
    try:
        return optional(whole, parse_object(metadata), _WATERMARK_KEY) or None
    except ValueError as error:
        raise CorruptDataError(f"{path} is no offset log of Spark: {cause(error)}") from error


def files_of_batch(batch_id: int, lines: Sequence[str], read: ReadText) -> list[str] | None:
    """The files that a batch reads from Spark's file sources, in no particular order.

    `lines` are the batch's source lines. None when there is no such source, or when the checkpoint no longer says what
    the batch has read. Raises CorruptDataError.
    """
    ends = {source: number for source, line in enumerate(lines) if (number := _file_log_number(line)) is not None}
    if not ends:
        return None
    before: list[str] = []
    if batch_id:
        path = f"offsets/{batch_id - 1}"
        found = read(path)
        if found is None:
            return None
        before = parse_offset_log(found, path=path)
    files: list[str] = []
    for source, end in ends.items():
        start = _file_log_number(before[source]) if source < len(before) else None
        for number in range(0 if start is None else start + 1, end + 1):
            entries = _entries(read, f"sources/{source}/{number}", number)
            if entries is None:
                return None
            files += (f"{source} {entry}" for entry in entries)
    return sorted(files)


def _file_log_number(line: str) -> int | None:
    """The number in the offset {"logOffset": number} of a file source; None for the offset of another source."""
    try:
        offset = parse_json(line)
    except ValueError:
        return None
    if not isinstance(offset, dict) or set(offset) != {_FILE_OFFSET_KEY}:
        return None
    number = offset[_FILE_OFFSET_KEY]
    return number if isinstance(number, int) else None


def _entries(read: ReadText, path: str, number: int) -> list[str] | None:
    """The files that the log of a file source holds under a number; None when that part of the log is missing.

    The format is a version, then one object per line: {"path", "timestamp", "batchId"}. Every tenth file ends in
    `.compact` and also has the entries of all files before. Source: Spark, `FileStreamSourceLog`.
    """
    found = read(path)
    if found is None:
        path = f"{path}.compact"
        found = read(path)
    if found is None:
        return None
    try:
        fields = [parse_object(line) for line in found.splitlines()[1:]]
        return [
            f"{whole(entry, 'timestamp')} {string(entry, 'path')}"
            for entry in fields
            if whole(entry, "batchId", COUNT) == number
        ]
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} in the checkpoint is no log of a file source of Spark: {cause(error)}"
        ) from error


NOTHING_READ = "-"
_FORMAT = "stream"  # the checkpoint does not name it


def table_between(source: TableSource, start: str, end: str) -> TableSource:
    """What lies between two lines of a table source. Raises CorruptDataError, ValueError."""
    return read_between(source, _offset(start), _offset(end))


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


def foreign_between(start: str, end: str, *, format_name: str = _FORMAT, name: str | None = None) -> ForeignSource:
    """What lies between two lines of a source that is not a table, in its own notation."""
    before, after = (None if line == NOTHING_READ else line for line in (start, end))
    return ForeignSource(format=format_name, name=name, start=before, end=after)


def source_of_lines(start: str, end: str, *, find_branch: Callable[[str, str], TableSource | None]) -> Source:
    """What lies between two lines of a source about which nothing else is known. Raises CorruptDataError, ValueError.

    The line of a branch has the branch's own identity, which does not name its table: `find_branch` gives the source
    that has this identity, and has or had this name.
    """
    fields = _fields(end) or _fields(start)
    if fields is None:
        return foreign_between(start, end)
    uuid, name = optional(string, fields, "table"), optional(string, fields, "name")
    if not uuid or not name:
        return UnknownSource(why=f"a stream of {name or 'a table'}, of which the checkpoint does not say which it is")
    if BRANCH_INFIX not in uuid:
        return table_between(TableSource(table=name, uuid=uuid, mode=ReadMode.STREAM), start, end)
    branch = find_branch(uuid, name)
    if branch is None:
        return UnknownSource(
            why=f"a stream of {name}, which is not that branch in the warehouse of the written table: name its table's "
            f"folder and the branch in lineage.sources, such as /lake/db.db/t{BRANCH_INFIX}b"
        )
    return table_between(branch, start, end)


def _offset(line: str) -> Offset | None:
    fields = _fields(line)
    if fields is None:
        return None
    return offset_from_json(fields, TableMark(uuid=str(fields.get("table")), name=str(fields.get("name"))))


def _fields(line: str) -> Mapping[str, Any] | None:
    """The offset of a lakelog source in a line; None for another source."""
    try:
        fields = parse_json(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and OFFSET_MARK in fields else None
