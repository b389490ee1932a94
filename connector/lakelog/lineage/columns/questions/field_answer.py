"""The answer to a question about the lineage of fields, as a table of Arrow or a frame of polars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: the values of a row

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.html import ShowsPage
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_walk import Reached
from lakelog.lineage.columns.questions.index_rows import IndexedEdge, IndexedRun, WrittenField
from lakelog.lineage.columns.questions.index_schema import DIRECT_NUMBERS, KINDS
from lakelog.lineage.columns.questions.periods import Period

if TYPE_CHECKING:
    import polars as pl

UP, DOWN = "up", "down"
RUN_TYPE = pa.struct(
    [
        ("run", pa.string()),
        ("query", pa.string()),
        ("first_batch", pa.int64()),
        ("last_batch", pa.int64()),
        ("first_snapshot", pa.int64()),
        ("last_snapshot", pa.int64()),
        ("first_time", pa.timestamp("ms", "UTC")),
        ("last_time", pa.timestamp("ms", "UTC")),
    ]
)
FIELD_EDGE_SCHEMA = pa.schema(
    [
        pa.field("direction", pa.string(), nullable=False),
        pa.field("depth", pa.int64(), nullable=False),
        pa.field("source_namespace", pa.string(), nullable=False),
        pa.field("source_dataset", pa.string(), nullable=False),
        pa.field("source_field", pa.string(), nullable=False),
        pa.field("source_paths", pa.list_(pa.string()), nullable=False),
        pa.field("target_namespace", pa.string(), nullable=False),
        pa.field("target_dataset", pa.string(), nullable=False),
        ("target_field", pa.string()),
        pa.field("type", pa.string(), nullable=False),
        pa.field("kinds", pa.list_(pa.string()), nullable=False),
        pa.field("masked", pa.bool_(), nullable=False),
        pa.field("approximate", pa.bool_(), nullable=False),
        pa.field("opaque", pa.bool_(), nullable=False),
        ("operation", pa.string()),
        ("sql", pa.string()),
        ("job", pa.string()),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("runs", pa.list_(RUN_TYPE), nullable=False),
    ]
)
_Group = tuple[int, int | None, int, int, bool]  # source, target, sink, write, direct


@dataclass(frozen=True)
class FieldAnswer(ShowsPage):
    """The edges of an answer, those nearest to the field that was asked for first.

    A row is an edge of one job: `direction` is `up` or `down` from the field, `depth` the number of hops. `type` is
    DIRECT if the value of the source is in the target, INDIRECT if it decides about it; `kinds` are the subtypes of
    OpenLineage. `target_field` is null for an edge that counts for all fields of the target. `source_paths` are the
    parts of a struct that are read, with dots; none for the whole column. `approximate`: the document does not have all
    edges, or too many; `opaque`: code that cannot be read is on the way. `operation` is the verb of a batch write.
    `runs` are the runs of the job that count, the newest first.
    """

    edges: pa.Table
    _page: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    def to_html(self) -> str:
        """The page of the answer, one file that needs no server: each table with its columns, and the edges.

        Raises InvalidRequestError for an answer with too many tables to be drawn.
        """
        if self._page is None:
            raise InvalidRequestError("this answer was not asked with a page: ask lakelog.lineage.columns")
        return self._page()

    def to_arrow(self) -> pa.Table:
        """The edges as a table of Arrow."""
        return self.edges

    def to_polars(self) -> pl.DataFrame:
        """The edges as a frame of polars."""
        import polars as pl  # noqa: PLC0415  # it takes long to import

        frame = pl.from_arrow(self.edges)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __len__(self) -> int:
        """The number of rows."""
        return int(self.edges.num_rows)


def answer_of(index: FieldIndex, walks: Iterable[Reached], period: Period) -> FieldAnswer:
    """The answer of walks up and down."""
    rows = [row for reached in walks for row in _Rows(index, reached, period)]
    rows.sort(key=lambda row: (row["depth"], row["direction"] != UP))
    return FieldAnswer(pa.Table.from_pylist(rows, schema=FIELD_EDGE_SCHEMA))


class _Rows:
    """The rows of one walk."""

    def __init__(self, index: FieldIndex, reached: Reached, period: Period) -> None:
        self._reached = reached
        edges = reached.edges
        ends = (end for edge in edges for end in (edge.source, edge.target))
        self._fields = index.fields({end for end in ends if end is not None})
        owners = {one.dataset for one in self._fields.values()} | {edge.sink for edge in edges}
        self._datasets = {one.id: one for one in index.datasets(owners)}
        self._writes = index.writes({edge.write for edge in edges})
        made = index.written(writes=self._writes)
        self._made = {(one.write, one.field): one for one in made}
        self._period = period
        self._runs: dict[int, list[IndexedRun]] = {}
        for run in index.runs(self._writes):
            self._runs.setdefault(run.write, []).append(run)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        groups: dict[_Group, list[IndexedEdge]] = {}
        for edge in self._reached.edges:
            key = edge.source, edge.target, edge.sink, edge.write, edge.kind in DIRECT_NUMBERS
            groups.setdefault(key, []).append(edge)
        for key, edges in groups.items():
            yield from self._rows_of(key, edges)

    def _rows_of(self, key: _Group, edges: Sequence[IndexedEdge]) -> Iterator[dict[str, Any]]:
        source, target, sink, write, is_direct = key
        made = None if target is None else self._made.get((write, target))
        from_field, from_dataset = self._fields[source], self._datasets[self._fields[source].dataset]
        depth = min(self._reached.edges[edge] for edge in edges)
        row = {
            "direction": UP if self._reached.is_up else DOWN,
            "depth": depth,
            "source_namespace": from_dataset.namespace,
            "source_dataset": from_dataset.name,
            "source_field": from_field.name,
            "source_paths": sorted({edge.path for edge in edges if edge.path}),
            "target_namespace": self._datasets[sink].namespace,
            "target_dataset": self._datasets[sink].name,
            "target_field": None if target is None else self._fields[target].name,
            "type": "DIRECT" if is_direct else "INDIRECT",
            "kinds": kind_names(edges),
            "masked": all(edge.is_masked for edge in edges),
            "approximate": self._writes[write].is_approximate,
            "opaque": made is not None and made.is_opaque,
            "sql": _sql(made),
            "checksum": self._writes[write].checksum,
        }
        jobs: dict[str | None, list[IndexedRun]] = {}
        for run in self._runs.get(write, ()):
            if self._period.counts(run, is_up=self._reached.is_up, hop=depth):
                jobs.setdefault(run.job, []).append(run)
        for job, runs in (jobs or {None: []}).items():
            operation = next((run.operation for run in runs if run.operation is not None), None)
            yield row | {"job": job, "operation": operation, "runs": [_run(run) for run in runs]}


def kind_names(edges: Iterable[IndexedEdge]) -> list[str]:
    """The subtypes of edges, each once, in the order of `EdgeKind`."""
    return [KINDS[number].subtype for number in sorted({edge.kind for edge in edges})]


def _sql(made: WrittenField | None) -> str | None:
    return None if made is None else made.sql or None


def _run(run: IndexedRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "query": run.query,
        "first_batch": run.first_batch,
        "last_batch": run.last_batch,
        "first_snapshot": run.first_snapshot,
        "last_snapshot": run.last_snapshot,
        "first_time": run.first_millis,
        "last_time": run.last_millis,
    }
