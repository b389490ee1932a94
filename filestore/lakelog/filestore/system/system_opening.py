"""A system table of a table, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Unpack

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.html import html_table
from lakelog.common.quoting import listed, shown, unicode_of
from lakelog.common.types import DataField
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import Predicate, RowTest, predicate_of
from lakelog.filestore.refs.states.travel import SnapshotChoice, check_words, snapshot_of, travelled
from lakelog.filestore.system import file_tables, metadata_tables, row_tables
from lakelog.filestore.system.audit_range import audit_changes
from lakelog.filestore.system.row_tables import row_table_fields
from lakelog.filestore.system.system_columns import ROW_TABLES, SYSTEM_COLUMNS, SYSTEM_NAMES

if TYPE_CHECKING:
    import pandas as pd

# Returns the rows in the columns with these names, and maybe in more columns.
RowsOf = Callable[[Sequence[str]], Iterator[pa.RecordBatch | pa.Table]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """A system table of a table or of a warehouse, such as `db.flights$files`. Each read sees the newest state.

    Columns that are not requested are not computed.
    """

    name: str
    fields: tuple[DataField, ...]
    rows_of: RowsOf

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow gives them."""
        return to_arrow_schema(self.fields)

    def to_batches(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece. `columns` and `where` are as in the reads of a table.

        Raises InvalidRequestError for columns that the system table lacks.
        """
        chosen = self._chosen(columns)
        predicate = predicate_of(where)
        test = None if predicate is None else RowTest(predicate, self.fields)
        return self._batches(chosen, test)

    def _batches(self, chosen: Sequence[DataField], test: RowTest | None) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in chosen]
        tested = [] if test is None else [field.name for field in test.columns if field.name not in names]
        schema = to_arrow_schema(chosen)
        for rows in self.rows_of([*names, *tested]):
            table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
            kept = table if test is None else table.filter(test.passing(table))
            yield from (batch for batch in kept.select(names).cast(schema).to_batches() if batch.num_rows)

    def _chosen(self, columns: str | Sequence[str] | None) -> tuple[DataField, ...]:
        if columns is None:
            return self.fields
        by_name = {field.name: field for field in self.fields}
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise InvalidRequestError(f"{self.name} has no column {listed(unknown)}; its columns are {listed(by_name)}")
        return tuple(by_name[name] for name in names)

    def to_arrow(self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None) -> pa.Table:
        """The rows as an Arrow table."""
        batches = self.to_batches(columns=columns, where=where)
        return pa.Table.from_batches(list(batches), schema=to_arrow_schema(self._chosen(columns)))

    def to_polars(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pl.LazyFrame:
        """The rows as a lazy polars frame. They are read now."""
        frame = pl.from_arrow(self.to_arrow(columns=columns, where=where))
        assert isinstance(frame, pl.DataFrame)
        return frame.lazy()

    def to_pandas(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas."""
        frame: pd.DataFrame = self.to_arrow(columns=columns, where=where).to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def __repr__(self) -> str:
        columns = listed(f"{field.name} {field.type}" for field in self.fields)
        return f"SystemTable({self.name!r}, {columns})"

    def _repr_html_(self) -> str:
        """The columns, as notebooks show them; no I/O."""
        return html_table(self.name, ("column", "type"), [(field.name, str(field.type)) for field in self.fields])


# Those that show the newest state, or the one of a snapshot.
AT_SNAPSHOT = (
    *("files", "file_key_ranges", "manifests", "partitions", "buckets", "table_indexes", "statistics"),
    *ROW_TABLES,
)
OVER_RANGE = ("audit_log", "binlog")
_OF_TABLE: dict[str, Callable[[TableStore], Iterable[metadata_tables.Row]]] = {
    "snapshots": metadata_tables.snapshots,
    "schemas": metadata_tables.schemas,
    "options": metadata_tables.options,
    "tags": metadata_tables.tags,
    "branches": metadata_tables.branches,
    "consumers": metadata_tables.consumers,
    "aggregation_fields": metadata_tables.aggregation_fields,
}
_OF_SNAPSHOT: dict[str, Callable[[TableStore, Snapshot | None], Iterable[metadata_tables.Row] | pa.Table]] = {
    "manifests": file_tables.manifests,
    "partitions": file_tables.partitions,
    "buckets": file_tables.buckets,
    "table_indexes": file_tables.table_indexes,
    "statistics": metadata_tables.statistics,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The state that a system table shows: a snapshot, or the changes after one up to another one.

    `snapshot` returns the snapshot when it is called; `named` are the arguments that name it.
    """

    snapshot: Callable[[], Snapshot | None]
    named: tuple[str, ...] = ()
    after: int | None = None
    up_to: int | None = None

    @property
    def is_range(self) -> bool:
        """Whether changes are shown."""
        return self.after is not None or self.up_to is not None


def open_system_table(
    table: TableStore,
    name: str,
    *,
    after: int | None = None,
    up_to: int | None = None,
    **which: Unpack[SnapshotChoice],
) -> SystemTable:
    """A system table, such as `files`, `snapshots` or `tags`. See `lakelog.catalog.Table.system.table`.

    Raises NotFoundError for an unknown name, and InvalidRequestError for arguments that the system table does not take.
    """
    check_words(which)
    named = tuple(key for key, value in which.items() if value is not None and key != "branch")
    line, found = travelled(table, which)
    full_name = f"{line.name}${name}"
    state = Shown(snapshot=lambda: found if named else snapshot_of(line, {}), named=named, after=after, up_to=up_to)
    if not isinstance(name, str) or name not in SYSTEM_NAMES:
        near = get_close_matches(str(name), SYSTEM_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(SYSTEM_NAMES)}"
        raise NotFoundError(f"there is no system table {shown(name)}; {hint}")
    _check_state(name, state, full_name)
    fields = row_table_fields(line.schema, name) if name in ROW_TABLES else SYSTEM_COLUMNS[name]
    return SystemTable(name=full_name, fields=fields, rows_of=_rows_of(line, name, fields, state))


def _check_state(name: str, state: Shown, full_name: str) -> None:
    if state.named and name not in AT_SNAPSHOT:
        raise InvalidRequestError(
            f"{full_name} shows no single snapshot: leave out {listed(state.named)}; those that do are "
            f"{listed(AT_SNAPSHOT)}"
        )
    if state.is_range and name not in OVER_RANGE:
        raise InvalidRequestError(f"{full_name} shows no changes: after and up_to go with {listed(OVER_RANGE)}")
    if state.is_range and state.named:
        raise InvalidRequestError(
            f"{listed(state.named)} names a snapshot, and after and up_to changes: give one of both"
        )


def _rows_of(table: TableStore, name: str, fields: Sequence[DataField], state: Shown) -> RowsOf:
    if name in ("files", "file_key_ranges"):
        return lambda names: file_tables.files(table, state.snapshot(), names)
    if name in _OF_TABLE:
        return lambda _: iter([arrow_rows(fields, _OF_TABLE[name](table))])
    if name in OVER_RANGE:
        return lambda names: _audited(table, name, names, state)
    if name in ROW_TABLES:
        rows_of = row_tables.read_optimized if name == "ro" else row_tables.row_tracking
        return lambda names: rows_of(table, state.snapshot(), names)
    return lambda _: iter([_shown(fields, _OF_SNAPSHOT[name](table, state.snapshot()))])


def _audited(table: TableStore, name: str, names: Sequence[str], state: Shown) -> Iterator[pa.Table]:
    if state.is_range:
        changes = audit_changes(table, names, after=state.after, up_to=state.up_to)
    else:
        changes = row_tables.audit_log(table, state.snapshot(), names)
    return changes if name == "audit_log" else row_tables.packed(changes, names)


def _shown(fields: Sequence[DataField], rows: Iterable[metadata_tables.Row] | pa.Table) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else arrow_rows(fields, rows)


def arrow_rows(fields: Sequence[DataField], rows: Iterable[metadata_tables.Row]) -> pa.Table:
    """Rows of plain values as columns; a timestamp is an int of milliseconds."""
    schema = to_arrow_schema(fields)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array([unicode_of(one) if isinstance(one, str) else one for one in values], field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)
