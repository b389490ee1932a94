"""Normalized streams of an upsert log on a real broker, planned and read without Spark's processes."""

from __future__ import annotations

import json
import pickle
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any  # Any: offsets are JSON objects

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.metadata.tables.consumers import LEASE_PREFIX
from lakelog.filestore.table import FileStoreTable
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.reading.input_partitions import RowsPartition
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.streams.phases import stream_head
from lakelog.streams.reading.parts import LogPart, NormalizedPart
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.kills.crashing_writer import CrashingWriter
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.logs.valid_changes import Change, follow

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def each_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
    ]
)
Row = tuple[str, int, int | None, str | None]
Offset = dict[str, Any]


def create(folder: Path, bootstrap_servers: str, **options: str) -> Table:
    """A table with two partitions of two buckets."""
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    given_options = {"bucket": "2", "log.system": "kafka"} | {
        key.replace("_", "-"): text for key, text in options.items()
    }
    return catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=given_options
    )


def reader_of(table: Table, **options: str) -> LakelogStreamReader:
    given_options = {"row-kind": "true", "scan.normalize": "true"} | options
    source = LakelogDataSource({"path": table.path} | given_options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    return reader


def rows_of(partitions: Sequence[InputPartition], reader: LakelogStreamReader) -> list[Change]:
    worker = pickle.loads(pickle.dumps(reader))
    found: list[Change] = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        for batch in worker.read(partition):
            for row in batch.to_pylist():
                kind = row.pop(ROW_KIND_COLUMN)
                found.append((kind, tuple(row.values())))
    return found


def next_batch(reader: LakelogStreamReader, start: Offset) -> Offset:
    end: Offset = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return end


def changes_between(reader: LakelogStreamReader, start: Offset, end: Offset) -> list[Change]:
    return rows_of(reader.partitions(start, end), reader)


def key_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:2]


def write(table: Table, identifier: int, changes: Sequence[tuple[str, Row]], writer: LocalWriter | None = None) -> None:
    rows, kinds = batch_of(changes)
    (writer or LocalWriter(table, "q")).write(identifier, rows, kinds)
    await_committed(table)


def batch_of(changes: Sequence[tuple[str, Row]]) -> tuple[pa.Table, pa.Array]:
    rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for _, row in changes], SCHEMA)
    return rows, pa.array([{"+I": 0, "-D": 3}[kind] for kind, _ in changes], pa.int8())


def state_of(table: Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    return {key_of(row): row for row in rows}


@dataclass(frozen=True, slots=True)
class History:
    """What a writer, the upkeep and a reader do, one after the other."""

    steps: Sequence[tuple[str, Any]]
    crashes: Sequence[int]
    limit: int | None
    budget: str


rows = st.tuples(
    st.sampled_from(("x", "y")), st.integers(0, 3), st.sampled_from((None, 1, 2)), st.sampled_from((None, "u"))
)
batches = st.lists(st.tuples(st.sampled_from(("+I", "+I", "-D")), rows), max_size=8)
histories = st.builds(
    History,
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), batches),
            st.tuples(st.just("write"), batches),
            st.tuples(st.sampled_from(("read", "read", "restart", "compact", "expire")), st.none()),
        ),
        min_size=3,
        max_size=12,
    ),
    crashes=st.lists(st.integers(1, 20), max_size=2),
    limit=st.sampled_from((None, 1, 5)),
    budget=st.sampled_from(("256 mb", "1 b")),
)


class Following:
    """A stream with its checkpoint, and the rows that its changes lead to."""

    def __init__(self, table: Table, limit: int | None) -> None:
        self._options = {} if limit is None else {"maxRowsPerTrigger": str(limit)}
        self._table = table
        self.start: Offset = self._open().initialOffset()
        self.state: dict[Any, tuple[Any, ...]] = {}

    def _open(self) -> LakelogStreamReader:
        self._reader = reader_of(open_table(self._table.path), **self._options)
        return self._reader

    def restart(self) -> None:
        """A batch that was planned and read dies before it is committed; another process runs it again."""
        end = next_batch(self._reader, self.start)
        lost = changes_between(self._reader, self.start, end) if end != self.start else []
        self._open()
        if end != self.start:
            self._take(end)
            assert sorted(self.taken, key=repr) == sorted(lost, key=repr)

    def read(self, *, is_all: bool = False) -> None:
        """One batch, or all that there is."""
        while (end := next_batch(self._reader, self.start)) != self.start:
            self._reader.commit(self.start)
            self._take(end)
            if not is_all:
                break

    def _take(self, end: Offset) -> None:
        self.taken = changes_between(self._reader, self.start, end)
        self.state = follow(self.state, self.taken, key_of=key_of)
        self.start = end


