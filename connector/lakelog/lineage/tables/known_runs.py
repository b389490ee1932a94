"""All that is known of the lineage of fields of warehouses, gathered: see `lakelog.lineage.fields.known_fields`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.errors import CorruptDataError, LakelogError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH, line_name
from lakelog.lineage.fields.field_documents import FieldDocument
from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.fields.field_runs import FieldRun, RunKey, put_run, runs_of
from lakelog.lineage.fields.field_store import find_document
from lakelog.lineage.fields.known_fields import KnownFields, PresentColumn, PresentTable
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.records.unreadable import note_unreadable, readable_tables
from lakelog.lineage.tables.edges import Edge, line_edges

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse


def known_fields(*catalogs: Warehouse) -> KnownFields:
    """All that is known of the lineage of fields of warehouses, from the living snapshots of their tables.

    A table that cannot be read is named by a warning in the log and by `unreadable_tables`.
    """
    runs: dict[RunKey, FieldRun] = {}
    documents: dict[str, FieldDocument] = {}
    lost: dict[str, str] = {}
    tables: list[PresentTable] = []
    for catalog in catalogs:
        for database, name, table in readable_tables(catalog):
            for branch in table.branch_names():
                line = replace(table, branch=branch)
                try:
                    stored = table if branch == MAIN_BRANCH else table.on_branch(branch)
                    edges: list[Edge] = list(line_edges(table, branch))
                except LakelogError as error:
                    note_unreadable(line.name, table.path, error)
                    continue
                tables.append(_present(database, line_name(name, branch), stored))
                for run in runs_of(edges).values():
                    put_run(runs, run)
                    _put_document(table, run.checksum, documents, lost)
    return KnownFields(runs=list(runs.values()), documents=documents, tables=tables, lost=lost)


def _present(database: str, name: str, table: TableStore) -> PresentTable:
    columns = tuple(PresentColumn(one.name, one.id, str(one.type)) for one in table.schema.fields)
    return PresentTable(dataset=Dataset(database, name), uuid=uuid_of(table), columns=columns)


def _put_document(table: TableStore, checksum: str, documents: dict[str, FieldDocument], lost: dict[str, str]) -> None:
    if checksum in documents:
        return
    try:
        found = find_document(table, checksum)
    except CorruptDataError as error:
        lost[checksum] = str(error)
        return
    if found is None:
        lost[checksum] = f"the document {checksum} of {table.name} is not there"
    else:
        documents[checksum] = found
        lost.pop(checksum, None)
