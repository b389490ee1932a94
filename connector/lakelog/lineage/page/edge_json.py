"""The details of an edge, and the fields of a dataset, in the JSON of /api."""

from __future__ import annotations

from lakelog.common.timestamps import utc_of
from lakelog.lineage.columns.field_operations import FieldOperation
from lakelog.lineage.columns.questions.field_answer import kind_names
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedEdge, IndexedField, IndexedRun
from lakelog.lineage.columns.questions.operation_paths import operations_to
from lakelog.lineage.columns.questions.periods import Period
from lakelog.lineage.page.graph_json import Json

WRITES_MAX = 200
RUNS_MAX = 200


def edge_to_json(
    index: FieldIndex, source: IndexedField, target: IndexedDataset, field: IndexedField | None, period: Period
) -> Json:
    """The writes that have an edge from one field to another, or to all fields of a dataset; the newest first."""
    found = index.dataset_edges_into([target.id]) if field is None else index.edges_into([field.id])
    by_write: dict[int, list[IndexedEdge]] = {}
    for edge in found:
        if edge.source == source.id and (period.above is None or edge.write in period.above):
            by_write.setdefault(edge.write, []).append(edge)
    runs: dict[tuple[int, str | None], list[IndexedRun]] = {}
    for run in index.runs(by_write):
        if period.counts(run):
            runs.setdefault((run.write, run.job), []).append(run)
    chosen = list(runs.items())[:WRITES_MAX]
    return {
        "total": len(runs),
        "writes": [_write(index, write, job, some, by_write[write], field) for (write, job), some in chosen],
    }


def fields_to_json(index: FieldIndex, owner: IndexedDataset) -> list[Json]:
    """The fields of a dataset: those of its present schema, then others that lineage knows."""
    fields = index.fields_of([owner.id])
    ids = [one.id for one in fields]
    has_lineage = {edge.target for edge in index.edges_into(ids)}
    has_lineage |= {edge.source for edge in index.edges_from(ids) + index.dataset_edges_from(ids)}
    return [
        {
            "name": one.name,
            "type": one.type,
            "id": one.number,
            "state": one.state,
            "hasLineage": one.id in has_lineage,
        }
        for one in fields
    ]


def _write(  # noqa: PLR0917  # one row and its details
    index: FieldIndex,
    write: int,
    job: str | None,
    runs: list[IndexedRun],
    edges: list[IndexedEdge],
    field: IndexedField | None,
) -> Json:
    one = index.writes([write])[write]
    made = [each for each in index.written(writes=[write]) if field is not None and each.field == field.id]
    document = index.document(one.checksum)
    operations = [] if document is None else operations_to(index, one, document, field)
    return {
        "checksum": one.checksum,
        "job": job,
        "operations": [_operation(each) for each in operations],
        "sql": made[0].sql if made else "",
        "kinds": kind_names(edges),
        "masked": all(edge.is_masked for edge in edges),
        "approximate": one.is_approximate,
        "opaque": any(each.is_opaque for each in made),
        "runs": [_run(run) for run in runs[:RUNS_MAX]],
        "runCount": len(runs),
    }


def _operation(one: FieldOperation) -> Json:
    return {
        "kind": one.kind.value,
        "name": one.name,
        "description": one.description,
        "dataset": None if one.dataset is None else {"ns": one.dataset.namespace, "dataset": one.dataset.name},
        "inputs": [{"origin": given.origin, "field": given.field} for given in one.inputs],
        "outputs": list(one.outputs),
    }


def _run(run: IndexedRun) -> Json:
    return {
        "run": run.run,
        "query": run.query,
        "operation": run.operation,
        "firstBatch": run.first_batch,
        "lastBatch": run.last_batch,
        "firstTime": utc_of(run.first_millis, separator="T", suffix="Z"),
        "lastTime": utc_of(run.last_millis, separator="T", suffix="Z"),
        "firstSnapshot": run.first_snapshot,
        "lastSnapshot": run.last_snapshot,
    }
