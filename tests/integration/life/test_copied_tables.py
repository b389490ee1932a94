"""A copied table shares no log with its original: it is refused until it has an identity and a log of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table, open_table
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.verbs import delete_consumer
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.upkeep.log_expiry import expire_log
from lakelog.spark import LakelogSink, write_stream
from tests.support.logs.changes import TABLE_SCHEMA
from tests.support.tables.foreign_engine import expire_as_others_do, foreign_snapshot

pytestmark = pytest.mark.integration


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka"}
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


def source(spark: SparkSession, folder: Path, *ids: int) -> DataFrame:
    """A stream of one row an id from the files in a folder, to which one with these is added."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": number, "name": "a", "amount": 1}) + "\n" for number in ids]
    if lines:
        (folder / str(ids[0])).write_text("".join(lines))
    return spark.readStream.schema("id BIGINT, name STRING, amount BIGINT").json(str(folder))


def run(rows: DataFrame, table: Table, checkpoint: Path) -> None:
    write_stream(rows, table, checkpoint_location=checkpoint, available_now=True).awaitTermination()


def ids_of(table: Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def log_ends(table: Table) -> list[int]:
    assert table.log is not None
    ends = high_watermarks(kafka_topic(table.log), table.store.bucket_count)
    return [ends[bucket].offset for bucket in sorted(ends)]


@pytest.mark.full
def test_a_copy_is_refused_until_it_has_a_log_of_its_own_and_both_live_on(
    spark: SparkSession, table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(source(spark, tmp_path / "a", 1, 2, 3), table, tmp_path / "c")
    shutil.copytree(table.path, tmp_path / "copy")
    copy = open_table(tmp_path / "copy")
    ends = log_ends(table)
    with pytest.raises(InvalidRequestError, match="is a copy of"):
        write_stream(source(spark, tmp_path / "b", 7), copy, checkpoint_location=tmp_path / "d", available_now=True)
    bare = source(spark, tmp_path / "b").writeStream.foreachBatch(LakelogSink(copy))
    with pytest.raises(StreamingQueryException, match="is a copy of"):
        bare.option("checkpointLocation", str(tmp_path / "e")).trigger(availableNow=True).start().awaitTermination()
    assert copy.log is not None
    assert expire_log(copy.store, copy.log, now_millis=2**45) == {}
    followed = spark.readStream.format("lakelog").load(copy.path)
    query = followed.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row["id"] for row in spark.table("followed").collect()) == [1, 2, 3]
    assert ids_of(copy) == [1, 2, 3]
    assert log_ends(table) == ends

    with pytest.raises(SystemExit, match="0"):
        main(["table", "new-identity", copy.path])
    copy = open_table(copy.path)
    assert copy.store.uuid in capsys.readouterr().out
    assert copy.store.uuid != table.store.uuid
    run(source(spark, tmp_path / "b"), copy, tmp_path / "d")
    run(source(spark, tmp_path / "a", 4), table, tmp_path / "c")

    assert (ids_of(copy), ids_of(table)) == ([1, 2, 3, 7], [1, 2, 3, 4])
    for one in (table, copy):
        read = spark.readStream.format("lakelog").load(one.path)
        name = f"read_{one.store.uuid[:8]}"
        read.writeStream.format("memory").queryName(name).trigger(availableNow=True).start().awaitTermination()
        assert sorted(row["id"] for row in spark.table(name).collect()) == ids_of(one)


def test_dropping_a_copy_leaves_the_log_of_its_original(table: Table, tmp_path: Path) -> None:
    assert table.log is not None
    shutil.copytree(table.path, tmp_path / "lake/db.db/copy")
    Catalog(tmp_path / "lake").drop_table("db.copy")
    table.log.check_topic()


def test_a_new_identity_that_was_cut_off_is_finished_by_the_next(
    spark: SparkSession, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source(spark, tmp_path / "a", 1, 2), table, tmp_path / "c")
    copy = open_table(shutil.copytree(table.path, tmp_path / "copy"))
    with monkeypatch.context() as patch:
        patch.setattr("lakelog.protocol.life.identity_renewal._record", lambda *_what, **_named: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copy.upkeep.new_identity()
    half = open_table(copy.path)
    assert half.log is not None
    with pytest.raises(NotFoundError, match="was cut off: run it again"):
        newest_state(half.store, topic_id=half.log.topic_id)
    renewed = half.upkeep.new_identity()
    assert renewed.store.uuid == half.store.uuid
    assert SchemaManager(half.store.file_io, half.store.paths).list_ids() == [0, 1]
    run(source(spark, tmp_path / "a", 3), open_table(copy.path), tmp_path / "c2")
    assert ids_of(open_table(copy.path)) == [1, 2, 3]


def test_a_log_state_that_other_engines_expired_is_an_error_and_a_new_identity_goes_on(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    run(source(spark, tmp_path / "a", 1, 2), table, tmp_path / "c")
    for _ in range(2):
        foreign_snapshot(table.store)
        expire_as_others_do(table.store)
    run(source(spark, tmp_path / "a", 3), table, tmp_path / "c")  # the consumer has kept it
    delete_consumer(table.store, "lakelog-state")
    foreign_snapshot(table.store)
    expire_as_others_do(table.store)

    fresh = open_table(table.path)
    with pytest.raises(StreamingQueryException, match=r"has lost lakelog's state .* table new-identity PATH"):
        run(source(spark, tmp_path / "a", 4), fresh, tmp_path / "c")
    fresh.upkeep.new_identity()
    renewed = open_table(table.path)
    with pytest.raises(StreamingQueryException, match="has dropped writers"):
        run(source(spark, tmp_path / "a"), renewed, tmp_path / "c")
    run(source(spark, tmp_path / "b", 9), renewed, tmp_path / "new")
    assert ids_of(renewed) == [1, 2, 3, 9]
