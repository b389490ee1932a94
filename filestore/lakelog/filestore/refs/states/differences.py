"""The rows in which two states of a table differ, in bounded memory: for diffs, restores, and streams from a tag.

Rows with primary key are compared by key, others by how often they occur. Only parts that the states do not share are
read, unit by unit (`lakelog.filestore.refs.states.state_parts`). A file that both states have is in such a part if its
keys overlap with those of another file: then only the rows of the keys that may differ are looked up in it, if that is
known to be enough (`lakelog.filestore.refs.states.changed_keys`). The rows of a unit that exceed the memory budget go
to temporary files, split by key, and are compared part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField, RowKind
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import read_splits_as_changes
from lakelog.filestore.refs.states.changed_keys import rows_of_changed_keys
from lakelog.filestore.refs.states.row_equality import comparable
from lakelog.filestore.refs.states.state_parts import StateUnit, unshared
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.evolution import cast_values, check_cast
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_rules import KEY_PREFIX
from lakelog.filestore.write.key_parts import KeyParts

_COPIES = 6  # of a row in memory: of both states, as read, as compared and as returned
_ROW, _RANK, _NEW = "row", "rank", " after"
_SIDE = f"{KEY_PREFIX}after"  # no column of a table has this prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows in which two states differ: `old` and `new` are the same keys, row by row, before and after."""

    added: pa.Table
    removed: pa.Table
    old: pa.Table
    new: pa.Table
    changed_columns: Mapping[str, int]

    @property
    def row_count(self) -> int:
        """How many keys, or rows without key, differ."""
        return int(self.added.num_rows + self.removed.num_rows + self.old.num_rows)

    def changes(self) -> pa.Table:
        """The rows as changes: -D, then each -U followed by its +U, then +I; `_row_kind` is the first column."""
        count = self.old.num_rows
        pairs = pa.concat_tables([self.old, self.new]).take(pa.array(np.arange(2 * count).reshape(2, -1).T.ravel()))
        rows = pa.concat_tables([self.removed, pairs, self.added])
        numbers = np.concatenate(
            [
                np.full(self.removed.num_rows, int(RowKind.DELETE), np.int8),
                np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], np.int8), count),
                np.full(self.added.num_rows, int(RowKind.INSERT), np.int8),
            ]
        )
        kinds = pa.array(ROW_KIND_TEXTS).take(pa.array(numbers))
        return rows.add_column(0, pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), kinds)

    def changes_by_key(self, key_fields: Sequence[DataField]) -> tuple[pa.Table, npt.NDArray[np.int8]]:
        """The rows as changes with their kinds: in key order, -U before its +U; without key deletes, then inserts."""
        parts = (
            (self.removed, RowKind.DELETE),
            (self.old, RowKind.UPDATE_BEFORE),
            (self.new, RowKind.UPDATE_AFTER),
            (self.added, RowKind.INSERT),
        )
        rows = pa.concat_tables([part for part, _ in parts])
        kinds = np.concatenate([np.full(part.num_rows, int(kind), np.int8) for part, kind in parts])
        if not key_fields:
            return rows, kinds
        keys = key_frame(rows, key_fields)
        order = keys.with_row_index(_ROW).sort(keys.columns, maintain_order=True)[_ROW]
        return rows.take(order.to_arrow()), kinds[order.to_numpy()]


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
    before: TableState,
    after: TableState,
    fields: Sequence[DataField],
    *,
    budget_bytes: int | None = None,
    is_followed: bool = False,
) -> Iterator[Difference]:
    """The rows in which two states differ, in columns of `after`; a column that `before` lacks is null there.

    With a primary key `fields` must have its columns. `is_followed` is that of `unshared`.
    """
    for unit in unshared(before, after, is_followed=is_followed):
        yield from unit_differences(
            before.table, after.table, unit, fields, budget_bytes=budget_bytes, has_debts=is_followed
        )


