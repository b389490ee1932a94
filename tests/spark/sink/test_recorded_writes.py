"""What batch writes and statements record of what they were made from, and streams by the format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.record import BatchLineage, Source, TableSource, UnknownSource
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.tables.identity import identity_of
from lakelog.lineage import made_from
from lakelog.protocol.state.state import Batch
from lakelog.spark import merge, read, write
from lakelog.spark.sink.declaring import StreamDeclaration
from lakelog.streams.reading.offsets import FollowOffset, TableMark, offset_to_json
from tests.spark.sink.test_capture import SCHEMA, lineages, make, pinned, put, stream_of, streamed, version


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def rows_of(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("lakelog").load(path)


def without_fields(lineage: BatchLineage) -> BatchLineage:
    """The record without the lineage of fields, of which each of these commits has one."""
    assert len(lineage.fields) == 1
    return replace(lineage, fields=())


def test_a_batch_write_records_the_snapshots_that_its_dataframe_reads(spark: SparkSession, catalog: Catalog) -> None:
    one, other, sink = make(catalog, "one", 1), make(catalog, "other", 1), make(catalog, "sink")
    rows = rows_of(spark, one.path).join(read(spark, other).select("id"), "id")
    rows.collect()  # the DataFrame keeps the snapshots that it has read
    put(one, 2)
    put(other, 2)
    first = write(rows, sink, job="nightly")
    second = write(rows_of(spark, one.path), sink, mode="overwrite")

    assert (first.id, second.id) == (1, 2)  # type: ignore[union-attr]
    assert sink.to_arrow().column("v").to_pylist() == [2, 2, 2]
    assert without_fields(lineages(sink)[0]) == BatchLineage(
        job="nightly", operation="WRITE", sources=(pinned(one, 1), pinned(other, 1))
    )


def test_a_merge_records_what_its_rows_are_read_from(spark: SparkSession, catalog: Catalog) -> None:
    source, sink = make(catalog, "source", 1, 2), make(catalog, "sink", 5)
    merge(rows_of(spark, source.path), sink).when_matched_update_all().execute()

    (found,) = lineages(sink)
    assert without_fields(found) == BatchLineage(operation="MERGE", sources=(pinned(source, 2),))


def test_rows_that_the_program_made_have_an_unknown_source(spark: SparkSession, catalog: Catalog) -> None:
    sink = make(catalog, "sink")
    write(spark.createDataFrame([(1, 1)], "id BIGINT, v BIGINT"), sink)

    (source,) = lineages(sink)[0].sources
    assert isinstance(source, UnknownSource)
    assert "createDataFrame" in source.why


def test_a_write_by_the_format_records_what_it_declares(spark: SparkSession, catalog: Catalog) -> None:
    source, sink = make(catalog, "source", 1, 2), make(catalog, "sink")
    rows = rows_of(spark, source.path)
    rows.write.format("lakelog").mode("append").save(sink.path)
    declared = {"lineage.sources": "db.source@1, db.none@3", "lineage.job": "j"}
    rows.write.format("lakelog").mode("append").options(**declared).save(sink.path)

    before, after = lineages(sink)
    (undeclared,) = before.sources
    assert isinstance(undeclared, UnknownSource)
    assert "lineage.sources" in undeclared.why
    assert (after.job, after.sources[0]) == ("j", pinned(source, 1))
    assert isinstance(after.sources[1], UnknownSource)
    assert "db.none@3 was declared" in after.sources[1].why


def test_a_stream_by_the_format_records_what_its_checkpoint_says(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, side, sink = make(catalog, "source", 1), make(catalog, "side", 1), make(catalog, "sink")
    for value in (2, 3):
        writer = stream_of(spark, source).writeStream.format("lakelog").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option(
            "lineage.sources", "db.side@1"
        )
        query = writer.start(sink.path)
        query.awaitTermination()
        put(source, value)

    found = lineages(sink)
    assert [(one.job, one.query_id, one.batch_id) for one in found] == [
        (query.id, query.id, 0),
        (query.id, query.id, 1),
    ]
    ranges = [(one.sources[0].start, one.sources[0].end) for one in found if isinstance(one.sources[0], TableSource)]
    wanted = [streamed(source, None, 1), streamed(source, 1, 2)]
    assert ranges == [(one.start, one.end) for one in wanted]
    assert [one.sources[1:] for one in found] == [(pinned(side, 1),)] * 2


@pytest.mark.full
def test_a_stream_of_a_branch_by_the_format_is_known_by_the_branchs_identity(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, sink = make(catalog, "source", 1), make(catalog, "sink")
    source.branches.create("trial")
    branch = source.branch("trial")
    put(branch, 2)
    writer = spark.readStream.format("lakelog").load(f"{source.path}$branch_trial").writeStream.format("lakelog")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writer.option("lineage.sources", "db.source$branch_trial").start(sink.path)
    query.awaitTermination()

    ((found,),) = [one.sources for one in lineages(sink)]
    assert found == replace(streamed(branch, None, 2), table="db.source", branch="trial")


def recorded(
    source: Table, sink: Table, folder: Path, declared: str, *, identity: str | None = None
) -> tuple[Source, ...]:
    """What a batch records by its checkpoint, in which a stream of `source` has read up to its newest snapshot."""
    newest = source.snapshot()
    assert newest is not None
    mark = TableMark(uuid=identity or identity_of(source.store), name=source.name)
    line = json.dumps(offset_to_json(FollowOffset(consumed=newest.id, commit=newest.uuid), mark))
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}', encoding="utf-8")
    batch = Batch(user="q", identifier=0, source_digest=None)
    found = StreamDeclaration.of({"lineage.sources": declared}).recorded(batch, sink.store, "q", str(folder))
    return tuple(BatchLineage.from_json(found.lineage).sources)


def test_a_branch_elsewhere_is_known_by_its_declared_folder(catalog: Catalog, tmp_path: Path) -> None:
    elsewhere, sink = make(Catalog(tmp_path / "other"), "source", 1), make(catalog, "sink")
    elsewhere.branches.create("trial")
    branch = elsewhere.branch("trial")

    (unknown,) = recorded(branch, sink, tmp_path / "one", "none")
    (known,) = recorded(branch, sink, tmp_path / "two", f"{elsewhere.path}$branch_trial")

    assert isinstance(unknown, UnknownSource)
    assert "name its table's folder and the branch in lineage.sources" in unknown.why
    assert known == replace(streamed(branch, None, 1), table="db.source", branch="trial")


def test_another_branch_of_the_name_is_not_taken_for_the_one_that_was_read(catalog: Catalog, tmp_path: Path) -> None:
    source, sink = make(catalog, "source", 1), make(catalog, "sink")
    source.branches.create("trial")
    before = identity_of(source.branch("trial").store)
    source.branches.delete("trial")
    source.branches.create("trial")

    (found,) = recorded(source.branch("trial"), sink, tmp_path / "checkpoint", "none", identity=before)

    assert isinstance(found, UnknownSource)


def test_a_table_that_the_checkpoint_knows_is_not_recorded_a_second_time(catalog: Catalog, tmp_path: Path) -> None:
    source, side, sink = make(catalog, "source", 1), make(catalog, "side", 1), make(catalog, "sink")

    found = recorded(source, sink, tmp_path / "ck", "db.source, db.side, db.source@1")

    assert [(one.table, one.mode, one.end is None) for one in found if isinstance(one, TableSource)] == [
        ("db.source", "stream", False), (side.name, "batch", True), ("db.source", "batch", False)
    ]  # fmt: skip


def test_a_program_declares_what_its_rows_are_made_from(catalog: Catalog) -> None:
    source, sink = make(catalog, "source", 1, 2), make(catalog, "sink")
    recorded = made_from(sink, "db.source@2", f"{source.path}@1", "db.source", job="nightly")
    recorded.write(pa.table({"id": [1], "v": [1]}, schema=SCHEMA))
    recorded.delete("id = 1")

    first, second = lineages(sink)
    assert (first.job, first.operation, second.operation) == ("nightly", "WRITE", "DELETE")
    known, by_path, unknown = first.sources
    assert (known, by_path) == (pinned(source, 2), pinned(source, 1))
    assert isinstance(unknown, TableSource)
    assert (unknown.end, unknown.why) == (None, "declared without a snapshot")
    with pytest.raises(InvalidRequestError, match=r"'db\.source@' is not a table and a snapshot"):
        made_from(sink, "db.source@")
    with pytest.raises(NotFoundError):
        made_from(sink, "db.source@7")


def test_reads_of_changes_say_that_they_are_no_state(spark: SparkSession, catalog: Catalog) -> None:
    source, sink = make(catalog, "source", 1, 2, 3), make(catalog, "sink")
    changes = spark.read.format("lakelog").option("incremental-between", "1,3").load(source.path)
    write(changes, sink)
    write(rows_of(spark, make(catalog, "empty").path), sink, mode="overwrite")

    (read_changes,), (read_nothing,) = (one.sources for one in lineages(sink, kinds=(*CommitKind,)))
    assert isinstance(read_changes, TableSource)
    assert (read_changes.start, read_changes.end) == (version(source, 1), version(source, 3))
    assert not read_changes.is_exact
    assert isinstance(read_nothing, TableSource)
    assert (read_nothing.table, read_nothing.end, read_nothing.is_exact) == ("db.empty", None, True)
