"""Tables with dynamic buckets written by Spark: each key comes to one task, and to one bucket."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.filestore.index.index_manifest import hash_index
from lakelog.filestore.verbs import drop_partitions
from lakelog.protocol.writing.driver import commit_files
from lakelog.spark import write_stream
from lakelog.spark.sink.exchange import Sender, received
from tests.support.tables.dynamic_buckets import assignments, check_index

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64())]
)
DDL = "p INT, id BIGINT, a BIGINT"
Rows = list[tuple[int, int, int]]


def make(folder: Path, **options: str) -> Table:
    """A partitioned table with small dynamic buckets."""
    given_options = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}
    given_options |= {f"dynamic-bucket.{key.replace('_', '-')}": value for key, value in options.items()}
    return Catalog(folder / "lake").create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "id"], partition_keys=["p"], options=given_options
    )


def stream_in(spark: SparkSession, folder: Path, *batches: Rows) -> DataFrame:
    """A stream of files, each a batch, in their order."""
    folder.mkdir()
    for number, rows in enumerate(batches):
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))  # Spark takes the oldest file first
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))


def content(table: Table) -> Rows:
    """All rows, in order."""
    return sorted(tuple(row.values()) for row in table.store.to_arrow().to_pylist())


def after(*batches: Rows) -> Rows:
    """What must be there once the batches are in."""
    last = {row[:2]: row for rows in batches for row in rows}
    return sorted(last.values())


@given(
    senders=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=12), min_size=1, max_size=3),
    task_count=st.integers(1, 4),
    initial=st.none() | st.integers(1, 6),
)
def test_all_rows_of_a_key_come_to_one_task_in_their_order(
    tmp_path_factory: pytest.TempPathFactory,
    senders: list[list[tuple[int, int]]],
    task_count: int,
    initial: int | None,
) -> None:
    options = {} if initial is None else {"initial_buckets": str(initial)}
    table = make(tmp_path_factory.mktemp("t"), **options).store
    sender = Sender(table=table, task_count=task_count)
    places = iter(range(1 << 20))
    rows = [[(p, key, next(places)) for p, key in keys] for keys in senders]
    blocks = []
    for number, one in enumerate(rows):
        columns = [list(column) for column in zip(*one, strict=True)] or [[], [], []]
        given_rows = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        blocks += list(sender.blocks(given_rows.to_batches(), number))
    owners: dict[tuple[int, int], int] = {}
    found: Rows = []
    for task in range(task_count):
        mine = [block.filter(pa.array([one == task for one in block["task"].to_pylist()])) for block in blocks]
        for part in received(mine).values():
            told = [tuple(row.values()) for row in part.to_pylist()]
            assert [row[2] for row in told] == sorted(row[2] for row in told)
            assert all(owners.setdefault(row[:2], task) == task for row in told)
            found += told
    assert sorted(found) == sorted(row for one in rows for row in one)


def test_a_stream_keeps_each_key_in_its_bucket(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    first: Rows = [(key % 2, key, 1) for key in range(100)]
    second: Rows = [(key % 2, key, 2) for key in range(50, 150)] + [(1, 77, 3)]
    third: Rows = [(3, 5, 4), (1, 77, 5)]
    rows = stream_in(spark, tmp_path / "in", first, second, third)
    write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True, task_count=3).awaitTermination()
    assert content(table) == after(first, second, third)
    check_index(table.store)
    newest = table.store.snapshots.latest()
    found = assignments(table.store, newest)
    assert {bucket % 3 for _, bucket in found} == {0, 1, 2}  # each task has filled buckets of its own
    assert max(len(held) for held in found.values()) == 10
    assert sum(len(held) for held in found.values()) == 151
    assert sorted(tuple(row) for row in lakelog.spark.read(spark, table).collect()) == content(table)


def test_a_batch_is_run_again_when_others_dropped_what_its_buckets_were_chosen_by(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.store.write(pa.table([[0] * 95, list(range(95)), [0] * 95], schema=SCHEMA))
    inner: Callable[..., object] = commit_files
    calls: list[int] = []

    def after_a_drop(*given: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            drop_partitions(table.store, "p = 0")
        return inner(*given, **more)

    monkeypatch.setattr("lakelog.spark.sink.batch_write.commit_files", after_a_drop)
    rows = stream_in(spark, tmp_path / "in", [(0, 94, 1)])
    write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True, task_count=1).awaitTermination()
    assert len(calls) == 2
    assert content(table) == [(0, 94, 1)]
    check_index(table.store)
    (files,) = hash_index(table.store, table.store.snapshots.latest()).values()
    assert list(files) == [0]  # it was in bucket 9


@pytest.mark.full
def test_format_writes_by_one_task_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    first: Rows = [(0, key, 1) for key in range(25)]
    many = spark.createDataFrame(first, DDL).repartition(3)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"Write one task with df\.coalesce\(1\)"):
        many.write.format("lakelog").mode("append").save(table.path)
    assert table.store.snapshots.latest() is None
    many.coalesce(1).write.format("lakelog").mode("append").save(table.path)
    second: Rows = [(0, 24, 2), (0, 25, 2), (1, 1, 2)]
    spark.createDataFrame(second, DDL).coalesce(1).write.format("lakelog").mode("append").save(table.path)
    assert content(table) == after(first, second)
    check_index(table.store)
    assert len(assignments(table.store, table.store.snapshots.latest())) == 4
    third: Rows = [(2, 1, 3)]
    spark.createDataFrame(third, DDL).coalesce(1).write.format("lakelog").mode("overwrite").save(table.path)
    assert content(table) == third
    assert len(assignments(table.store, table.store.snapshots.latest())) == 1
    rows = stream_in(spark, tmp_path / "in", [(2, 1, 4), (2, 2, 4)], [(2, 2, 5)])
    query = rows.coalesce(1).writeStream.format("lakelog").option("checkpointLocation", str(tmp_path / "ck"))
    query.trigger(availableNow=True).start(table.path).awaitTermination()
    assert content(table) == [(2, 1, 4), (2, 2, 5)]
    check_index(table.store)
