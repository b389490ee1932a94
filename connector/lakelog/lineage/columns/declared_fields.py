"""What fields are made from, where a program says it and no plan shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.origins import BatchLineage, TableSource
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH, line_name
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.declared_operations import lineage_of_operations
from lakelog.lineage.columns.field_documents import FieldDocument, SourceTable, TableColumn
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, FieldOperation, OutputField
from lakelog.lineage.columns.field_store import find_document, put_document, with_fields
from lakelog.lineage.columns.plans.derived import Rows
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.best_effort import known_or
from lakelog.lineage.records.sources import (
    NUMBER_MARK,
    checked_sources,
    declared_source,
    declared_table,
    uuid_of,
    with_lineage,
)
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.warehouse import open_store

AnyTable = TypeVar("AnyTable", bound=TableHandle)


def made_from(
    table: AnyTable,
    *sources: str,
    job: str | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
    operations: Sequence[FieldOperation] | None = None,
) -> AnyTable:
    """A handle of the table whose writes and statements record that they were made from `sources`, by a job.

        made_from(catalog.load_table("db.report"), "db.orders@12", job="nightly").write(rows)

    `db.orders@12` is snapshot 12 of a table in the same warehouse; a folder names a table elsewhere. Without a number
    the snapshot is recorded as unknown. `fields` says from which columns each column is made:

        made_from(report, "db.orders@12", fields={"total": ["db.orders.price", "db.orders.pieces"]})

    Without it, a column is taken to be made from the columns of its name in the sources, else from any of them: such
    a lineage is marked as approximate. `operations` say it step by step, in place of `fields`: reads, transformations,
    and a write of this table. What is declared holds for writes by Spark too, in place of what its plan shows. Raises
    InvalidRequestError for a name that does not fit, and for operations that do not, NotFoundError.
    """
    if fields is not None and operations is not None:
        raise InvalidRequestError("fields and operations are two ways to say one thing: give one of them")
    names = checked_sources(sources)
    record = BatchLineage(job=job, sources=tuple(declared_source(one, table.warehouse) for one in names))
    read = {name.partition(NUMBER_MARK)[0]: source_table_of(declared_table(name, table.warehouse)) for name in names}
    if operations is not None:
        return with_lineage(table, _with_operations(record, table.store, operations, [*read.values()]))
    found = _by_name(table.store, read) if fields is None else _declared(table.store, read, fields)
    return with_lineage(table, with_fields(record, table.store, found, is_approximate=fields is None))


def with_fields_by_name(record: BatchLineage, table: TableStore) -> BatchLineage:
    """The record of a batch whose plan is not seen, with the lineage that the names of columns suggest.

    A source that cannot be opened is left out, with a warning.
    """
    warehouse = warehouse_of(table.path)
    tables = [_opened(source, warehouse) for source in record.sources if isinstance(source, TableSource)]
    read = {str(at): source_table_of(one) for at, one in enumerate(tables) if one is not None}
    return with_fields(record, table, _by_name(table, read), is_approximate=True) if read else record


def _opened(source: TableSource, warehouse: str) -> TableStore | None:
    """The table of a source, by its folder or by its name in a warehouse; None if it is another table by now."""

    def opened() -> TableStore:
        if source.path is not None:
            return open_store(source.path, branch=source.branch or MAIN_BRANCH)
        return declared_table(line_name(source.table, source.branch), warehouse)

    found = known_or(f"the columns of {source.table} are", opened, lambda _: None)
    return found if found is not None and uuid_of(found) == source.uuid else None


def fields_of_topic(topic: Dataset, columns: Sequence[str]) -> PlanFields:
    """What columns are made from that are taken from the members of their names in the records of a topic."""
    fields = tuple(
        OutputField(name=name, edges=frozenset([FieldEdge(SourceField(topic, (name,)), EdgeKind.IDENTITY)]))
        for name in columns
    )
    return PlanFields(FieldLineage(fields=fields), Rows([], {}), frozenset())


def declared_checksums(table: TableStore) -> tuple[str, ...]:
    """The lineage of fields that was declared for the writes of a handle; none for one that was only taken to be so."""
    if table.lineage is None:
        return ()
    checksums = BatchLineage.from_json(table.lineage).fields
    documents = [find_document(table, checksum) for checksum in checksums]
    is_declared = bool(documents) and all(one is not None and not one.is_approximate for one in documents)
    return tuple(checksums) if is_declared else ()


def _with_operations(
    record: BatchLineage, store: TableStore, operations: Sequence[FieldOperation], read: Sequence[SourceTable]
) -> BatchLineage:
    """The record that names the operations. Raises InvalidRequestError."""
    lineage = lineage_of_operations(operations, dataset_of_table(store.name))
    columns = {one.name: one.id for one in store.schema.fields}
    unknown = [one.name for one in lineage.fields if one.name not in columns]
    if unknown:
        raise InvalidRequestError(
            f"the operations write field {shown(unknown[0])}, which {store.name} does not have: its columns are "
            f"{listed(columns)}"
        )
    document = FieldDocument(
        lineage=FieldLineage(fields=lineage.fields, dataset=lineage.dataset),
        ids={one.name: columns[one.name] for one in lineage.fields},
        sources=tuple(read),
        declared=tuple(operations),
    )
    return replace(record, fields=(put_document(store, document),))


def source_table_of(store: TableStore, dataset: Dataset | None = None) -> SourceTable:
    """A table of ours as a source, with its columns; `dataset` is its name where the store has another one."""
    columns = tuple(TableColumn(one.name, one.id, str(one.type)) for one in store.schema.fields)
    return SourceTable(dataset=dataset or dataset_of_table(store.name), uuid=uuid_of(store), columns=columns)


def _by_name(store: TableStore, read: Mapping[str, SourceTable]) -> PlanFields:
    """Each column from those of its name, else from any."""
    every = frozenset(
        FieldEdge(SourceField(table.dataset, (one.name,)), EdgeKind.TRANSFORMATION)
        for table in read.values()
        for one in table.columns
    )
    found: list[OutputField] = []
    for field in store.schema.fields:
        same = frozenset(edge for edge in every if edge.source.name.lower() == field.name.lower())
        found.append(OutputField(name=field.name, edges=same or every, is_opaque=not same))
    return _plan_fields(found if read else [], read)


def _declared(
    store: TableStore, read: Mapping[str, SourceTable], fields: Mapping[str, str | Sequence[str]]
) -> PlanFields:
    """Raises InvalidRequestError."""
    columns = {one.name for one in store.schema.fields}
    found: list[OutputField] = []
    for name, given in fields.items():
        if name not in columns:
            raise InvalidRequestError(
                f"fields names column {shown(name)}, which {store.name} does not have: its columns are "
                f"{listed([one.name for one in store.schema.fields])}"
            )
        inputs = [given] if isinstance(given, str) else list(given)
        edges = frozenset(_declared_edge(one, read) for one in inputs)
        found.append(OutputField(name=name, edges=edges))
    return _plan_fields(found, read)


def _declared_edge(text: str, read: Mapping[str, SourceTable]) -> FieldEdge:
    for name in sorted(read, key=len, reverse=True):
        if text.startswith(f"{name}."):
            table, column = read[name], text[len(name) + 1 :]
            if column not in {one.name for one in table.columns}:
                raise InvalidRequestError(
                    f"fields names {shown(text)}, but {name} has no column {shown(column)}: its columns are "
                    f"{listed([one.name for one in table.columns])}"
                )
            return FieldEdge(SourceField(table.dataset, (column,)), EdgeKind.TRANSFORMATION)
    raise InvalidRequestError(
        f"fields names {shown(text)}, which is no column of a declared source: expected one of "
        f"{listed(sorted(read)) or 'none'}, a point, and the column"
    )


def _plan_fields(fields: Sequence[OutputField], read: Mapping[str, SourceTable]) -> PlanFields:
    lineage, tables = FieldLineage(fields=tuple(fields)), tuple(read.values())
    reads = {table.dataset for table in tables} - set(lineage.sources())
    return PlanFields(lineage, Rows([], {}), frozenset(), tables, tuple(sorted(reads)))
