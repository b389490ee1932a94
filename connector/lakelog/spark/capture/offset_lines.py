"""What a micro-batch reads from a source, by the lines of the checkpoint's offset log at its beginning and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.json_fields import optional, parse_json, string
from lakelog.filestore.metadata.origins import ForeignSource, ReadMode, Source, TableSource, UnknownSource
from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.spark.source.reading.offset_lineage import read_between
from lakelog.spark.source.reading.offsets import OFFSET_MARK, Offset, TableMark, offset_from_json

NOTHING_READ = "-"
_FORMAT = "stream"  # the checkpoint does not name it


def table_between(source: TableSource, start: str, end: str) -> TableSource:
    """What lies between two lines of a table source. Raises CorruptDataError, ValueError."""
    return read_between(source, _offset(start), _offset(end))


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
