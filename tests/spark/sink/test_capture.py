"""What the commits of a stream record of what they were made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.origins.record import (
    BatchLineage,
    ForeignSource,
    ReadMode,
    TableSource,
    TableVersion,
    UnknownSource,
    batches_of,
)
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.protocol.state.steps import Step
from lakelog.spark import LakelogSink, read, write_stream
from lakelog.spark.capture.capture import has_moved
from lakelog.spark.sink import batch_write
from tests.support.examples import rest_in_full

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def make(catalog: Catalog, name: str, *values: int) -> Table:
    """A table, with a snapshot of three rows for each value."""
    options = {"write-only": "true"}  # no compaction: each write is one snapshot
    table = catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=options)
    for value in values:
        put(table, value)
    return table


def put(table: Table, value: int) -> None:
    table.write(pa.table({"id": [1, 2, 3], "v": [value] * 3}, schema=SCHEMA))


def version(table: Table, number: int) -> TableVersion:
    (found,) = [one for one in table.snapshots() if one.id == number]
    return TableVersion(snapshot_id=number, commit=found.uuid)


def streamed(table: Table, start: int | None, end: int) -> TableSource:
    """The source of a stream over a table without a log."""
    return TableSource(
        table=table.name,
        uuid=table.store.uuid,
        path=table.path,
        mode=ReadMode.STREAM,
        start=None if start is None else version(table, start),
        end=version(table, end),
        is_exact=True,
    )


def pinned(table: Table, number: int) -> TableSource:
    """The source of a read of one state of a table."""
    return TableSource(
        table=table.name,
        uuid=table.store.uuid,
        path=table.path,
        mode=ReadMode.BATCH,
        end=version(table, number),
        is_exact=True,
    )


def lineages(table: Table, kinds: Collection[CommitKind] = (CommitKind.APPEND,)) -> list[BatchLineage]:
    """What the APPEND snapshots of a table record, or those of other kinds, the oldest first."""
    appends = (one for one in table.snapshots() if one.commit_kind in kinds)
    return [batch.lineage for one in sorted(appends, key=lambda one: one.id) for batch in batches_of(one)]


def stream_of(spark: SparkSession, table: Table) -> DataFrame:
    return spark.readStream.format("lakelog").load(table.path)


def run(rows: DataFrame, sink: Table, tmp_path: Path, name: str | None = None, job: str | None = None) -> str:
    """Write what is there; the query's id."""
    query = write_stream(
        rows, sink, checkpoint_location=tmp_path / "checkpoint", available_now=True, query_name=name, job=job
    )
    query.awaitTermination()
    return query.id


