"""Tables whose commits name the lineage of their fields, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import BatchLineage
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_documents import FieldDocument, SourceTable, TableColumn
from lakelog.lineage.columns.field_edges import EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.field_store import put_document
from lakelog.lineage.records.sources import with_lineage
from tests.support.lineage.lineage_jobs import read_of

Input = tuple[Table, str] | tuple[Table, str, str]
"""A table, a column of it, and the kind of the edge, IDENTITY without one."""


def make_table(catalog: Catalog, name: str, *columns: str) -> Table:
    """A table of numbers."""
    schema = pa.schema([pa.field(column, pa.int64()) for column in columns])
    return catalog.create_table(name, schema=schema, options={"bucket": "1", "write-only": "true"})


def one_row(table: Table) -> pa.Table:
    """A row with a number in each column."""
    return pa.table({name: pa.array([1], pa.int64()) for name in (one.name for one in table.store.schema.fields)})


def write_fields(
    table: Table,
    fields: Mapping[str, Sequence[Input]] | None,
    *,
    dataset: Sequence[Input] = (),
    job: str = "job",
    ends: Mapping[str, int] | None = None,
) -> Snapshot:
    """A batch write that read its sources up to their newest snapshots, or up to `ends`; `fields` None: not known."""
    inputs = [one for given in (*(fields or {}).values(), dataset) for one in given]
    sources = {source[0].name: source[0] for source in inputs}
    reads = tuple(
        read_of(source, end=(ends or {}).get(name, source.store.snapshots.latest_id()), start=None)
        for name, source in sources.items()
    )
    checksums: tuple[str, ...] = ()
    if fields is not None:
        checksums = (put_document(table.store, document_of(table, fields, dataset)),)
    return _written(table, BatchLineage(job=job, sources=reads, fields=checksums))


def read_blindly(table: Table, *sources: Table, job: str = "job") -> Snapshot:
    """A batch write of which only the tables are known that it read."""
    reads = tuple(read_of(source, end=source.store.snapshots.latest_id()) for source in sources)
    return _written(table, BatchLineage(job=job, sources=reads))


def document_of(table: Table, fields: Mapping[str, Sequence[Input]], dataset: Sequence[Input] = ()) -> FieldDocument:
    """The document of a write, with the numbers of columns."""
    sources = {one[0].name: one[0] for given in (*fields.values(), dataset) for one in given}
    return FieldDocument(
        lineage=FieldLineage(
            fields=tuple(OutputField(name=name, edges=_edges(given)) for name, given in fields.items()),
            dataset=_edges(dataset),
        ),
        ids={column.name: column.id for column in table.store.schema.fields if column.name in fields},
        sources=tuple(
            SourceTable(
                dataset=dataset_of_table(source.name, None),
                uuid=read_of(source).uuid,
                columns=tuple(TableColumn(one.name, one.id, str(one.type)) for one in source.store.schema.fields),
            )
            for source in sources.values()
        ),
    )


def _written(table: Table, lineage: BatchLineage) -> Snapshot:
    return with_lineage(table, lineage).write(one_row(table))


def _edges(given: Sequence[Input]) -> Edges:
    return frozenset(
        FieldEdge(
            SourceField(dataset_of_table(source.name, None), (column,)),
            EdgeKind[kind[0]] if kind else EdgeKind.IDENTITY,
        )
        for source, column, *kind in given
    )
