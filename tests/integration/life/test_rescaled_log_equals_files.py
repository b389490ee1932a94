"""fold(log) = fold(files) = model over the generations of a log whose table gets other buckets, and for its readers.

Random histories of batches, rescales and reads; writers and rescales die after random steps; on a real broker.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.common.types import ROW_KIND_TEXTS, RowKind
from lakelog.protocol.state.steps import Step
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import Offset
from tests.support.examples import in_full
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.rescales import apply, check_generations, dying_rescale
from tests.support.logs.statements import Row, rows_in
from tests.support.streams.planned_reader import Reader

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KEYS = 6
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("p", pa.int64(), nullable=False),
    ]
)
ALL = {"log.changelog-mode": "all"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
KINDS: Mapping[str, tuple[list[str], list[str], dict[str, str]]] = {
    "upsert": (["k"], [], {}),
    "upsert, partitioned": (["k", "p"], ["p"], {}),
    "upsert, changelog by compaction": (["k"], [], {"changelog-producer": "lookup"}),
    "all": (["k"], [], ALL),
    "all, partitioned, changelog at write": (["k", "p"], ["p"], {**ALL, "changelog-producer": "lookup"}),
    "sum": (["k"], [], {**SUM, **ALL}),
    "sequence": (["k"], [], {"sequence.field": "v"}),
    "append-only": ([], [], {}),
    "append-only, partitioned": ([], ["p"], {}),
    "value-count": ([], [], {"write-mode": "change-log"}),
}


@dataclass(frozen=True, slots=True)
class Write:
    """A batch of rows, a negative value for a delete where the kind takes them; the writer dies after so many steps.

    There are few rows, so that batches have equal ones.
    """

    rows: Sequence[tuple[int, int]]
    dies_after: int | None


@dataclass(frozen=True, slots=True)
class Rescale:
    """Another number of buckets; the first call dies at an event."""

    buckets: int
    dies_at: int


@dataclass(frozen=True, slots=True)
class Read:
    """Readers read on, so many rows a batch."""

    rows_max: int


Event = Write | Rescale | Read
steps = st.none() | st.integers(1, 14)
events = st.one_of(
    st.builds(Write, st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-2, 3)), max_size=6), steps),
    st.builds(Rescale, st.integers(1, 4), st.integers(0, 20)),
    st.builds(Read, st.integers(1, 5)),
)
histories = st.tuples(st.sampled_from(sorted(KINDS)), st.lists(events, min_size=3, max_size=8))


class FoldingReader(Reader):
    """A stream that keeps what its changes come to, and counts them."""

    def __init__(self, table: Table, **options: str) -> None:
        self._has_key = bool(table.schema.primary_keys)
        self.folded: Counter[Row] = Counter()
        self.count = 0
        super().__init__(table, **options)

    def read_on(self, rows_max: int) -> None:
        """Read up to the end of the table, with a new start where its log has ended."""
        try:
            self.read(Limits(rows=rows_max), batches=200)
        except ConflictError:
            self.start()
            self.read(Limits(rows=rows_max), batches=200)

    def read_batch(self, end: Offset | None) -> Counter[tuple[int, int]]:
        assert self.offset is not None
        assert end is not None
        for part in self._planner.parts(self.offset, end):
            for batch in self._rows.rows(part):
                for row in batch.to_pylist():
                    kind = RowKind(ROW_KIND_TEXTS.index(row.pop("_row_kind")))
                    apply(self.folded, kind, tuple(row.values()), has_key=self._has_key)
                    self.count += 1
        self._planner.let_go(end)
        self.offset = end
        return Counter()


@dataclass(slots=True)
class Lake:
    """One table, the model of its rows, and the batch that a dead writer has left."""

    table: Table
    kind: str
    rows: Counter[Row] = field(default_factory=Counter)
    left: tuple[int, pa.Table, pa.Array] | None = None
    batches: int = 0

    def write(self, event: Write) -> None:
        """Write a batch; a writer that dies leaves it."""
        self.finish()
        changes = list(self._changes(event))
        rows = pa.Table.from_pylist([dict(zip(("k", "v", "p"), row, strict=True)) for _, row in changes], SCHEMA)
        kinds = pa.array([int(kind) for kind, _ in changes], pa.int8())
        for kind, row in changes:
            self._count(kind, row)
        self.left, self.batches = (self.batches, rows, kinds), self.batches + 1
        left = event.dies_after

        def observe(_step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
            nonlocal left
            if left is not None:
                left -= 1
                if left == 0:
                    raise InjectedCrash

        try:
            LocalWriter(open_table(self.table.path), "q", observe=observe).write(*self.left)
        except InjectedCrash:
            return
        self.left = None

    def finish(self) -> None:
        """Run the batch that is left again."""
        if self.left is not None:
            LocalWriter(open_table(self.table.path), "q").write(*self.left)
            self.left = None

    def rescale(self, event: Rescale) -> None:
        """Rescale, once more where the first call dies; a batch may be in a part of the log."""

        def die() -> None:
            raise InjectedCrash

        running = LocalWriter(open_table(self.table.path), "other")
        before = open_table(self.table.path).schema.bucket_count
        for dies_at in (event.dies_at, 0):
            try:
                dying_rescale(open_table(self.table.path), event.buckets, dies_at=dies_at, die=die)
                break
            except InjectedCrash:
                continue
        self.table = open_table(self.table.path)
        assert self.table.schema.bucket_count == event.buckets
        if before != event.buckets:
            with pytest.raises(NotFoundError, match="Start it again"):
                running.write(0, SCHEMA.empty_table(), pa.array([], pa.int8()))

    def _changes(self, event: Write) -> list[tuple[RowKind, Row]]:
        has_key = bool(self.table.schema.primary_keys)
        takes_deletes = (has_key and self.kind != "sum") or self.kind == "value-count"
        changes: list[tuple[RowKind, Row]] = []
        for key, value in event.rows:
            is_delete = value < 0 and takes_deletes
            changes.append((RowKind.DELETE if is_delete else RowKind.INSERT, (key, value, key % 2)))
        return changes

    def _count(self, kind: RowKind, row: Row) -> None:
        has_key = bool(self.table.schema.primary_keys)
        before = next((one for one in self.rows if one[0] == row[0]), None) if has_key else None
        if self.kind == "sum" and before is not None:
            row = (row[0], before[1] + row[1], row[2])
        if self.kind == "sequence" and before is not None and row[1] < before[1]:
            return
        apply(self.rows, kind, row, has_key=has_key)


def check(kind: str, history: Sequence[Event], bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    keys, partitions, options = KINDS[kind]
    options = {"bucket": "2", "log.system": "kafka", "snapshot.num-retained.min": "1000", **options}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, partition_keys=partitions, options=options)
    lake = Lake(table, kind)
    readers = [FoldingReader(table), FoldingReader(table, **{"log.scan": "latest"})]
    for reader in readers:
        reader.read_on(1)  # where a stream starts is decided by its first batch
    for event in (*history, Read(3)):
        if isinstance(event, Write):
            lake.write(event)
        elif isinstance(event, Rescale):
            lake.rescale(event)
        else:
            lake.finish()
            assert rows_in(open_table(table.path)) == +lake.rows
            for reader in readers:
                reader.read_on(event.rows_max)
                assert +reader.folded == +lake.rows
    count = check_generations(open_table(table.path), has_key=bool(keys))
    assert readers[1].count == count, "each record is read once"
    catalog.drop_table("db.t")


def test_logs_and_files_of_rescaled_tables_fold_to_the_same_rows(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=4)


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_logs_and_files_of_rescaled_tables_fold_to_the_same_rows_for_many_histories(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=in_full(300))


def run(bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories)
    def law(history: tuple[str, Sequence[Event]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(*history, bootstrap_servers, Path(folder))

    law()
