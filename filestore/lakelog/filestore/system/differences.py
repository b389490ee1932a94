"""The rows in which two states of a table differ, in bounded memory.

Rows with primary key are compared by key, others by how often they are there. Only parts that the states do not share
are read, unit by unit (`lakelog.filestore.system.state_parts`); a unit that is larger than the memory budget is read
several times, each time for a part of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN, DataField
from lakelog.filestore.data.data_reader import row_bytes
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.evolution import cast_values, check_cast
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.system.state_parts import TableState, Unit, unshared

_COPIES = 6  # of a row in memory: of both states, as read, as compared and as given
_ROW, _RANK, _NEW = "row", "rank", " after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows in which two states differ: `old` and `new` are the same keys, row by row, before and after."""

    added: pa.Table
    removed: pa.Table
    old: pa.Table
    new: pa.Table
    changed_columns: Mapping[str, int]

    def changes(self) -> pa.Table:
        """The rows as changes: -D, then -U with its +U behind it, then +I; `_row_kind` is the first column."""
        pairs = pa.concat_tables([self.old, self.new])
        count = self.old.num_rows
        order = pa.array([at for row in range(count) for at in (row, count + row)], pa.int64())
        kinds = ["-D"] * self.removed.num_rows + ["-U", "+U"] * count + ["+I"] * self.added.num_rows
        rows = pa.concat_tables([self.removed, pairs.take(order), self.added])
        return rows.add_column(0, pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), pa.array(kinds, pa.string()))


def compared_fields(before: TableSchema, after: TableSchema, columns: Sequence[str] | None) -> tuple[DataField, ...]:
    """The columns in which states of these schemas are compared: those of `after`, or the chosen ones and its key.

    Raises InvalidRequestError for an unknown column, and for schemas with other primary keys.
    """
    if before.primary_keys != after.primary_keys:
        raise InvalidRequestError(
            f"the two states have the primary keys {listed(before.primary_keys) or 'none'} and "
            f"{listed(after.primary_keys) or 'none'}: rows cannot be compared by key"
        )
    chosen = {field.name for field in after.chosen(columns)} | set(after.primary_keys)
    found = tuple(field for field in after.fields if field.name in chosen)
    there = {field.name: field for field in before.fields}
    for field in found:
        if field.name in there:
            check_cast(there[field.name].type, field.type, name=field.name)
    return found


def differences(
    before: TableState, after: TableState, fields: Sequence[DataField], *, budget_bytes: int | None = None
) -> Iterator[Difference]:
    """The rows in which two states differ, in columns of `after`; a column that `before` lacks is null there."""
    for unit in unshared(before, after):
        yield from unit_differences(before.table, after.table, unit, fields, budget_bytes=budget_bytes)


