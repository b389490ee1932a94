"""Where reads of a log on a real broker start and end, and what they say of each record; planned without Spark."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any  # Any: rows and offsets as JSON

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakelog.catalog import Catalog, SetOption, Table
from lakelog.cli.main import main
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.protocol.state.steps import Step
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.batch.log_reader import LogReader
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.streams.phases import stream_head
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_range, lose_records

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Offset = dict[str, Any]
Row = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)  # a look at the table is never an old one
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "snapshot.num-retained.min": "1"}
    yield catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    close_idle_consumers()


def put(writer: LocalWriter, identifier: int, name: str, ids: range = range(4)) -> None:
    writer.write(identifier, pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=SCHEMA), None)


def filled(table: Table, *names: str) -> list[Snapshot]:
    """A table with a batch of four ids for each name; its snapshots."""
    writer = LocalWriter(table, "writer")
    for identifier, name in enumerate(names):
        put(writer, identifier, name)
    return list(table.snapshots())


def source_of(table: Table, **options: str) -> LakelogDataSource:
    spelled = {key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}
    renamed = {"snapshot-id": "snapshot_id"}
    return LakelogDataSource({"path": table.path} | {renamed.get(key, key): text for key, text in spelled.items()})


def stream_of(table: Table, **options: str) -> LakelogStreamReader:
    source = source_of(table, **options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    return reader


def rows_of(reader: LakelogStreamReader | LogReader, partitions: Any) -> list[Row]:
    worker = pickle.loads(pickle.dumps(reader))
    return [row for one in partitions for batch in worker.read(one) for row in batch.to_pylist()]


def drain(reader: LakelogStreamReader, start: Offset) -> tuple[list[list[Row]], Offset]:
    """The rows of each batch until there is nothing more, and the last offset."""
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append(rows_of(reader, reader.partitions(start, end)))
        start = json.loads(json.dumps(end))
    return found, start


def names_read(table: Table, **options: str) -> list[str]:
    """The distinct names that a new stream reads, in order."""
    reader = stream_of(table, **options)
    batches, _ = drain(reader, reader.initialOffset())
    return sorted({row["name"] for rows in batches for row in rows})


def read_batch(table: Table, **options: str) -> list[Row]:
    source = source_of(table, **options)
    reader = source.reader(source.schema())
    assert isinstance(reader, LogReader)
    return sorted(rows_of(reader, reader.partitions()), key=lambda row: (row["id"], row["name"]))


def offsets_at(snapshot: Snapshot) -> str:
    positions = json.loads(snapshot.properties["lakelog.log"])["positions"]
    return json.dumps({bucket: at[0] for bucket, at in positions.items()})


def test_a_stream_starts_where_its_mode_says(table: Table) -> None:
    first, second, _ = filled(table, "a", "b", "c")

    assert names_read(table) == ["c"]  # the rows of the newest snapshot
    assert names_read(table, log__scan="latest") == []
    assert names_read(table, log__scan="from-snapshot", snapshot_id="2") == ["b", "c"]
    assert names_read(table, log__scan="from-snapshot", snapshot_id="1") == ["a", "b", "c"]
    for key in ("timestamp", "log__scan__timestamp_mills", "log__scan__timestamp_millis"):
        assert names_read(table, log__scan="from-timestamp", **{key: str(first.time_millis)}) == ["b", "c"]
    assert names_read(table, startingOffsets="earliest") == ["a", "b", "c"]
    assert names_read(table, startingOffsets="latest") == []
    assert names_read(table, log__scan="from-offsets", startingOffsets=offsets_at(second)) == ["c"]


def test_a_table_says_where_its_streams_start(table: Table) -> None:
    first, _, _ = filled(table, "a", "b", "c")
    of_time = (SetOption("log.scan", "from-timestamp"), SetOption("log.scan.timestamp-mills", str(first.time_millis)))

    changed = table.alter(*of_time)

    assert names_read(changed) == ["b", "c"]
    assert names_read(changed, log__scan="full") == ["c"]
    assert changed.to_arrow().num_rows == 4


def test_a_time_whose_snapshots_have_expired_is_found_in_the_log(table: Table) -> None:
    first, _, _ = filled(table, "a", "b", "c")
    before = first.time_millis - 60_000
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    assert [one.id for one in table.snapshots()] == [3]

    assert names_read(table, log__scan="from-timestamp", timestamp=str(before)) == ["a", "b", "c"]
    with pytest.raises(NotFoundError, match="no snapshot at or before"):
        names_read(table, log__scan="full", timestamp=str(before))


def test_a_stream_goes_on_from_its_checkpoint_whatever_the_options_say(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    reader = stream_of(table)
    _, reached = drain(reader, reader.initialOffset())
    put(writer, 1, "b")
    put(writer, 2, "c")

    for options in ({"log__scan": "latest"}, {"startingOffsets": "earliest"}, {"startingOffsets": '{"0":99,"1":99}'}):
        batches, _ = drain(stream_of(table, **options), reached)
        assert sorted({row["name"] for rows in batches for row in rows}) == ["b", "c"]


@pytest.mark.parametrize(("first", "then"), [("full", "latest"), ("latest", "full")])
def test_a_first_batch_that_runs_again_reads_what_it_did_whatever_the_options_say(
    table: Table, first: str, then: str
) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    dies = stream_of(table, log__scan=first)
    end = dies.latestOffset(dies.initialOffset(), ReadAllAvailable())
    put(writer, 1, "b")

    again = stream_of(table, log__scan=then)
    rows = rows_of(again, again.partitions(again.initialOffset(), end))

    assert {row["name"] for row in rows} == ({"a"} if first == "full" else set())
    assert {row["name"] for found in drain(again, end)[0] for row in found} == {"b"}


def test_a_batch_reads_the_log_between_two_positions(table: Table) -> None:
    first, second, third = filled(table, "a", "b", "c")

    assert [row["name"] for row in read_batch(table, startingOffsets="earliest")] == ["a", "b", "c"] * 4
    between = read_batch(table, startingOffsets=offsets_at(first), endingOffsets=offsets_at(second))
    assert [row["name"] for row in between] == ["b"] * 4
    assert {row["name"] for row in read_batch(table, endingOffsets=offsets_at(first))} == {"a"}
    since = read_batch(table, log__scan="from-snapshot", snapshot_id="2", endingOffsets=offsets_at(third))
    assert [row["name"] for row in since] == ["b", "c"] * 4
    assert read_batch(table, startingOffsets=offsets_at(third)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"0": 1}'}, "names the buckets 0, the table has 0, 1"),
        ({"startingOffsets": '{"u": {"0": 1, "1": 1}}'}, "names the topic 'u'"),
        ({"startingOffsets": '{"0": 900, "1": 0}'}, r"does not hold offset 900, it holds \[0, "),
        ({"endingOffsets": '{"0": 900, "1": -1}'}, "offset 900 of bucket 0, and its log can be read up to offset"),
        ({"startingOffsets": '{"0": 1, "1": 0}', "endingOffsets": '{"0": 0, "1": 0}'}, "from offset 1 to 0"),
    ],
)
def test_positions_that_the_log_does_not_have_are_named(table: Table, options: dict[str, str], message: str) -> None:
    filled(table, "a", "b")

    with pytest.raises(InvalidRequestError, match=message):
        read_batch(table, **options)


def test_offsets_that_retention_has_deleted_are_an_error_with_the_numbers(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, _ = filled(table, "a", "b", "c")
    begin = json.loads(offsets_at(first))
    cut = json.loads(offsets_at(second))
    for bucket in range(2):
        lose_records(table, bucket, before=cut[str(bucket)])
    end = log_range(table, 0)[1]
    given = json.dumps(begin)

    deleted = rf"partition 0 does not hold offset {begin['0']}, it holds \[{cut['0']}, {end}\): .*failOnDataLoss=false"
    for read in (read_batch, names_read):
        with pytest.raises(LogTruncatedError, match=deleted):
            read(table, startingOffsets=given)
    with caplog.at_level(logging.WARNING, "lakelog.spark"):
        assert names_read(table, startingOffsets=given, failOnDataLoss="false") == ["c"]
    assert "were deleted by retention" in caplog.text
    assert {row["name"] for row in read_batch(table, startingOffsets="earliest")} == {"c"}


def test_a_running_stream_whose_records_are_deleted_fails_or_goes_on_as_it_is_told(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    reader = stream_of(table)
    _, reached = drain(reader, reader.initialOffset())
    put(writer, 1, "b")
    cut = json.loads(offsets_at(list(table.snapshots())[-1]))
    put(writer, 2, "c")
    for bucket in range(2):
        lose_records(table, bucket, before=cut[str(bucket)])
    for snapshot in list(table.snapshots())[:2]:  # the files have expired too
        table.store.file_io.delete(table.store.paths.snapshot(snapshot.id))

    with pytest.raises(LogTruncatedError, match=r"the log begins at .*no snapshot is at these offsets"):
        drain(stream_of(table), reached)
    batches, _ = drain(stream_of(table, failOnDataLoss="false"), reached)
    assert {row["name"] for rows in batches for row in rows} == {"c"}


def test_metadata_columns_say_of_each_record_where_it_is_and_who_wrote_it(table: Table) -> None:
    filled(table, "a", "b")

    found = read_batch(table, startingOffsets="earliest", metadata_columns="all")

    columns = ["id", "name", "_bucket", "_offset", "_timestamp", "_user", "_batch_id", "_snapshot_id", "_watermark"]
    assert list(found[0]) == columns
    assert {(row["name"], row["_user"], row["_batch_id"], row["_snapshot_id"]) for row in found} == {
        ("a", "writer", 0, 1),
        ("b", "writer", 1, 2),
    }
    assert {row["_bucket"] for row in found} == {0, 1}
    assert len({(row["_bucket"], row["_offset"]) for row in found}) == len(found)
    times = {row["_timestamp"].timestamp() * 1000 for row in found}
    newest = list(table.snapshots())[-1].time_millis
    assert all(newest - 60_000 < at <= newest for at in times)


def test_a_read_may_consist_of_metadata_alone(table: Table) -> None:
    filled(table, "a", "b")
    source = source_of(table, startingOffsets="earliest", metadata_columns="batch_id")

    reader = source.reader(spark.StructType().add("_batch_id", "long"))

    assert isinstance(reader, LogReader)
    assert sorted(row["_batch_id"] for row in rows_of(reader, reader.partitions())) == [0] * 4 + [1] * 4


def test_a_stream_shows_the_snapshot_then_records_with_the_chosen_columns(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    chosen = {"metadata_columns": "snapshot_id,batch_id", "row_kind": "true", "columns": "name"}
    reader = stream_of(table, **chosen)
    first, reached = drain(reader, reader.initialOffset())
    put(writer, 1, "b")
    second, _ = drain(stream_of(table, **chosen), reached)

    assert first[0][0] == {"name": "a", "_row_kind": "+I", "_snapshot_id": 1, "_batch_id": None}
    assert {json.dumps(row) for rows in second for row in rows} == {
        json.dumps({"name": "b", "_row_kind": "+I", "_snapshot_id": 2, "_batch_id": 1})
    }


def unfinished(table: Table) -> LocalWriter:
    """A table whose newest snapshot holds bucket 0 of batch 1 of "lost", which died there; its other writer."""

    def dies(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        if (step, identifier, bucket) == (Step.BEGIN, 1, 1):
            raise InjectedCrash(step)

    lost = LocalWriter(table, "lost", observe=dies)
    put(lost, 0, "a", range(20))
    with pytest.raises(InjectedCrash):
        put(lost, 1, "half", range(20))
    other = LocalWriter(table, "other")
    put(other, 0, "b", range(100, 120))
    return other


def test_an_aligned_batch_ends_at_a_snapshot_that_holds_no_batch_in_part(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    reader = stream_of(table, stream__align="snapshot", maxRowsPerTrigger="1")
    _, reached = drain(reader, reader.initialOffset())
    for identifier in (1, 2, 3):
        put(writer, identifier, f"n{identifier}")

    batches, end = drain(reader, reached)

    assert [sorted({row["name"] for row in rows}) for rows in batches] == [["n1"], ["n2"], ["n3"]]
    assert json.dumps(end["log"]) == offsets_at(list(table.snapshots())[-1])


def test_each_snapshot_ends_a_batch_and_expired_ones_come_with_the_oldest_that_lives(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "n0")
    reader = stream_of(table, stream__align="snapshot")
    _, reached = drain(reader, reader.initialOffset())
    for identifier in (1, 2, 3, 4):
        put(writer, identifier, f"n{identifier}")
    snapshots = list(table.snapshots())

    batches, end = drain(stream_of(table, stream__align="snapshot"), reached)
    table.store.file_io.delete(table.store.paths.snapshot(snapshots[1].id))  # expired while the stream was away
    table.store.file_io.delete(table.store.paths.snapshot(snapshots[2].id))
    later, _ = drain(stream_of(table, stream__align="snapshot"), reached)

    assert [sorted({row["name"] for row in rows}) for rows in batches] == [["n1"], ["n2"], ["n3"], ["n4"]]
    assert (end["consumed"], json.dumps(end["log"])) == (snapshots[4].id, offsets_at(snapshots[4]))
    assert [sorted({row["name"] for row in rows}) for rows in later] == [["n1", "n2", "n3"], ["n4"]]


def test_streams_of_logs_in_a_group_end_at_the_offsets_of_the_snapshots_that_are_decided(table: Table) -> None:
    catalog = Catalog(table.warehouse)
    other = catalog.create_table("db.u", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    row = pa.table({"id": [1], "name": ["x"]}, schema=SCHEMA)
    other.write(row)
    group = {"group": "g", "tables": "db.t,db.u", "folder": f"{table.warehouse}/ck"}
    options = {"stream__align": "snapshot"} | {f"stream__align__{key}": value for key, value in group.items()}
    readers = [stream_of(one, **options) for one in (table, other)]
    limits = [reader.getDefaultReadLimit() for reader in readers]
    ends = [[reader.initialOffset() for reader in readers]]

    def step() -> None:
        ends.append([one.latestOffset(at, limit) for one, at, limit in zip(readers, ends[-1], limits, strict=True)])

    step()
    put(writer, 1, "b")
    other.write(row)
    put(writer, 2, "c")
    for _ in range(4):
        step()

    assert [(log["consumed"], files["consumed"]) for log, files in ends[1:]] == [(1, 1), (2, 1), (2, 2), (3, 2), (3, 2)]
    offsets = [offsets_at(snapshot) for snapshot in table.snapshots()]
    assert [json.dumps(log["log"]) for log, _ in ends[1:]] == [offsets[at] for at in (0, 1, 1, 2, 2)]
    starts, stops = zip(*pairwise(log for log, _ in ends[:5]), strict=True)
    parts = map(readers[0].partitions, starts, stops)
    names = [{row["name"] for row in rows_of(readers[0], found)} for found in parts]
    assert names == [{"a"}, {"b"}, set(), {"c"}]


def test_an_aligned_stream_keeps_the_snapshots_at_which_its_next_batches_end(table: Table) -> None:
    writer = LocalWriter(table, "writer")
    put(writer, 0, "a")
    reader = stream_of(table, stream__align="snapshot")
    _, reached = drain(reader, reader.initialOffset())
    reader.commit(reached)
    for identifier in range(1, 6):
        put(writer, identifier, "b")

    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")

    assert table.store.snapshots.earliest_id() == reached["consumed"] + 1


def test_an_aligned_stream_waits_for_a_writer_and_names_it_when_it_never_comes_back(table: Table) -> None:
    before = stream_of(table, stream__align="snapshot")
    unfinished(table)
    batches, reached = drain(before, before.initialOffset())
    assert {row["name"] for rows in batches for row in rows} == {"a"}  # what came later is not whole

    patient = stream_of(table, stream__align="snapshot", **{"stream__align__timeout": "1 h"})
    assert patient.latestOffset(reached, ReadAllAvailable()) == reached
    hasty = stream_of(table, stream__align="snapshot", **{"stream__align__timeout": "0 s"})
    hasty.planner.log.wait._since = -1.0  # it has waited for long
    with pytest.raises(ConflictError, match=r"batch 1 of 'lost' \(bucket 0\).*lakelog log abandon"):
        hasty.latestOffset(reached, ReadAllAvailable())
    once = stream_of(table, stream__align="snapshot", **{"stream__align__timeout": "0 s"})
    once.prepareForTriggerAvailableNow()
    with pytest.raises(ConflictError, match="batch 1 of 'lost'"):
        once.latestOffset(reached, ReadAllAvailable())


def test_an_abandoned_writer_is_not_waited_for_and_loses_nothing_when_it_comes_back(table: Table) -> None:
    other = unfinished(table)
    with pytest.raises(NotFoundError, match=r"no unfinished batch of 'nobody'; unfinished are batch 1 of 'lost'"):
        table.log_store.abandon_writer("nobody")

    snapshot = table.log_store.abandon_writer("lost")

    reader = stream_of(table, stream__align="snapshot")
    batches, reached = drain(reader, reader.initialOffset())
    assert sorted({row["name"] for rows in batches for row in rows}) == ["a", "b", "half"]
    assert reached["consumed"] == snapshot.id
    put(LocalWriter(table, "lost"), 1, "half", range(20))  # the writer comes back
    put(other, 1, "c", range(200, 201))
    later, _ = drain(reader, reached)
    rows = [row for found in (*batches, *later) for row in found]
    assert {row["id"] for row in rows if row["name"] == "half"} == set(range(20))
    assert table.to_arrow(where="name = 'half'").num_rows == 20
    with pytest.raises(NotFoundError, match="no batch is unfinished"):
        table.log_store.abandon_writer("lost")


def test_the_command_abandons_a_writer(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished(table)

    with pytest.raises(SystemExit) as ended:
        main(["log", "abandon-writer", table.path, "lost", "--json"])

    assert not ended.value.code
    newest = list(table.snapshots())[-1]
    assert json.loads(capsys.readouterr().out) == {"snapshot_id": newest.id}
    assert json.loads(newest.properties["lakelog.log"])["abandoned"] == {"lost": 1}


def test_a_snapshot_that_holds_a_batch_in_part_is_no_start_of_an_aligned_stream(table: Table) -> None:
    unfinished(table)
    newest = list(table.snapshots())[-1].id

    reader = stream_of(table, stream__align="snapshot", snapshot_id=str(newest))
    with pytest.raises(InvalidRequestError, match=rf"snapshot {newest} of table .* holds batch 1 of 'lost'"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
