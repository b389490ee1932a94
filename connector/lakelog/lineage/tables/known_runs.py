"""All that is known of the lineage of fields of warehouses, gathered: see `lakelog.lineage.columns.known_fields`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH, SchemaManager, TablePaths
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import FieldRun, RunKey, put_run, runs_of
from lakelog.lineage.columns.known_fields import KnownFields, PresentColumn, PresentTable
from lakelog.lineage.records.job_status import job_statuses
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.records.unreadable import note_unreadable, readable_tables
from lakelog.lineage.tables.edges import Edge
from lakelog.lineage.tables.feeding import is_deleted
from lakelog.lineage.tables.feeding_fields import find_logged, stored_documents, stored_runs
from lakelog.lineage.tables.progress import lines_of
from lakelog.warehouse.lineage_tables import LINEAGE_RUNS
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse


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
        statuses = job_statuses(database)
        for name, store in stores:
            edges = (edge for edge in _unfed_edges(store, has_runs) if not is_deleted(statuses, edge))
            for run in runs_of(edges).values():
                put_run(runs, run)
                if run.checksum not in documents and run.checksum not in lost:
                    found = find_logged(store, run.checksum)
                    if isinstance(found, FieldDocument):
                        documents[run.checksum] = found
                    else:
                        lost[run.checksum] = found
            for branch, table in _present(name, store):
                tables.append(table)
                names.setdefault((table.uuid, branch), table.dataset)
    ordered = sorted(runs.values(), key=lambda run: (run.first_millis, run.key))
    return KnownFields(
        runs=[replace(run, sink=names.get((run.sink_uuid, run.sink_line), run.sink)) for run in ordered],
        documents=documents,
        tables=tables,
        lost={checksum: why for checksum, why in lost.items() if checksum not in documents},
    )


def _unfed_edges(store: TableStore, has_runs: bool) -> Iterator[Edge]:
    for line in lines_of(store):
        try:
            for piece in line.unfed(start=None if has_runs else 1):
                yield from piece.edges
        except LakelogError as error:
            note_unreadable(replace(store, branch=line.branch).name, store.path, error)


def _present(name: str, store: TableStore) -> Iterator[tuple[str, PresentTable]]:
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
