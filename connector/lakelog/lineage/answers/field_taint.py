"""Which fields of which tables hold values from a wrong field: the taint of snapshots, followed along edges of fields.

`lakelog.lineage.tainted` says which snapshots were made from a wrong one. A field of such a snapshot is tainted if an
edge of a batch that wrote it leads to it from a tainted field, or from a field that decides about all its rows. The
branches of a table share its fields. If the lineage of the fields of a tainted batch is not known, each of its fields
may be tainted: these rows are not `known`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple  # Any: the values of a row

import pyarrow as pa

from lakelog.filestore.metadata.origins import LineKey
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.answers.catalog_fields import dataset_named, field_index
from lakelog.lineage.answers.questions import lineage_graph
from lakelog.lineage.answers.taint import Tainted, tainted
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_questions import asked
from lakelog.lineage.columns.questions.index_rows import IndexedEdge, IndexedField, IndexedRun
from lakelog.lineage.columns.questions.index_schema import DIRECT_NUMBERS
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.found_tables import FoundTables
from lakelog.warehouse.warehouse import Warehouse

TAINTED_FIELDS_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        ("branch", pa.string()),
        pa.field("field", pa.string(), nullable=False),
        pa.field("first_tainted", pa.int64(), nullable=False),
        ("last_clean", pa.int64()),
        pa.field("holds_tainted_rows", pa.bool_(), nullable=False),
        pa.field("direct", pa.bool_(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
        pa.field("jobs", pa.list_(pa.string()), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class TaintedFields:
    """The fields that a wrong field has reached; the wrong field comes first.

    `fields` has a row per field: its first tainted snapshot, the newest living snapshot before it, whether the newest
    snapshot of its table holds tainted rows, whether a value of the wrong field is in it (`direct`) or only decides
    about it, the jobs that wrote it so, and whether it is `known` from the lineage of fields: if not, a batch without
    such lineage has read a tainted field, and may have put it anywhere. `tables` is what the wrong snapshot has reached
    as a whole, with the commands that restore tables.
    """

    fields: pa.Table
    tables: Tainted


class _Taint(NamedTuple):
    """From which snapshot on a field is tainted; `known` and `direct` as in the answer."""

    first: int
    is_known: bool
    is_direct: bool


def tainted_fields(
    catalog: Warehouse,
    table: str,
    field: str,
    snapshot_id: int,
    *,
    commit: str | None = None,
    catalogs: Sequence[Warehouse] = (),
    index: FieldIndex | None = None,
) -> TaintedFields:
    """What the wrong values of a field have reached, from a snapshot of its table on, in these catalogs.

        tainted_fields(catalog, "db.orders", "amount", 3).fields.to_pylist()

    `index` is the `field_index` of the same catalogs; else the arguments are those of `tainted`, as are the errors.
    """
    known = field_index(catalog, *catalogs) if index is None else index
    graph = lineage_graph(catalog, *catalogs)
    found = tainted(catalog, table, snapshot_id, commit=commit, catalogs=catalogs, graph=graph)
    _, wrong = asked(known, dataset_named(table), field)
    assert wrong is not None
    spread = _FieldSpread(known, found, graph)
    spread.run(wrong, snapshot_id)
    rows = list(spread.rows(FoundTables([catalog, *catalogs])))
    return TaintedFields(fields=pa.Table.from_pylist(rows, schema=TAINTED_FIELDS_SCHEMA), tables=found)


class _FieldSpread:
    def __init__(self, index: FieldIndex, found: Tainted, graph: EdgeArrays) -> None:
        self._index = index
        self._lines: dict[int, LineKey] = {}  # of datasets with tainted snapshots
        self._datasets: dict[LineKey, int] = {}
        self._tables: dict[LineKey, Mapping[str, Any]] = {}
        for row in found.tables.to_pylist():
            key = LineKey(row["uuid"], row["branch"])
            self._tables[key] = row
            line = key.branch or MAIN_BRANCH
            self._lines |= {one.id: key for one in index.tables(key.uuid, line)}  # several, if a folder was copied
            dataset = index.find_table(key.uuid, line, dataset_named(row["table"]))
            if dataset is not None:
                self._datasets[key] = dataset.id
        self._snapshots: dict[LineKey, list[Mapping[str, Any]]] = {}
        for row in found.snapshots.to_pylist():
            self._snapshots.setdefault(LineKey(row["uuid"], row["branch"]), []).append(row)
        self._read = _reads(graph, self._snapshots)
        self._runs: dict[int, list[IndexedRun]] = {}
        self._taints: dict[int, _Taint] = {}
        self._jobs: dict[int, set[str]] = {}
        self._order: dict[int, IndexedField] = {}

    def run(self, wrong: IndexedField, snapshot: int) -> None:
        self._order[wrong.id] = wrong
        self._taints[wrong.id] = _Taint(snapshot, True, True)
        left = [wrong]
        while left:
            one = left.pop()
            for other in (*self._along(one), *self._in_other_lines(one), *self._in_unknown(one)):
                left.append(other)

    def rows(self, tables: FoundTables) -> Iterable[dict[str, Any]]:
        """The rows of the answer, table by table as `tainted` has them."""
        places = {key: place for place, key in enumerate(self._tables)}
        first = next(iter(self._order))
        ordered = sorted(
            self._order.values(),
            key=lambda one: (one.id != first, places[self._lines[one.dataset]], one.place is None, one.place or 0),
        )
        for one in ordered:
            key, taint = self._lines[one.dataset], self._taints[one.id]
            table = self._tables[key]
            yield {
                "table": table["table"],
                "uuid": key.uuid,
                "branch": key.branch,
                "field": one.name,
                "first_tainted": taint.first,
                "last_clean": self._last_clean(tables, key, taint.first),
                "holds_tainted_rows": table["holds_tainted_rows"],
                "direct": taint.is_direct,
                "known": taint.is_known,
                "jobs": sorted(self._jobs.get(one.id, ())),
            }

    def _along(self, one: IndexedField) -> list[IndexedField]:
        """The fields that tainted batches have made from a tainted one, where that is news."""
        found: list[IndexedField] = []
        edges = self._index.edges_from([one.id]) + self._index.dataset_edges_from([one.id])
        targets = self._index.fields({edge.target for edge in edges if edge.target is not None})
        for edge in edges:
            at = self._carried(edge, one)
            if at is None:
                continue
            first, jobs = at
            ends = self._members(edge) if edge.target is None else [targets[edge.target]]
            before = self._taints[one.id]
            taint = _Taint(first, before.is_known, before.is_direct and edge.kind in DIRECT_NUMBERS)
            found += [end for end in ends if self._reach(end, taint, jobs)]
        return found

    def _carried(self, edge: IndexedEdge, source: IndexedField) -> tuple[int, set[str]] | None:
        """The first tainted snapshot of the sink that a run with this edge wrote from the tainted field, and jobs."""
        key = self._lines.get(edge.sink)
        if key is None:
            return None
        first = self._taints[source.id].first
        found: list[int] = []
        jobs: set[str] = set()
        for row in self._snapshots.get(key, ()):
            number = row["snapshot_id"]
            read = self._read.get((key, number), {}).get(self._lines.get(source.dataset))
            if read is not None and read < first:
                continue  # the batch has read the source only up to a snapshot in which the field was right
            runs = [run for run in self._runs_of(edge.write) if _wrote(run, row)]
            if runs:
                found.append(number)
                jobs.update(run.job for run in runs if run.job is not None)
        return (min(found), jobs) if found else None

    def _members(self, edge: IndexedEdge) -> list[IndexedField]:
        made = {one.field for one in self._index.written(writes=[edge.write])}
        fields = self._index.fields_of([edge.sink])
        return [one for one in fields if one.id in made or one.state == "present"]

    def _in_other_lines(self, one: IndexedField) -> list[IndexedField]:
        """The same field in tainted branches of its table, or in the table."""
        own = self._lines.get(one.dataset)
        before = self._taints[one.id]
        found: list[IndexedField] = []
        for key, dataset in self._datasets.items():
            if own is None or key.uuid != own.uuid or key == own:
                continue
            taint = before._replace(first=self._tables[key]["first_tainted"])
            same = [
                other
                for other in self._index.fields_of([dataset])
                if (other.number == one.number if one.number is not None else other.name == one.name)
            ]
            found += [other for other in same if self._reach(other, taint, self._jobs.get(one.id, set()))]
        return found

    def _in_unknown(self, one: IndexedField) -> list[IndexedField]:
        """All fields of tables with a tainted batch that has read this one's table, and whose fields are not known."""
        own = self._lines.get(one.dataset)
        first = self._taints[one.id].first
        found: list[IndexedField] = []
        for (key, number), read in self._read.items():
            dataset = self._datasets.get(key)
            end = read.get(own)
            if dataset is None or own not in read or (end is not None and end < first):
                continue
            row = next(row for row in self._snapshots[key] if row["snapshot_id"] == number)
            if any(_wrote(run, row) for run in self._runs_to(dataset)):
                continue
            for other in self._index.fields_of([dataset]):
                if other.state == "present" and self._reach(other, _Taint(number, False, False), set(row["jobs"])):
                    found.append(other)
        return found

    def _reach(self, one: IndexedField, taint: _Taint, jobs: set[str]) -> bool:
        """Whether that was news."""
        if one.dataset not in self._lines:
            return False
        self._order.setdefault(one.id, one)
        before = self._taints.get(one.id)
        merged = taint if before is None else _merged(before, taint)
        self._jobs.setdefault(one.id, set()).update(jobs)
        self._taints[one.id] = merged
        return merged != before

    def _runs_of(self, write: int) -> list[IndexedRun]:
        if write not in self._runs:
            self._runs[write] = self._index.runs([write])
        return self._runs[write]

    def _runs_to(self, dataset: int) -> list[IndexedRun]:
        """The runs that wrote a dataset, and whose lineage is known."""
        known = (one for one in self._index.writes(sinks=[dataset]).values() if self._index.has_document(one.checksum))
        return [run for one in known for run in self._runs_of(one.id)]

    def _last_clean(self, tables: FoundTables, key: LineKey, first: int) -> int | None:
        row = self._tables[key]
        if first == row["first_tainted"]:
            return None if row["last_clean"] is None else int(row["last_clean"])
        store = tables.by_key(key)
        if store is None:
            return None
        return max((one for one in store.snapshots.ids() if one < first), default=None)