def unit_differences(
    before: TableStore,
    after: TableStore,
    unit: StateUnit,
    fields: Sequence[DataField],
    *,
    budget_bytes: int | None = None,
    has_debts: bool = False,
) -> Iterator[Difference]:
    """The rows in which two states of a unit differ, a part of the keys at a time.

    With `has_debts`, rows of a value-count table that were deleted before they are inserted have a count below 0; else
    the difference is that of the rows which reads show. A count below 0 in one state counts as added rows in the other.
    """
    budget = READ_MEMORY_BUDGET.understood(after.schema.options) if budget_bytes is None else budget_bytes
    keys = after.schema.primary_keys
    looked_up = rows_of_changed_keys(before, after, unit, fields, budget_bytes=budget // _COPIES) if keys else None
    if looked_up is not None:
        schema = to_arrow_schema([_nullable(field) for field in fields])
        old, new = (rows.cast(schema) for rows in looked_up)
        found = _by_key(old, new, fields, keys)
        if found.row_count:
            yield found
        return
    hashed = [field for field in fields if (field.name in keys if keys else not field.type.is_nested)]
    with KeyParts(hashed or fields, budget_bytes=budget // _COPIES, frame_of=comparable) as parts:
        for is_after, table, splits in ((False, before, unit.before), (True, after, unit.after)):
            for rows, is_owed in _rows(table, splits, fields, budget, has_debts=has_debts):
                parts.add(rows.append_column(_SIDE, pa.array(is_owed != is_after)))
        for part in parts.parts():
            is_new = part.column(_SIDE)
            old, new = (part.filter(flags).drop_columns([_SIDE]) for flags in (pc.invert(is_new), is_new))
            found = _by_key(old, new, fields, keys) if keys else _by_count(old, new, fields)
            if found.row_count:
                yield found


def _rows(
    table: TableStore, splits: Sequence[DataSplit], fields: Sequence[DataField], budget_bytes: int, *, has_debts: bool
) -> Iterator[tuple[pa.Table, npt.NDArray[np.bool_]]]:
    """The rows of splits in the columns `fields` of another line, and those with a count below 0.

    Columns that the table lacks are null.
    """
    there = {field.name: field for field in table.schema.fields}
    read = [field.name for field in fields if field.name in there]
    schema = to_arrow_schema([_nullable(field) for field in fields])
    half = max(1, budget_bytes // 2)  # the other state is held meanwhile
    for batch, kinds in (
        read_splits_as_changes(table, splits, columns=read, batch_bytes=half // _COPIES, memory_budget_bytes=half)
        if splits
        else ()
    ):
        is_owed = ~are_adds(to_series(kinds)).to_numpy()
        rows = pa.Table.from_batches([batch])
        if not has_debts and is_owed.any():
            rows, is_owed = rows.filter(pa.array(~is_owed)), is_owed[~is_owed]
        columns = [
            cast_values(rows.column(field.name).combine_chunks(), there[field.name].type, field.type)
            if field.name in there
            else pa.nulls(rows.num_rows, schema.field(field.name).type)
            for field in fields
        ]
        yield pa.table(columns, schema=schema), is_owed


def _nullable(field: DataField) -> DataField:
    return DataField(id=field.id, name=field.name, type=field.type.with_nullable(True))


def _by_key(old: pa.Table, new: pa.Table, fields: Sequence[DataField], keys: Sequence[str]) -> Difference:
    names = [str(at) for at, field in enumerate(fields) if field.name in keys]
    values = {str(at): field.name for at, field in enumerate(fields) if field.name not in keys}
    ours = comparable(old, fields).with_row_index(_ROW)
    theirs = comparable(new, fields).with_row_index(_ROW)
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
    ours, theirs = (_ranked(comparable(rows, fields)) for rows in (old, new))
    names = [name for name in ours.columns if name != _ROW]
    return Difference(
        added=_taken(new, _absent(theirs, ours, names)),
        removed=_taken(old, _absent(ours, theirs, names)),
        old=old.schema.empty_table(),
        new=new.schema.empty_table(),
        changed_columns={},
    )


def _ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with their numbers, and of equal rows the first with the rank 0, the next with 1."""
    return frame.with_row_index(_ROW).with_columns(pl.int_range(pl.len()).over(frame.columns).alias(_RANK))


def _absent(rows: pl.DataFrame, others: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """The numbers of the rows that `others` lack."""
    return rows.join(others, on=list(names), how="anti", nulls_equal=True)[_ROW]


def _taken(rows: pa.Table, at: pl.Series) -> pa.Table:
    return rows.take(at.to_arrow()) if len(at) else rows.schema.empty_table()
