"""Updates the lineage of renamed and dropped tables: rows name a table by its present name.

The uuid of a table stays when the table is renamed. `table_names` says which names the rows use; if a table now has
another name, its rows are put under the new name and those under the old name are deleted, with one commit per system
table. Then the name is recorded: until then the next feed does it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any  # Any: the values of a row

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.tables.projecting import OF_SNAPSHOTS, name_parts
from lakelog.warehouse.lineage_tables import (
    DATASET_FIELDS,
    DATASET_PROPERTIES,
    FIELD_EDGES,
    JOB_STARTUP,
    LINEAGE_RUNS,
    SINK_JOBS,
    SNAPSHOT_EDGES,
    SOURCE_JOBS,
    TABLE_NAMES,
    StoredTable,
)
from lakelog.warehouse.system_database import SystemDatabase, plain_times

_NAMED = (
    SOURCE_JOBS,
    SINK_JOBS,
    *OF_SNAPSHOTS,
    JOB_STARTUP,
    LINEAGE_RUNS,
    DATASET_FIELDS,
    DATASET_PROPERTIES,
)


def follow_tables(database: SystemDatabase, names: Mapping[str, str], on_step: Callable[[str], None]) -> None:
    """Update the names in the rows of tables: `names` are those of all tables of the warehouse, by uuid."""
    database.forget_dropped(names.keys())
    on_step("dropped")
    before = {row["table_uuid"]: row["name"] for row in database.found(TABLE_NAMES)}
    changed = {uuid for uuid, name in names.items() if before.get(uuid) != name}
    if not changed:
        return
    for table in _NAMED:
        rows = _rows_of(database, table, ["table_uuid"], changed)
        renamed = [(row, found) for row in rows if (found := _renamed(row, names)) != row]
        database.change(table, deletes=[row for row, _ in renamed], upserts=[found for _, found in renamed])
        on_step(f"names of {table.name}")
    edges = _rows_of(database, SNAPSHOT_EDGES, ["sink_uuid", "source_uuid"], changed)
    database.change(SNAPSHOT_EDGES, upserts=[found for row in edges if (found := _present(row, names)) != row])
    on_step(f"names of {SNAPSHOT_EDGES.name}")
    fields = _rows_of(database, FIELD_EDGES, ["sink_uuid", "source_uuid"], changed)
    moved = [(row, there) for row in fields if (there := _present_edge(row, names)) != row]
    database.change(FIELD_EDGES, deletes=[row for row, _ in moved], upserts=[there for _, there in moved])
    on_step(f"names of {FIELD_EDGES.name}")
    database.change(TABLE_NAMES, upserts=[{"table_uuid": uuid, "name": names[uuid]} for uuid in sorted(changed)])
    on_step(TABLE_NAMES.name)


def _rows_of(
    database: SystemDatabase, table: StoredTable, columns: Collection[str], uuids: Collection[str]
) -> list[dict[str, Any]]:
    """The rows that have one of the uuids in one of the columns."""
    rows = database.rows(table)
    wanted = pa.array(sorted(uuids), pa.string())
    is_found = pa.array([False] * rows.num_rows, pa.bool_())
    for column in columns:
        is_found = pc.or_(is_found, pc.is_in(rows[column], wanted))
    found: list[dict[str, Any]] = plain_times(rows.filter(is_found)).to_pylist()
    return found


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A row with the present name of its table."""
    database, table = name_parts(names[row["table_uuid"]])
    _, infix, branch = str(row["table"]).partition(BRANCH_INFIX)
    return {**row, "database": database, "table": f"{table}{infix}{branch}"}


def _present(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """An edge with the present names of its tables."""
    return {
        **row,
        "sink_table": names.get(row["sink_uuid"], row["sink_table"]),
        "source_table": names.get(row["source_uuid"], row["source_table"]),
    }


def _present_edge(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """An edge between fields with the present names of its tables."""
    changed = dict(row)
    for side in ("sink", "source"):
        name = names.get(row[f"{side}_uuid"])
        if name is not None:
            branch = str(row[f"{side}_dataset"]).partition(BRANCH_INFIX)[2] or None
            changed[f"{side}_namespace"], changed[f"{side}_dataset"] = dataset_of_table(name, branch)
    return changed