@pytest.mark.full
def test_each_batch_records_its_job_and_the_range_of_its_source(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, sink = make(catalog, "source", 1, 2), make(catalog, "sink")
    query_id = run(stream_of(spark, source), sink, tmp_path)
    put(source, 3)
    put(source, 4)
    run(stream_of(spark, source), sink, tmp_path, name="named")
    put(source, 5)
    run(stream_of(spark, source), sink, tmp_path, name="named", job="given")

    found = lineages(sink)
    assert [(one.job, one.query_id, one.batch_id, one.operation) for one in found] == [
        (query_id, query_id, 0, "WRITE"),
        ("named", query_id, 1, "WRITE"),
        ("given", query_id, 2, "WRITE"),
    ]
    assert len({one.run_id for one in found}) == 3
    assert [one.sources for one in found] == [
        (streamed(source, None, 2),),
        (streamed(source, 2, 4),),
        (streamed(source, 4, 5),),
    ]


@pytest.mark.full
def test_unions_self_joins_and_static_sides_are_all_named_with_what_they_read(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    one, other, sink = make(catalog, "one", 1), make(catalog, "other", 1), make(catalog, "sink")
    first, second = make(catalog, "first", 1), make(catalog, "second", 1)
    by_format = spark.read.format("lakelog").load(first.path)
    by_helper = read(spark, second)
    put(second, 2)  # `by_helper` has chosen its snapshot, `by_format` chooses when it is planned
    put(first, 2)
    rows = stream_of(spark, one).join(by_format.select("id"), "id").join(by_helper.select("id"), "id")
    rows = rows.union(stream_of(spark, other)).union(stream_of(spark, one))
    rows = rows.where("id in (select id from VALUES (1), (2) as t(id))")
    run(rows, sink, tmp_path)
    put(first, 3)
    put(other, 2)
    run(rows, sink, tmp_path)

    streams = [streamed(one, None, 1), streamed(other, None, 1)]
    moved = [streamed(one, 1, 1), streamed(other, 1, 2)]
    static = [pinned(first, 2), pinned(second, 1)]  # a DataFrame keeps what it has read first
    before, after = lineages(sink)
    known = [source for source in before.sources if not isinstance(source, UnknownSource)]
    assert known == [*streams, *static]
    assert [source for source in after.sources if not isinstance(source, UnknownSource)] == [*moved, *static]


@pytest.mark.full
def test_what_a_function_joins_to_its_batch_is_named(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    source, side, sink = make(catalog, "source", 1), make(catalog, "side", 1, 2), make(catalog, "sink")
    write = LakelogSink(sink)

    def joined(batch: DataFrame, batch_id: int) -> None:
        static = spark.read.format("lakelog").option("scan.snapshot-id", 1).load(side.path)
        write(batch.join(static.select("id"), "id"), batch_id)

    writer = stream_of(spark, source).writeStream.foreachBatch(joined).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    (found,) = lineages(sink)
    assert found.sources == (streamed(source, None, 1), pinned(side, 1))


def test_sources_of_others_are_named_with_their_offsets(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    sink = make(catalog, "sink")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1, "v": 1}')
    run(spark.readStream.schema("id BIGINT, v BIGINT").json(str(folder)), sink, tmp_path)

    (found,) = lineages(sink)
    name = f"FileStreamSource[{folder.as_uri()}]".partition("[")[2].rstrip("]")
    assert found.sources == (
        ForeignSource(format="FileStreamSource", name=name.replace("///", "/"), end='{"logOffset":0}'),
    )


@pytest.mark.full
def test_a_job_keeps_its_name_until_another_query_takes_it_over(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, sink = make(catalog, "source", 1), make(catalog, "sink")

    def start(checkpoint: str, *, takes_over: bool = False) -> str:
        rows = stream_of(spark, source)
        query = write_stream(
            rows, sink, checkpoint_location=tmp_path / checkpoint, available_now=True, job="j", job_takeover=takes_over
        )
        query.awaitTermination()
        return query.id

    first = start("one")
    with pytest.raises(StreamingQueryException, match=rf"the job 'j' .* is that of query {first}"):
        start("two")
    second = start("two", takes_over=True)
    put(source, 2)
    start("two")
    with pytest.raises(StreamingQueryException, match=rf"is that of query {second}"):
        start("one")
    assert [one.query_id for one in lineages(sink)] == [first, second, second]


def test_nothing_is_recorded_where_capture_is_off(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    source = make(catalog, "source", 1)
    options = {"lineage.capture": "false"}
    sink = catalog.create_table("db.sink", schema=SCHEMA, primary_keys=["id"], options=options)
    run(stream_of(spark, source), sink, tmp_path)

    (found,) = lineages(sink)
    assert found == BatchLineage()


@pytest.mark.parametrize("step", rest_in_full([Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT], 1))
def test_a_batch_that_is_run_again_is_recorded_once(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    source, side, sink = make(catalog, "source", 1), make(catalog, "side", 1), make(catalog, "sink")

    def fail(found: Step, user: str, identifier: int, bucket: int | None) -> None:
        if found is step:
            raise ConflictError(f"killed {found}")

    def joined() -> DataFrame:
        return stream_of(spark, source).join(spark.read.format("lakelog").load(side.path).select("id"), "id")

    with monkeypatch.context() as patch:
        patch.setattr(batch_write, "process_observer", lambda: fail)
        with pytest.raises(StreamingQueryException, match="killed"):
            run(joined(), sink, tmp_path)
    put(side, 2)
    put(source, 2)
    run(joined(), sink, tmp_path)

    was_committed = step is Step.AFTER_SNAPSHOT  # else the batch is planned again, and reads what is there then
    assert [one.sources for one in lineages(sink)] == [
        (streamed(source, None, 1), pinned(side, 1 if was_committed else 2)),
        (streamed(source, 1, 2), pinned(side, 2)),
    ]


def test_a_batch_without_rows_is_worth_a_snapshot_where_a_stream_has_read_on() -> None:
    stream = TableSource(table="db.t", uuid="u", mode=ReadMode.STREAM, end=TableVersion(snapshot_id=2))
    state = TableSource(table="db.t", uuid="u", mode=ReadMode.BATCH, end=TableVersion(snapshot_id=2))

    assert has_moved(BatchLineage(sources=(state, stream)))
    assert not has_moved(BatchLineage(sources=(state, replace(stream, start=TableVersion(snapshot_id=2)))))
