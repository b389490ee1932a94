"""/api: what the page asks for. The form of the answers is the page's own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakelog.lineage.columns.questions.field_answer import DOWN
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_questions import Asked, graph_answer, impact_answer
from lakelog.lineage.columns.questions.field_search import search
from lakelog.lineage.page.edge_json import edge_to_json, fields_to_json
from lakelog.lineage.page.exports import export
from lakelog.lineage.page.graph_json import Json, graph_to_json, match_to_json
from lakelog.lineage.page.json_answers import JsonAnswer
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.page.query_values import (
    DEPTH_MAX,
    LIMIT_MAX,
    NUMBER_MAX,
    counted,
    dataset_in,
    number,
    period_in,
    question_in,
    required,
)

Text = Annotated[str | None, Query()]


class DatasetQuery(BaseModel):
    """A dataset, and maybe a field of it."""

    ns: str | None = Field(None, description="The namespace of the dataset.")
    dataset: str | None = Field(None, description="The name of the dataset.")
    field: str | None = Field(None, description="A field of it; all without one.")
    depth: str | None = Field(None, description="Hops, 1 to 20.")
    kinds: str | None = Field(None, description="direct for edges by which values are made; all without it.")


class RangeQuery(BaseModel):
    """A range of time."""

    start: str | None = Field(None, description="From this time on: seconds since 1970, or such as now-7d.")
    end: str | None = Field(None, description="Before this time.")


class GraphQuery(DatasetQuery, RangeQuery):
    """The graph around a dataset or a field."""

    direction: str | None = Field(None, description="up, down or both.")
    limit: str | None = Field(None, description="Datasets at most; above it only the neighbours are listed.")
    at: str | None = Field(None, description="What made this snapshot, in place of start and end.")
    format: str | None = Field(None, description="Of an export: json, csv or svg.")


class EdgeQuery(RangeQuery):
    """An edge; without `toField` one that counts for all fields."""

    fromNs: str | None = None
    fromDataset: str | None = None
    fromField: str | None = None
    toNs: str | None = None
    toDataset: str | None = None
    toField: str | None = None


def graph_router(state: PageState) -> APIRouter:
    """The paths below /api."""
    router, api = APIRouter(prefix="/api", tags=["page"]), _GraphApi(state)
    router.get("/search")(api.search)
    router.get("/graph")(api.graph)
    router.get("/edge")(api.edge)
    router.get("/dataset")(api.dataset)
    router.get("/impact")(api.impact)
    router.get("/export")(api.export)
    return router


class _GraphApi:
    def __init__(self, state: PageState) -> None:
        self._state = state

    def search(self, q: Text = None, limit: Text = None, offset: Text = None) -> Response:
        """Datasets and fields whose names contain a text, in any case; all datasets without it."""
        size = counted("limit", limit, default=50, least=1, most=LIMIT_MAX)
        begin = counted("offset", offset, default=0, least=0, most=NUMBER_MAX)
        total, found = search(self._state.index(), q or "", limit=size, offset=begin)
        return JsonAnswer({"total": total, "results": [match_to_json(one) for one in found]})

    def graph(self, query: Annotated[GraphQuery, Query()]) -> Response:
        """The datasets and edges around a dataset or a field."""
        index, size = self._state.index(), _limit_in(query)
        graph = graph_answer(index, self._asked(index, query), limit=size)
        return JsonAnswer(graph_to_json(graph, limit=size))

    def edge(self, query: Annotated[EdgeQuery, Query()]) -> Response:
        """The writes behind an edge: operations, SQL and runs."""
        index = self._state.index()
        source = index.dataset(dataset_in(query.fromNs, query.fromDataset, prefix="from"))
        target = index.dataset(dataset_in(query.toNs, query.toDataset, prefix="to"))
        from_field = index.field(source, required("fromField", query.fromField))
        to_field = index.field(target, query.toField) if query.toField else None
        period = period_in(index, self._state, query.start, query.end)
        return JsonAnswer(edge_to_json(index, from_field, target, to_field, period))

    def dataset(self, ns: Text = None, dataset: Text = None, limit: Text = None, before: Text = None) -> Response:
        """The fields of a dataset, its tags and branches, and its snapshots, the newest first, in pages."""
        index = self._state.index()
        owner = index.dataset(dataset_in(ns, dataset))
        size = counted("limit", limit, default=50, least=1, most=LIMIT_MAX)
        behind = number("before", before, default=None, least=0, most=NUMBER_MAX)
        history = self._state.histories.history(owner.dataset, limit=size, before=behind)
        found = {
            "ns": owner.namespace,
            "dataset": owner.name,
            "fields": fields_to_json(index, owner),
            "snapshots": list(history.snapshots),
            "next": history.next,
            "tags": list(history.tags),
            "branches": list(history.branches),
        }
        return JsonAnswer(found)

    def impact(self, query: Annotated[DatasetQuery, Query()]) -> Response:
        """Everything that is made from a field, or that it decides about."""
        index = self._state.index()
        names = query.ns, query.dataset, query.field
        depth = query.depth or str(DEPTH_MAX)
        question = question_in(self._state, index, names, direction=DOWN, depth=depth, kinds=query.kinds)
        return JsonAnswer({"rows": [_impact_row(row) for row in impact_answer(index, question).to_pylist()]})

    def export(self, query: Annotated[GraphQuery, Query()]) -> Response:
        """The graph as a file."""
        index, size = self._state.index(), _limit_in(query)
        return export(index, self._asked(index, query), query.format or "json", limit=size)

    def _asked(self, index: FieldIndex, query: GraphQuery) -> Asked:
        return question_in(
            self._state,
            index,
            (query.ns, query.dataset, query.field),
            direction=query.direction,
            depth=query.depth,
            times=(query.start, query.end, query.at),
            kinds=query.kinds,
        )


def _limit_in(query: GraphQuery) -> int:
    return counted("limit", query.limit, default=60, least=1, most=LIMIT_MAX)


def _impact_row(row: Json) -> Json:
    return {
        "ns": row["namespace"],
        "dataset": row["dataset"],
        "field": row["field"],
        "hop": row["depth"],
        "direct": row["type"] == "DIRECT",
        "kinds": row["kinds"],
        "masked": row["masked"],
        "jobs": row["jobs"],
    }
