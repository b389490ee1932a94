"""Takes the lineage of fields in events of other producers into the system tables, marked as foreign.

A dataset that is a table of the warehouse is known by its location, and has the name that it has in the catalog. A run
is told by several events, which are one row. What was taken in before is not taken in twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from demo.openlineage.foreign_events import ForeignLineage, OnUnreadable, read_events
from lakelog.filestore.schema import MAIN_BRANCH, TablePaths
from lakelog.lineage.columns.dataset_names import dataset_of_table, place_of
from lakelog.lineage.columns.declared_fields import source_table_of
from lakelog.lineage.columns.field_documents import FieldDocument, SourceTable
from lakelog.lineage.columns.field_edges import Dataset, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.lineage.columns.field_runs import FieldRun, RunKey, put_run
from lakelog.lineage.tables.feeding_fields import put_foreign
from lakelog.lineage.tables.found_tables import readable_tables
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What was read: events with lineage, the runs and the different programs that they tell of."""

    events: int
    runs: int
    programs: int


@dataclass(frozen=True, slots=True)
class _Known:
    """A dataset of OpenLineage that is a table of the warehouse."""

    table: SourceTable
    line: str


def import_events(
    catalog: Warehouse, paths: Iterable[Path | str], *, on_unreadable: OnUnreadable | None = None
) -> ImportResult:
    """Take the events of files, one JSON object a line, into the system tables of a warehouse.

    `on_unreadable` gets the error of a line that is no event; without it the first such line is raised, and nothing is
    taken in. Raises InvalidRequestError.
    """
    found = [event for path in paths for event in read_events(Path(path), on_unreadable)]
    known = _tables_of(catalog)
    runs: dict[RunKey, FieldRun] = {}
    documents: dict[str, FieldDocument] = {}
    for event in found:
        document = _document(event.lineage, known)
        checksum = document.checksum
        documents[checksum] = document
        put_run(runs, _run(event, checksum, known))
    put_foreign(SystemDatabase.of(catalog), runs, documents)
    return ImportResult(events=len(found), runs=len(runs), programs=len(documents))


def _tables_of(catalog: Warehouse) -> dict[Dataset, _Known]:
    """The tables of a warehouse and their branches, by the names that OpenLineage has for them."""
    known: dict[Dataset, _Known] = {}
    for database, name, store in readable_tables(catalog):
        for branch in store.branch_names():
            named = source_table_of(store, dataset_of_table(f"{database}.{name}", branch))
            known[Dataset(*place_of(TablePaths(store.path, branch).own_root))] = _Known(named, branch)
    return known


def _document(lineage: FieldLineage, known: dict[Dataset, _Known]) -> FieldDocument:
    """The document with the names that datasets have in the catalog."""
    used = {dataset: known[dataset] for dataset in lineage.sources() if dataset in known}
    names = {dataset: found.table.dataset for dataset, found in used.items()}

    def named(edges: Edges) -> Edges:
        return frozenset(
            FieldEdge(
                SourceField(names.get(edge.source.dataset, edge.source.dataset), edge.source.path),
                edge.kind,
                edge.is_masked,
            )
            for edge in edges
        )

    fields = tuple(replace(one, edges=named(one.edges)) for one in lineage.fields)
    target = None if lineage.target is None else known.get(lineage.target)
    columns = {} if target is None else {column.name: column.id for column in target.table.columns}
    return FieldDocument(
        lineage=FieldLineage(fields=fields, dataset=named(lineage.dataset)),
        ids={one.name: columns[one.name] for one in fields if one.name in columns},
        sources=tuple(found.table for found in used.values()),
    )


def _run(event: ForeignLineage, checksum: str, known: dict[Dataset, _Known]) -> FieldRun:
    target = known.get(event.output)
    return FieldRun(
        sink=event.output if target is None else target.table.dataset,
        sink_uuid=f"{event.output.namespace} {event.output.name}" if target is None else target.table.uuid,
        sink_line=MAIN_BRANCH if target is None else target.line,
        job=f"{event.job_namespace}.{event.job}",
        run_id=event.run_id or "",
        checksum=checksum,
        first_millis=event.time_millis,
        last_millis=event.time_millis,
        is_foreign=True,
    )
