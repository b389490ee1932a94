"""What Spark's checkpoint says about a micro-batch: its source offsets, and the files that a file source has read.

The offset of a file source is a number in a log of its own, whose entries name files. A restored checkpoint may give
the same number to other files: a comparison of offsets alone would take other rows for a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, optional, parse_json, parse_object, string, whole
from lakelog.common.quoting import cause

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
