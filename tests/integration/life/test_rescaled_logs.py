"""Tables with a log get another number of buckets: files and log go on, calls that were cut off too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.filestore.alter.rescale import rescale_schema
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.logstore.kafka.clients.topic import delete_topic, describe_topic
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import Step
from lakelog.protocol.stores.encoded_parts import ChangeRows
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.writing.driver import Verdict, check_identity
from lakelog.spark.sink.task import LoggedWrite, write_buckets
from lakelog.spark.tables import log_target
from tests.support.examples import rest_in_full
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import log_changes
from tests.support.logs.rescales import dying_rescale
from tests.support.streams.planned_reader import Reader, expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

KINDS = {
    "primary key": (["id"], {}),
    "all": (["id"], {"log.changelog-mode": "all"}),
    "all with changelog": (["id"], {"log.changelog-mode": "all", "changelog-producer": "lookup"}),
    "changelog by compaction": (["id"], {"changelog-producer": "lookup"}),
    "first-row": (["id"], {"merge-engine": "first-row"}),
    "sum": (["id"], {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"}),
    "append-only": ([], {}),
    "value-count": ([], {"write-mode": "change-log"}),
}


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Iterator[Catalog]:
    made = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    yield made
    made.drop_database("db", cascade=True, if_exists=True)


def logged(catalog: Catalog, kind: str = "primary key") -> Table:
    keys, options = KINDS[kind]
    return catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, options={"bucket": "2", "log.system": "kafka", **options}
    )


def content(table: Table) -> list[tuple[int, int]]:
    rows = open_table(table.path).to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def is_there(table: Table) -> bool:
    """Whether the topic of a table as it was opened exists."""
    try:
        describe_topic(kafka_topic(log_of_table(table)))
    except NotFoundError:
        return False
    return True


def cut_off(table: Table, buckets: int) -> None:
    """Rescale, and die before the snapshot: schema and topic are there."""

    def die() -> None:
        raise InjectedCrash

    marks, topic, schema = 2 * table.schema.bucket_count, 2, 2
    with pytest.raises(InjectedCrash):
        dying_rescale(table, buckets, dies_at=marks + topic + schema + 1, die=die)


@pytest.mark.parametrize("kind", rest_in_full(KINDS, 3))
def test_a_logged_table_gets_other_buckets_and_its_streams_go_on_exactly_once(catalog: Catalog, kind: str) -> None:
    table = logged(catalog, kind)
    write(table, 0)
    reader, behind = Reader(table), Reader(table)
    reader.read()
    behind.read()
    write(table, 1)
    assert reader.read() == expected(0, 1)
    running = LocalWriter(open_table(table.path), "job")

    rescaled = table.upkeep.rescale(5)

    with pytest.raises(NotFoundError, match=r"ended at snapshot [34].* Start it again"):
        running.write(2, rows_of(2), None)
    with pytest.raises(ConflictError, match=r"ended at snapshot [34].* Start it again"):
        reader.read()
    write(rescaled, 1)
    write(rescaled, 2)
    for one in (reader, behind):
        one.start()
        assert one.read() == expected(0, 1, 2)
    assert content(rescaled) == sorted(expected(0, 1, 2))
    assert describe_topic(kafka_topic(log_of_table(rescaled))).partition_count == 5
    first = next(one.id for one in rescaled.snapshots() if one.commit_kind is CommitKind.OVERWRITE)
    assert rescaled.log_store.verify(from_snapshot=first).is_equal
    assert {file.bucket for file in rescaled.system.files()} <= set(range(5))


def test_a_table_without_snapshots_gets_other_buckets_too(catalog: Catalog) -> None:
    table = logged(catalog)
    reader = Reader(table)
    reader.read()

    rescaled = table.upkeep.rescale(1)

    write(rescaled, 0)
    reader.start()
    assert reader.read() == expected(0)
    assert content(rescaled) == sorted(expected(0))


def test_the_number_that_a_table_has_changes_nothing(catalog: Catalog) -> None:
    table = logged(catalog)
    write(table, 0)
    latest = table.snapshot()

    assert table.upkeep.rescale(2).schema == table.schema
    assert table.snapshot() == latest
    with pytest.raises(InvalidRequestError, match="cannot have 0 buckets"):
        table.upkeep.rescale(0)


class DiesInItsSecondBucket:
    """Dies before its second transaction is committed."""

    def __init__(self) -> None:
        self.commits = 0

    def __call__(self, step: Step, *_: object) -> None:
        self.commits += step is Step.COMMIT
        if self.commits == 2:
            raise InjectedCrash


@pytest.mark.parametrize("kind", ["append-only", "value-count", "sum"])
def test_a_batch_that_is_in_a_part_of_the_log_is_finished_in_the_new_buckets(catalog: Catalog, kind: str) -> None:
    table = logged(catalog, kind)
    reader = Reader(table)
    reader.read()
    rows = pa.table([pa.array(range(40)), pa.array([1] * 40, pa.int32())], schema=SCHEMA)
    counts = []
    for buckets in (3, 5):
        with pytest.raises(InjectedCrash):
            LocalWriter(open_table(table.path), "job", observe=DiesInItsSecondBucket()).write(0, rows, None)
        rescaled = open_table(table.path).upkeep.rescale(buckets)
        counts.append(rescaled.count())
        state = newest_state(rescaled.store, topic_id=log_of_table(rescaled).topic_id)
        with pytest.raises(InvalidRequestError, match="was written with other source offsets"):
            check_identity(state, Batch(user="job", identifier=0, source_digest="others"))

    write_all = LocalWriter(open_table(table.path), "job")
    assert write_all.write(0, rows, None) is Verdict.NEW
    assert write_all.write(0, rows, None) is Verdict.REPLAY

    assert 0 < counts[0] < counts[1] < 40, "each run of the batch has left a part"
    assert content(table) == [(number, 1) for number in range(40)]
    log = newest_state(table.store, topic_id=log_of_table(open_table(table.path)).topic_id).logged
    assert log.is_whole()
    reader.start()
    assert reader.read() == Counter({(number, 1): 1 for number in range(40)})


@pytest.mark.parametrize("kind", ["append-only", "sum"])
def test_tasks_of_spark_leave_out_what_is_written_too(catalog: Catalog, kind: str) -> None:
    table = logged(catalog, kind)
    rows = pa.table([pa.array(range(40)), pa.array([1] * 40, pa.int32())], schema=SCHEMA)
    with pytest.raises(InjectedCrash):
        LocalWriter(table, "job", observe=DiesInItsSecondBucket()).write(0, rows, None)
    rescaled = table.upkeep.rescale(3)
    files, schema = rescaled.store, rescaled.store.schema
    target = log_target(rescaled)
    assert target is not None
    batch = Batch(user="job", identifier=0, source_digest="0")
    buckets = bucket_of(rows, schema.bucket_fields, 3, schema.bucket_function)
    parts = {number: ChangeRows(rows=rows.filter(pa.array(buckets == number)), kinds=None) for number in range(3)}

    answers = write_buckets(LoggedWrite(table=files, target=target, batch=batch, task_count=1), parts)

    logged_count = sum(header.record_count for answer in answers for header in answer.transactions)
    assert logged_count == 40 - rescaled.count()


def test_an_eventual_log_keeps_its_buckets_and_takes_no_statements(catalog: Catalog) -> None:
    options = {"bucket": "2", "log.system": "kafka", "log.consistency": "eventual"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)

    with pytest.raises(
        UnsupportedError, match=r"rescale is not possible in table db\.t, which has log\.consistency=even"
    ):
        table.upkeep.rescale(3)
    with pytest.raises(UnsupportedError, match="a batch statement is not possible"):
        table.write(rows_of(0))
    assert open_table(table.path).schema == table.schema


@pytest.mark.parametrize("call", ["rescale", "rescale to another number", "renew", "add"])
def test_a_rescale_that_was_cut_off_is_finished_by_every_call_that_begins_a_log(catalog: Catalog, call: str) -> None:
    table = logged(catalog)
    write(table, 0)
    reader = Reader(table)
    reader.read()
    cut_off(table, 3)
    half = open_table(table.path)
    with pytest.raises(NotFoundError, match=r"was cut off: run it again .*`lakelog table rescale`"):
        write(half, 1)
    with pytest.raises(InvalidRequestError, match=r"was cut off: finish it with .*`lakelog table rescale`"):
        half.log_store.remove(force=True)
    with pytest.raises(InvalidRequestError, match="was cut off"):
        half.log_store.drop_ended(older_than="0 s")

    calls: dict[str, Callable[[], Table]] = {
        "rescale": lambda: half.upkeep.rescale(3),
        "rescale to another number": lambda: half.upkeep.rescale(4),
        "renew": lambda: half.log_store.renew(keep_topic=True, force=True),
        "add": half.log_store.add,
    }
    done = calls[call]()

    assert done.schema.bucket_count == (4 if "another" in call else 3)
    write(done, 1)
    reader.start()
    assert reader.read() == expected(0, 1)
    assert content(done) == sorted(expected(0, 1))


def test_a_topic_that_was_lost_before_its_log_began_is_made_anew(catalog: Catalog) -> None:
    table = logged(catalog)
    write(table, 0)
    cut_off(table, 3)
    delete_topic(kafka_topic(log_of_table(open_table(table.path))))

    rescaled = open_table(table.path).upkeep.rescale(3)

    write(rescaled, 1)
    assert content(rescaled) == sorted(expected(0, 1))
    assert is_there(rescaled)


def test_ended_logs_are_deleted_when_they_are_old_and_no_stream_reads_them(catalog: Catalog) -> None:
    table = logged(catalog)
    write(table, 0)
    leases = LogLeases(table.store, log_of_table(table).topic_id)
    leases.put("reader", {0: 0, 1: 0})
    rescaled = table.upkeep.rescale(3)
    write(rescaled, 1)
    topic = log_of_table(table).topic

    assert rescaled.log_store.drop_ended() == []
    assert rescaled.log_store.drop_ended(older_than="0 s") == []
    leases.delete("reader")
    assert rescaled.log_store.drop_ended() == []
    assert is_there(table)
    assert rescaled.log_store.drop_ended(older_than="0 s") == [topic]

    assert not is_there(table)
    assert is_there(rescaled)
    assert rescaled.log_store.drop_ended(older_than="0 s") == []


def test_a_stream_goes_on_in_the_files_where_the_older_topic_was_deleted(catalog: Catalog) -> None:
    table = logged(catalog, "append-only")
    write(table, 0)
    reader = Reader(table)
    reader.read()
    write(table, 1)
    rescaled = table.upkeep.rescale(3)
    write(rescaled, 2)
    rescaled.log_store.drop_ended(older_than="0 s")
    again = rescaled.upkeep.rescale(1)
    write(again, 3)

    reader.start()

    assert reader.read() == expected(0, 1, 2, 3)


@pytest.mark.parametrize("snapshot", [1, 2, 3, 4])
def test_a_stream_may_begin_at_a_snapshot_of_other_buckets(catalog: Catalog, snapshot: int) -> None:
    table = logged(catalog, "append-only")
    for batch in (0, 1):
        write(table, batch)
    rescaled = table.upkeep.rescale(5)
    write(rescaled, 2)

    reader = Reader(rescaled, **{"log.scan": "from-snapshot", "snapshot_id": str(snapshot)})

    assert reader.read() == expected(*((0, 1, 2), (1, 2), (2,), (2,))[snapshot - 1])


def test_a_rescale_of_files_alone_that_was_cut_off_is_finished_by_the_log_that_the_table_gets(catalog: Catalog) -> None:
    options = {"bucket": "2", "bucket-key": "id"}
    plain = catalog.create_table("db.t", schema=SCHEMA, options=options)
    plain.write(rows_of(0))
    rescale_schema(plain.store, 3, clock=CommitClock())

    table = catalog.load_table("db.t").log_store.add()

    write(table, 1)
    assert content(table) == sorted(expected(0, 1))
    assert {file.bucket for file in table.system.files()} == {0, 1, 2}
    reader = Reader(table)
    assert reader.read() == expected(0, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation"},
        {"sequence.field": "batch"},
        {"ignore-delete": "true"},
    ],
)
def test_a_table_whose_files_are_merged_when_they_are_read_gets_no_log_later(
    catalog: Catalog, options: dict[str, str]
) -> None:
    plain = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})
    plain.write(rows_of(0))

    with pytest.raises(UnsupportedError, match=r"would have to be rewritten\. Create another table with log\.system"):
        plain.log_store.add()

    assert open_table(plain.path).schema == plain.schema


def test_a_dropped_table_takes_all_of_its_topics_with_it(catalog: Catalog) -> None:
    table = logged(catalog)
    write(table, 0)
    rescaled = table.upkeep.rescale(3)

    catalog.drop_table("db.t")

    assert not is_there(table)
    assert not is_there(rescaled)


def test_a_handle_without_the_log_of_its_table_does_not_rescale_it(catalog: Catalog) -> None:
    plain = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    changed = plain.log_store.add()

    with pytest.raises(ConflictError, match="has got a log since it was opened"):
        plain.upkeep.rescale(3)
    assert open_table(plain.path).schema == changed.schema


def test_a_log_of_all_changes_that_is_added_has_the_newest_rows_of_files_that_no_compaction_has_merged(
    catalog: Catalog,
) -> None:
    options = {"bucket": "1", "write-only": "true"}
    plain = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    for version in (1, 2, 3):
        plain.write(pa.table([[1, 2], pa.array([version] * 2, pa.int32())], schema=SCHEMA))
    plain.delete("id = 2")
    assert {file.level for file in plain.system.files()} == {0}

    table = plain.log_store.add({"log.changelog-mode": "all"})
    LocalWriter(table, "job").write(0, pa.table([[1, 2], pa.array([9, 9], pa.int32())], schema=SCHEMA), None)

    changes = [(kind, row["id"][0].as_py(), row["batch"][0].as_py()) for _, _, kind, row in log_changes(table, 0)]
    assert sorted(changes, key=lambda one: (one[1], one[0])) == [(1, 1, 3), (2, 1, 9), (0, 2, 9)]
