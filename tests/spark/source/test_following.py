"""The stream of a table without a log, planned and read without Spark's processes."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError, OptionError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.metadata.tables.consumers import LEASE_PREFIX, Consumer
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.verbs import expire_snapshots
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams import source
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.streams.phases import stream_head
from tests.support.tables.foreign_engine import fast_forward_as_others_do

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Offset = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})


def put(table: Table, rows: Mapping[int, str], kind: int = 0) -> None:
    data = pa.table({"id": list(rows), "name": list(rows.values())}, schema=SCHEMA)
    table.store.write(data, kinds=pa.array([kind] * len(rows), pa.int8()))


def reader_of(table: Table, **options: str) -> LakelogStreamReader:
    source = LakelogDataSource({"path": table.path} | {key.replace("_", "-"): text for key, text in options.items()})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    return reader


def rows_between(reader: LakelogStreamReader, start: Offset, end: Offset) -> list[tuple[object, ...]]:
    partitions = reader.partitions(start, end)
    worker = pickle.loads(pickle.dumps(reader))
    batches = [batch for partition in partitions for batch in worker.read(partition)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def drain(reader: LakelogStreamReader, start: Offset) -> tuple[list[list[tuple[object, ...]]], Offset]:
    """The rows of each batch until there is nothing more, and the last offset."""
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append(rows_between(reader, start, end))
        start = json.loads(json.dumps(end))
    return found, start


def test_a_stream_begins_with_the_snapshot_and_follows_what_is_added(table: Table) -> None:
    put(table, {1: "a", 2: "b"})
    put(table, {2: "c"})
    reader = reader_of(table)
    first, reached = drain(reader, reader.initialOffset())
    put(table, {2: "d", 3: "e"})
    again = reader_of(table)  # as after a restart
    second, _ = drain(again, reached)

    assert first == [[(1, "a"), (2, "c")]]
    assert second == [[(2, "d"), (3, "e")]]


def test_deletes_come_only_with_row_kinds(table: Table) -> None:
    put(table, {1: "a", 2: "b"})
    starts = [reader_of(table), reader_of(table, row_kind="true")]
    offsets = [drain(reader, reader.initialOffset())[1] for reader in starts]
    put(table, {1: "a"}, kind=3)
    put(table, {3: "c"})

    found = [
        drain(reader_of(table, **given), at)[0] for given, at in zip(({}, {"row_kind": "true"}), offsets, strict=True)
    ]

    assert found == [[[(3, "c")]], [[(1, "a", "-D"), (3, "c", "+I")]]]


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_old_values_come_from_changelog_files(tmp_path: Path, producer: str) -> None:
    options = {"bucket": "2", "changelog-producer": producer}
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    put(table, {1: "a", 2: "b"})
    put(table, {2: "c"})
    first, reached = drain(reader := reader_of(table, row_kind="true"), reader.initialOffset())
    assert first == [[(1, "a", "+I"), (2, "c", "+I")]]

    put(table, {2: "d", 3: "e"}, kind=2)
    put(table, {1: "a"}, kind=3)
    second, _ = drain(reader_of(table, row_kind="true"), reached)
    told = [(1, "a", "-D"), (2, "c", "-U"), (2, "d", "+U"), (3, "e", "+I")]
    given = [(1, "a", "-D"), (2, "d", "+U"), (3, "e", "+U")]
    assert sorted(row for rows in second for row in rows) == (given if producer == "input" else told)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_stream_begins_with_the_rows_that_are_in_changelogs(tmp_path: Path, producer: str) -> None:
    options = {"bucket": "1", "changelog-producer": producer, "write-only": "true"}
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    put(table, {1: "a"})
    table.store.compact(full=True)
    put(table, {1: "b", 2: "b"})  # its changes come with the next compaction
    first, reached = drain(reader := reader_of(table, row_kind="true"), reader.initialOffset())
    table.store.compact(full=True)
    second, _ = drain(reader_of(table, row_kind="true"), reached)

    assert first == [[(1, "a", "+I")]]
    assert second == [[(1, "a", "-U"), (1, "b", "+U"), (2, "b", "+I")]]


def test_a_limit_cuts_between_snapshots(table: Table) -> None:
    put(table, {0: "a"})
    reader = reader_of(table, maxRowsPerTrigger="2")
    _, reached = drain(reader, reader.initialOffset())
    for at in range(3):
        put(table, {at: "b", at + 10: "b"})

    assert reader.getDefaultReadLimit() == ReadMaxRows(2)
    batches, _ = drain(reader_of(table, maxRowsPerTrigger="2"), reached)
    assert [len(rows) for rows in batches] == [2, 2, 2]


def test_available_now_ends_where_the_table_was(table: Table) -> None:
    put(table, {1: "a"})
    reader = reader_of(table)
    reader.prepareForTriggerAvailableNow()
    put(table, {2: "b"})

    batches, _ = drain(reader, reader.initialOffset())
    assert batches == [[(1, "a")]]


def test_an_empty_table_gives_no_batch_until_there_are_rows(table: Table) -> None:
    reader = reader_of(table)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start

    put(table, {1: "a"})
    assert drain(reader_of(table), start)[0] == [[(1, "a")]]


def test_an_idle_stream_looks_at_its_table_ten_times_a_second_and_lets_spark_wait(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(table, {1: "a"})
    reader = reader_of(table)
    _, reached = drain(reader, reader.initialOffset())
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(stream_head, "time", clock)
    monkeypatch.setattr(source, "time", clock)
    looks: list[float] = []

    def looked(found: TableStore) -> Snapshot | None:
        looks.append(now[0])
        return latest_of(found)

    monkeypatch.setattr(stream_head, "latest_of", looked)
    idle = reader_of(table)
    questions = 0
    while now[0] < 1:
        assert idle.latestOffset(reached, ReadAllAvailable()) == reached
        questions += 1
        now[0] += 0.01  # what Spark waits

    assert len(looks) <= 11
    assert questions <= 22


def test_latest_and_from_snapshot_start_with_changes(table: Table) -> None:
    put(table, {1: "a"})
    put(table, {2: "b"})
    latest = reader_of(table, **{"log.scan": "latest"})
    _, reached = drain(latest, latest.initialOffset())
    from_second = reader_of(table, **{"log.scan": "from-snapshot", "scan.snapshot_id": "2"})
    put(table, {3: "c"})

    assert drain(reader_of(table, **{"log.scan": "latest"}), reached)[0] == [[(3, "c")]]
    assert drain(from_second, from_second.initialOffset())[0] == [[], [(2, "b"), (3, "c")]]


def test_the_snapshot_is_leased_while_it_is_read_and_let_go_after(table: Table) -> None:
    put(table, dict.fromkeys(range(50), "a"))
    reader = reader_of(table, maxRowsPerTrigger="1")
    middle = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    (lease,) = (Path(table.path) / "consumer").iterdir()
    assert json.loads(lease.read_text()) == {"nextSnapshot": 1}
    assert middle["split"] == 1

    reader.commit(reader.latestOffset(middle, ReadAllAvailable()))
    assert json.loads(lease.read_text()) == {"nextSnapshot": 2}


def test_where_filters_changes_too(table: Table) -> None:
    reader = reader_of(table, where="id > 1", columns="name")
    put(table, {1: "a", 2: "b"})
    first, reached = drain(reader, reader.initialOffset())
    put(table, {1: "c", 3: "d"})

    assert first == [[("b",)]]
    assert drain(reader_of(table, where="id > 1", columns="name"), reached)[0] == [[("d",)]]


def test_the_initial_offset_is_always_the_same(table: Table) -> None:
    before = reader_of(table).initialOffset()
    put(table, {1: "a"})

    assert reader_of(table).initialOffset() == before


def test_the_checkpoint_of_another_table_is_refused(table: Table, tmp_path: Path) -> None:
    other = Catalog(tmp_path).create_table("db.u", schema=SCHEMA, primary_keys=["id"])

    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.u .* the query reads db\.t"):
        reader_of(table).latestOffset(reader_of(other).initialOffset(), ReadAllAvailable())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerTriger": "1"}, "did you mean 'maxRowsPerTrigger'"),
        ({"log.scan": "earliest"}, "full, latest, from-timestamp, from-snapshot or from-offsets"),
        ({"maxBytesPerTrigger": "much"}, "'maxBytesPerTrigger' has the value 'much'"),
        ({"scan.timestamp": "yesterday"}, "a timestamp such as"),
        ({"columns": "id,nam"}, "column 'nam' does not exist"),
        ({"where": "nam = 1"}, "nam"),
        ({"log.scan": "from-snapshot"}, "needs snapshot_id"),
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "5"}, "scan.snapshot-id=1 and scan.timestamp-millis=5"),
    ],
)
def test_wrong_options_are_refused_by_name(table: Table, options: dict[str, str], message: str) -> None:
    with pytest.raises((OptionError, InvalidRequestError), match=message):
        reader_of(table, **options)


def test_a_snapshot_that_expired_unread_is_an_error(table: Table) -> None:
    put(table, {1: "a"})
    reader = reader_of(table)
    _, reached = drain(reader, reader.initialOffset())
    put(table, {2: "b"})
    put(table, {3: "c"})
    (Path(table.path) / "snapshot/snapshot-2").unlink()

    with pytest.raises(NotFoundError, match=r"snapshot 2 of table db\.t has expired before"):
        reader_of(table).latestOffset(reached, ReadAllAvailable())


def test_a_consumer_records_what_is_committed_and_a_new_query_goes_on_there(table: Table) -> None:
    put(table, {1: "a"})
    put(table, {2: "b"})
    reader = reader_of(table, consumer_id="job")
    start = reader.initialOffset()
    batches, reached = drain(reader, start)
    assert batches == [[(1, "a"), (2, "b")]]
    assert reader_of(table, consumer_id="job").initialOffset() == start  # nothing is committed: the same after a crash
    reader.commit(reached)
    assert [(one.consumer_id, one.next_snapshot) for one in consumers_of(table)] == [("job", 3)]

    put(table, {3: "c"})
    reader.stop()
    expire_snapshots(table.store, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=9))
    assert table.store.snapshots.ids() == [3]
    later = reader_of(table, consumer_id="job")
    batches, reached = drain(later, later.initialOffset())
    assert batches == [[(3, "c")]]
    later.commit(reached)
    assert consumers_of(table)[0].next_snapshot == 4


def consumers_of(table: Table) -> list[Consumer]:
    return [
        one
        for one in ConsumerManager(table.store.file_io, table.store.paths).readable()
        if not one.consumer_id.startswith(LEASE_PREFIX)
    ]


def test_a_batch_read_takes_no_consumer(table: Table) -> None:
    source = LakelogDataSource({"path": table.path, "consumer-id": "job"})
    with pytest.raises(InvalidRequestError, match="consumer-id is an option of streams"):
        source.reader(source.schema())


def test_a_stream_reads_changes_that_outlive_their_snapshots(tmp_path: Path) -> None:
    kept = {"changelog.num-retained.min": "100", "changelog.num-retained.max": "200", "bucket": "2"}
    table = Catalog(tmp_path).create_table("db.kept", schema=SCHEMA, primary_keys=["id"], options=kept)
    put(table, {1: "a"})
    reader = reader_of(table)
    _, reached = drain(reader, reader.initialOffset())
    for name in "bcd":
        put(table, {1: name})
    reader.stop()
    expire_snapshots(table.store, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=9))
    assert table.store.snapshots.ids() == [4]
    batches, _ = drain(reader_of(table, maxRowsPerTrigger="1"), reached)
    assert batches == [[(1, "b")], [(1, "c")], [(1, "d")]]


def test_a_reader_that_is_behind_gets_an_error(table: Table) -> None:
    put(table, {1: "a"})
    reader = reader_of(table)
    _, reached = drain(reader, reader.initialOffset())
    for name in "bcd":
        put(table, {1: name})
    reader.stop()
    expire_snapshots(table.store, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=9))
    late = reader_of(table)
    with pytest.raises(NotFoundError, match=r"snapshot 2 of table .* has expired before this query has read it"):
        drain(late, reached)


def test_what_was_written_before_a_stream_was_asked_is_in_its_answer(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]  # what it has seen is never too old
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(stream_head, "time", clock)
    monkeypatch.setattr(source, "time", clock)
    put(table, {1: "a"})
    reader = reader_of(table)
    _, reached = drain(reader, reader.initialOffset())
    put(table, {2: "b"})
    now[0] = 0.01
    assert drain(reader, reached)[0] == [[(2, "b")]]


@pytest.mark.parametrize("snapshots", [1, 2, 4])
def test_a_stream_reads_nothing_of_a_table_that_was_made_in_the_place_of_its_own(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: int
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    for number in range(3):
        put(table, {number: "a"})
    reader = reader_of(table)
    _, end = drain(reader, reader.initialOffset())
    catalog = Catalog(tmp_path)
    catalog.drop_table("db.t")
    anew = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    for number in range(snapshots):
        put(anew, {100 + number: "b"})

    with pytest.raises(ConflictError, match="was dropped, renamed, or created again, since it was opened"):
        drain(reader, end)


def make_as_others(path: Path, *, time_millis: int) -> Table:
    """A table without a uuid."""
    schema = build_schema(SCHEMA, primary_keys=["id"], time_millis=time_millis)
    SchemaManager(LocalFileIO(sync_data=False), TablePaths(str(path))).create(schema)
    return open_table(path)


def test_a_table_of_others_that_was_made_anew_between_two_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lake" / "db.db" / "t"
    table = make_as_others(path, time_millis=1_000)
    assert table.uuid == ""
    put(table, {1: "a"})
    _, reached = drain(reader := reader_of(table), reader.initialOffset())
    put(table, {2: "b"})
    by_older = {key: value for key, value in reached.items() if key != "commit"} | {"table": ""}
    assert drain(reader_of(table), reached)[0] == drain(reader_of(table), by_older)[0] == [[(2, "b")]]

    shutil.rmtree(path)
    anew = make_as_others(path, time_millis=2_000)
    put(anew, {7: "x"})
    put(anew, {8: "y"})
    with pytest.raises(InvalidRequestError, match=r"made-1000.*made-2000.*was created again.*new checkpoint location"):
        drain(reader_of(anew), reached)


def roll_back(table: Table, snapshot_id: int) -> Table:
    """What another engine's rollback does: the snapshots behind are deleted, and their numbers are given again."""
    folder = Path(table.path, "snapshot")
    for path in folder.glob("snapshot-*"):
        if int(path.name.partition("-")[2]) > snapshot_id:
            path.unlink()
    (folder / "LATEST").unlink()
    return open_table(table.path)


