"""The row groups of a Parquet file that may hold rows which pass a filter, by the statistics in its footer."""

from __future__ import annotations

import operator
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from lakelog.common.types import DataField
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.formats.parquet.parquet_footer import I64, GroupBounds
from lakelog.filestore.formats.parquet.parquet_layout import stored_type
from lakelog.filestore.predicate import Bound, ColumnBounds, may_hold
from lakelog.filestore.predicate.binding import BoundAnd, BoundCompare, BoundOr
from lakelog.filestore.predicate.tree import Comparison
from lakelog.filestore.schema.evolution import keeps_order

Groups = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A read needs no rows that fail `bound`, as far as the columns `names` show; None means all columns."""

    bound: Bound
    names: Set[str] | None = None


def groups_left(
    file: ParquetFile, rows: RowFilter, fields: Sequence[DataField], stored: Sequence[DataField]
) -> list[int]:
    """The row groups that may hold needed rows.

    `fields` are the columns of the table's schema, `stored` those of the file's: they share ids.
    """
    left: list[int] = np.flatnonzero(_left(rows.bound, _Columns(file, rows.names, fields, stored))).tolist()
    return left


class _Columns:
    """The columns of a file whose bounds can be compared with a filter's values; looked up on demand."""

    def __init__(
        self, file: ParquetFile, names: Set[str] | None, fields: Sequence[DataField], stored: Sequence[DataField]
    ) -> None:
        self.row_counts = [count for count, _ in file.row_groups]
        self._file = file
        self._names = names
        self._fields = fields
        self._stored = stored
        self._found: dict[str, GroupBounds | None] = {}

    def bounds(self, name: str) -> GroupBounds | None:
        """The bounds of a column of the table's schema; None if nothing is known."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> GroupBounds | None:
        if self._names is not None and name not in self._names:
            return None
        field = next(field for field in self._fields if field.name == name)
        own = next((own for own in self._stored if own.id == field.id), None)
        if own is None or not keeps_order(own.type, field.type):
            return None
        is_as_stored = self._file.arrow_type(own.name) == stored_type(own.type)
        return self._file.stored_bounds_of(own.name, own.type) if is_as_stored else None


def _left(bound: Bound, columns: _Columns) -> Groups:
    """For each row group whether it may hold rows that pass."""
    if isinstance(bound, BoundAnd):
        return reduce(operator.and_, (_left(part, columns) for part in bound.parts))
    if isinstance(bound, BoundOr):
        return reduce(operator.or_, (_left(part, columns) for part in bound.parts))
    if isinstance(bound, BoundCompare) and type(bound.value) is int:
        known = columns.bounds(bound.field.name)
        if known is not None and known.integers is not None:
            left: Groups = _compared(bound.operator, bound.value, *known.integers) & _present(known, columns)
            return left
    count = len(columns.row_counts)
    return np.fromiter((may_hold(bound, _GroupBounds(columns, group)) for group in range(count)), np.bool_, count)


def _present(known: GroupBounds, columns: _Columns) -> Groups:
    return np.array([nulls != rows for nulls, rows in zip(known.nulls, columns.row_counts, strict=True)], np.bool_)


def _compared(comparison: Comparison, value: int, least: I64, most: I64) -> Groups:
    """`may_hold` of a comparison, for all row groups at once."""
    match comparison:
        case Comparison.EQ:
            holds: Groups = (least <= value) & (most >= value)
            return holds
        case Comparison.NE:
            differs: Groups = (least != value) | (most != value)
            return differs
        case Comparison.LT:
            return least < value
        case Comparison.LE:
            return least <= value
        case Comparison.GT:
            return most > value
        case Comparison.GE:
            return most >= value


class _GroupBounds:
    """The bounds of one row group."""

    def __init__(self, columns: _Columns, group: int) -> None:
        self._columns = columns
        self._group = group

    def get(self, name: str, /) -> ColumnBounds | None:
        """The bounds of a column of the table's schema."""
        known = self._columns.bounds(name)
        if known is None:
            return None
        nulls, most = known.nulls[self._group], known.most[self._group]
        return ColumnBounds(
            least=known.least[self._group],
            # Parquet's bounds lack NaN, which is the largest number.
            most=None if isinstance(most, float) else most,
            may_be_null=nulls != 0,
            may_be_present=nulls is None or nulls != self._columns.row_counts[self._group],
        )
