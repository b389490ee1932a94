"""/api: what the page asks for. The form of the answers is the page's own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakelog.lineage.fields.questions.field_answer import DOWN
from lakelog.lineage.fields.questions.field_index import FieldIndex
from lakelog.lineage.fields.questions.field_questions import Asked, graph_answer, impact_answer
from lakelog.lineage.fields.questions.field_search import search
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

ROWS_MAX = 10_000
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
    wrong: str | None = Field(None, description="The root is wrong from this snapshot on: marks what it has reached.")
    format: str | None = Field(None, description="Of an export: json, csv or svg.")


class SnapshotsQuery(BaseModel):
    """The snapshots of a dataset; with `wrong` each says whether it was made from that snapshot of another table."""

    ns: str | None = None
    dataset: str | None = None
    limit: str | None = Field(None, description="Snapshots at most.")
    before: str | None = Field(None, description="Only snapshots before this one.")
    wrong: str | None = Field(None, description="A wrong snapshot of the table that wrongNs and wrongDataset name.")
    wrongNs: str | None = None
    wrongDataset: str | None = None
    wrongField: str | None = Field(None, description="The field that is wrong; the whole snapshot without one.")


class ImpactQuery(DatasetQuery, RangeQuery):
    """What is below a field."""

    limit: str | None = Field(None, description="Rows at most.")
    offset: str | None = Field(None, description="Rows to leave out.")


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
        question = self._asked(index, query)
        wrong = number("wrong", query.wrong, default=None, least=0, most=NUMBER_MAX)
        tainted = None
        if wrong is not None:
            field = None if question.field is None else question.field.name
            tainted = self._state.histories.taints(index, question.dataset.dataset, field, wrong)
        return JsonAnswer(graph_to_json(graph_answer(index, question, limit=size), limit=size, tainted=tainted))

    def edge(self, query: Annotated[EdgeQuery, Query()]) -> Response:
        """The writes behind an edge: operations, SQL and runs."""
        index = self._state.index()
        source = index.dataset(dataset_in(query.fromNs, query.fromDataset, prefix="from"))
        target = index.dataset(dataset_in(query.toNs, query.toDataset, prefix="to"))
        from_field = index.field(source, required("fromField", query.fromField))
        to_field = index.field(target, query.toField) if query.toField else None
        period = period_in(index, self._state, query.start, query.end)
        return JsonAnswer(edge_to_json(index, from_field, target, to_field, period))

    def dataset(self, query: Annotated[SnapshotsQuery, Query()]) -> Response:
        """The fields of a dataset, its tags and branches, and its snapshots, the newest first, in pages."""
        index = self._state.index()
        owner = index.dataset(dataset_in(query.ns, query.dataset))
        size = counted("limit", query.limit, default=50, least=1, most=LIMIT_MAX)
        behind = number("before", query.before, default=None, least=0, most=NUMBER_MAX)
        wrong = number("wrong", query.wrong, default=None, least=0, most=NUMBER_MAX)
        history = self._state.histories.history(owner.dataset, limit=size, before=behind)
        snapshots = list(history.snapshots)
        if wrong is not None:
            source = index.dataset(dataset_in(query.wrongNs, query.wrongDataset, prefix="wrong"))
            taints = self._state.histories.taints(index, source.dataset, query.wrongField or None, wrong)
            found = taints.get(owner.dataset)
            tainted = frozenset[int]() if found is None else found.snapshots
            snapshots = [{**one, "tainted": one["id"] in tainted} for one in snapshots]
        return JsonAnswer(
            {
                "ns": owner.namespace,
                "dataset": owner.name,
                "fields": fields_to_json(index, owner),
                "snapshots": snapshots,
                "next": history.next,
                "tags": list(history.tags),
                "branches": list(history.branches),
            }
        )

    def impact(self, query: Annotated[ImpactQuery, Query()]) -> Response:
        """Everything that is made from a field, or that it decides about; the nearest first, in pages."""
        index = self._state.index()
        names = query.ns, query.dataset, query.field
        depth = query.depth or str(DEPTH_MAX)
        size = counted("limit", query.limit, default=ROWS_MAX, least=1, most=ROWS_MAX)
        begin = counted("offset", query.offset, default=0, least=0, most=NUMBER_MAX)
        times = query.start, query.end, None
        question = question_in(self._state, index, names, direction=DOWN, depth=depth, times=times, kinds=query.kinds)
        found = impact_answer(index, question)
        rows = found.slice(min(begin, found.num_rows), size).to_pylist()
        return JsonAnswer({"total": found.num_rows, "rows": [_impact_row(row) for row in rows]})

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