ANOTHER = r"snapshot 3 of table db\.t is not the one that the query has read.*rolled back.*new checkpoint location"


def test_a_stream_does_not_go_on_behind_a_snapshot_whose_number_another_one_has(table: Table) -> None:
    for name in "abc":
        put(table, {1: name})
    _, reached = drain(reader := reader_of(table), reader.initialOffset())
    assert reached["consumed"] == 3
    rolled = roll_back(table, 2)
    with pytest.raises(
        InvalidRequestError, match=r"has read table db\.t up to snapshot 3, and its newest is snapshot 2"
    ):
        drain(reader_of(rolled), reached)
    put(rolled, {2: "x"})
    with pytest.raises(InvalidRequestError, match=ANOTHER):
        drain(reader_of(rolled), reached)
    put(rolled, {3: "y"})
    with pytest.raises(InvalidRequestError, match=ANOTHER):
        drain(reader_of(rolled), reached)


def test_a_stream_does_not_go_on_behind_its_snapshot_on_another_line(table: Table) -> None:
    """Another engine's fast-forward leaves the table's snapshot 2 before the branch's snapshot 3."""
    put(table, {1: "a"})
    table.branches.create("b")
    put(table, {2: "of the table"})
    reached = drain(reader := reader_of(table), reader.initialOffset())[1]
    branch = table.branch("b")
    put(branch, {3: "b"})
    put(branch, {4: "c"})
    expire_snapshots(branch.store, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=100))
    fast_forward_as_others_do(table.store, "b")

    message = r"snapshot 3 of table db\.t does not continue snapshot 2.*new checkpoint location"
    with pytest.raises(InvalidRequestError, match=message):
        drain(reader_of(open_table(table.path)), reached)
    again = reader_of(open_table(table.path))
    assert drain(again, again.initialOffset())[0] == [[(1, "a"), (3, "b"), (4, "c")]]


def test_a_batch_that_was_planned_before_a_rollback_is_not_run_after_it(table: Table) -> None:
    put(table, {1: "a"})
    reader = reader_of(table)
    start = drain(reader, reader.initialOffset())[1]
    put(table, {1: "b"})
    put(table, {1: "c"})
    end = reader_of(table).latestOffset(start, ReadAllAvailable())
    rolled = roll_back(table, 1)
    for name in "xyz":
        put(rolled, {1: name})
    with pytest.raises(InvalidRequestError, match=ANOTHER):
        reader_of(rolled).partitions(start, end)


def test_the_splits_of_a_snapshot_are_not_read_on_in_another_one(table: Table) -> None:
    for number in range(3):
        put(table, {number: "a", number + 10: "b"})
    reader = reader_of(table, maxRowsPerTrigger="1")
    start = reader.initialOffset()
    half = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert (half["snapshot"], half["split"]) == (3, 1)
    rolled = roll_back(table, 2)
    put(rolled, {5: "x"})
    for call in (
        lambda: reader_of(rolled).partitions(start, half),
        lambda: reader_of(rolled).latestOffset(half, ReadAllAvailable()),
    ):
        with pytest.raises(InvalidRequestError, match=ANOTHER):
            call()
