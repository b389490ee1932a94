"""The paths of CDAP below /v3: the lineage of datasets and of their fields.

A dataset or a field that is not known has empty answers, as there. Runs count if they overlap the range of time: a
query that started long ago and still runs has lineage today.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedField
from lakelog.lineage.columns.questions.periods import Period
from lakelog.lineage.page.cdap_answers import (
    INCOMING,
    OUTGOING,
    dataset_summary,
    field_list,
    operations_answer,
    summary_of,
)
from lakelog.lineage.page.cdap_levels import COLLAPSES, ROLLUPS, levels_json, relations_around
from lakelog.lineage.page.cdap_lookups import FieldSide, accesses_in, is_in, operation_groups
from lakelog.lineage.page.cdap_values import (
    END,
    START,
    TEXT,
    check_size,
    chosen_of,
    direction_of,
    flag_of,
    in_pages,
    levels_of,
    named,
    part_of,
    range_of,
)
from lakelog.lineage.page.json_answers import JsonAnswer
from lakelog.lineage.page.page_state import PageState

LEVELS_DEFAULT = 10
DIRECTION = Annotated[str | None, Query(description="incoming, outgoing or both.")]


def cdap_router(state: PageState) -> APIRouter:
    """The paths."""
    router, api = APIRouter(prefix="/v3/namespaces/{ns}/datasets/{ds}/lineage", tags=["lineage"]), _CdapApi(state)
    router.get("")(api.levels)
    router.get("/fields")(api.fields)
    router.get("/allfieldlineage")(api.all_fields)
    router.get("/fields/{field}")(api.field)
    router.get("/fields/{field}/operations")(api.operations)
    return router


class _CdapApi:
    def __init__(self, state: PageState) -> None:
        self._state = state

    def levels(  # noqa: PLR0917  # parts of the path and of the query
        self,
        ns: str,
        ds: str,
        start: START = None,
        end: END = None,
        levels: TEXT = None,
        collapse: Annotated[list[str] | None, Query(description="access, run, component; may be repeated.")] = None,
        rollup: Annotated[str | None, Query(description="workflow; there are none.")] = None,
    ) -> Response:
        """The programs and datasets around a dataset, both ways."""
        depth = levels_of(levels, LEVELS_DEFAULT)
        collapses = chosen_of("collapse", collapse or (), COLLAPSES)
        chosen_of("rollup", () if rollup is None else (rollup,), ROLLUPS)
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        found = relations_around(accesses_in(index, asked.period), named(ns, ds), depth)
        check_size(len(found), "relations")
        return JsonAnswer(levels_json((asked.start, asked.end), found, collapses))

    def fields(  # noqa: PLR0917  # parts of the path and of the query
        self,
        ns: str,
        ds: str,
        start: START = None,
        end: END = None,
        prefix: Annotated[str | None, Query(description="What names begin with, in any case.")] = None,
        includeCurrent: Annotated[str | None, Query(description="Fields of the schema without lineage too.")] = None,
        limit: TEXT = None,
        offset: TEXT = None,
    ) -> Response:
        """The names of the fields that have lineage; with includeCurrent of all, each with whether it has some."""
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        current = flag_of("includeCurrent", includeCurrent)
        owner, fields = _fields_of(index, named(ns, ds))
        with_lineage = [] if owner is None else with_lineage_in(index, fields, asked.period)
        present = [one.name for one in fields if one.state == "present"]
        found = field_list((one.name for one in with_lineage), present, prefix=prefix, include_current=current)
        return in_pages(found if current else [one["name"] for one in found], limit, offset)

    def all_fields(  # parts of the path and of the query
        self, ns: str, ds: str, start: START = None, end: END = None, direction: DIRECTION = None
    ) -> Response:
        """The relations of all fields of a dataset, one hop far."""
        side = direction_of(direction)
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        dataset = named(ns, ds)
        _, fields = _fields_of(index, dataset)
        relations = {
            INCOMING: FieldSide(index, fields, asked.period, is_up=True).relations(),
            OUTGOING: FieldSide(index, fields, asked.period, is_up=False).relations(),
        }
        check_size(sum(map(len, relations.values())), "relations")
        names = [one.name for one in with_lineage_in(index, fields, asked.period)]
        times = asked.start * 1_000, asked.end * 1_000
        return JsonAnswer(dataset_summary(dataset, side, times, names, relations))

    def field(  # noqa: PLR0917  # parts of the path and of the query
        self, ns: str, ds: str, field: str, start: START = None, end: END = None, direction: DIRECTION = None
    ) -> Response:
        """The fields that a field is made from, and that are made from it, one hop far."""
        side = direction_of(direction)
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        fields = _field_of(index, named(ns, ds), part_of(field))
        columns = {
            INCOMING: FieldSide(index, fields, asked.period, is_up=True).columns(),
            OUTGOING: FieldSide(index, fields, asked.period, is_up=False).columns(),
        }
        return JsonAnswer(summary_of(side, columns))

    def operations(  # noqa: PLR0917  # parts of the path and of the query
        self, ns: str, ds: str, field: str, start: START = None, end: END = None, direction: DIRECTION = None
    ) -> Response:
        """The operations on both sides of a field, with the programs that ran them."""
        side = direction_of(direction, "both")
        index = self._state.index()
        asked = range_of(self._state, index, start, end)
        owner, _ = _fields_of(index, named(ns, ds))
        fields = _field_of(index, named(ns, ds), part_of(field))
        found = {
            one: operations_answer(
                group
                for each in fields
                if owner is not None
                for group in operation_groups(index, owner, each, asked.period, is_up=one == INCOMING)
            )
            for one in (INCOMING, OUTGOING)
            if side in {one, "both"}
        }
        return JsonAnswer(found)


def with_lineage_in(index: FieldIndex, fields: list[IndexedField], period: Period) -> list[IndexedField]:
    """The fields that were written in a period, or read."""
    ids = [one.id for one in fields]
    found = {one.field for one in index.written(fields=ids) if is_in(one.write, period)}
    edges = index.edges_from(ids) + index.dataset_edges_from(ids)
    found |= {edge.source for edge in edges if is_in(edge.write, period)}
    return [one for one in fields if one.id in found]


def _fields_of(index: FieldIndex, dataset: Dataset) -> tuple[IndexedDataset | None, list[IndexedField]]:
    owner = index.find_dataset(dataset)
    return owner, [] if owner is None else index.fields_of([owner.id])


def _field_of(index: FieldIndex, dataset: Dataset, name: str) -> list[IndexedField]:
    owner = index.find_dataset(dataset)
    found = None if owner is None else index.find_field(owner, name)
    return [] if found is None else [found]
