"""Feeding the lineage of fields: documents, edges, runs and fields of tables that batches have named.

Documents come first, runs last: a run in the system tables has its document and its edges there. A document that the
folder of its table does not have is left out, with a warning; its runs are put all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: the values of a row

import pyarrow as pa

from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_rows import (
    document_row,
    edge_rows,
    field_rows,
    property_rows,
    run_of_row,
    run_row,
)
from lakelog.lineage.columns.field_runs import FieldRun, RunKey, put_run, runs_of
from lakelog.lineage.columns.field_store import find_document
from lakelog.warehouse.lineage_options import FIELD_LINEAGE_RETAINED
from lakelog.warehouse.lineage_tables import (
    DATASET_FIELDS,
    DATASET_PROPERTIES,
    FIELD_EDGES,
    LINEAGE_OPERATIONS,
    LINEAGE_RUNS,
    OF_FIELDS,
    StoredTable,
)
from lakelog.warehouse.system_database import SystemDatabase

logger = logging.getLogger("lakelog.lineage")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FedBatch:
    """An edge of a batch, and the table in whose folder the documents are that it names."""

    table: TableStore
    edge: Row


def put_fields(database: SystemDatabase, batches: Sequence[FedBatch], on_step: Callable[[str], None]) -> None:
    """Put what batches record of their fields, with one commit per system table."""
    runs = runs_of(batch.edge for batch in batches)
    if not runs:
        return
    for table in OF_FIELDS:
        database.opened(table)
    tables = {str(batch.edge["sink_uuid"]): batch.table for batch in batches if batch.edge.get("fields")}
    before = {run.key: run for run in stored_runs(database)}
    documents = _documents(runs.values(), tables)
    _put_documents(database, runs, documents, before, on_step)
    _put_about(database, runs, documents, batches, tables)
    on_step(DATASET_FIELDS.name)
    _put_runs(database, runs, before)
    on_step(LINEAGE_RUNS.name)


def put_foreign(
    database: SystemDatabase, runs: Mapping[RunKey, FieldRun], documents: Mapping[str, FieldDocument]
) -> None:
    """Put runs of other producers with their documents."""
    before = {run.key: run for run in stored_runs(database)}
    _put_documents(database, runs, documents, before, lambda _: None)
    _put_runs(database, runs, before)


def _put_documents(
    database: SystemDatabase,
    runs: Mapping[RunKey, FieldRun],
    documents: Mapping[str, FieldDocument],
    before: Mapping[RunKey, FieldRun],
    on_step: Callable[[str], None],
) -> None:
    """Put the documents that are new, and the edges of those that no run `before` has named for its table."""
    known = {str(row["checksum"]) for row in database.found(LINEAGE_OPERATIONS, ["checksum"])}
    new = [document_row(found) for checksum, found in documents.items() if checksum not in known]
    database.change(LINEAGE_OPERATIONS, upserts=new)
    on_step(LINEAGE_OPERATIONS.name)
    sinks = {(run.sink_uuid, run.sink_line, run.checksum) for run in before.values()}
    written = {(run.sink_uuid, run.sink_line, run.checksum): run for run in runs.values() if run.checksum in documents}
    edges = [row for key, run in written.items() if key not in sinks for row in edge_rows(documents[run.checksum], run)]
    database.change(FIELD_EDGES, upserts=edges)
    on_step(FIELD_EDGES.name)


def _put_runs(database: SystemDatabase, runs: Mapping[RunKey, FieldRun], before: Mapping[RunKey, FieldRun]) -> None:
    """Put the runs, each with the batches that it had before; one that has grown by nothing is left."""
    merged: dict[RunKey, FieldRun] = {key: before[key] for key in runs.keys() & before.keys()}
    for run in runs.values():
        put_run(merged, run)
    database.change(LINEAGE_RUNS, upserts=[run_row(run) for key, run in merged.items() if run != before.get(key)])


def prune_fields(database: SystemDatabase, on_step: Callable[[str], None] = lambda _: None) -> None:
    """Delete the runs that are older than the catalog keeps them, then documents and edges that no run names."""
    if database.find(LINEAGE_RUNS) is None:
        return
    retained, runs = FIELD_LINEAGE_RETAINED.of(database.options()), stored_runs(database)
    before = None if retained is None else system_millis() - retained
    old = [run for run in runs if before is not None and run.last_millis < before]
    database.change(LINEAGE_RUNS, deletes=[run_row(run) for run in old])
    on_step(f"old rows of {LINEAGE_RUNS.name}")
    gone = {run.key for run in old}
    named = {(run.checksum, run.sink_uuid) for run in runs if run.key not in gone}
    checksums = {checksum for checksum, _ in named}
    unnamed = [row for row in database.found(LINEAGE_OPERATIONS, ["checksum"]) if row["checksum"] not in checksums]
    if not old and not unnamed:
        return
    edges = database.rows(FIELD_EDGES, (*FIELD_EDGES.keys, "sink_uuid"))
    pairs = zip(edges["checksum"].to_pylist(), edges["sink_uuid"].to_pylist(), strict=True)
    left = edges.filter(pa.array([pair not in named for pair in pairs], pa.bool_()))
    database.change(FIELD_EDGES, deletes=left.to_pylist())
    on_step(f"old rows of {FIELD_EDGES.name}")
    database.change(LINEAGE_OPERATIONS, deletes=unnamed)
    on_step(f"old rows of {LINEAGE_OPERATIONS.name}")


def stored_runs(database: SystemDatabase) -> list[FieldRun]:
    """The runs in the system tables."""
    return [run_of_row(row) for row in database.found(LINEAGE_RUNS)]


def stored_documents(database: SystemDatabase) -> dict[str, FieldDocument]:
    """The documents in the system tables, by checksum. Raises CorruptDataError."""
    rows = database.found(LINEAGE_OPERATIONS, ["checksum", "document"])
    place = f"{database.warehouse}, {LINEAGE_OPERATIONS.name}"
    return {str(row["checksum"]): FieldDocument.from_json(row["document"], path=place) for row in rows}


def find_logged(table: TableStore, checksum: str) -> FieldDocument | str:
    """A document of a table, or why it cannot be read."""
    try:
        found = find_document(table, checksum)
    except (LakelogError, ValueError) as error:
        logger.warning("the lineage of fields %s of %s is lost: %s", checksum, table.name, cause(error))
        return cause(error)
    if found is None:
        logger.warning("the lineage of fields %s of %s is lost: its folder does not have it", checksum, table.name)
        return "the folder of the table does not have it"
    return found


def _documents(runs: Iterable[FieldRun], tables: Mapping[str, TableStore]) -> dict[str, FieldDocument]:
    found: dict[str, FieldDocument] = {}
    for run in runs:
        if run.checksum not in found:
            document = find_logged(tables[run.sink_uuid], run.checksum)
            if isinstance(document, FieldDocument):
                found[run.checksum] = document
    return found


def _put_about(
    database: SystemDatabase,
    runs: Mapping[RunKey, FieldRun],
    documents: Mapping[str, FieldDocument],
    batches: Sequence[FedBatch],
    tables: Mapping[str, TableStore],
) -> None:
    """Put the fields and the properties of datasets."""
    stored = {_key(DATASET_FIELDS, row): row for row in database.found(DATASET_FIELDS)}
    fields: dict[tuple[object, ...], Row] = {}
    for run in runs.values():
        if run.checksum in documents:
            types = {one.name: str(one.type) for one in tables[run.sink_uuid].schema.fields}
            for row in field_rows(documents[run.checksum], run, types):
                key = _key(DATASET_FIELDS, row)
                fields[key] = _grown(fields.get(key, stored.get(key)), row)
    database.change(DATASET_FIELDS, upserts=[row for key, row in fields.items() if row != stored.get(key)])
    sources: dict[str, dict[object, Row]] = {}
    for batch in batches:
        found = _source_of(batch.edge)
        if found is not None:
            for run in runs_of([batch.edge]).values():
                sources.setdefault(run.run_id, {})[found["dataset"]] = found
    rows = {
        _key(DATASET_PROPERTIES, row): row
        for run in runs.values()
        for row in property_rows(run, [*sources.get(run.run_id, {}).values()], tables[run.sink_uuid].path)
    }
    database.change(DATASET_PROPERTIES, upserts=[*rows.values()])


def _source_of(edge: Row) -> Row | None:
    """The table that an edge reads, with its properties."""
    if edge.get("source_kind") != "table" or edge.get("source_table") is None:
        return None
    dataset = dataset_of_table(str(edge["source_table"]), edge.get("source_branch"))
    return {
        "dataset": dataset,
        "path": edge.get("source_path"),
        "mode": edge.get("mode"),
        "uuid": edge.get("source_uuid"),
    }


def _grown(before: Row | None, row: Row) -> Row:
    """The row of a field, with the earliest time of its creation; the newest run counts."""
    if before is None:
        return row
    newest = row if row["last_update_time"] >= before["last_update_time"] else before
    return {**newest, "creation_time": min(row["creation_time"], before["creation_time"])}


def _key(table: StoredTable, row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in table.keys)