def unit_differences(
    before: TableStore, after: TableStore, unit: Unit, fields: Sequence[DataField], *, budget_bytes: int | None = None
) -> Iterator[Difference]:
    """The rows in which two states of a unit differ, a part of the keys at a time."""
    budget = READ_MEMORY_BUDGET.of(after.schema.options) if budget_bytes is None else budget_bytes
    keys = after.schema.primary_keys
    rows = sum(split.row_count for split in (*unit.before, *unit.after))
    passes = max(1, -(-rows * row_bytes(fields) * _COPIES // max(1, budget)))
    for number in range(passes):
        old = _rows(before, unit.before, fields, keys, (number, passes))
        new = _rows(after, unit.after, fields, keys, (number, passes))
        yield _by_key(old, new, fields, keys) if keys else _by_count(old, new, fields)


def _rows(
    table: TableStore,
    splits: Sequence[DataSplit],
    fields: Sequence[DataField],
    keys: Sequence[str],
    part: tuple[int, int],
) -> pa.Table:
    """The rows of splits whose keys fall into the part `number` of `passes`."""
    number, passes = part
    there = {field.name: field for field in table.schema.fields}
    read = [field.name for field in fields if field.name in there]
    schema = to_arrow_schema([_nullable(field) for field in fields])
    kept: list[pa.Table] = []
    for batch in read_splits(table, splits, columns=read) if splits else ():
        rows = pa.Table.from_batches([batch])
        columns = [
            cast_values(rows.column(field.name).combine_chunks(), there[field.name].type, field.type)
            if field.name in there
            else pa.nulls(rows.num_rows, schema.field(field.name).type)
            for field in fields
        ]
        whole = pa.table(columns, schema=schema)
        if passes > 1:
            hashes = _comparable(whole, [field for field in fields if not keys or field.name in keys]).hash_rows()
            whole = whole.filter((hashes % passes == number).to_arrow())
        kept.append(whole)
    return pa.concat_tables(kept) if kept else schema.empty_table()


def _nullable(field: DataField) -> DataField:
    return DataField(id=field.id, name=field.name, type=field.type.with_nullable(True))


def _comparable(rows: pa.Table, fields: Sequence[DataField]) -> pl.DataFrame:
    """Columns `0`, `1`, ... that are equal where values are the same, -0.0 and 0.0 apart; nested ones are JSON."""
    columns = []
    for at, field in enumerate(fields):
        if field.type.is_nested:
            lines = to_json_lines(rows.select([field.name]), [field])
            columns.append(pl.Series(str(at), lines, dtype=pl.String))
        else:
            columns.append(key_frame(rows, [field]).to_series().alias(str(at)))
    return pl.DataFrame(columns)


def _by_key(old: pa.Table, new: pa.Table, fields: Sequence[DataField], keys: Sequence[str]) -> Difference:
    names = [str(at) for at, field in enumerate(fields) if field.name in keys]
    values = {str(at): field.name for at, field in enumerate(fields) if field.name not in keys}
    ours = _comparable(old, fields).with_row_index(_ROW)
    theirs = _comparable(new, fields).with_row_index(_ROW)
    both = ours.join(theirs, on=names, how="inner", nulls_equal=True, suffix=_NEW, maintain_order="left")
    differs = both.select(pl.col(name).ne_missing(pl.col(f"{name}{_NEW}")) for name in values)
    is_changed = differs.select(pl.any_horizontal(pl.all())).to_series() if values else pl.Series(dtype=pl.Boolean)
    changed = both.filter(is_changed) if values else both.clear()
    counts = {column: int(differs[name].sum()) for name, column in values.items()}
    return Difference(
        added=_taken(new, _absent(theirs, ours, names)),
        removed=_taken(old, _absent(ours, theirs, names)),
        old=_taken(old, changed[_ROW]),
        new=_taken(new, changed[f"{_ROW}{_NEW}"]),
        changed_columns={name: count for name, count in counts.items() if count},
    )


def _by_count(old: pa.Table, new: pa.Table, fields: Sequence[DataField]) -> Difference:
    """Rows without key: the n-th of equal rows is the same row in both states."""
    ours, theirs = (_ranked(_comparable(rows, fields)) for rows in (old, new))
    names = [name for name in ours.columns if name != _ROW]
    return Difference(
        added=_taken(new, _absent(theirs, ours, names)),
        removed=_taken(old, _absent(ours, theirs, names)),
        old=old.slice(0, 0),
        new=new.slice(0, 0),
        changed_columns={},
    )


def _ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with their numbers, and of equal rows the first with the rank 0, the next with 1."""
    return frame.with_row_index(_ROW).with_columns(pl.int_range(pl.len()).over(frame.columns).alias(_RANK))


def _absent(rows: pl.DataFrame, others: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """The numbers of the rows that `others` lack."""
    return rows.join(others, on=list(names), how="anti", nulls_equal=True)[_ROW]


def _taken(rows: pa.Table, at: pl.Series) -> pa.Table:
    return rows.take(at.to_arrow()) if len(at) else rows.slice(0, 0)