def check(history: History, folder: Path, bootstrap_servers: str) -> None:
    table = create(folder, bootstrap_servers, **{"read.memory-budget": history.budget})
    writer = CrashingWriter(table, history.crashes)
    stream = Following(table, history.limit)
    identifier = 0
    for step, value in history.steps:
        match step:
            case "write":
                changes, kinds = batch_of(value)
                writer.write(identifier, changes, kinds)
                identifier += 1
            case "compact":
                table.compact(full=True)
            case "expire":
                table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
            case "read":
                stream.read()
            case "restart":
                stream.restart()
    stream.read(is_all=True)
    assert stream.state == state_of(table)
    Catalog(folder, bootstrap_servers=bootstrap_servers).drop_table("db.t")


def run(bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories)
    def law(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(history, Path(folder), bootstrap_servers)

    law()


def test_batches_of_any_history_are_a_valid_changelog_that_leads_to_the_table(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=15)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_batches_of_many_histories_are_valid_changelogs(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=400)


def read_all(reader: LakelogStreamReader, start: Offset) -> tuple[list[Change], Offset]:
    found: list[Change] = []
    while (end := next_batch(reader, start)) != start:
        found += changes_between(reader, start, end)
        start = end
    return found, start


def test_an_upsert_is_an_update_with_its_old_row_and_what_changes_nothing_is_left_out(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table = create(tmp_path, bootstrap_servers)
    write(table, 0, [("+I", ("x", 1, 1, "a")), ("+I", ("x", 2, 1, "a"))])
    reader = reader_of(table)
    first, reached = read_all(reader, reader.initialOffset())
    writer = LocalWriter(table, "q", is_first=False)
    write(table, 1, [("+I", ("x", 1, 2, "a")), ("+I", ("x", 2, 1, "a")), ("-D", ("x", 3, None, None))], writer)
    write(table, 2, [("+I", ("x", 1, 3, "a")), ("-D", ("x", 2, None, None)), ("+I", ("y", 1, 1, "a"))], writer)
    second, _ = read_all(reader, reached)

    assert sorted(first) == [("+I", ("x", 1, 1, "a")), ("+I", ("x", 2, 1, "a"))]
    assert [one for one in second if key_of(one[1]) == ("x", 1)] == [
        ("-U", ("x", 1, 1, "a")),
        ("+U", ("x", 1, 2, "a")),
        ("-U", ("x", 1, 2, "a")),
        ("+U", ("x", 1, 3, "a")),
    ]
    others = sorted(one for one in second if key_of(one[1]) != ("x", 1))
    assert others == [("+I", ("y", 1, 1, "a")), ("-D", ("x", 2, 1, "a"))]


def test_columns_that_are_not_shown_and_rows_that_do_not_pass_make_no_changes(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table = create(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "q")
    write(table, 0, [("+I", ("x", 1, 1, "a")), ("+I", ("x", 2, 1, "a"))], writer)
    reader = reader_of(table, columns="a,k", where="a < 5")
    first, reached = read_all(reader, reader.initialOffset())
    write(table, 1, [("+I", ("x", 1, 1, "z")), ("+I", ("x", 2, 7, "a"))], writer)
    second, reached = read_all(reader, reached)
    write(table, 2, [("+I", ("x", 1, 2, "z")), ("+I", ("x", 2, 4, "a"))], writer)
    third, _ = read_all(reader, reached)

    assert sorted(first) == [("+I", (1, 1)), ("+I", (1, 2))]
    assert second == [("-D", (1, 2))]
    assert sorted(third) == [("+I", (4, 2)), ("+U", (2, 1)), ("-U", (1, 1))]


def test_a_batch_of_neighbouring_keys_reads_as_many_bytes_from_a_table_of_eight_times_the_rows(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    read: list[int] = []
    for times in (1, 8):
        table = create(tmp_path / str(times), bootstrap_servers, bucket="1")
        writer = LocalWriter(table, "q")
        count = 20_000 * times
        columns = {
            "p": ["x"] * count,
            "k": list(range(count)),
            "a": list(range(count)),
            "b": [random.randbytes(60).hex() for _ in range(count)],  # a row group is larger than what is read at once
        }
        writer.write(0, pa.table(columns, schema=SCHEMA), None)
        table.compact(full=True)
        reader = reader_of(table)
        _, reached = read_all(reader, reader.initialOffset())
        write(table, 1, [("+I", ("x", key, 0, "new")) for key in range(100)], writer)
        end = next_batch(reader, reached)
        partitions = reader.partitions(reached, end)

        counting = CountingFileIO()
        worker = pickle.loads(pickle.dumps(reader))
        worker._rows.table.__dict__["file_io"] = counting
        changes = [batch for partition in partitions for batch in worker.read(partition)]
        assert sum(batch.num_rows for batch in changes) == 200
        read.append(counting.bytes_read)
    assert 0 < read[1] < 1.5 * read[0]


def test_the_snapshot_that_old_rows_are_looked_up_in_stays_while_the_stream_is_away(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table = create(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "q")
    write(table, 0, [("+I", ("x", 1, 0, "a"))], writer)
    reader = reader_of(table)
    _, reached = read_all(reader, reader.initialOffset())
    reader.commit(reached)
    for number in range(1, 6):
        write(table, number, [("+I", ("x", 1, number, "a"))], writer)
    reader.stop()  # as after an error
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))

    again = reader_of(open_table(table.path))
    changes, _ = read_all(again, reached)
    assert changes[:2] == [("-U", ("x", 1, 0, "a")), ("+U", ("x", 1, 1, "a"))]
    assert len(changes) == 10


def test_a_stream_whose_snapshot_has_expired_is_refused_with_its_number(tmp_path: Path, bootstrap_servers: str) -> None:
    table = create(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "q")
    write(table, 0, [("+I", ("x", 1, 0, "a"))], writer)
    reader = reader_of(table)
    _, reached = read_all(reader, reader.initialOffset())
    for number in range(1, 4):
        write(table, number, [("+I", ("x", 1, number, "a"))], writer)
    for consumer in table.consumers.list():
        if consumer.consumer_id.startswith(LEASE_PREFIX):
            table.consumers.delete(consumer.consumer_id)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    again = reader_of(open_table(table.path))
    with pytest.raises(NotFoundError, match=r"snapshot 1 of table db\.t, .*has expired.*new checkpoint location"):
        next_batch(again, reached)


@pytest.mark.parametrize("options", [{"log.changelog-mode": "all"}, {}])
def test_old_rows_are_looked_up_only_where_the_log_has_none(
    tmp_path: Path, bootstrap_servers: str, options: Mapping[str, str]
) -> None:
    table = create(tmp_path, bootstrap_servers, **options)
    writer = LocalWriter(table, "q")
    write(table, 0, [("+I", ("x", 1, 0, "a"))], writer)
    reader = reader_of(table)
    _, reached = read_all(reader, reader.initialOffset())
    write(table, 1, [("+I", ("x", 2, 0, "a"))], writer)
    (partition,) = reader.partitions(reached, next_batch(reader, reached))
    assert isinstance(partition, RowsPartition)
    assert isinstance(partition.part, LogPart if options else NormalizedPart)


def test_a_stream_that_shows_no_row_kinds_is_not_normalized(tmp_path: Path, bootstrap_servers: str) -> None:
    table = create(tmp_path, bootstrap_servers)
    with pytest.raises(InvalidRequestError, match="set row-kind=true too"):
        reader_of(table, **{"row-kind": "false"})


def test_a_table_without_a_log_is_not_normalized_but_has_a_changelog_producer(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    plain = Catalog(tmp_path).create_table("db.plain", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    with pytest.raises(UnsupportedError, match="set changelog-producer=lookup"):
        reader_of(plain)
    options = {"bucket": "1", "changelog-producer": "lookup"}
    produced = Catalog(tmp_path).create_table("db.produced", schema=schema, primary_keys=["k"], options=options)
    assert isinstance(produced.store, FileStoreTable)
    reader = reader_of(produced)
    assert reader.initialOffset() == reader.initialOffset()


def test_what_does_not_go_with_normalized_rows_is_refused_by_name(tmp_path: Path, bootstrap_servers: str) -> None:
    table = create(tmp_path, bootstrap_servers)
    with pytest.raises(InvalidRequestError, match="metadata-columns asks for columns of records"):
        reader_of(table, **{"metadata-columns": "offset"})
    source = LakelogDataSource(
        {"path": table.path, "row-kind": "true", "scan.normalize": "true", "startingOffsets": "earliest"}
    )
    with pytest.raises(InvalidRequestError, match=r"scan\.normalize is an option of streams"):
        source.reader(source.schema())
