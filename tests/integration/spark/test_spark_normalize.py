"""Normalized streams with real Spark and a real broker: by lookup in the table, and by Spark's state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.spark import normalize, write_stream
from tests.support.logs.changes import TABLE_SCHEMA, ChangeHistory, make_history
from tests.support.logs.valid_changes import Change, follow
from tests.support.streams.streams import feed, keep_batch, write_changes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

JOB_SECONDS_MAX = 240


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """Two buckets, an upsert log; snapshots expire at once."""
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {
        "bucket": "2",
        "log.system": "kafka",
        "num-sorted-run.compaction-trigger": "2",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "log.kafka.bootstrap.servers": bootstrap_servers,
    }
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


def history_of(files: int) -> ChangeHistory:
    return make_history(5, files=files, changes_per_file=150, keys=60)


def normalized(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    given = {"row-kind": "true", "scan.normalize": "true"} | options
    return spark.readStream.format("lakelog").options(**given).load(table.path)


def read_now(rows: DataFrame, folder: Path) -> None:
    (folder / "out").mkdir(exist_ok=True)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "reader")).trigger(availableNow=True)
    writer.start().awaitTermination()


def changes_in(folder: Path) -> list[Change]:
    """The rows of all batches, in their order."""
    found: list[Change] = []
    for file in sorted((folder / "out").glob("batch-*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found.append((row.pop("_row_kind"), tuple(row.values())))
    return found


def test_restarts_and_limits_leave_a_valid_changelog(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(6)
    for files in (range(2), range(2, 3), range(3, 6)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        read_now(normalized(spark, table, maxRowsPerTrigger="40"), tmp_path)
        state = follow({}, changes_in(tmp_path))
        assert set(state.values()) == history.truths[files.stop - 1]
    kinds = Counter(kind for kind, _ in changes_in(tmp_path))
    assert kinds["-U"] == kinds["+U"] > 0 < kinds["-D"]


def test_counts_with_retractions_are_right_where_ids_repeat(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(4)
    schema = pa.schema([pa.field("rest", pa.int64(), nullable=False), pa.field("count", pa.int64())])
    target = Catalog(str(tmp_path / "lake")).create_table("db.counts", schema=schema, primary_keys=["rest"])
    for files in (range(2), range(2, 4)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
        rest = (sf.coalesce(sf.col("amount"), sf.lit(0)) % 3).alias("rest")
        counts = normalized(spark, table, maxRowsPerTrigger="50").groupBy(rest).agg(sf.sum(sign).alias("count"))
        write_stream(
            counts, target, checkpoint_location=tmp_path / "counts", output_mode="update", available_now=True
        ).awaitTermination()
        truth = Counter((row[2] or 0) % 3 for row in history.truths[files.stop - 1])
        found = target.to_arrow()
        assert dict(zip(found["rest"].to_pylist(), found["count"].to_pylist(), strict=True)) == dict(truth)


@pytest.mark.full
def test_a_reader_that_is_killed_in_the_middle_of_a_batch_gives_every_change_once(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(5)
    feed(tmp_path, history, range(1))
    write_changes(spark, tmp_path, table)
    assert run_reader(tmp_path) == 0
    before = len(list((tmp_path / "out").iterdir()))
    feed(tmp_path, history, range(1, 5))
    write_changes(spark, tmp_path, table)
    for kill_at in (before, before + 2):
        assert run_reader(tmp_path, kill_at) == -signal.SIGKILL
        assert len(list((tmp_path / "out").iterdir())) == kill_at
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert run_reader(tmp_path) == 0
    assert set(follow({}, changes_in(tmp_path)).values()) == history.truths[-1]


def run_reader(folder: Path, kill_at: int | None = None) -> int:
    command = [sys.executable, "-m", "tests.support.jobs.normalize_job", str(folder)]
    command += [] if kill_at is None else [str(kill_at)]
    with (folder / "job.log").open("ab") as log:
        job = subprocess.Popen(command, env=dict(os.environ), stdout=log, stderr=log, start_new_session=True)
    return job.wait(JOB_SECONDS_MAX)


# By Spark's state.

TYPED = (
    "id BIGINT, small TINYINT, big BIGINT, exact DECIMAL(38, 10), ratio DOUBLE, single FLOAT, flag BOOLEAN, "
    "text STRING, bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, _row_kind STRING, step INT"
)
VALUES = (
    -128,
    (1 << 62) + 1,
    Decimal("1234567890123456789012345678.0123456789"),
    0.1,
    -0.0,
    True,
    'ü " \\',
    b"\x00\xff",
    date(1, 1, 1),
    datetime(2026, 10, 25, 0, 30, 0, 1, tzinfo=UTC),
    datetime(1600, 2, 29, 23, 59, 59, 999_999),
)


def stateful(
    spark: SparkSession, rows: list[tuple[object, ...]], folder: Path, *, order_by: str | None
) -> list[Change]:
    """Give rows to a stream as one more file, and take what normalize has made of all files so far."""
    (folder / "in").mkdir(exist_ok=True)
    number = len(list((folder / "in").glob("*.parquet")))
    staged = folder / f"staged-{number}.parquet"
    pq.write_table(spark.createDataFrame(rows, TYPED).toArrow(), staged)
    staged.rename(folder / "in" / f"{number:03d}.parquet")
    source = spark.readStream.schema(TYPED).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    read_now(normalize(source, "id", order_by=order_by).drop("step"), folder)
    return changes_in(folder)


def test_every_type_is_exact_through_sparks_state(spark: SparkSession, tmp_path: Path) -> None:
    nulls = (None,) * len(VALUES)
    stateful(spark, [(1, *VALUES, "+I", 1), (2, *nulls, "+I", 2)], tmp_path, order_by="step")
    found = stateful(spark, [(1, *nulls, "+I", 3), (2, *VALUES, "+I", 4)], tmp_path, order_by="step")
    rows = [(1, *VALUES), (2, *nulls), (1, *nulls), (2, *VALUES)]
    typed = [(kind, (*row[:10], row[10], *row[11:])) for kind, row in found]
    assert sorted(typed, key=repr) == sorted(
        [
            ("+I", rows[0]),
            ("+I", rows[1]),
            ("-U", rows[0]),
            ("+U", rows[2]),
            ("-U", rows[1]),
            ("+U", rows[3]),
        ],
        key=repr,
    )


@pytest.mark.parametrize("order_by", ["step", None])
def test_changes_of_a_key_are_taken_in_their_order(spark: SparkSession, tmp_path: Path, order_by: str | None) -> None:
    nulls = (None,) * (len(VALUES) - 1)

    def row(key: int, value: int, kind: str, step: int) -> tuple[object, ...]:
        return (key, value, *nulls, kind, step)

    first = [row(1, 1, "+I", 1), row(1, 2, "+I", 2), row(1, 2, "+U", 3), row(2, 9, "-D", 4), row(2, 1, "-U", 5)]
    second = [row(1, 0, "-D", 6), row(1, 3, "+I", 7), row(3, 1, "+I", 8), row(3, 1, "-D", 9)]
    if order_by is not None:  # whatever order the rows have
        first, second = first[::-1], second[::-1]
    stateful(spark, first, tmp_path, order_by=order_by)
    found = stateful(spark, second, tmp_path, order_by=order_by)
    short = [(kind, shown[:2]) for kind, shown in found]
    expected = {
        1: [("+I", 1), ("-U", 1), ("+U", 2), ("-U", 2), ("+U", 2), ("-D", 2), ("+I", 3)],  # `step` is of the row
        3: [("+I", 1), ("-D", 1)],
    }
    for key, changes in expected.items():
        assert [(kind, shown[1]) for kind, shown in short if shown[0] == key] == changes
    assert {shown[0] for _, shown in short} == set(expected)


def test_the_state_of_spark_makes_of_an_upsert_log_what_lookups_make(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(3)
    for files in (range(1), range(1, 3)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        changes = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
        read_now(normalize(changes, "id"), tmp_path)
    assert set(follow({}, changes_in(tmp_path)).values()) == history.truths[-1]


def test_what_normalize_cannot_do_is_refused_by_name(spark: SparkSession) -> None:
    changes = spark.createDataFrame([(1, "+I", [1])], "id INT, _row_kind STRING, many ARRAY<INT>")
    with pytest.raises(UnsupportedError, match="'many' has the type array<int>"):
        normalize(changes, "id")
    with pytest.raises(InvalidRequestError, match="no column '_row_kind'"):
        normalize(changes.drop("_row_kind"), "id")
    with pytest.raises(InvalidRequestError, match="given the columns nobody, found in the changes: id"):
        normalize(changes, ["nobody"])
    with pytest.raises(InvalidRequestError, match="given no key"):
        normalize(changes, [])
    with pytest.raises(InvalidRequestError, match="it takes an integer"):
        normalize(changes.drop("many"), "id", order_by="_row_kind")
    with pytest.raises(InvalidRequestError, match="found 'complete'"):
        normalize(changes.drop("many"), "id", output_mode="complete")
