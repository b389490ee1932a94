"""The paths of the design of field level lineage below /v3: the lineage of an end point, hop by hop, and of a field.

Source: CDAP, "Field Level Lineage", in its final form (`endpoints`) and the earlier one (`datasets`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_walk import walk
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedEdge, IndexedField, IndexedRun
from lakelog.lineage.columns.questions.operation_graph import OperationGraph, graph_backward, graph_forward
from lakelog.lineage.columns.questions.operation_paths import name_in_target, names_in_source, present_operations
from lakelog.lineage.columns.questions.periods import Period
from lakelog.lineage.page.cdap_answers import end_point, operation_json
from lakelog.lineage.page.cdap_lookups import operations_beside, runs_in, writes_of_field
from lakelog.lineage.page.cdap_values import END, START, TEXT, check_size, in_pages, levels_of, named, part_of, range_of
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.json_answers import JsonAnswer
from lakelog.lineage.page.merged_graphs import merged_graphs
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import PageState

BACKWARD, FORWARD = "backward", "forward"
_DIRECTION_TEXT = "Direction must be specified and should be one of the following: [backward, forward]."


def endpoint_router(state: PageState) -> APIRouter:
    """The paths."""
    router, api = APIRouter(prefix="/v3/namespaces/{ns}", tags=["end points"]), _EndpointApi(state)
    router.get("/endpoints/{ep}/fields/lineage")(api.pairs)
    router.get("/endpoints/{ep}/fields/{field}/lineage")(api.field)
    router.get("/datasets/{ds}/fields")(api.fields)
    router.get("/datasets/{ds}/properties")(api.properties)
    router.get("/datasets/{ds}/fields/{field}/lineage")(api.paths)
    return router


class _EndpointApi:
    def __init__(self, state: PageState) -> None:
        self._state = state

    def pairs(  # noqa: PLR0917  # parts of the path and of the query
        self,
        ns: str,
        ep: str,
        start: START = None,
        end: END = None,
        level: TEXT = None,
        limit: TEXT = None,
        offset: TEXT = None,
    ) -> Response:
        """The fields between each two end points, `level` hops far in both directions."""
        depth = levels_of(level, 1)
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        owner = index.find_dataset(named(ns, ep))
        fields = [] if owner is None else [one.id for one in index.fields_of([owner.id])]
        walks = [
            walk(index, fields, is_up=is_up, depth=depth, period=asked.period, between_fields=True)
            for is_up in (True, False)
        ]
        return in_pages(_pairs(index, [edge for found in walks for edge in found.edges]), limit, offset)

    def field(  # noqa: PLR0917  # parts of the path and of the query
        self,
        ns: str,
        ep: str,
        field: str,
        start: START = None,
        end: END = None,
        direction: Annotated[str | None, Query(description="backward or forward.")] = None,
    ) -> Response:
        """The operations that make a field (backward), or that it goes into (forward), and the fields between them."""
        if direction is None or direction.lower() not in {BACKWARD, FORWARD}:
            raise RequestError(400, _DIRECTION_TEXT)
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        graphs: list[OperationGraph] = []
        is_up = direction.lower() == BACKWARD
        for owner, one in _asked_fields(index, named(ns, ep), part_of(field)):
            for write, document, _ in writes_of_field(index, owner, one, asked.period, is_up=is_up):
                operations = present_operations(index, write, document)
                names = names_in_source(index, document, owner, one)
                graphs.append(
                    graph_backward(operations, name_in_target(document, one))
                    if is_up
                    else graph_forward(operations, owner.dataset, names)
                )
        check_size(sum(len(one.connections) for one in graphs), "connections")
        return JsonAnswer(merged_graphs(graphs))

    def fields(  # noqa: PLR0917  # parts of the path and of the query
        self, ns: str, ds: str, start: START = None, end: END = None, limit: TEXT = None, offset: TEXT = None
    ) -> Response:
        """The fields of a dataset that were written, with when and by which run."""
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        owner = index.find_dataset(named(ns, ds))
        fields = [] if owner is None else index.fields_of([owner.id])
        made: dict[int, list[int]] = {}
        for one in index.written(fields=[each.id for each in fields]):
            made.setdefault(one.field, []).append(one.write)
        runs = runs_in(index, {write for writes in made.values() for write in writes}, asked.period)
        found = [(one, [run for write in made.get(one.id, ()) for run in runs.get(write, ())]) for one in fields]
        return in_pages([_field_json(one, some) for one, some in found if some], limit, offset)

    def properties(  # noqa: PLR0917  # parts of the path and of the query
        self, ns: str, ds: str, start: START = None, end: END = None, limit: TEXT = None, offset: TEXT = None
    ) -> Response:
        """The runs that wrote a dataset, with what is known of each, the newest first."""
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        owner = index.find_dataset(named(ns, ds))
        runs = [] if owner is None else index.runs_of_sink(owner.id)
        found = [run for run in runs if _counts(run, asked.period)]
        return in_pages([_run_json(run) for run in found], limit, offset)

    def paths(  # parts of the path and of the query
        self, ns: str, ds: str, field: str, start: START = None, end: END = None
    ) -> Response:
        """Each way in which a field was made, or used: sources, targets, operations and runs."""
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        paths = [
            path
            for owner, one in _asked_fields(index, named(ns, ds), part_of(field))
            for is_up in (True, False)
            for path in _paths(index, owner, one, asked.period, is_up=is_up)
        ]
        check_size(len(paths), "paths")
        return JsonAnswer({"startTimeInSeconds": asked.start, "endTimeInSeconds": asked.end, "paths": paths})


def _pairs(index: FieldIndex, edges: Iterable[IndexedEdge]) -> list[Json]:
    known = dict.fromkeys((edge.source, edge.target, edge.sink) for edge in edges if edge.target is not None)
    fields = index.fields({end for source, target, _ in known for end in (source, target) if end is not None})
    datasets = {one.id: one.dataset for one in index.datasets({one.dataset for one in fields.values()})}
    found: dict[tuple[int, int], list[Json]] = {}
    for source, target, sink in known:
        assert target is not None
        pair = fields[source].dataset, sink
        found.setdefault(pair, []).append({"from": fields[source].name, "to": fields[target].name})
    return [
        {"source": end_point(datasets[source]), "destination": end_point(datasets[sink]), "fieldmap": fieldmap}
        for (source, sink), fieldmap in found.items()
    ]


def _asked_fields(index: FieldIndex, dataset: Dataset, name: str) -> list[tuple[IndexedDataset, IndexedField]]:
    owner = index.find_dataset(dataset)
    found = None if owner is None else index.find_field(owner, name)
    return [] if owner is None or found is None else [(owner, found)]


def _paths(
    index: FieldIndex, owner: IndexedDataset, field: IndexedField, period: Period, *, is_up: bool
) -> Iterable[Json]:
    edges = index.edges_into([field.id]) if is_up else index.edges_from([field.id])
    for write, document, runs in writes_of_field(index, owner, field, period, is_up=is_up):
        chosen = [edge for edge in edges if edge.write == write.id]
        fields = index.fields({end for edge in chosen for end in (edge.source, edge.target) if end is not None})
        datasets = {one.id: one.dataset for one in index.datasets({one.dataset for one in fields.values()})}
        operations = operations_beside(index, write, document, owner, field, is_up=is_up)
        yield {
            "sources": _columns([fields[edge.source] for edge in chosen], datasets),
            "targets": _columns([fields[edge.target] for edge in chosen if edge.target is not None], datasets),
            "operations": [operation_json(one) for one in operations],
            "runs": [_run_json(run) for run in runs],
        }


def _columns(fields: Iterable[IndexedField], datasets: dict[int, Dataset]) -> list[Json]:
    distinct = {one.id: one for one in fields}
    return [{**end_point(datasets[one.dataset]), "field": one.name} for one in distinct.values()]


def _counts(run: IndexedRun, period: Period) -> bool:
    return period.counts(run) and (period.above is None or run.write in period.above)


def _field_json(one: IndexedField, runs: list[IndexedRun]) -> Json:
    newest = max(runs, key=lambda run: run.last_millis)
    return {
        "name": one.name,
        "properties": {
            "creation_time": min(run.first_millis for run in runs) // 1_000,
            "last_update_time": newest.last_millis // 1_000,
            "last_modified_run": newest.run,
        },
    }


def _run_json(run: IndexedRun) -> Json:
    known = {
        "job": run.job,
        "query": run.query,
        "operation": run.operation,
        "first_batch": run.first_batch,
        "last_batch": run.last_batch,
        "first_snapshot": run.first_snapshot,
        "last_snapshot": run.last_snapshot,
        "first_time": run.first_millis // 1_000,
        "last_time": run.last_millis // 1_000,
    }
    return {"programRun": run.run, "properties": {key: value for key, value in known.items() if value is not None}}
