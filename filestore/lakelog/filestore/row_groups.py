"""Which row groups of a Parquet file may hold rows that pass a filter, by the statistics in its footer."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.evolution import keeps_order
from lakelog.filestore.formats.parquet import ParquetFile, stored_type
from lakelog.filestore.formats.parquet_bounds import bounds_in_footer, leaves_of, null_count_in_footer
from lakelog.filestore.predicate import Bound, ColumnBounds, may_hold

_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Rows that nobody needs: those that fail `bound`, judged by the columns `names` alone, or None by all."""

    bound: Bound
    names: Set[str] | None = None


def groups_left(
    file: ParquetFile, rows: RowFilter, fields: Sequence[DataField], stored: Sequence[DataField]
) -> list[int]:
    """The row groups that may hold rows that are needed.

    `fields` are the columns of the table's schema, `stored` those of the file's: they share ids.
    """
    count = file.footer.num_row_groups
    known = _Columns(file, rows.names, fields, stored)
    return [group for group in range(count) if may_hold(rows.bound, _GroupBounds(known, group))]


class _Columns:
    """The columns of a file whose bounds can be compared with those of a filter."""

    def __init__(
        self, file: ParquetFile, names: Set[str] | None, fields: Sequence[DataField], stored: Sequence[DataField]
    ) -> None:
        self.footer = file.footer
        leaves = leaves_of(self.footer)
        by_id = {field.id: field for field in stored}
        self.found: dict[str, tuple[DataField, int]] = {}
        for field in fields:
            own = by_id.get(field.id)
            if own is None or own.name not in leaves or (names is not None and field.name not in names):
                continue
            if keeps_order(own.type, field.type) and file.arrow_type(own.name) == stored_type(own.type):
                self.found[field.name] = (own, leaves[own.name])


class _GroupBounds:
    """The bounds of one row group, read when they are asked for."""

    def __init__(self, columns: _Columns, group: int) -> None:
        self._columns = columns
        self._group = group

    def get(self, name: str, /) -> ColumnBounds | None:
        """What is known of a column of the table's schema."""
        found = self._columns.found.get(name)
        if found is None:
            return None
        field, leaf = found
        footer = self._columns.footer
        bounds = bounds_in_footer(field.type, footer, leaf, [self._group])
        nulls = null_count_in_footer(footer, leaf, self._group)
        least, most = bounds if bounds is not None else (None, None)
        if field.type.root in _FLOATS:  # Parquet's bounds leave NaN out, which is more than any other number
            most = None
        return ColumnBounds(
            least=least,
            most=most,
            may_be_null=nulls != 0,
            may_be_present=nulls is None or nulls != footer.row_group(self._group).num_rows,
        )
