"""The lineage of tables that were renamed or dropped follows them: rows name a table by its present name.

The uuid of a table stays when it is renamed. Its rows are put under the new name, and those under the old one deleted,
in one commit a system table, the edges last: while any row has the old name, the next feed finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any  # Any: the values of a row

import polars as pl

from lakelog.catalog.lineage_tables import JOB_STARTUP, SINK_JOBS, SNAPSHOT_EDGES, SOURCE_JOBS, StoredTable
from lakelog.catalog.system_database import SystemDatabase
from lakelog.filestore.schema.paths import BRANCH_INFIX
from lakelog.lineage.projecting import OF_SNAPSHOTS, name_parts

_NAMED = (SOURCE_JOBS, SINK_JOBS, *OF_SNAPSHOTS, JOB_STARTUP)


def follow_tables(database: SystemDatabase, names: Mapping[str, str], on_step: Callable[[str], None]) -> None:
    """Let the rows of tables follow their names: `names` are those of all tables of the warehouse, by uuid."""
    database.forget_tables(database.dropped() - names.keys())
    on_step("dropped")
    for table in _NAMED:
        if database.find(table) is not None:
            _rename(database, table, names)
            on_step(f"names of {table.name}")
    if database.find(SNAPSHOT_EDGES) is not None:
        _rename_edges(database, names)
        on_step(f"names of {SNAPSHOT_EDGES.name}")


def _rename(database: SystemDatabase, table: StoredTable, names: Mapping[str, str]) -> None:
    columns = ["database", "table", "table_uuid"]
    pairs = _distinct(database, table, columns)
    if not any(_renamed(row, names) for row in pairs):
        return
    rows = [(row, changed) for row in database.found(table) if (changed := _renamed(row, names)) is not None]
    database.change(table, deletes=[row for row, _ in rows], upserts=[changed for _, changed in rows])


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any] | None:
    """A row by the present name of its table; None where it has that name, or the table is not of this warehouse."""
    name = names.get(row["table_uuid"])
    if name is None:
        return None
    database, table = name_parts(name)
    _, infix, branch = str(row["table"]).partition(BRANCH_INFIX)
    changed = {**row, "database": database, "table": f"{table}{infix}{branch}"}
    return None if changed == row else changed


def _rename_edges(database: SystemDatabase, names: Mapping[str, str]) -> None:
    columns = ["sink_uuid", "sink_table", "source_uuid", "source_table"]
    if not any(_present(row, names) != row for row in _distinct(database, SNAPSHOT_EDGES, columns)):
        return
    rows = [(row, _present(row, names)) for row in database.found(SNAPSHOT_EDGES)]
    database.change(SNAPSHOT_EDGES, upserts=[changed for row, changed in rows if changed != row])


def _present(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """An edge with the present names of its tables."""
    return {
        **row,
        "sink_table": names.get(row["sink_uuid"], row["sink_table"]),
        "source_table": names.get(row["source_uuid"], row["source_table"]),
    }


def _distinct(database: SystemDatabase, table: StoredTable, columns: list[str]) -> list[dict[str, Any]]:
    frame = pl.from_arrow(database.rows(table, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame.unique().to_dicts()
