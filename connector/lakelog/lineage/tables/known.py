"""All known edges: those of the system tables, and those of snapshots that were not fed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakelog.common.errors import LakelogError
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.records.job_status import job_statuses
from lakelog.lineage.records.unreadable import note_unreadable, readable_tables
from lakelog.lineage.tables.edges import EDGE_SCHEMA, Edge, edge_table
from lakelog.lineage.tables.forking import FORK_OPERATION
from lakelog.lineage.tables.progress import lines_of
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse

_SNAPSHOT = ["sink_uuid", "sink_branch", "sink_snapshot", "sink_commit"]


def known_edges(catalog: Warehouse) -> pa.Table:
    """The edges of all batches of a warehouse's tables, including expired snapshots that were fed.

    Without `data-lineage` they are those of the living snapshots. Tables have their present names. Edges of deleted
    jobs are left out. For a table that cannot be read, only what was fed is known: it is named by a warning in the log
    and by `unreadable_tables`. The columns are those of `lakelog.lineage.tables.edges.EDGE_SCHEMA`.
    """
    return known_frame(catalog).to_arrow().cast(EDGE_SCHEMA)


def known_frame(catalog: Warehouse) -> pl.DataFrame:
    """Like `known_edges`, as a frame."""
    database = SystemDatabase.of(catalog)
    has_data = database.find(SNAPSHOT_EDGES) is not None
    names: dict[str, str] = {}
    edges: list[Edge] = []
    for database_name, name, table in readable_tables(catalog):
        if table.uuid:
            names.setdefault(table.uuid, f"{database_name}.{name}")
        for line in lines_of(table):
            try:
                edges += [edge for piece in line.unfed(start=None if has_data else 1) for edge in piece.edges]
            except LakelogError as error:
                note_unreadable(replace(table, branch=line.branch).name, table.path, error)
    unfed = _frame(edge_table(edges))
    stored = _stored(database).join(unfed, on=_SNAPSHOT, how="anti", nulls_equal=True)
    return _not_deleted(pl.concat([stored, unfed]).with_columns(*_present(names)), database)


def _stored(database: SystemDatabase) -> pl.DataFrame:
    """The edges of the system tables."""
    return (
        _frame(database.rows(SNAPSHOT_EDGES))
        .filter(pl.col("operation").ne_missing(FORK_OPERATION))
        .with_columns(
            pl.when(pl.col("sink_line") != MAIN_BRANCH).then(pl.col("sink_line")).alias("sink_branch"),
            pl.when(pl.col("sink_commit") != "").then(pl.col("sink_commit")).alias("sink_commit"),
        )
        .select(EDGE_SCHEMA.names)
    )


def _present(names: Mapping[str, str]) -> list[pl.Expr]:
    """The names of tables by their uuids, if they are in the warehouse."""
    return [
        pl.col(f"{side}_uuid")
        .replace_strict(names, default=pl.col(f"{side}_table"), return_dtype=pl.String)
        .alias(f"{side}_table")
        for side in ("sink", "source")
    ]


def _not_deleted(edges: pl.DataFrame, database: SystemDatabase) -> pl.DataFrame:
    for job, status in job_statuses(database).items():
        if status.deleted_millis is not None:
            is_before = pl.col("sink_time").dt.epoch("ms") <= status.deleted_millis
            edges = edges.filter(~((pl.col("job") == job).fill_null(False) & is_before))
    return edges


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
