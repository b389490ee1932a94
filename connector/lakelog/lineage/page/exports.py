"""The graph as a file: JSON or CSV. The page itself saves pictures, as they are drawn."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

from lakelog.common.quoting import shown
from lakelog.lineage.columns.questions.dataset_graph import FieldGraph
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_questions import Asked, graph_answer
from lakelog.lineage.page.graph_json import graph_to_json
from lakelog.lineage.page.page_errors import RequestError

_COLUMNS = (
    "source_namespace",
    "source_dataset",
    "source_field",
    "target_namespace",
    "target_dataset",
    "target_field",
    "kinds",
    "direct",
    "masked",
    "approximate",
    "opaque",
)
_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A file to save, and the name for it."""

    name: str
    media_type: str
    text: str


def export(index: FieldIndex, question: Asked, form: str, *, limit: int) -> Export:
    """The graph of a question as a file to save."""
    if form not in _TYPES:
        raise RequestError(400, f"format is {shown(form)}; expected json or csv. The page saves pictures.")
    graph = graph_answer(index, question, limit=limit)
    if graph.neighbours is not None and form != "json":
        raise RequestError(
            422, f"The graph has {graph.total} datasets, more than {limit}; ask for fewer hops, or set limit."
        )
    is_csv = form == "csv"
    text = graph_csv(graph) if is_csv else json.dumps(graph_to_json(graph, limit=limit), ensure_ascii=False)
    return Export(name=f"lineage.{form}", media_type=_TYPES[form], text=text)


def graph_csv(graph: FieldGraph) -> str:
    """The edges of a graph, one row for each pair of fields."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for one in graph.edges:
        source, target = graph.datasets[one.source].dataset, graph.datasets[one.target].dataset
        flags = (one.is_direct, one.is_masked, one.is_approximate, one.is_opaque)
        rows.writerow(
            [
                *source.dataset,
                one.source_field,
                *target.dataset,
                "" if one.target_field is None else one.target_field,
                " ".join(one.kinds),
                *(str(flag).lower() for flag in flags),
            ]
        )
    return text.getvalue()
