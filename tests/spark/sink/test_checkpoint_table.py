"""A checkpoint names the table that has its batches: another one is refused, with the way out."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.tables.identity import identity_of
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.spark import LakelogSink, write_stream
from lakelog.spark.capture.checkpoint_table import FILE, CheckpointTable, bind, check_before_start, check_unowned
from lakelog.spark.sink import checkpoint_folders
from lakelog.spark.sink.alignment import MicroBatch
from lakelog.spark.sink.files_writer import FilesStreamWriter, WrittenFiles
from tests.support.examples import rest_in_full
from tests.support.servers.s3_server import S3Server

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
USER = "11111111-2222-3333-4444-555555555555"
WRITTEN = WrittenFiles(files=(), changelog=(), row_count=1, base_id=0, query_id=USER)


@dataclass
class Folder:
    """A checkpoint in memory."""

    files: dict[str, str] = field(default_factory=dict)
    location: str = "s3a://bucket/ck"

    def find_text(self, name: str) -> str | None:
        return self.files.get(name)

    def write_text(self, name: str, text: str) -> None:
        self.files[name] = text

    def has_files(self, name: str) -> bool:
        return any(one.startswith(f"{name}/") for one in self.files)


def made(catalog: Catalog, name: str = "db.t") -> Table:
    return catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})


def has_batch(table: FileStoreTable, batch_id: int) -> None:
    """Let the table have a batch of the query."""
    append_commit(table, user=USER, identifier=batch_id, digest=None, entries=[])


def bound(folder: Folder, table: FileStoreTable) -> None:
    bind(folder, table, user=USER, batch_id=0)
    has_batch(table, 0)
    folder.files["commits/0"] = "{}"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def test_batch_0_names_the_table_and_later_ones_find_it(catalog: Catalog) -> None:
    folder, table = Folder(), made(catalog).store
    bound(folder, table)
    assert json.loads(folder.files[FILE]) == {"table": table.uuid, "name": "db.t"}
    bind(folder, table, user=USER, batch_id=1)
    check_before_start(folder, table)
    assert folder.files[FILE] == CheckpointTable.of(table).to_json()


def test_the_checkpoint_of_another_table_is_refused(catalog: Catalog) -> None:
    folder, one, other = Folder(), made(catalog).store, made(catalog, "db.u").store
    bound(folder, one)
    said = rf"checkpoint 's3a://bucket/ck' belongs to table db\.t \({one.uuid}\), and this query writes table db\.u"
    with pytest.raises(InvalidRequestError, match=f"{said}.*Use a new checkpoint location"):
        bind(folder, other, user=USER, batch_id=3)
    with pytest.raises(InvalidRequestError, match=f"{said}.*Use a new checkpoint location"):
        check_before_start(folder, other)
    assert table_named(folder) == one.uuid


def test_the_checkpoint_of_a_table_that_was_made_again_is_refused(catalog: Catalog) -> None:
    folder = Folder()
    bound(folder, made(catalog).store)
    catalog.drop_table("db.t")
    again = made(catalog).store
    with pytest.raises(InvalidRequestError, match=r"another table of the name db\.t.*batches 0 to 0 are not in it"):
        bind(folder, again, user=USER, batch_id=1)


def test_a_query_that_has_written_nothing_may_write_another_table(catalog: Catalog) -> None:
    """Batch 0 has all rows: a query whose first batch has failed is started again for the right table."""
    folder, one, other = Folder(), made(catalog).store, made(catalog, "db.u").store
    bind(folder, one, user=USER, batch_id=0)
    check_before_start(folder, other)
    bind(folder, other, user=USER, batch_id=0)
    assert table_named(folder) == other.uuid


def test_a_checkpoint_of_an_older_version_is_taken_where_the_table_knows_the_query(catalog: Catalog) -> None:
    folder, table, other = Folder(), made(catalog).store, made(catalog, "db.u").store
    has_batch(table, 6)
    with pytest.raises(InvalidRequestError, match=r"does not say which table.*batches 0 to 6.*write \{\"table\": "):
        bind(folder, other, user=USER, batch_id=7)
    assert FILE not in folder.files
    bind(folder, table, user=USER, batch_id=7)
    assert table_named(folder) == table.uuid


def test_the_file_that_the_error_shows_is_the_way_out(catalog: Catalog) -> None:
    folder, table = Folder(), made(catalog).store
    with pytest.raises(InvalidRequestError, match="no batch of its query") as refused:
        bind(folder, table, user=USER, batch_id=7)
    folder.files[FILE] = str(refused.value).partition("write ")[2].partition(" into")[0]
    bind(folder, table, user=USER, batch_id=7)


def test_a_branch_is_a_table_of_its_own(catalog: Catalog) -> None:
    folder, table = Folder(), made(catalog).store
    bound(folder, table)
    newest = table.snapshots.latest()
    assert newest is not None
    write_tag(table, "kept", newest)
    create_branch(table, "dev", tag="kept")
    branch = table.on_branch("dev")
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.t\$branch_dev"):
        bind(folder, branch, user=USER, batch_id=1)
    own = Folder()
    bound(own, branch)
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t\$branch_dev"):
        bind(own, table, user=USER, batch_id=1)


def test_a_table_with_a_new_identity_goes_on_with_the_batch_behind_its_last_one(catalog: Catalog) -> None:
    folder, table = Folder(), made(catalog)
    bound(folder, table.store)
    shutil.copytree(table.path, f"{table.path}_copied")
    renewed = open_table(f"{table.path}_copied").upkeep.new_identity().store
    with pytest.raises(InvalidRequestError, match=r"has batch 0 of it as the last one, and the next one is batch 2"):
        bind(folder, renewed, user=USER, batch_id=2)
    check_before_start(folder, renewed)
    bind(folder, renewed, user=USER, batch_id=1)
    assert table_named(folder) == renewed.uuid
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t_copied"):
        bind(folder, table.store, user=USER, batch_id=2)


def test_a_table_of_another_engine_is_named_by_when_it_was_made(catalog: Catalog) -> None:
    folder, ours = Folder(), made(catalog).store
    options = {key: text for key, text in ours.options.items() if text != ours.uuid}
    table = replace(ours, schema=replace(ours.schema, options=options))
    bind(folder, table, user=USER, batch_id=0)
    assert table_named(folder) == identity_of(table) == f"made-{ours.schema.time_millis}"
    bind(folder, table, user=USER, batch_id=1)
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t"):
        bind(folder, made(catalog, "db.u").store, user=USER, batch_id=1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"table": 5, "name": "a"}', '{"table": "x"}', "9" * 70_000])
def test_a_file_that_names_no_table_is_named(catalog: Catalog, text: str) -> None:
    with pytest.raises(CorruptDataError, match=rf"s3a://bucket/ck/{FILE} does not name the table.*Delete it where"):
        bind(Folder({FILE: text}), made(catalog).store, user=USER, batch_id=1)


def test_a_sink_of_a_users_function_warns_of_a_table_that_lacks_the_batches_before(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    folder, one, other = Folder(), made(catalog).store, made(catalog, "db.u").store
    check_unowned(folder, other, user=USER, batch_id=0)
    has_batch(one, 4)
    check_unowned(folder, one, user=USER, batch_id=5)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        check_unowned(folder, other, user=USER, batch_id=5)
    (warning,) = caplog.messages
    assert warning.startswith(f"table db.u has no batch of query {USER} before batch 5")
    assert folder.files == {}


def test_a_sink_of_a_users_function_refuses_the_checkpoint_of_a_query_that_owns_it(catalog: Catalog) -> None:
    folder, one, other = Folder(), made(catalog).store, made(catalog, "db.u").store
    bound(folder, one)
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.u"):
        check_unowned(folder, other, user=USER, batch_id=5)


def test_a_sink_of_a_users_function_refuses_a_branch_of_the_table_that_owns_the_checkpoint(catalog: Catalog) -> None:
    """The branch began with the batches of the query, and the table would lack those that go into the branch."""
    folder, table = Folder(), made(catalog).store
    bound(folder, table)
    create_branch(table, "dev")
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.t\$branch_dev"):
        check_unowned(folder, table.on_branch("dev"), user=USER, batch_id=1)


def table_named(folder: Folder) -> str:
    found = json.loads(folder.files[FILE])["table"]
    assert isinstance(found, str)
    return found


# With Spark.


@dataclass
class Job:
    """Files as a stream, a file a batch, into a table."""

    spark: SparkSession
    folder: Path
    place: str | None = None

    def put(self, number: int) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        (self.folder / "in" / f"{number}.json").write_text(json.dumps({"id": number}))

    @property
    def rows(self) -> DataFrame:
        return self.spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(str(self.folder / "in"))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "check point"

    @property
    def location(self) -> str:
        return self.place or str(self.checkpoint)

    def run(self, table: Table) -> None:
        write_stream(self.rows, table, checkpoint_location=self.location, available_now=True).awaitTermination()

    def run_function(self, table: Table) -> None:
        writer = self.rows.writeStream.foreachBatch(LakelogSink(table))
        writer = writer.option("checkpointLocation", self.location).trigger(availableNow=True)
        writer.start().awaitTermination()

    def run_format(self, table: Table) -> None:
        writer = self.rows.writeStream.format("lakelog").option("path", table.path)
        writer = writer.option("checkpointLocation", self.location).trigger(availableNow=True)
        writer.start().awaitTermination()


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_a_stream_is_refused_before_it_starts_where_its_batches_are_in_another_table(
    job: Job, catalog: Catalog
) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    job.put(1)
    job.run(one)
    job.put(2)
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.u"):
        job.run(other)
    job.run(one)
    assert (ids(one), ids(other)) == ([1, 2], [])


def test_a_stream_is_refused_where_the_table_was_made_again_and_goes_on_without_a_file_where_it_was_not(
    job: Job, catalog: Catalog
) -> None:
    table = made(catalog)
    for number in (1, 2):
        job.put(number)
        job.run(table)
        (job.checkpoint / FILE).unlink()  # as an older version has left it
    job.put(3)
    catalog.drop_table("db.t")
    again = made(catalog)
    with pytest.raises(StreamingQueryException) as refused:
        job.run(again)
    assert isinstance(refused.value.__cause__, InvalidRequestError)
    assert "does not say which table it belongs to" in str(refused.value.__cause__)
    assert ids(again) == []
    shutil.rmtree(job.checkpoint)
    job.run(again)
    assert ids(again) == [1, 2, 3]


def test_a_checkpoint_on_another_file_system_names_its_table_through_hadoop(
    job: Job, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    monkeypatch.setattr(checkpoint_folders, "local_path", lambda location: None)
    job.put(1)
    job.run(one)
    assert json.loads((job.checkpoint / FILE).read_text())["table"] == one.store.uuid
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.u"):
        job.run(other)
    job.put(2)
    job.run(one)
    assert ids(one) == [1, 2]


@pytest.mark.parametrize("way", rest_in_full(["run_function", "run_format"], 1))
def test_other_ways_to_write_a_stream_refuse_the_checkpoint_of_another_table(
    job: Job, catalog: Catalog, way: str
) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    job.put(1)
    job.run(one)
    job.put(2)
    with pytest.raises(StreamingQueryException, match=r"belongs to table db\.t .*writes table db\.u"):
        getattr(job, way)(other)
    assert ids(other) == []


def test_the_format_names_its_table_in_the_checkpoint(job: Job, catalog: Catalog) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    job.put(1)
    job.run_format(one)
    job.put(2)
    with pytest.raises(StreamingQueryException, match=r"belongs to table db\.t .*writes table db\.u"):
        job.run_format(other)
    job.run_format(one)
    assert (ids(one), ids(other)) == ([1, 2], [])


# In other file systems, and where no checkpoint is seen.


def test_a_checkpoint_in_the_store_of_its_table_names_the_table(s3: S3Server) -> None:
    """As a stream by format has it, which reads the checkpoint with its table's access to the store."""
    bucket = s3.new_bucket()
    catalog = Catalog(f"s3://{bucket}/lake", options=s3.options)
    one, other = made(catalog), made(catalog, "db.u")
    location = f"s3a://{bucket}/ck/1"
    for batch_id in range(3):
        s3.request("PUT", f"/{bucket}/ck/1/offsets/{batch_id}", b"v1")  # as Spark does before each batch
    by_format(one, location).commit([WRITTEN], 0)
    has_batch(one.store, 0)
    by_format(one, location).commit([WRITTEN], 1)
    assert json.loads(s3.request("GET", f"/{bucket}/ck/1/{FILE}")) == {"table": one.store.uuid, "name": "db.t"}

    one.branches.create("dev")
    catalog.drop_table("db.u")
    for table in (other, made(catalog, "db.u"), one.branch("dev")):
        with pytest.raises(InvalidRequestError, match=rf"{location}' belongs to table db\.t .*batches 0 to 1"):
            by_format(table, location).commit([WRITTEN], 2)


