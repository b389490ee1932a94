"""What the paths of /v3 look up in the index: the edges of a dataset, the programs of writes, accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import (
    IndexedDataset,
    IndexedEdge,
    IndexedField,
    IndexedRun,
    IndexedWrite,
)
from lakelog.lineage.columns.questions.operation_paths import operations_from, operations_to
from lakelog.lineage.columns.questions.periods import Period
from lakelog.lineage.server.cdap_answers import Executed, NamedColumn, Program
from lakelog.lineage.server.cdap_levels import Access

NO_JOB = "unnamed"


class FieldSide:
    """The edges of some fields of a dataset, upwards or downwards, within a period."""

    def __init__(self, index: FieldIndex, fields: Iterable[IndexedField], period: Period, *, is_up: bool) -> None:
        self._is_up = is_up
        ids = [one.id for one in fields]
        found = index.edges_into(ids) if is_up else index.edges_from(ids)
        self.edges = [edge for edge in found if is_in(edge.write, period)]
        ends = {end for edge in self.edges for end in (edge.source, edge.target) if end is not None}
        self._fields = index.fields(ends)
        self._datasets = {one.id: one.dataset for one in index.datasets({one.dataset for one in self._fields.values()})}

    def columns(self) -> list[NamedColumn]:
        """The fields at the other ends."""
        return [self._column(edge.source if self._is_up else edge.target) for edge in self._ordered()]

    def relations(self) -> list[tuple[Dataset, str, str]]:
        """Other dataset, source and destination of each edge, each once."""
        found: dict[tuple[Dataset, str, str], None] = {}
        for edge in self._ordered():
            source, target = self._column(edge.source), self._column(edge.target)
            found[(source if self._is_up else target).dataset, source.field, target.field] = None
        return list(found)

    def _ordered(self) -> list[IndexedEdge]:
        return sorted(self.edges, key=lambda edge: (edge.target or 0, edge.source))

    def _column(self, field: int | None) -> NamedColumn:
        assert field is not None
        found = self._fields[field]
        return NamedColumn(self._datasets[found.dataset], found.name)


def is_in(write: int, period: Period) -> bool:
    """Whether a write counts."""
    return period.above is None or write in period.above


def runs_in(index: FieldIndex, writes: Iterable[int], period: Period) -> dict[int, list[IndexedRun]]:
    """The runs of writes that count, the newest first."""
    found: dict[int, list[IndexedRun]] = {}
    for run in index.runs(writes):
        if is_in(run.write, period) and period.counts(run):
            found.setdefault(run.write, []).append(run)
    return found


def programs_of(sink: Dataset, runs: Iterable[IndexedRun]) -> list[Executed]:
    """The programs of runs, with the times at which they were last seen."""
    return [Executed(program_of(sink, run), run.last_millis // 1_000) for run in runs]


def program_of(sink: Dataset, run: IndexedRun) -> Program:
    """The program of a run."""
    return Program(sink.namespace, run.job or NO_JOB)


def writes_of_field(
    index: FieldIndex, owner: IndexedDataset, field: IndexedField, period: Period, *, is_up: bool
) -> Iterator[tuple[IndexedWrite, FieldDocument, list[IndexedRun]]]:
    """The writes that make a field, or that read it, with their documents and runs, the newest first."""
    if is_up:
        chosen = {one.write for one in index.written(fields=[field.id])}
    else:
        edges = index.edges_from([field.id]) + index.dataset_edges_from([field.id])
        chosen = {edge.write for edge in edges} | set(index.writes_reading(owner.id))
    runs, writes = runs_in(index, chosen, period), index.writes(chosen)
    for write, some in runs.items():
        document = index.document(writes[write].checksum)
        if document is not None:
            yield writes[write], document, some


def operations_beside(
    index: FieldIndex,
    write: IndexedWrite,
    document: FieldDocument,
    owner: IndexedDataset,
    field: IndexedField,
    *,
    is_up: bool,
) -> list[FieldOperation]:
    """The operations of a write on one side of a field."""
    if is_up:
        return operations_to(index, write, document, field)
    return operations_from(index, write, document, owner, field)


def operation_groups(
    index: FieldIndex, owner: IndexedDataset, field: IndexedField, period: Period, *, is_up: bool
) -> Iterator[tuple[list[FieldOperation], list[Executed]]]:
    """The operations of each write on one side of a field, with the programs that ran them."""
    for write, document, runs in writes_of_field(index, owner, field, period, is_up=is_up):
        operations = operations_beside(index, write, document, owner, field, is_up=is_up)
        if operations:
            yield operations, programs_of(index.datasets([write.sink])[0].dataset, runs)


def accesses_in(index: FieldIndex, period: Period) -> Iterator[Access]:
    """What each run has read and written in a period."""
    datasets = {one.id: one.dataset for one in index.datasets()}
    sinks = {one.id: one.sink for one in index.writes(sinks=datasets).values()}
    reads: dict[int, list[int]] = {}
    for write, dataset in index.reads():
        reads.setdefault(write, []).append(dataset)
    for write, runs in runs_in(index, sinks, period).items():
        for run in runs:
            program = program_of(datasets[sinks[write]], run)
            for dataset in reads.get(write, ()):
                yield Access(program, datasets[dataset], "READ", run.run)
            yield Access(program, datasets[sinks[write]], "WRITE", run.run)
