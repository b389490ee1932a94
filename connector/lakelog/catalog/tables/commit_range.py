"""The range of CHANGES FROM ... TO ...: two ends, each with its commit or without it.

Source: Spark, `org.apache.spark.sql.connector.catalog.ChangelogRange`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.refs import RangeEnd, RangeName, range_end

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable

_MILLI = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """What a statement says: versions as numbers or tags, or times; without `last` the range ends at the newest."""

    first: RangeName
    last: RangeName | None
    includes_first: bool = True
    includes_last: bool = True

    def ends(self, table: FileStoreTable) -> tuple[RangeEnd, RangeEnd | None]:
        """The states between which the changes are: the first one is not among them.

        Raises InvalidRequestError for a range that ends before it begins, and for a version that does not exist yet.
        """
        first, last = self.first, self.last
        is_named = last is not None and not isinstance(first, datetime)
        if is_named and _number(table, first) > _number(table, last):  # type: ignore[arg-type]  # not None
            raise InvalidRequestError(
                f"the changes of table {table.name} from version {first} to {last} end before they begin"
            )
        after = _start(table, first, is_inclusive=self.includes_first)
        up_to = None if last is None else _end(table, last, is_inclusive=self.includes_last)
        newest = table.snapshots.latest_id() or 0
        for end in (after, up_to):
            if end is not None and end.number > newest:
                raise InvalidRequestError(f"table {table.name} has no version {end.number}; its newest is {newest}")
        if up_to is not None and up_to.number < after.number:
            raise InvalidRequestError(f"the changes of table {table.name} from {first} to {last} end before they begin")
        return after, up_to


def _number(table: FileStoreTable, name: RangeName) -> int:
    return range_end(table, name, "CHANGES").number


def _start(table: FileStoreTable, first: RangeName, *, is_inclusive: bool) -> RangeEnd:
    if isinstance(first, datetime):
        return range_end(table, first - _MILLI if is_inclusive else first, "FROM TIMESTAMP")
    end = range_end(table, first, "FROM VERSION")
    return RangeEnd(number=max(0, end.number - 1)) if is_inclusive else end


def _end(table: FileStoreTable, last: RangeName, *, is_inclusive: bool) -> RangeEnd:
    if isinstance(last, datetime):
        return range_end(table, last if is_inclusive else last - _MILLI, "TO TIMESTAMP")
    end = range_end(table, last, "TO VERSION")
    return end if is_inclusive else RangeEnd(number=max(0, end.number - 1))