@pytest.mark.parametrize("location", [None, "s3a://bucket/ck", "hdfs://host/ck", "abfss://box@host/ck"])
def test_a_stream_by_format_whose_checkpoint_is_not_read_warns_of_a_table_that_lacks_the_batches_before(
    catalog: Catalog, caplog: pytest.LogCaptureFixture, location: str | None
) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    has_batch(one.store, 4)
    with caplog.at_level(logging.WARNING):
        by_format(one, location).commit([WRITTEN], 5)
        by_format(other, location).commit([WRITTEN], 0)
        assert not caplog.records
        by_format(other, location).commit([WRITTEN], 5)
    assert caplog.messages[0].startswith(f"table db.u has no batch of query {USER} before batch 5")


def test_a_checkpoint_that_the_access_to_the_table_does_not_reach_stops_no_stream(
    s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(Catalog(f"s3://{s3.new_bucket()}/lake", options=s3.options))
    with caplog.at_level(logging.WARNING):
        by_format(table, "s3a://no-such-bucket/ck").commit([WRITTEN], 5)
    assert caplog.messages[0].startswith(f"table db.t has no batch of query {USER} before batch 5")


def test_a_sink_on_connect_warns_once_of_a_table_that_lacks_the_batches_before(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = made(catalog), made(catalog, "db.u")
    has_batch(one.store, 4)
    later = MicroBatch(user=USER, identifier=5, run=None, source_digest=None)
    with caplog.at_level(logging.WARNING):
        LakelogSink(one, commit_user=USER).check_checkpoint(later)
        LakelogSink(other, commit_user=USER).check_checkpoint(replace(later, identifier=0))
        assert not caplog.records
        sink = LakelogSink(other, commit_user=USER)
        sink.check_checkpoint(later)
        sink.check_checkpoint(replace(later, identifier=6))
    (warning,) = caplog.messages
    assert warning.startswith(f"table db.u has no batch of query {USER} before batch 5")


def by_format(table: Table, location: str | None) -> FilesStreamWriter:
    """The writer of a stream by format, which writes nothing."""
    plan: Any = SimpleNamespace(table=table.store, is_overwrite=False, commit=lambda *_, **__: None)
    declared: Any = SimpleNamespace(recorded=lambda batch, *_: batch, takes_over=False)
    return FilesStreamWriter(plan, None, location, declared)


@pytest.mark.parametrize("way", ["run", "run_function"])
def test_a_checkpoint_in_another_file_system_of_hadoop_is_that_of_one_table(
    job: Job, catalog: Catalog, way: str
) -> None:
    """Of another table, of a table that was made again, of a branch."""
    one, other = made(catalog), made(catalog, "db.u")
    (job.folder / "store").mkdir()
    name = way.replace("_", "-")  # Hadoop keeps a file system by its name
    link, target = f"fs.viewfs.mounttable.{name}.link./ck", f"file://{job.folder}/store"
    job.spark.conf.set(link, target)
    job.spark.sparkContext._jsc.hadoopConfiguration().set(link, target)
    away = replace(job, place=f"viewfs://{name}/ck/1")
    job.put(1)
    away.run(one)
    assert json.loads((job.folder / "store" / "1" / FILE).read_text())["table"] == one.store.uuid
    job.put(2)
    one.branches.create("dev")
    catalog.drop_table("db.u")
    again = made(catalog, "db.u")
    for table in (other, again, one.branch("dev")):
        with pytest.raises((InvalidRequestError, StreamingQueryException, ConflictError)) as refused:
            getattr(away, way)(table)
        assert "belongs to table db.t" in str(refused.value) or table is other
    away.run(one)
    assert (ids(one), ids(again)) == ([1, 2], [])
