"""A table with an eventual log, written, read and followed by Spark with a real broker."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast  # a session of which one setting is asked

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError
from lakelog.logstore.kafka.producers.eventual_writer import authors_behind
from lakelog.logstore.kafka.records.authors import Author
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import Step, silent
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.writing.driver import commit_batch
from lakelog.protocol.writing.writer_lease import WriterLeaseError, take_lease
from lakelog.spark import write_stream
from lakelog.spark.sink.alignment import MicroBatch
from lakelog.spark.sink.leases import SPECULATION_CONF, KeptLease, check_no_speculation
from lakelog.spark.sink.task import LoggedWrite
from lakelog.streams.options.log_options import DEFAULT_READING, MetadataColumn
from lakelog.streams.phases.stream_head import TableHead
from lakelog.streams.phases.stream_log import LogPhase
from lakelog.streams.reading.admission import NO_LIMITS
from lakelog.streams.reading.metadata_columns import ARROW_TYPES
from lakelog.streams.reading.part_rows import PartRows
from lakelog.streams.reading.parts import LogPart
from tests.integration.logs.test_eventual_log import ADD, SCHEMA, die_at, fold, make, send_late, write
from tests.integration.spark.test_spark_logged_kinds import Change, Lake, Row
from tests.support.kills.crashing_writer import InjectedCrash, table_of
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import log_changes

pytestmark = pytest.mark.integration

OPTIONS = {"bucket": "2", "log.system": "kafka", "log.consistency": "eventual"}
LAKE_SCHEMA = "day STRING, id BIGINT"


def rows_by_key(table: Table) -> dict[str | None, Row]:
    """The last record of each key in the log."""
    rows: dict[str | None, Row] = {}
    for bucket in range(2):
        for _, _, kind, row in log_changes(table, bucket):
            key = row["day"][0].as_py()
            rows.pop(key, None)
            if kind in (0, 2):
                rows[key] = (key, row["id"][0].as_py())
    return rows


def followed(lake: Lake) -> Mapping[str | None, Row]:
    """The last change of each key that a stream of the table has given by now."""
    lake.follow()
    rows: dict[str | None, Row] = {}
    for file in sorted((lake.folder / "out").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            rows.pop(row["day"], None)
            if row["_row_kind"] in ("+I", "+U"):
                rows[row["day"]] = (row["day"], row["id"])
    return rows


@pytest.mark.full
def test_log_files_and_readers_come_to_the_same_rows(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=LAKE_SCHEMA, primary_keys=["day"], options=OPTIONS)
    lake = Lake(spark, tmp_path, table)
    batches: list[list[Change]] = [
        [("+I", ("mon", 1)), ("+I", ("tue", 5)), ("+I", ("mon", 2))],
        [("+I", ("mon", 4)), ("-D", ("tue", 5)), ("+I", ("wed", 0))],
    ]
    truths: list[dict[str | None, Row]] = [
        {"mon": ("mon", 2), "tue": ("tue", 5)},
        {"mon": ("mon", 4), "wed": ("wed", 0)},
    ]
    for number, (changes, truth) in enumerate(zip(batches, truths, strict=True)):
        lake.feed(number, changes)
        lake.write()
        assert set(lake.read()) == set(truth.values())
        assert rows_by_key(table) == followed(lake) == truth
    partitions = [kafka_topic(log_of_table(table)).partition(bucket) for bucket in range(2)]
    (user,) = {author.user for partition in partitions for author in authors_behind(partition, 0)}

    (tmp_path / "ck" / "commits" / "1").unlink()  # as after a kill between the snapshot and Spark's own mark
    (tmp_path / "ck" / "commits" / ".1.crc").unlink(missing_ok=True)
    lake.feed(2, [("+I", ("mon", 7))])
    lake.write()
    authors = {author for partition in partitions for author in authors_behind(partition, 0)}
    assert {(author.user, author.identifier) for author in authors} == {(user, number) for number in range(3)}
    assert len({author.digest for author in authors}) == 3
    assert None not in {author.digest for author in authors}
    assert rows_by_key(table) == followed(lake) == {**truths[-1], "mon": ("mon", 7)}


@pytest.mark.full
def test_a_stream_leaves_out_records_of_older_batches_and_reads_a_single_new_one(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    table = make(tmp_path / "lake", bootstrap_servers)
    writer = LocalWriter(table, "q")
    write(writer, 0, (ADD, (1, "old")))
    write(writer, 1, (ADD, (1, "new")))

    def follow() -> list[str]:
        found: list[str] = []
        rows = spark.readStream.format("lakelog").load(table.path).writeStream
        query = rows.foreachBatch(lambda batch, _: found.extend(row["v"] for row in batch.collect()))
        query.option("checkpointLocation", str(tmp_path / "reader")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return found

    assert follow() == ["new"]
    send_late(table, Author("q", 0), (1, "old"))
    with pytest.raises(InjectedCrash):
        write(LocalWriter(table, "q", observe=die_at(Step.BEFORE_SNAPSHOT)), 2, (ADD, (1, "newest")))
    assert follow() == ["newest"]  # in no snapshot yet
    assert fold(log_changes(table, 0)) == {1: "newest"}


def test_tasks_send_under_the_lease_and_tasks_that_read_leave_out_older_batches(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """What runs in Spark's workers, without Spark."""
    table = make(tmp_path, bootstrap_servers)
    store, target = table.store, log_target(table)
    snapshots = DriverSnapshots(store, target.topic_id)
    lease = take_lease(store, user="q", run="1")
    for number, text in enumerate(("old", "new")):
        batch = Batch(user="q", identifier=number, source_digest=None)
        lease.renew()
        write = LoggedWrite(table=store, target=target, batch=batch, task_count=1, lease=lease)
        message = write.write({0: table_of([(1, text)], SCHEMA)}, 0)
        assert [answer.is_decided for answer in message.answers] == [False]
        commit_batch(batch, message.answers, snapshots=snapshots, observe=silent, clock=system_millis)
    send_late(table, Author("q", 0), (1, "old"))
    send_late(table, Author("q", 2), (1, "newest"))

    phase = LogPhase(store, target, TableHead(store, target), DEFAULT_READING)
    start = phase.after(store.snapshots.latest())
    end = phase.end(start, NO_LIMITS)
    assert (start.offsets, end.offsets) == ({0: 2}, {0: 4})
    (part,) = phase.parts(start, end)
    given = cast("LogPart", pickle.loads(pickle.dumps(part)))
    assert (given.ranges, given.done) == ([(0, 2, 4)], {0: {"q": 1}})
    schema = SCHEMA.append(pa.field("_row_kind", pa.string()))
    rows = PartRows(
        table=store, target=target, fields=store.schema.fields, where=None, has_row_kind=True, schema=schema
    )
    assert [row for batch in rows.rows(given) for row in batch.to_pylist()] == [
        {"k": 1, "v": "newest", "_row_kind": "+I"}
    ]


