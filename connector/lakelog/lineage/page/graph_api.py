"""/api: what the page asks for, from a server or from a file. The form of the answers is the page's own."""

from __future__ import annotations

from lakelog.lineage.columns.questions.field_questions import graph_answer, impact_answer
from lakelog.lineage.columns.questions.field_search import search
from lakelog.lineage.page.edge_json import edge_to_json, fields_to_json
from lakelog.lineage.page.exports import Export, export
from lakelog.lineage.page.graph_json import Json, graph_to_json, match_to_json
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.query_values import DEPTH_MAX, Query

LIMIT_MAX = 1_000
ROWS_MAX = 10_000


class GraphApi:
    """The answers, one method for each path."""

    def __init__(self, state: Answering) -> None:
        """Nothing is read yet."""
        self._state = state

    def search(self, query: Query) -> Json:
        """Datasets and fields whose names contain a text, in any case; all datasets without it."""
        size, begin = query.page(default=50, most=LIMIT_MAX)
        total, found = search(self._state.index(), query.text("q") or "", limit=size, offset=begin)
        return {"total": total, "results": [match_to_json(one) for one in found]}

    def graph(self, query: Query) -> Json:
        """The datasets and edges around a dataset or a field; `wrong` marks what a wrong snapshot of it has reached."""
        index, size = self._state.index(), _limit_in(query)
        question = query.question(index, self._state)
        wrong = query.number("wrong", least=0)
        tainted = None
        if wrong is not None:
            field = None if question.field is None else question.field.name
            tainted = self._state.histories.taints(index, question.dataset.dataset, field, wrong)
        return graph_to_json(graph_answer(index, question, limit=size), limit=size, tainted=tainted)

    def edge(self, query: Query) -> Json:
        """The writes behind an edge: operations, SQL and runs; without `toField` of one that counts for all fields."""
        index = self._state.index()
        source, target = index.dataset(query.dataset("from")), index.dataset(query.dataset("to"))
        from_field, name = index.field(source, query.required("fromField")), query.text("toField")
        to_field = index.field(target, name) if name else None
        return edge_to_json(index, from_field, target, to_field, query.period(index, self._state))

    def dataset(self, query: Query) -> Json:
        """The fields of a dataset, its tags and branches, and its snapshots, the newest first, in pages.

        With `wrong`, each snapshot says whether it was made from that snapshot of another table.
        """
        index = self._state.index()
        owner = index.dataset(query.dataset())
        size, _ = query.page(default=50, most=LIMIT_MAX)
        wrong = query.number("wrong", least=0)
        history = self._state.histories.history(owner.dataset, limit=size, before=query.number("before", least=0))
        snapshots = list(history.snapshots)
        if wrong is not None:
            source = index.dataset(query.dataset("wrong"))
            taints = self._state.histories.taints(index, source.dataset, query.text("wrongField") or None, wrong)
            found = taints.get(owner.dataset)
            tainted = frozenset[int]() if found is None else found.snapshots
            snapshots = [{**one, "tainted": one["id"] in tainted} for one in snapshots]
        return {
            "ns": owner.namespace,
            "dataset": owner.name,
            "fields": fields_to_json(index, owner),
            "snapshots": snapshots,
            "next": history.next,
            "tags": list(history.tags),
            "branches": list(history.branches),
        }

    def impact(self, query: Query) -> Json:
        """Everything that is made from a field, or that it decides about; the nearest first, in pages."""
        index = self._state.index()
        size, begin = query.page(default=ROWS_MAX, most=ROWS_MAX)
        found = impact_answer(index, query.question(index, self._state, depth=DEPTH_MAX))
        rows = found.slice(min(begin, found.num_rows), size).to_pylist()
        return {"total": found.num_rows, "rows": [_impact_row(row) for row in rows]}

    def export(self, query: Query) -> Export:
        """The graph as a file."""
        index, size = self._state.index(), _limit_in(query)
        return export(index, query.question(index, self._state), query.text("format") or "json", limit=size)


def _limit_in(query: Query) -> int:
    return query.number("limit", least=1, most=LIMIT_MAX) or 60


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
