"""Questions about the lineage of fields, from an index: up, down, both, and what breaks if a field goes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.fields.questions.dataset_graph import FieldGraph, graph_of_walks
from lakelog.lineage.fields.questions.field_answer import DOWN, UP, FieldAnswer, answer_of
from lakelog.lineage.fields.questions.field_index import FieldIndex
from lakelog.lineage.fields.questions.field_walk import Reached, walk
from lakelog.lineage.fields.questions.index_rows import IndexedDataset, IndexedField
from lakelog.lineage.fields.questions.index_schema import DIRECT_NUMBERS, KINDS
from lakelog.lineage.fields.questions.periods import ALL_TIME, Period

BOTH = "both"
DIRECTIONS = (UP, DOWN, BOTH)
IMPACT_SCHEMA = pa.schema(
    [
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("dataset", pa.string(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("depth", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("kinds", pa.list_(pa.string()), nullable=False),
        pa.field("masked", pa.bool_(), nullable=False),
        pa.field("jobs", pa.list_(pa.string()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question is about: a dataset, or one field of it; how far, which way and when."""

    dataset: IndexedDataset
    field: IndexedField | None
    direction: str = BOTH
    depth: int | None = None
    period: Period = ALL_TIME
    direct_only: bool = False


def asked(index: FieldIndex, dataset: Dataset, field: str | None) -> tuple[IndexedDataset, IndexedField | None]:
    """The dataset and the field of a question. Raises NotFoundError."""
    owner = index.dataset(dataset)
    return owner, None if field is None else index.field(owner, field)


def walks_of(index: FieldIndex, question: Asked) -> list[Reached]:
    """The walks up, down or both ways. Raises InvalidRequestError for another direction or a depth below 1."""
    if question.direction not in DIRECTIONS:
        raise InvalidRequestError(f"direction is {shown(question.direction)}; expected {', '.join(DIRECTIONS)}")
    if question.depth is not None and question.depth < 1:
        raise InvalidRequestError(f"depth is {question.depth}; expected 1 or more, or None for all")
    whole = [question.dataset.id] if question.field is None else []
    fields = index.fields_of(whole) if question.field is None else [question.field]
    return [
        walk(
            index,
            [one.id for one in fields],
            is_up=is_up,
            depth=question.depth,
            period=question.period,
            direct_only=question.direct_only,
            datasets=whole,
        )
        for is_up in (True, False)
        if question.direction in {BOTH, UP if is_up else DOWN}
    ]


def edges_answer(index: FieldIndex, question: Asked) -> FieldAnswer:
    """The edges of a question."""
    return answer_of(index, walks_of(index, question), question.period)


def graph_answer(index: FieldIndex, question: Asked, *, limit: int) -> FieldGraph:
    """The graph of a question."""
    return graph_of_walks(
        index, question.dataset, question.field, walks_of(index, question), period=question.period, limit=limit
    )


def impact_answer(index: FieldIndex, question: Asked) -> pa.Table:
    """Each field downstream, as a table of IMPACT_SCHEMA, the nearest first.

    `type` is DIRECT if the value of the field is in it on some path, else INDIRECT; `kinds` are those of all paths.
    `masked`: on each path that is of this type. `jobs` are those that write the field.
    """
    found = walk(
        index,
        [one.id for one in ([question.field] if question.field else index.fields_of([question.dataset.id]))],
        is_up=False,
        depth=question.depth,
        period=question.period,
        direct_only=question.direct_only,
    )
    reached = {one: hop for one, hop in found.hops.items() if hop}
    fields = index.fields(reached)
    datasets = {one.id: one for one in index.datasets({one.dataset for one in fields.values()})}
    jobs = _jobs(index, found, question.period)
    rows = []
    for one in sorted(reached, key=lambda one: (reached[one], fields[one].dataset, fields[one].place or 0, one)):
        owner, ways = datasets[fields[one].dataset], found.ways[one]
        direct = [way for way in ways if way[0] in DIRECT_NUMBERS]
        rows.append(
            {
                "namespace": owner.namespace,
                "dataset": owner.name,
                "field": fields[one].name,
                "depth": reached[one],
                "type": "DIRECT" if direct else "INDIRECT",
                "kinds": [KINDS[number].subtype for number in sorted({kind for kind, _ in ways})],
                "masked": all(is_masked for _, is_masked in direct or ways),
                "jobs": sorted(jobs.get(one, set()) | jobs.get((owner.id,), set())),
            }
        )
    return pa.Table.from_pylist(rows, schema=IMPACT_SCHEMA)


def _jobs(index: FieldIndex, found: Reached, period: Period) -> dict[object, set[str]]:
    """The jobs of the edges to each field, and by `(dataset,)` those of edges that count for all its fields."""
    by_write: dict[int, set[str]] = {}
    for run in index.runs({edge.write for edge in found.edges}):
        if run.job is not None and period.counts(run, is_up=False):
            by_write.setdefault(run.write, set()).add(run.job)
    jobs: dict[object, set[str]] = {}
    for edge in found.edges:
        key = (edge.sink,) if edge.target is None else edge.target
        jobs.setdefault(key, set()).update(by_write.get(edge.write, ()))
    return jobs
