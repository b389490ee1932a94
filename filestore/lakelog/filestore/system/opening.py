"""A system table of a table, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed, shown
from lakelog.common.types import DataField
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.system import file_tables, metadata_tables
from lakelog.filestore.system.columns import SYSTEM_COLUMNS, SYSTEM_NAMES
from lakelog.filestore.system.system_table import RowsOf, SystemTable

# Those that show the newest state, or the one of a snapshot.
AT_SNAPSHOT = ("files", "file_key_ranges", "manifests", "partitions", "buckets", "table_indexes", "statistics")
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


def open_system_table(
    table: TableStore,
    name: str,
    *,
    full_name: str,
    snapshot: Callable[[], Snapshot | None],
    given: Sequence[str] = (),
) -> SystemTable:
    """The system table `name` of a table, which errors call `full_name`.

    `snapshot` gives the snapshot to show, `given` are the arguments that name it. Raises NotFoundError for an unknown
    name, and InvalidRequestError for arguments that the system table does not take.
    """
    if not isinstance(name, str) or name not in SYSTEM_NAMES:
        near = get_close_matches(str(name), SYSTEM_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(SYSTEM_NAMES)}"
        raise NotFoundError(f"there is no system table {shown(name)}; {hint}")
    if given and name not in AT_SNAPSHOT:
        raise InvalidRequestError(
            f"{full_name} shows no single snapshot: leave out {listed(given)}; those that do are {listed(AT_SNAPSHOT)}"
        )
    fields = SYSTEM_COLUMNS[name]
    return SystemTable(name=full_name, fields=fields, rows_of=_rows_of(table, name, fields, snapshot))


def _rows_of(
    table: TableStore, name: str, fields: Sequence[DataField], snapshot: Callable[[], Snapshot | None]
) -> RowsOf:
    if name in ("files", "file_key_ranges"):
        return lambda names: file_tables.files(table, snapshot(), names)
    if name in _OF_TABLE:
        return lambda _: iter([arrow_rows(fields, _OF_TABLE[name](table))])
    return lambda _: iter([_shown(fields, _OF_SNAPSHOT[name](table, snapshot()))])


def _shown(fields: Sequence[DataField], rows: Iterable[metadata_tables.Row] | pa.Table) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else arrow_rows(fields, rows)


def arrow_rows(fields: Sequence[DataField], rows: Iterable[metadata_tables.Row]) -> pa.Table:
    """Rows of plain values as columns; a timestamp is an int of milliseconds."""
    schema = to_arrow_schema(fields)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(values, field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)