def _merged(one: _Taint, other: _Taint) -> _Taint:
    return _Taint(min(one.first, other.first), one.is_known or other.is_known, one.is_direct or other.is_direct)


def _wrote(run: IndexedRun, row: Mapping[str, Any]) -> bool:
    """Whether a run wrote a tainted snapshot."""
    if run.first_snapshot is None or run.last_snapshot is None:
        return False
    is_in = run.first_snapshot <= row["snapshot_id"] <= run.last_snapshot
    return is_in and (run.job is None or run.job in row["jobs"])


def _reads(
    graph: EdgeArrays, snapshots: Mapping[LineKey, Sequence[Mapping[str, Any]]]
) -> dict[tuple[LineKey, int], dict[LineKey | None, int | None]]:
    """By tainted snapshot: up to which snapshot its batches have read each source; None if that is not known."""
    found: dict[tuple[LineKey, int], dict[LineKey | None, int | None]] = {
        (key, row["snapshot_id"]): {} for key, rows in snapshots.items() for row in rows
    }
    names = ["sink_uuid", "sink_branch", "sink_snapshot", "source_uuid", "source_branch", "source_to", "exact"]
    for row in graph.edges.select(names).to_pylist():
        read = found.get((LineKey(row["sink_uuid"], row["sink_branch"]), row["sink_snapshot"]))
        if read is None or row["source_uuid"] is None:
            continue
        source = LineKey(row["source_uuid"], row["source_branch"])
        end = row["source_to"] if row["exact"] else None
        read[source] = None if end is None or read.get(source, 0) is None else max(end, read.get(source) or 0)
    return found
