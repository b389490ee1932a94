"""Tables with a log of every kind but the plain one: written, read and followed by Spark with a real broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.spark import write_stream
from tests.support.logs.promises import log_changes, snapshot_states
from tests.support.streams.streams import keep_batch

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("day", pa.string()), pa.field("id", pa.int64())])
DDL = "day STRING, id BIGINT, _row_kind STRING"
Row = tuple[str | None, int | None]
Change = tuple[str, Row]
ONE: Row = ("mon", 1)
TWO: Row = ("tue", 2)
NULLS: Row = (None, None)
ADDS: tuple[list[Change], ...] = (
    [("+I", ONE), ("+I", ONE), ("+U", TWO), ("+I", NULLS)],
    [("+I", ONE)],
    [("+I", TWO), ("+I", NULLS), ("+I", NULLS)],
)
ADDS_AND_DELETES: tuple[list[Change], ...] = (
    [("+I", ONE), ("+I", ONE), ("-D", TWO), ("+I", NULLS)],
    [("-U", ONE), ("+U", NULLS)],
    [("+I", TWO), ("+I", TWO), ("-D", NULLS)],
)


@dataclass(slots=True)
class Lake:
    """A folder with one table and the stream that is written to it."""

    spark: SparkSession
    folder: Path
    table: Table

    def feed(self, number: int, changes: Sequence[Change]) -> None:
        """Let a file of changes arrive."""
        (self.folder / "in").mkdir(exist_ok=True)
        columns = {
            "day": [row[0] for _, row in changes],
            "id": pa.array([row[1] for _, row in changes], pa.int64()),
            "_row_kind": [kind for kind, _ in changes],
        }
        pq.write_table(pa.table(columns), self.folder / "in" / f"{number}.parquet")

    def write(self) -> None:
        """Stream what has arrived into the table."""
        rows = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        query = write_stream(rows, self.table, checkpoint_location=self.folder / "ck", available_now=True)
        query.awaitTermination()

    def follow(self) -> Counter[Row]:
        """Read the table on as a stream of changes; how often each row is there by all that was read so far."""
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        rows = self.spark.readStream.format("lakelog").option("row-kind", "true").load(self.table.path)
        writer = rows.writeStream.foreachBatch(partial(keep_batch, out))
        writer = writer.option("checkpointLocation", str(self.folder / "reader")).trigger(availableNow=True)
        writer.start().awaitTermination()
        found: Counter[Row] = Counter()
        for file in out.glob("*.parquet"):
            for row in pq.read_table(file).to_pylist():
                found[row["day"], row["id"]] += 1 if row["_row_kind"] in ("+I", "+U") else -1
        return counted(found)

    def read(self) -> Counter[Row]:
        """What a batch read by Spark gives."""
        return multiset(lakelog.spark.read(self.spark, self.table))


def multiset(rows: DataFrame) -> Counter[Row]:
    return Counter((row["day"], row["id"]) for row in rows.collect())


def counted(rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if count})


def sum_of(batches: Sequence[Sequence[Change]]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for changes in batches:
        for kind, row in changes:
            rows[row] += 1 if kind in ("+I", "+U") else -1
    return counted(rows)


def log_of(table: Table) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for bucket in range(2):
        for _, _, kind, row in log_changes(table, bucket):
            rows[row["day"][0].as_py(), row["id"][0].as_py()] += 1 if kind in (0, 2) else -1
    return counted(rows)


@pytest.mark.parametrize(
    ("partition_keys", "batches"),
    [
        pytest.param([], ADDS, id="append-only", marks=pytest.mark.full),
        pytest.param(["day"], ADDS, id="partitioned", marks=pytest.mark.full),
        pytest.param([], ADDS_AND_DELETES, id="value-count", marks=pytest.mark.full),
    ],
)
def test_batches_are_written_once_and_read_as_they_add_up(
    spark: SparkSession,
    tmp_path: Path,
    bootstrap_servers: str,
    partition_keys: list[str],
    batches: Sequence[Sequence[Change]],
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    write_mode = "change-log" if batches is ADDS_AND_DELETES else "append-only"
    options = {"bucket": "2", "log.system": "kafka", "write-mode": write_mode}
    table = catalog.create_table("db.t", schema=SCHEMA, partition_keys=partition_keys, options=options)
    lake = Lake(spark, tmp_path, table)
    for number, changes in enumerate(batches):
        lake.feed(number, changes)
        lake.write()
        truth = sum_of(batches[: number + 1])
        assert lake.read() == +truth
        assert log_of(table) == truth
        assert lake.follow() == truth
    table.store.compact(full=True)
    assert lake.read() == +sum_of(batches)

    (user,) = list(snapshot_states(table))[-1][1].users
    (tmp_path / "ck" / "commits" / "2").unlink()  # as after a kill between the snapshot and Spark's own mark
    (tmp_path / "ck" / "commits" / ".2.crc").unlink(missing_ok=True)
    lake.write()
    assert list(snapshot_states(table))[-1][1].users[user].identifier == 2
    assert log_of(table) == lake.follow() == sum_of(batches)


def test_a_delete_from_an_append_only_table_is_refused_before_anything_is_logged(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, options={"bucket": "2", "log.system": "kafka"})
    lake = Lake(spark, tmp_path, table)
    lake.feed(0, [*(("+I", ("mon", number)) for number in range(20)), ("-D", TWO)])
    with pytest.raises(Exception, match="has no primary key and takes inserts only, found a -D"):
        lake.write()
    assert log_of(table) == {}
    assert table.store.snapshots.latest() is None


@pytest.mark.full  # tests/integration/logs/test_old_values.py tries it without Spark
def test_a_table_that_adds_up_has_its_sums_in_the_log_with_their_old_values(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
    options |= {"merge-engine": "aggregation", "fields.id.aggregate-function": "sum"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["day"], options=options)
    lake = Lake(spark, tmp_path, table)
    batches: list[list[Change]] = [
        [("+I", ("mon", 1)), ("+I", ("tue", 5)), ("+I", ("mon", 2))],
        [("+I", ("mon", 4)), ("+I", ("tue", 0))],
        [("-D", ("tue", 2)), ("+I", ("wed", None))],
    ]
    truths: list[set[Row]] = [
        {("mon", 3), ("tue", 5)},
        {("mon", 7), ("tue", 5)},
        {("mon", 7), ("tue", 3), ("wed", None)},
    ]
    for number, (changes, truth) in enumerate(zip(batches, truths, strict=True)):
        lake.feed(number, changes)
        lake.write()
        assert lake.read() == log_of(table) == lake.follow() == Counter(truth)


@pytest.mark.full
def test_plain_upserts_have_their_old_rows_in_the_log_and_in_changelog_files(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all", "changelog-producer": "lookup"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["day"], options=options)
    lake = Lake(spark, tmp_path, table)
    batches: list[list[Change]] = [
        [("+I", ("mon", 1)), ("+I", ("tue", 5)), ("+I", ("mon", 2))],
        [("+I", ("mon", 4)), ("-D", ("sun", 1)), ("-U", ("tue", 9))],
        [("-U", ("mon", 9)), ("+U", ("mon", 5)), ("+I", ("wed", None))],
    ]
    truths: list[set[Row]] = [{("mon", 2), ("tue", 5)}, {("mon", 4)}, {("mon", 5), ("wed", None)}]
    for number, (changes, truth) in enumerate(zip(batches, truths, strict=True)):
        lake.feed(number, changes)
        lake.write()
        assert lake.read() == log_of(table) == lake.follow() == Counter(truth)
    filed = Counter(tuple(row.values()) for batch in table.changes() for row in batch.to_pylist())
    assert filed == Counter(
        [
            ("+I", "mon", 2),
            ("+I", "tue", 5),
            ("-U", "mon", 2),
            ("+U", "mon", 4),
            ("-D", "tue", 5),
            ("-U", "mon", 4),
            ("+U", "mon", 5),
            ("+I", "wed", None),
        ]
    )


def test_deletes_that_a_merge_cannot_take_are_refused_before_anything_is_logged(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "merge-engine": "partial-update"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["day"], options=options)
    lake = Lake(spark, tmp_path, table)
    lake.feed(0, [*(("+I", (f"day {number}", number)) for number in range(20)), ("-D", TWO)])
    with pytest.raises(Exception, match="merge-engine=partial-update takes no -U and -D unless"):
        lake.write()
    assert log_of(table) == {}
