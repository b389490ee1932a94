"""The system tables of a warehouse: `sys.tables`, `sys.partitions`, `sys.all_table_options`, and those that are stored.

The stored ones and their views are those of `lakelog.warehouse.lineage_tables`; `sys.catalog_options` shows the stored
options, overridden by those of the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakelog.common.errors import NotFoundError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField
from lakelog.filestore.system import WAREHOUSE_COLUMNS, RowsOf, SystemTable, arrow_rows
from lakelog.logstore.client_settings import is_secret
from lakelog.warehouse.identifier import Identifier
from lakelog.warehouse.lineage_tables import (
    STORED_TABLES,
    VIEW_COLUMNS,
    VIEWS,
    columns_of,
    view_columns_behind,
    view_rows,
)
from lakelog.warehouse.system_database import SystemDatabase
from lakelog.warehouse.system_names import SYSTEM_DATABASE

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.table_opener import TableOpener
    from lakelog.catalog.verbs.table import Table

# The system tables of a warehouse with their columns.
SYSTEM_TABLES: Mapping[str, tuple[DataField, ...]] = {
    **{name: table.fields for name, table in STORED_TABLES.items()},
    **{name: columns_of(VIEW_COLUMNS) for name in VIEWS},
    **WAREHOUSE_COLUMNS,
}
_HIDDEN = "******"
_SUMS = ("record_count", "file_size_in_bytes", "file_count", "last_update_time")
Row = tuple[object, ...]
_Sums = tuple[str, int, int, int, int | None]


def warehouse_table(catalog: TableOpener, name: str, options: Mapping[str, str]) -> SystemTable:
    """The system table `sys.<name>` of a warehouse. Raises NotFoundError, naming the existing ones."""
    if name not in SYSTEM_TABLES:
        near = get_close_matches(name, SYSTEM_TABLES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(SYSTEM_TABLES)}"
        raise NotFoundError(f"the database {SYSTEM_DATABASE!r} has no system table {name!r}; {hint}")
    fields = SYSTEM_TABLES[name]
    rows_of: RowsOf
    if name in WAREHOUSE_COLUMNS:
        rows_of = lambda _: iter([arrow_rows(fields, _rows(catalog, name, options))])  # noqa: E731  # one of two
    else:
        rows_of = lambda columns: iter([_stored_rows(catalog, name, columns)])  # noqa: E731  # likewise
    return SystemTable(name=f"{SYSTEM_DATABASE}.{name}", fields=fields, rows_of=rows_of)


def _stored_rows(catalog: TableOpener, name: str, columns: Sequence[str]) -> pa.Table:
    database = SystemDatabase.of(catalog)
    if name in VIEWS:
        return view_rows(database.rows(VIEWS[name], list(view_columns_behind(columns))), columns)
    return database.rows(STORED_TABLES[name], columns)


def _rows(catalog: TableOpener, name: str, options: Mapping[str, str]) -> Iterable[Row]:
    match name:
        case "tables":
            return _tables(catalog)
        case "partitions":
            return _partitions(catalog)
        case "all_table_options":
            return _table_options(catalog)
        case _:
            stored = SystemDatabase.of(catalog).options()
            return shown_options({"warehouse": catalog.warehouse, **stored, **options})


def _opened(catalog: TableOpener) -> Iterator[tuple[str, str, Table]]:
    """The tables of a warehouse with their names, without the system tables."""
    for database, name, store in catalog.stores():
        yield database, name, catalog._with_log(store, Identifier(database, name), is_to_be_mended=True)


def _tables(catalog: TableOpener) -> Iterator[Row]:
    for database, name, table in _opened(catalog):
        schema, sums = table.schema, _sums(table)
        schemas = table.system.table("schemas").to_arrow(columns=["update_time"])["update_time"].cast("int64")
        yield (
            database,
            name,
            schema.options.get("type", "table"),
            bool(schema.partition_keys),
            bool(schema.primary_keys),
            schema.options.get("owner"),
            schemas[0].as_py(),
            None,
            schemas[-1].as_py(),
            None,
            sum(one[1] for one in sums),
            sum(one[2] for one in sums),
            sum(one[3] for one in sums),
            max((one[4] for one in sums if one[4] is not None), default=None),
        )


def _sums(table: Table) -> Sequence[_Sums]:
    """The partitions of the newest snapshot: name, rows in files, bytes, files, and when the last file was created."""
    found = table.system.table("partitions").to_arrow(columns=["partition", *_SUMS])
    times = found["last_update_time"].cast("int64")
    return list(zip(*(column.to_pylist() for column in (*found.columns[:-1], times)), strict=True))


def _partitions(catalog: TableOpener) -> Iterator[Row]:
    for database, name, table in _opened(catalog):
        if table.schema.partition_keys:
            for partition, rows, size, files, last in _sums(table):
                yield database, name, partition, rows, size, files, last, False


def _table_options(catalog: TableOpener) -> Iterator[Row]:
    for database, name, table in _opened(catalog):
        for key, value in shown_options(table.schema.options):
            yield database, name, key, value


def shown_options(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Options, without the values that may be secret."""
    return [(key, _HIDDEN if is_secret(key) else value) for key, value in sorted(options.items())]
