"""The system tables of a warehouse: `sys.tables`, `sys.partitions`, `sys.all_table_options`, and those that are stored.

The stored ones and their views are those of `lakelog.catalog.system.lineage_tables`; `sys.catalog_options` shows what
is stored, with the options of the catalog in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakelog.catalog.names.identifier import Identifier
from lakelog.catalog.names.system_names import STORED_DATABASE, SYSTEM_DATABASE
from lakelog.catalog.system.lineage_tables import (
    STORED_TABLES,
    VIEW_COLUMNS,
    VIEWS,
    columns_of,
    view_columns_behind,
    view_rows,
)
from lakelog.catalog.system.system_database import SystemDatabase
from lakelog.common.errors import CorruptDataError, LakelogError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField
from lakelog.filestore.io.path_forms import DATABASE_SUFFIX
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.system.columns import WAREHOUSE_COLUMNS
from lakelog.filestore.system.opening import arrow_rows
from lakelog.filestore.system.system_table import RowsOf, SystemTable
from lakelog.logstore.client_settings import is_secret

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.warehouse import Warehouse
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
OnError = Callable[[str, str, LakelogError], None]
_Sums = tuple[str, int, int, int, int | None]


def warehouse_table(catalog: Warehouse, name: str, options: Mapping[str, str]) -> SystemTable:
    """The system table `sys.<name>` of a warehouse. Raises NotFoundError, naming those that exist."""
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


def _stored_rows(catalog: Warehouse, name: str, columns: Sequence[str]) -> pa.Table:
    database = SystemDatabase.of(catalog)
    if name in VIEWS:
        return view_rows(database.rows(VIEWS[name], list(view_columns_behind(columns))), columns)
    return database.rows(STORED_TABLES[name], columns)


def _rows(catalog: Warehouse, name: str, options: Mapping[str, str]) -> Iterable[Row]:
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


def all_tables(catalog: Warehouse, *, on_error: OnError | None = None) -> Iterator[tuple[str, str, Table]]:
    """The tables of a warehouse, with their names; without the system tables.

    A table that cannot be opened raises, or is given to `on_error` with its name, its folder and the error; so are
    folders that hold snapshots and no schema.
    """
    listed_names: set[str] = set()
    for database in catalog.list_databases():
        if database == SYSTEM_DATABASE:
            continue
        for name in catalog._tables_of(database):  # none, where it was dropped since
            listed_names.add(f"{database}.{name}")
            try:
                table = catalog.table(f"{database}.{name}", is_to_be_mended=True)
            except NotFoundError:  # dropped since the folder was listed
                continue
            except LakelogError as error:
                if on_error is None:
                    raise
                on_error(f"{database}.{name}", Identifier(database, name).path(catalog.warehouse), error)
                continue
            yield database, name, table
    if on_error is not None:
        for name, path in _without_schema(catalog, listed_names):
            reason = f"{path} holds snapshots and no schema file (schema/schema-N): restore that, or delete the folder"
            on_error(name, path, CorruptDataError(reason))


def _without_schema(catalog: Warehouse, tables: Container[str]) -> Iterator[tuple[str, str]]:
    """The folders beside tables that hold snapshots and no schema: the names that they would have, and the folders."""
    store, root = catalog._file_io, catalog.warehouse.rstrip("/")
    for folder in store.list_names(root):
        if not folder.endswith(DATABASE_SUFFIX) or folder.removesuffix(DATABASE_SUFFIX) == STORED_DATABASE:
            continue
        for name in store.list_names(f"{root}/{folder}"):
            full_name, paths = f"{folder.removesuffix(DATABASE_SUFFIX)}.{name}", TablePaths(f"{root}/{folder}/{name}")
            if full_name in tables or name.startswith("."):  # hidden ones are of a drop
                continue
            if not SchemaManager(store, paths).list_ids() and store.list_names(paths.snapshot_dir):
                yield full_name, paths.root


def _tables(catalog: Warehouse) -> Iterator[Row]:
    for database, name, table in all_tables(catalog):
        schema, sums = table.schema, _sums(table)
        schemas = table.system_table("schemas").to_arrow(columns=["update_time"])["update_time"].cast("int64")
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
    """The partitions of the newest snapshot: name, rows in files, bytes, files, and when the last one was made."""
    found = table.system_table("partitions").to_arrow(columns=["partition", *_SUMS])
    times = found["last_update_time"].cast("int64")
    return list(zip(*(column.to_pylist() for column in (*found.columns[:-1], times)), strict=True))


def _partitions(catalog: Warehouse) -> Iterator[Row]:
    for database, name, table in all_tables(catalog):
        if table.schema.partition_keys:
            for partition, rows, size, files, last in _sums(table):
                yield database, name, partition, rows, size, files, last, False


def _table_options(catalog: Warehouse) -> Iterator[Row]:
    for database, name, table in all_tables(catalog):
        for key, value in shown_options(table.schema.options):
            yield database, name, key, value


def shown_options(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Options without the values of those that may hold a secret."""
    return [(key, _HIDDEN if is_secret(key) else value) for key, value in sorted(options.items())]
