"""What goes wrong in streaming writes: a clear error, and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnavailableError
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.spark import LakelogSink, error_of, write_stream
from tests.support.jobs import retried_job
from tests.support.logs.changes import TABLE_SCHEMA
from tests.support.logs.promises import read_headers
from tests.support.tables.small_tables import altered_by_others

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    return create(tmp_path, bootstrap_servers)


def create(folder: Path, servers: str, **options: str) -> Table:
    catalog = Catalog(str(folder / "lake"), bootstrap_servers=servers)
    logged = {"bucket": "2", "log.system": "kafka"} | {key.replace("_", "."): text for key, text in options.items()}
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=logged)


def set_options(table: Table, **options: str) -> None:
    """Change options behind lakelog's back."""
    (Path(table.path) / "schema/schema-0").write_text(altered_by_others(table.schema, **options))


AWAY = {"log.kafka.bootstrap.servers": "127.0.0.1:1", "log.unavailable-timeout": "0 s"}


RowsOf = Callable[[str], DataFrame]


@pytest.fixture
def rows_of(spark: SparkSession, tmp_path: Path) -> RowsOf:
    """The source folder as a stream of rows with these columns."""
    return lambda ddl: source(spark, tmp_path, ddl)


def put(folder: Path, name: str, *rows: dict[str, object]) -> Path:
    """A file of JSON lines in the source folder."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def source(spark: SparkSession, folder: Path, ddl: str = "id BIGINT, name STRING, amount BIGINT") -> DataFrame:
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).json(str(folder / "in"))


def run(rows: DataFrame, table: Table, checkpoint: Path, **what: str) -> str:
    query = write_stream(rows, table, checkpoint_location=checkpoint, available_now=True, **what)  # type: ignore[arg-type]  # one helper for all text arguments
    query.awaitTermination()
    return query.id


def run_batches(rows: DataFrame, checkpoint: Path, function: Callable[[DataFrame, int], None]) -> None:
    writer = rows.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def all_of(sinks: list[LakelogSink]) -> Callable[[DataFrame, int], None]:
    """A foreachBatch function that writes the batch to every sink."""

    def write(batch: DataFrame, batch_id: int) -> None:
        for sink in sinks:
            sink(batch, batch_id)

    return write


def names_of(table: Table) -> dict[int, str]:
    rows = table.to_arrow(columns=["id", "name"])
    return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def log_ends(table: Table) -> list[int]:
    assert table.log is not None
    ends = high_watermarks(kafka_topic(table.log), table.store.bucket_count)
    return [ends[bucket].offset for bucket in sorted(ends)]


def test_what_cannot_work_is_refused_before_the_query_starts(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    rows = source(spark, put(tmp_path, "0", {"id": 1}))
    checkpoint = tmp_path / "c"
    catalog = Catalog(str(tmp_path / "lake"))

    with pytest.raises(NotFoundError, match=r"table db\.u does not exist"):
        write_stream(rows, "db.u", catalog=catalog, checkpoint_location=checkpoint)
    with pytest.raises(InvalidRequestError, match="no checkpoint location"):
        write_stream(rows, table)
    with pytest.raises(InvalidRequestError, match=r"lack column\(s\) id"):
        write_stream(rows.drop("id"), table, checkpoint_location=checkpoint)
    with pytest.raises(InvalidRequestError, match="column 'amount': expected BIGINT"):
        write_stream(rows.withColumn("amount", rows["name"]), table, checkpoint_location=checkpoint)
    with pytest.raises(InvalidRequestError, match="order_by: column 'nope' does not exist; the columns are"):
        write_stream(rows, table, checkpoint_location=checkpoint, order_by="nope")
    with pytest.raises(InvalidRequestError, match="output_mode is 'complete'"):
        write_stream(rows, table, checkpoint_location=checkpoint, output_mode="complete")
    with pytest.raises(InvalidRequestError, match="no stream"):
        write_stream(spark.range(1), table, checkpoint_location=checkpoint)
    assert not checkpoint.exists()


def test_a_broker_that_does_not_answer_is_named_at_the_call(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    set_options(table, **AWAY)

    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        write_stream(source(spark, put(tmp_path, "0")), table.path, checkpoint_location=tmp_path / "c")


@pytest.mark.full
def test_a_broker_that_is_away_ends_streams_with_an_error_that_names_it(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    set_options(table, **AWAY)
    away = open_table(table.path)
    writing = source(spark, put(tmp_path, "0", {"id": 1})).writeStream.foreachBatch(LakelogSink(away))
    reading = spark.readStream.format("lakelog").load(table.path).writeStream.format("noop")
    started = [
        writer.option("checkpointLocation", str(tmp_path / str(number))).trigger(availableNow=True).start()
        for number, writer in enumerate((writing, reading))
    ]
    for query in started:
        with pytest.raises(StreamingQueryException) as caught:
            query.awaitTermination()
        found = error_of(caught.value)
        assert isinstance(found, UnavailableError)
        assert "Kafka at 127.0.0.1:1" in str(found)
        assert str(found).split(";")[0] in str(caught.value).split("Traceback (most recent call last)")[0]


def test_another_topic_of_the_same_name_is_neither_written_nor_read(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    set_options(table, **{"log.topic-id": "AAAAAAAAAAAAAAAAAAAAAA"})

    with pytest.raises(CorruptDataError, match="the topic was deleted and created again"):
        write_stream(source(spark, put(tmp_path, "0")), table.path, checkpoint_location=tmp_path / "c")
    query = (
        spark.readStream.format("lakelog")
        .load(table.path)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "r"))
        .start()
    )
    with pytest.raises(StreamingQueryException, match="the topic was deleted and created again"):
        query.awaitTermination()


@pytest.mark.parametrize(
    ("bad", "ddl", "message"),
    [
        ({"name": "no key"}, "id BIGINT, name STRING, amount BIGINT", "'id' is a primary key column"),
        (
            {"id": 5, "_row_kind": "+X"},
            "id BIGINT, name STRING, amount BIGINT, _row_kind STRING",
            r"must be one of \+I, -U, \+U, -D, found \+X",
        ),
    ],
    ids=["null key", "row kind"],
)
def test_one_bad_row_keeps_the_whole_batch_out_of_log_and_files(
    bad: dict[str, object], ddl: str, message: str, rows_of: RowsOf, table: Table
) -> None:
    folder = Path(table.path).parents[2]
    put(folder, "0", *({"id": at, "_row_kind": "+I"} for at in range(20)), bad)

    with pytest.raises(StreamingQueryException, match=message):
        run(rows_of(ddl), table, folder / "c")
    assert list(table.snapshots()) == []
    assert log_ends(table) == [0, 0]


def test_changes_of_one_key_in_a_batch_keep_their_order(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    put(tmp_path, "0", *({"id": at % 3, "name": f"{at:03}", "amount": 100 - at} for at in range(100)))
    by_size = source(spark, tmp_path).withColumn("size", 2 * sf.col("amount")).repartition(4)
    run(by_size, table, tmp_path / "by size", order_by="size")
    assert names_of(table) == {0: "000", 1: "001", 2: "002"}

    run(source(spark, tmp_path), table, tmp_path / "by place")
    assert names_of(table) == {0: "099", 1: "097", 2: "098"}


def test_two_writes_to_one_table_in_one_batch_are_refused_unless_they_have_names(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    put(tmp_path, "0", {"id": 1, "name": "a"})
    rows = source(spark, tmp_path)
    twice = [LakelogSink(table), LakelogSink(table)]
    with pytest.raises(StreamingQueryException, match=r"writes table db\.t a second time: give each sink"):
        run_batches(rows, tmp_path / "twice", all_of(twice))

    named = [LakelogSink(table, writer_name=name) for name in ("first", "second")]
    run_batches(rows, tmp_path / "named", all_of(named))
    assert len(list(table.snapshots())) == 3


def test_a_replayed_batch_changes_nothing_even_in_a_stateful_query(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    for at in range(2):
        put(tmp_path, str(at), *({"id": key, "name": "a", "amount": 1} for key in range(5)))
    rows = source(spark, tmp_path).groupBy("id").agg(sf.max("name").alias("name"), sf.sum("amount").alias("amount"))
    run(rows, table, tmp_path / "c", output_mode="update")
    before = [one.id for one in table.snapshots()]

    (tmp_path / "c/commits/1").unlink()
    (tmp_path / "c/commits/.1.crc").unlink()
    run(rows, table, tmp_path / "c", output_mode="update")

    assert [one.id for one in table.snapshots()] == before
    assert table.to_arrow()["amount"].to_pylist() == [2] * 5


@pytest.mark.full
def test_a_checkpoint_that_was_restored_or_reset_is_an_error(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    rows = source(spark, put(tmp_path, "0", {"id": 1, "name": "a"}))
    run(rows, table, tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "backup")
    for at in (1, 2):
        put(tmp_path, str(at), {"id": at, "name": "b"})
        run(rows, table, tmp_path / "c")
    with pytest.raises(StreamingQueryException, match="The checkpoint was reset, restored or copied"):
        run(rows, table, tmp_path / "backup")

    run(rows, table, tmp_path / "mine", commit_user="me")
    shutil.rmtree(tmp_path / "mine")
    with pytest.raises(StreamingQueryException, match=r"batch 0 of me .*cannot be written"):
        run(rows, table, tmp_path / "mine", commit_user="me")


def test_a_record_that_the_topic_refuses_is_named_before_anything_is_logged(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    table = create(tmp_path, bootstrap_servers, **{"log_max-record-size": "20 kb"})
    put(tmp_path, "0", {"id": 1, "name": "x" * 30_000}, *[{"id": number, "name": ""} for number in range(2, 20)])

    with pytest.raises(
        StreamingQueryException, match=r"the record with key \{.id.:1\} has 300\d\d bytes, the topic takes"
    ):
        run(source(spark, tmp_path), table, tmp_path / "c")
    assert list(table.snapshots()) == []
    assert not any(log_ends(table))


@pytest.mark.full
def test_an_attempt_that_fails_is_tried_again_by_spark(tmp_path: Path, table: Table) -> None:
    for number in range(len(retried_job.ERRORS)):
        put(tmp_path, f"{number}.json", *({"id": 10 * number + at, "name": f"batch {number}"} for at in range(10)))
    observer = {
        "LAKELOG_STEP_OBSERVER": "tests.support.jobs.retried_job:fail_once",
        retried_job.FOLDER_KEY: str(tmp_path),
    }
    job = subprocess.run(
        [sys.executable, "-m", "tests.support.jobs.retried_job", str(tmp_path)],
        env=os.environ | observer,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert job.returncode == 0, job.stderr[-3000:]
    assert {int(line) for line in (tmp_path / "failed").read_text().split()} == set(range(len(retried_job.ERRORS)))
    assert names_of(table) == {key: f"batch {key // 10}" for key in range(40)}
    headers = Counter((bucket, header.identifier) for bucket, header in read_headers(table))
    assert set(headers.values()) == {1}


def test_a_bare_sink_without_checkpoint_is_refused(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    rows = source(spark, put(tmp_path, "0", {"id": 1, "name": "a"}))
    query = rows.writeStream.foreachBatch(LakelogSink(table)).trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="no checkpoint location"):
        query.awaitTermination()
