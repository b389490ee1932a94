"""The difference of two states of a table: how many rows were added, changed and removed, and which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.html import html_table
from lakelog.common.quoting import shown
from lakelog.common.timestamps import parse_timestamp
from lakelog.common.types import ROW_KIND_COLUMN, DataField
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.states.differences import Difference, compared_fields, differences
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.refs.states.travel import SnapshotChoice, chosen_state

DiffState = str | int | datetime | Snapshot | SnapshotChoice
SAMPLE_ROWS = 10


def state_of(table: TableStore, given: DiffState) -> TableState:
    """The state that an argument names: a string, a timestamp, a snapshot, or keywords such as `{"tag": "t"}`.

    A string is first read as in `VERSION AS OF`: a tag, a snapshot's number, `branch.tag`, `branch.snapshot` or a
    branch; then as a timestamp. 0 is the table before its first snapshot. Raises NotFoundError, InvalidRequestError.
    """
    if isinstance(given, Snapshot):
        return TableState(table=table, snapshot=given)
    if isinstance(given, Mapping):
        found, snapshot = chosen_state(table, given)
        return TableState(table=found, snapshot=snapshot)
    if isinstance(given, datetime):
        return _travelled(table, {"timestamp": given})
    if not isinstance(given, str | int) or isinstance(given, bool):
        raise InvalidRequestError(f"{shown(given)} names no state of a table; expected a snapshot, a tag or a time")
    try:
        return _travelled(table, {"version": given})
    except NotFoundError:
        if str(given).strip() == "0":
            return TableState(table=table, snapshot=None)
        millis = _millis(given)
        if millis is None:
            raise
        return _travelled(table, {"timestamp": millis})


def _travelled(table: TableStore, which: SnapshotChoice) -> TableState:
    found, snapshot = chosen_state(table, which)
    return TableState(table=found, snapshot=snapshot)


def _millis(given: str | int) -> int | None:
    try:
        return parse_timestamp(str(given))
    except InvalidRequestError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableDiff:
    """The difference of two states: rows added, changed and removed from `before` to `after`.

    `changed_columns` counts for each column the rows in which it changed. Without primary key a changed row is one
    removed and one added row. `sample` has the first changes: rows with their kinds, -D removed, -U and +U changed, +I
    added. `to_batches` reads all changes again.
    """

    name: str
    before: TableState
    after: TableState
    fields: tuple[DataField, ...]
    added: int
    changed: int
    removed: int
    changed_columns: Mapping[str, int]
    sample: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether the two states have the same rows."""
        return not (self.added or self.changed or self.removed)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All changes piece by piece; the first column is `_row_kind`."""
        for found in differences(self.before, self.after, self.fields):
            yield from found.changes().to_batches()

    def to_arrow(self) -> pa.Table:
        """All changes as an Arrow table."""
        return pa.Table.from_batches(list(self.to_batches()), schema=_change_schema(self.fields))

    def to_polars(self) -> pl.LazyFrame:
        """All changes as a lazy polars frame. They are read now."""
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame.lazy()

    def __repr__(self) -> str:
        counts = f"{self.added} added, {self.changed} changed, {self.removed} removed"
        return f"TableDiff({self.name!r}, {self.before.text} to {self.after.text}: {counts})"

    def _repr_html_(self) -> str:
        """The counts, as notebooks show them; no I/O."""
        rows = [("added", self.added), ("changed", self.changed), ("removed", self.removed)]
        rows += [(f"changed in {name}", count) for name, count in self.changed_columns.items()]
        return html_table(f"{self.name}, {self.before.text} to {self.after.text}", ("rows", "count"), rows)


def diff_states(
    table: TableStore,
    from_: DiffState,
    to: DiffState | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    sample: int = SAMPLE_ROWS,
) -> TableDiff:
    """The rows in which two states differ, in bounded memory. See `lakelog.catalog.Table.diff`.

    Raises InvalidRequestError for unknown columns and other keys.
    """
    after = state_of(table, {} if to is None else to)
    before = state_of(table, from_)
    columns = (columns,) if isinstance(columns, str) else columns
    fields = compared_fields(before.table.schema, after.table.schema, columns)
    added = changed = removed = 0
    by_column: Counter[str] = Counter()
    held = _Sample(sample, fields)
    for found in differences(before, after, fields):
        added += found.added.num_rows
        removed += found.removed.num_rows
        changed += found.old.num_rows
        by_column.update(found.changed_columns)
        held.add(found)
    return TableDiff(
        name=table.name,
        before=before,
        after=after,
        fields=fields,
        added=added,
        changed=changed,
        removed=removed,
        changed_columns={field.name: by_column[field.name] for field in fields if field.name in by_column},
        sample=held.changes(),
    )


class _Sample:
    """The first rows of each kind."""

    def __init__(self, count: int, fields: Sequence[DataField]) -> None:
        self._count = count
        nothing = _change_schema(fields).remove(0).empty_table()
        self._held = Difference(added=nothing, removed=nothing, old=nothing, new=nothing, changed_columns={})

    def add(self, found: Difference) -> None:
        """Take rows of a difference, while there are too few."""
        held, count = self._held, self._count
        self._held = Difference(
            added=_first(held.added, found.added, count),
            removed=_first(held.removed, found.removed, count),
            old=_first(held.old, found.old, count),
            new=_first(held.new, found.new, count),
            changed_columns={},
        )

    def changes(self) -> pa.Table:
        """The rows with their kinds."""
        return self._held.changes()


def _first(held: pa.Table, more: pa.Table, count: int) -> pa.Table:
    left = count - held.num_rows
    return pa.concat_tables([held, more.slice(0, left)]) if left > 0 and more.num_rows else held


def _change_schema(fields: Sequence[DataField]) -> pa.Schema:
    kind = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
    return pa.schema([kind, *(field.with_nullable(True) for field in to_arrow_schema(fields))])
