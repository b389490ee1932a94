"""Tables without primary key that take deletes, written, read and followed by Spark."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any  # Any: offsets are JSON

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.protocol.state.state import Batch
from lakelog.spark import write_stream
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.sink.files_writer import FilesPlan, WrittenFiles
from lakelog.spark.sink.task import FilesWrite
from lakelog.spark.source.streams.source import LakelogStreamReader
from lakelog.spark.types import to_spark_schema

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string())])
DDL = "id BIGINT, day STRING"
KINDS = ("+I", "-U", "+U", "-D")
Row = tuple[int | None, str | None]
ONE: Row = (1, "mon")
TWO: Row = (2, "tue")
NULLS: Row = (None, None)
OPTIONS = {"write-mode": "change-log", "bucket": "2"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, options=OPTIONS)


def put(table: Table, rows: Sequence[Row], kind: str = "+I") -> None:
    ids, days = zip(*rows, strict=True)
    table.write(pa.table([ids, days], SCHEMA), row_kinds=pa.array([KINDS.index(kind)] * len(rows), pa.int8()))


def multiset(rows: object) -> Counter[tuple[Any, ...]]:
    assert hasattr(rows, "collect")
    return Counter(tuple(row.asDict().values()) for row in rows.collect())


@pytest.mark.parametrize("is_compacted", [False, True])
def test_spark_reads_each_row_as_often_as_it_is_there(spark: SparkSession, table: Table, *, is_compacted: bool) -> None:
    put(table, [ONE, ONE, ONE, NULLS, NULLS, TWO])
    put(table, [ONE, TWO], "-D")
    if is_compacted:  # then no file needs a merge, and Spark's own scan would give each row once
        table.store.compact(full=True)
    for rows in (lakelog.spark.read(spark, table), spark.read.format("lakelog").load(table.path)):
        assert rows.columns == ["id", "day"]
        assert multiset(rows) == {ONE: 2, NULLS: 2}
        assert multiset(rows.where("id is null")) == {NULLS: 2}
        assert rows.count() == 4
    assert multiset(lakelog.spark.read(spark, table, columns=["day"], where="id = 1")) == {("mon",): 2}
    assert multiset(lakelog.spark.read(spark, table, snapshot_id=1)) == {ONE: 3, NULLS: 2, TWO: 1}


def test_batches_and_streams_of_spark_add_and_take_away(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(*ONE, "+I"), (*ONE, "+U"), (*ONE, "+I"), (*NULLS, "+I")], f"{DDL}, _row_kind STRING")
    rows.write.format("lakelog").mode("append").save(table.path)
    spark.createDataFrame([ONE, NULLS], DDL).write.format("lakelog").mode("append").save(table.path)
    changes = spark.createDataFrame([(*ONE, "-D"), (*ONE, "-U"), (*NULLS, "-D")], f"{DDL}, _row_kind STRING")
    changes.write.format("lakelog").mode("append").save(table.path)
    assert multiset(lakelog.spark.read(spark, table)) == {ONE: 2, NULLS: 1}

    source = tmp_path / "in"
    source.mkdir()
    for number, given in enumerate(([(*ONE, "-D"), (*TWO, "+I")], [(*TWO, "+I"), (*NULLS, "-D")])):
        ids, days, kinds = zip(*given, strict=True)
        pq.write_table(
            pa.table([ids, days, kinds], pa.schema([*SCHEMA, pa.field("_row_kind", pa.string())])),
            source / f"{number}.parquet",
        )
    given_stream = spark.readStream.schema(f"{DDL}, _row_kind STRING").parquet(str(source))
    write_stream(given_stream, table, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()
    assert multiset(lakelog.spark.read(spark, table)) == {ONE: 1, TWO: 2}


@pytest.mark.full
def test_a_stream_copies_one_table_into_another(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    copy = Catalog(tmp_path / "lake").create_table("db.copy", schema=SCHEMA, options=OPTIONS)

    def run() -> None:
        rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
        query = rows.writeStream.format("lakelog").option("checkpointLocation", str(tmp_path / "ck"))
        query.trigger(availableNow=True).start(copy.path).awaitTermination()

    put(table, [ONE, ONE, NULLS])
    put(table, [TWO, TWO], "-D")  # more than there are: 0 rows, and the stream tells of both
    run()
    assert multiset(lakelog.spark.read(spark, copy)) == {ONE: 2, NULLS: 1}
    put(table, [ONE, NULLS], "-D")
    put(table, [TWO, TWO, TWO])
    run()
    assert multiset(lakelog.spark.read(spark, copy)) == multiset(lakelog.spark.read(spark, table)) == {ONE: 1, TWO: 1}


# Planned and read without Spark's processes.


def followed(
    table: Table, start: dict[str, Any] | None, **options: str
) -> tuple[Counter[tuple[Any, ...]], dict[str, Any]]:
    """The rows of a stream until there is nothing more, and its last offset."""
    source = LakelogDataSource({"path": table.path, **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    start = start or reader.initialOffset()
    found: Counter[tuple[Any, ...]] = Counter()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        worker = pickle.loads(pickle.dumps(reader))
        for partition in reader.partitions(start, end):
            found.update(tuple(row.values()) for batch in worker.read(partition) for row in batch.to_pylist())
        start = json.loads(json.dumps(end))
    return found, start


def test_a_stream_gives_a_change_as_often_as_it_happened(table: Table) -> None:
    put(table, [ONE, ONE, NULLS])
    put(table, [TWO], "-U")
    first, reached = followed(table, None, **{"row-kind": "true"})
    assert first == {(*ONE, "+I"): 2, (*NULLS, "+I"): 1, (*TWO, "-D"): 1}
    put(table, [TWO, TWO, TWO])
    put(table, [ONE, ONE, NULLS], "-D")
    table.store.compact(full=True)
    second, _ = followed(table, reached, **{"row-kind": "true"})
    assert second == {(*TWO, "+I"): 3, (*ONE, "-D"): 2, (*NULLS, "-D"): 1}
    adds, _ = followed(table, reached, where="id = 2")
    assert adds == {TWO: 3}


def test_a_write_counts_though_another_one_came_first(table: Table) -> None:
    put(table, [ONE])
    plan = FilesPlan.of(table, to_spark_schema(table.schema.fields), is_overwrite=False)
    rows = pa.table([[1], ["mon"], pa.array([KINDS.index("-D")], pa.int8())], [*SCHEMA.names, "_row_kind"])
    written = FilesWrite(table=table.store, first_sequence=plan.first_sequence).write(rows.to_batches(), task=0)
    put(table, [ONE, ONE])
    message = WrittenFiles(written.files, written.changelog, written.row_count, plan.base_id, None)
    plan.commit([message], Batch(user="u", identifier=1, source_digest=None), is_stream=False)
    assert table.store.snapshots.latest_id() == 3
    assert table.to_arrow().to_pylist() == [{"id": 1, "day": "mon"}] * 2
