"""The rows of the system tables that follow from documents and runs. Pure. Times are milliseconds since 1970."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any  # Any: the values of a row

from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import ALL_ROWS, Dataset, EdgeKind, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldOperation, transform_names
from lakelog.lineage.columns.field_runs import FieldRun

Row = dict[str, Any]


def document_row(document: FieldDocument) -> Row:
    """The row of `lineage_operations`."""
    return {
        "checksum": document.checksum,
        "operations": json.dumps([operation_to_json(one) for one in document.operations]),
        "approximate": document.is_approximate,
        "document": document.to_json(),
    }


def operation_to_json(one: FieldOperation) -> Row:
    """An operation as an object."""
    return {
        "kind": one.kind.value,
        "name": one.name,
        "description": one.description,
        "dataset": None if one.dataset is None else list(one.dataset),
        "inputs": [{"origin": given.origin, "field": given.field} for given in one.inputs],
        "outputs": list(one.outputs),
    }


def edge_rows(document: FieldDocument, run: FieldRun) -> Iterator[Row]:
    """The rows of `field_edges` for a table that was written."""
    checksum = document.checksum
    uuids = {one.dataset: one.uuid for one in document.sources}
    names = transform_names(document.lineage)

    def rows(edges: Edges, field: str, about: Mapping[str, Any]) -> Iterator[Row]:
        for edge in sorted(edges, key=_order):
            yield {
                "checksum": checksum,
                "source_namespace": edge.source.dataset.namespace,
                "source_dataset": edge.source.dataset.name,
                "source_field": edge.source.name,
                "sink_namespace": run.sink.namespace,
                "sink_dataset": run.sink.name,
                "sink_field": field,
                "subtype": edge.kind.subtype,
                "masked": edge.is_masked,
                "type": edge.kind.value[0],
                "approximate": document.is_approximate,
                "source_uuid": uuids.get(edge.source.dataset),
                "sink_uuid": run.sink_uuid,
                **_base(edge),
                **about,
            }

    for name, one in zip(names, document.lineage.fields, strict=True):
        yield from rows(one.edges, one.name, {"operation": name, "opaque": one.is_opaque})
    yield from rows(document.lineage.dataset, "", {"opaque": False})
    whole = frozenset(FieldEdge(SourceField(one, (ALL_ROWS,)), EdgeKind.ROWS) for one in document.reads)
    yield from rows(whole, "", {"opaque": False})


def run_row(run: FieldRun) -> Row:
    """The row of `lineage_runs`."""
    return {
        "table_uuid": run.sink_uuid,
        "line": run.sink_line,
        "job": run.job or "",
        "run_id": run.run_id,
        "checksum": run.checksum,
        "database": run.sink.namespace,
        "table": run.sink.name,
        "query_id": run.query_id,
        "operation": run.operation,
        "first_batch": run.first_batch,
        "last_batch": run.last_batch,
        "first_time": run.first_millis,
        "last_time": run.last_millis,
        "first_snapshot": run.first_snapshot,
        "last_snapshot": run.last_snapshot,
        "foreign": run.is_foreign,
    }


def run_of_row(row: Mapping[str, Any]) -> FieldRun:
    """The run in a row of `lineage_runs`."""
    return FieldRun(
        sink=Dataset(row["database"], row["table"]),
        sink_uuid=row["table_uuid"],
        sink_line=row["line"],
        job=row["job"] or None,
        run_id=row["run_id"],
        query_id=row["query_id"],
        operation=row["operation"],
        checksum=row["checksum"],
        first_batch=row["first_batch"],
        last_batch=row["last_batch"],
        first_millis=row["first_time"],
        last_millis=row["last_time"],
        first_snapshot=row["first_snapshot"],
        last_snapshot=row["last_snapshot"],
        is_foreign=bool(row["foreign"]),
    )


def field_rows(document: FieldDocument, run: FieldRun, types: Mapping[str, str]) -> Iterator[Row]:
    """The rows of `dataset_fields` for the fields that a run has written; `types` are those of the table's columns."""
    for one in document.lineage.fields:
        yield {
            "database": run.sink.namespace,
            "table": run.sink.name,
            "field": one.name,
            "type": types.get(one.name),
            "field_id": document.ids.get(one.name),
            "creation_time": run.first_millis,
            "last_update_time": run.last_millis,
            "last_modified_run": run.run_id,
            "table_uuid": run.sink_uuid,
        }


def property_rows(run: FieldRun, sources: Sequence[Mapping[str, Any]], path: str) -> Iterator[Row]:
    """The rows of `dataset_properties` for a run: of its sink, and of the sources in the edges of its batches."""
    sink: Row = {"path": path, "job": run.job, "operation": run.operation}
    yield _properties(run.sink, run, sink, run.sink_uuid)
    for edge in sources:
        dataset, found = edge["dataset"], {name: edge.get(name) for name in ("path", "mode", "format")}
        yield _properties(dataset, run, found, edge.get("uuid"))


def _properties(dataset: Dataset, run: FieldRun, found: Mapping[str, Any], uuid: str | None) -> Row:
    known = {name: value for name, value in found.items() if value is not None}
    return {
        "database": dataset.namespace,
        "table": dataset.name,
        "run_id": run.run_id,
        "properties": json.dumps(known, sort_keys=True),
        "table_uuid": uuid,
    }


def _base(edge: FieldEdge) -> Row:
    """The table below a branch or a system table."""
    dataset = edge.source.dataset
    table = dataset.name.partition(BRANCH_INFIX)[0].partition("$")[0] or dataset.name
    return {"base_namespace": dataset.namespace, "base_dataset": table, "base_field": edge.source.column}


def _order(edge: FieldEdge) -> tuple[object, ...]:
    return (edge.source, edge.kind.subtype, edge.is_masked)
