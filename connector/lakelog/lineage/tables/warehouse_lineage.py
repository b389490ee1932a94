"""All lineage of warehouses: that of the system tables, and that of snapshots which were not fed yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH, SchemaManager, TablePaths
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import (
    FieldRun,
    KnownFields,
    PresentColumn,
    PresentTable,
    RunKey,
    put_run,
    runs_of,
)
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.tables.beginnings import readable_forks
from lakelog.lineage.tables.edge_columns import EDGE_SCHEMA, FORK_OPERATION, Edge
from lakelog.lineage.tables.edges import edge_table, unfed_edges
from lakelog.lineage.tables.feeding import is_deleted
from lakelog.lineage.tables.feeding_fields import find_logged, stored_documents, stored_runs
from lakelog.lineage.tables.found_tables import note_unreadable, readable_tables
from lakelog.warehouse.lineage_tables import LINEAGE_RUNS, SNAPSHOT_EDGES
from lakelog.warehouse.system_database import JobStatus, SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse

_SNAPSHOT = ["sink_uuid", "sink_branch", "sink_snapshot", "sink_commit"]


def known_edges(catalog: Warehouse) -> pa.Table:
    """The edges of all batches of a warehouse's tables, including expired snapshots that were fed.

    Without `data-lineage` they are those of the living snapshots. Tables have their present names. Edges of deleted
    jobs are left out. For a table that cannot be read, only what was fed is known: it is named by a warning in the log
    and by `unreadable_tables`. The columns are those of `lakelog.lineage.tables.edge_columns.EDGE_SCHEMA`.
    """
    return known_frame(catalog).to_arrow().cast(EDGE_SCHEMA)


def known_frame(catalog: Warehouse, *, has_forks: bool = False) -> pl.DataFrame:
    """Like `known_edges`, as a frame; with `has_forks`, also where branches began, deleted ones that were fed too."""
    database = SystemDatabase.of(catalog)
    has_data = database.find(SNAPSHOT_EDGES) is not None
    names: dict[str, str] = {}
    edges: list[Edge] = []
    forks: list[Edge] = []
    for database_name, name, table in readable_tables(catalog):
        if table.uuid:
            names.setdefault(table.uuid, f"{database_name}.{name}")
        edges += unfed_edges(table, was_fed=has_data)
        if has_forks:
            forks += readable_forks(table)
    # Read after the tables, whose snapshots a feed may take in meanwhile.
    rows, statuses = database.rows(SNAPSHOT_EDGES), database.job_statuses()
    stored, unfed = _stored(_frame(rows)), _frame(edge_table(edges))
    is_fork = pl.col("operation").eq_missing(FORK_OPERATION)
    found = [stored.filter(~is_fork).join(unfed, on=_SNAPSHOT, how="anti", nulls_equal=True), unfed]
    if has_forks:  # the snapshot of one that was fed may have expired
        of_forks = pl.concat([_frame(edge_table(forks)), stored.filter(is_fork)]).group_by(
            _SNAPSHOT, maintain_order=True
        )
        latest = pl.col("sink_time").max(), pl.col("why").drop_nulls().first()
        found.append(of_forks.agg(*latest, pl.exclude("sink_time", "why").first()).select(EDGE_SCHEMA.names))
    return _not_deleted(pl.concat(found).with_columns(*_present(names)), statuses)


def _stored(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the system table as edges."""
    return rows.with_columns(
        pl.when(pl.col("sink_line") != MAIN_BRANCH).then(pl.col("sink_line")).alias("sink_branch"),
        pl.when(pl.col("sink_commit") != "").then(pl.col("sink_commit")).alias("sink_commit"),
    ).select(EDGE_SCHEMA.names)


def _present(names: Mapping[str, str]) -> list[pl.Expr]:
    """The names of tables by their uuids, if they are in the warehouse."""
    return [
        pl.col(f"{side}_uuid")
        .replace_strict(names, default=pl.col(f"{side}_table"), return_dtype=pl.String)
        .alias(f"{side}_table")
        for side in ("sink", "source")
    ]


def _not_deleted(edges: pl.DataFrame, statuses: Mapping[str, JobStatus]) -> pl.DataFrame:
    for job, status in statuses.items():
        if status.deleted_millis is not None:
            is_before = pl.col("sink_time").dt.epoch("ms") <= status.deleted_millis
            edges = edges.filter(~((pl.col("job") == job).fill_null(False) & is_before))
    return edges


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def known_fields(*catalogs: Warehouse) -> KnownFields:
    """What the tables of warehouses record of their fields, with what was fed of expired snapshots.

    Tables have their present names. A table that cannot be read is left out, and named by `unreadable_tables`.
    """
    runs: dict[RunKey, FieldRun] = {}
    documents: dict[str, FieldDocument] = {}
    lost: dict[str, str] = {}
    tables: list[PresentTable] = []
    names: dict[tuple[str, str], Dataset] = {}
    for catalog in catalogs:
        database = SystemDatabase.of(catalog)
        stores = [(f"{name}.{table}", store) for name, table, store in readable_tables(catalog)]
        for run in stored_runs(database):
            put_run(runs, run)
        documents |= stored_documents(database)
        has_runs = database.find(LINEAGE_RUNS) is not None
        statuses = database.job_statuses()
        for name, store in stores:
            edges = (edge for edge in unfed_edges(store, was_fed=has_runs) if not is_deleted(statuses, edge))
            for run in runs_of(edges).values():
                put_run(runs, run)
                if run.checksum not in documents and run.checksum not in lost:
                    found = find_logged(store, run.checksum)
                    if isinstance(found, FieldDocument):
                        documents[run.checksum] = found
                    else:
                        lost[run.checksum] = found
            for branch, table in _tables_of(name, store):
                tables.append(table)
                names.setdefault((table.uuid, branch), table.dataset)
    ordered = sorted(runs.values(), key=lambda run: (run.first_millis, run.key))
    return KnownFields(
        runs=[replace(run, sink=names.get((run.sink_uuid, run.sink_line), run.sink)) for run in ordered],
        documents=documents,
        tables=tables,
        lost={checksum: why for checksum, why in lost.items() if checksum not in documents},
    )


def _tables_of(name: str, store: TableStore) -> Iterator[tuple[str, PresentTable]]:
    """A table and its branches by their names, each with the columns of its newest schema."""
    for branch in store.branch_names():
        if branch == MAIN_BRANCH:
            schema = store.schema
        else:
            try:
                found = SchemaManager(store.file_io, TablePaths(store.path, branch)).latest()
            except LakelogError as error:
                note_unreadable(replace(store, branch=branch).name, store.path, error)
                continue
            if found is None:
                continue
            schema = found
        columns = tuple(PresentColumn(one.name, one.id, str(one.type)) for one in schema.fields)
        yield branch, PresentTable(dataset=dataset_of_table(name, branch), uuid=uuid_of(store), columns=columns)
