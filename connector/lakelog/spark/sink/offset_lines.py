"""What a micro-batch reads of one source, by the lines of the checkpoint's offset log at its beginning and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.json_fields import optional, parse_json, string
from lakelog.filestore.schema.paths import BRANCH_INFIX
from lakelog.lineage.record import ForeignSource, ReadMode, Source, TableSource, UnknownSource
from lakelog.spark.source.offset_lineage import read_between
from lakelog.spark.source.offsets import OFFSET_MARK, Offset, TableMark, offset_from_json

NOTHING_READ = "-"
_FORMAT = "stream"  # the checkpoint does not name it


def table_between(source: TableSource, start: str, end: str) -> TableSource:
    """What lies between two lines of a table. Raises CorruptDataError, ValueError."""
    return read_between(source, _offset(start), _offset(end))


def foreign_between(start: str, end: str, *, format_name: str = _FORMAT, name: str | None = None) -> ForeignSource:
    """What lies between two lines of another source, as that writes them."""
    before, after = (None if line == NOTHING_READ else line for line in (start, end))
    return ForeignSource(format=format_name, name=name, start=before, end=after)


def source_of_lines(start: str, end: str) -> Source:
    """What lies between two lines of a source of which nothing else is known. Raises CorruptDataError, ValueError."""
    fields = _fields(end) or _fields(start)
    if fields is None:
        return foreign_between(start, end)
    uuid, name = optional(string, fields, "table"), optional(string, fields, "name")
    if not uuid or not name or BRANCH_INFIX in uuid:
        return UnknownSource(why=f"a stream of {name or 'a table'}, of which the checkpoint does not say which it is")
    return table_between(TableSource(table=name, uuid=uuid, mode=ReadMode.STREAM), start, end)


def _offset(line: str) -> Offset | None:
    fields = _fields(line)
    if fields is None:
        return None
    return offset_from_json(fields, TableMark(uuid=str(fields.get("table")), name=str(fields.get("name"))))


def _fields(line: str) -> Mapping[str, Any] | None:
    """The offset of a lakelog source in a line; None for another source's."""
    try:
        fields = parse_json(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and OFFSET_MARK in fields else None
