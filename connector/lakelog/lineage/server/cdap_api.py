"""The paths of CDAP below /v3: the lineage of datasets and of their fields.

A dataset or a field that is not known has empty answers, as there. Runs count if they overlap the range of time: a
query that started long ago and still runs has lineage today.
"""

from __future__ import annotations

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedField
from lakelog.lineage.columns.questions.periods import Period
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.query_values import Query
from lakelog.lineage.server.cdap_answers import (
    INCOMING,
    OUTGOING,
    dataset_summary,
    field_list,
    operations_answer,
    summary_of,
)
from lakelog.lineage.server.cdap_levels import COLLAPSES, ROLLUPS, levels_json, relations_around
from lakelog.lineage.server.cdap_lookups import FieldSide, accesses_in, is_in, operation_groups
from lakelog.lineage.server.cdap_values import (
    ListPage,
    check_size,
    chosen_of,
    direction_of,
    flag_of,
    in_pages,
    levels_of,
    range_of,
)

LEVELS_DEFAULT = 10


class CdapApi:
    """The answers, one method for each path; `ns`, `dataset` and `field` are parts of it."""

    def __init__(self, state: Answering) -> None:
        """Nothing is read yet."""
        self._state = state

    def levels(self, query: Query) -> Json:
        """The programs and datasets around a dataset, both ways.

        What differs in `collapse` alone, access, run or component, is one relation; of `rollup`, workflow, there are
        none.
        """
        depth = levels_of(query, "levels", LEVELS_DEFAULT)
        collapses = chosen_of(query, "collapse", COLLAPSES)
        chosen_of(query, "rollup", ROLLUPS)
        asked = range_of(query, self._state)
        found = relations_around(accesses_in(asked.index, asked.period), query.dataset(), depth)
        check_size(len(found), "relations")
        return levels_json((asked.start, asked.end), found, collapses)

    def fields(self, query: Query) -> ListPage:
        """The names of the fields that have lineage; with includeCurrent of all, each with whether it has some."""
        asked = range_of(query, self._state)
        current = flag_of(query, "includeCurrent")
        owner, fields = _fields_of(asked.index, query.dataset())
        with_lineage = [] if owner is None else with_lineage_in(asked.index, fields, asked.period)
        present = [one.name for one in fields if one.state == "present"]
        names = (one.name for one in with_lineage)
        found = field_list(names, present, prefix=query.text("prefix"), include_current=current)
        return in_pages(found if current else [one["name"] for one in found], query)

    def all_fields(self, query: Query) -> Json:
        """The relations of all fields of a dataset, one hop far."""
        side = direction_of(query)
        asked = range_of(query, self._state)
        dataset = query.dataset()
        _, fields = _fields_of(asked.index, dataset)
        relations = {
            INCOMING: FieldSide(asked.index, fields, asked.period, is_up=True).relations(),
            OUTGOING: FieldSide(asked.index, fields, asked.period, is_up=False).relations(),
        }
        check_size(sum(map(len, relations.values())), "relations")
        names = [one.name for one in with_lineage_in(asked.index, fields, asked.period)]
        times = asked.start * 1_000, asked.end * 1_000
        return dataset_summary(dataset, side, times, names, relations)

    def field(self, query: Query) -> Json:
        """The fields that a field is made from, and that are made from it, one hop far."""
        side = direction_of(query)
        asked = range_of(query, self._state)
        fields = _field_of(asked.index, query.dataset(), query.text("field") or "")
        columns = {
            INCOMING: FieldSide(asked.index, fields, asked.period, is_up=True).columns(),
            OUTGOING: FieldSide(asked.index, fields, asked.period, is_up=False).columns(),
        }
        return summary_of(side, columns)

    def operations(self, query: Query) -> Json:
        """The operations on both sides of a field, with the programs that ran them."""
        side = direction_of(query, "both")
        asked = range_of(query, self._state)
        owner, _ = _fields_of(asked.index, query.dataset())
        fields = _field_of(asked.index, query.dataset(), query.text("field") or "")
        return {
            one: operations_answer(
                group
                for each in fields
                if owner is not None
                for group in operation_groups(asked.index, owner, each, asked.period, is_up=one == INCOMING)
            )
            for one in (INCOMING, OUTGOING)
            if side in {one, "both"}
        }


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