def test_the_lease_of_a_sink_is_that_of_its_query(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    one = MicroBatch(user="q", identifier=0, run="1", source_digest=None)
    kept = KeptLease()
    with kept.held(table.store, one, session("false")) as lease:
        assert lease is not None
    with kept.held(table.store, one, session("false")) as again:
        assert again == lease
    other = MicroBatch(user="other", identifier=0, run="2", source_digest=None)
    with pytest.raises(WriterLeaseError), KeptLease().held(table.store, other, session("false")):
        pass
    restarted = MicroBatch(user="q", identifier=0, run="3", source_digest=None)
    with KeptLease().held(table.store, restarted, session("false")) as newer:
        assert newer is not None
    with pytest.raises(WriterLeaseError, match="another run of the query q"), kept.held(table.store, one, session("")):
        pass


def test_a_stream_that_is_stopped_between_two_batches_leaves_its_lease(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    one = MicroBatch(user="q", identifier=0, run="1", source_digest=None)
    other = MicroBatch(user="other", identifier=0, run="2", source_digest=None)
    kept = KeptLease()
    kept.release()  # before its first batch
    with kept.held(table.store, one, session("false")):
        kept.release()  # in the middle of one: its tasks may go on
        with pytest.raises(WriterLeaseError), KeptLease().held(table.store, other, session("false")):
            pass
    kept.release()
    kept.release()
    with KeptLease().held(table.store, other, session("false")) as taken:
        assert taken is not None


@pytest.mark.parametrize("fails", [True, False], ids=["a batch failed", "an attempt of a task failed"])
def test_a_stream_that_may_have_left_a_task_keeps_its_lease(
    tmp_path: Path, bootstrap_servers: str, fails: bool
) -> None:
    table = make(tmp_path, bootstrap_servers)
    one = MicroBatch(user="q", identifier=0, run="1", source_digest=None)
    kept = KeptLease()
    with suppress(InjectedCrash), kept.held(table.store, one, session("false")):
        if fails:
            raise InjectedCrash
        kept.suspect_tasks()
    with kept.held(table.store, one, session("false")):
        pass
    kept.release()
    other = MicroBatch(user="other", identifier=0, run="2", source_digest=None)
    with pytest.raises(WriterLeaseError), KeptLease().held(table.store, other, session("false")):
        pass


def test_another_stream_writes_as_soon_as_the_first_one_is_stopped(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=LAKE_SCHEMA, primary_keys=["day"], options=OPTIONS)
    lake = Lake(spark, tmp_path, table)
    lake.feed(0, [("+I", ("mon", 1))])
    lake.write()
    rows = spark.readStream.schema(f"{LAKE_SCHEMA}, _row_kind STRING").parquet(str(tmp_path / "in"))
    other = write_stream(rows, table, checkpoint_location=tmp_path / "other")
    other.processAllAvailable()
    other.stop()
    lake.feed(1, [("+I", ("tue", 5))])
    lake.write()
    assert set(lake.read()) == {("mon", 1), ("tue", 5)}


def test_records_show_batch_and_place_and_the_snapshot_that_took_them_in(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """Also where the read begins inside of a batch: each record says whose it is."""
    table = make(tmp_path, bootstrap_servers)
    store, target = table.store, log_target(table)
    writer = LocalWriter(table, "q")
    write(writer, 0, (ADD, (1, "a")), (ADD, (2, "b")))
    write(writer, 1, (ADD, (1, "c")))
    send_late(table, Author("q", 0), (1, "old"))
    send_late(table, Author("q", 2), (3, "in no snapshot"))
    metadata = tuple(MetadataColumn)
    schema = pa.schema([*SCHEMA, *(pa.field(one.column, ARROW_TYPES[one]) for one in metadata)])
    rows = PartRows(
        table=store,
        target=target,
        fields=store.schema.fields,
        where=None,
        has_row_kind=False,
        schema=schema,
        metadata=metadata,
    )
    ends = ((2, 1), (3, 2))
    read = rows.rows(LogPart(ranges=((0, 1, 5),), snapshot_ends={0: ends}))
    found = [row for batch in read for row in batch.to_pylist()]
    shown = ("v", "_bucket", "_offset", "_user", "_batch_id", "_snapshot_id", "_watermark")
    assert [tuple(row[name] for name in shown) for row in found] == [
        ("b", 0, 1, "q", 0, 1, None),
        ("c", 0, 2, "q", 1, 2, None),
        ("in no snapshot", 0, 4, "q", 2, None, None),
    ]
    assert all(abs(row["_timestamp"].timestamp() * 1000 - system_millis()) < 600_000 for row in found)


def session(value: str) -> SparkSession:
    """All that is asked of a session: Spark takes this setting when it starts."""
    conf = SimpleNamespace(get=lambda key, _default: value if key == SPECULATION_CONF else None)
    return cast("SparkSession", SimpleNamespace(conf=conf))


def test_a_second_attempt_of_tasks_is_refused(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    with pytest.raises(InvalidRequestError, match=r"spark.speculation is true, and table .* has log.consistency=event"):
        check_no_speculation(table.store, session("true"))
    check_no_speculation(table.store, session("false"))
