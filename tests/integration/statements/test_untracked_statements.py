"""INSERT with change-tracking=false on tables with a log: rows in the files, a mark in the log and in the snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.sql
from lakelog.catalog import Catalog, SetOption, Table, open_table
from lakelog.catalog.logs.statements import logged_table
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.logstore.kafka.clients.offsets import high_watermark
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.options import OnUntracked
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.change_tracking import MarkCheck, UntrackedChangesError
from lakelog.protocol.statements import LoggedTable, statement_runs
from lakelog.protocol.statements.statements import finish
from lakelog.spark import attach, detach
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import log_target
from tests.support.logs.promises import read_headers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
OFF = "'change-tracking' = 'false'"


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


def made(catalog: Catalog, keys: tuple[str, ...] = ("k",), options: dict[str, str] | None = None) -> Table:
    given = {"bucket": "1", "log.system": "kafka"} | (options or {})
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=list(keys), options=given)


def rows(*given: tuple[int, int]) -> pa.Table:
    return pa.table([pa.array([k for k, _ in given]), pa.array([v for _, v in given])], schema=SCHEMA)


def die(*_: object, **__: object) -> None:
    raise InjectedCrash


def content(table: Table) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for row in open_table(table.path).to_arrow().to_pylist())


def marks(table: Table) -> list[tuple[str | None, int]]:
    """For each transaction in the log its mark and its number of records."""
    return [(header.mark, header.record_count) for _, header in read_headers(table)]


def marked_snapshots(table: Table) -> list[bool]:
    """For each snapshot that a statement made whether it is marked for bucket 0."""
    found = [json.loads(one.properties.get(PropertyKey.UNTRACKED, "[]")) for one in open_table(table.path).snapshots()]
    assert all((one[0]["bucket"], one[0]["mark"]) == (0, "untracked") for one in found if one)
    return [bool(one) for one in found]


def changes_in_log(table: Table, on_untracked: OnUntracked) -> list[tuple[int, int, int]]:
    """The kind, key and value of every change in the log."""
    assert table.log is not None
    partition = kafka_topic(table.log).partition(0)
    check = MarkCheck(table_name=table.name, on_untracked=on_untracked)
    end = high_watermark(partition).offset
    batches = read_range(partition, table.schema.fields, start=0, end=end, check_header=check)
    found = [row for batch in batches for row in batch.to_pylist()]
    return [(row[ROW_KIND_COLUMN], row["k"], row["v"]) for row in found]


@pytest.mark.parametrize(
    ("keys", "options"),
    [(("k",), {}), ((), {}), (("k",), {"log.changelog-mode": "all"}), (("k",), {"merge-engine": "partial-update"})],
)
def test_a_write_without_tracking_marks_log_and_snapshot(
    catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]
) -> None:
    table = made(catalog, keys, options)
    table.write(rows((1, 1)))
    table.write(rows((2, 2), (3, 3)), change_tracking=False)
    table.write(rows((4, 4)))

    assert content(table) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert marks(table) == [(None, 1), ("untracked", 1), (None, 1)]
    assert [one for one in marked_snapshots(table) if one] == [True]


def test_an_overwrite_without_tracking(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(rows((1, 1), (2, 2)))
    table.write(rows((3, 3)), mode="overwrite", change_tracking=False)
    assert content(table) == [(3, 3)]
    assert marks(table) == [(None, 2), ("untracked", 1)]


@contextmanager
def attached(spark: SparkSession, name: str, catalog: Catalog) -> Iterator[None]:
    """A warehouse in the Spark of all tests."""
    attach(spark, name, catalog)
    try:
        yield
    finally:
        detach(spark, name)


def test_the_option_of_the_table_holds_for_every_statement(spark: SparkSession, catalog: Catalog) -> None:
    table = made(catalog, options={"change-tracking": "false"})
    with attached(spark, "option_off", catalog):
        check_every_statement(spark, catalog, table)


def check_every_statement(spark: SparkSession, catalog: Catalog, table: Table) -> None:
    connection = lakelog.sql.connect(catalog)
    table.write(rows((1, 1), (2, 2), (3, 3), (4, 4)))
    table.delete("k = 1")
    table.update({"v": 20}, "k = 2")
    table.merge(rows((3, 30))).when_matched_update_all().execute()
    connection.sql("INSERT INTO db.t VALUES (5, 5)")
    connection.sql("UPDATE db.t SET v = 50 WHERE k = 5")
    spark.sql("INSERT INTO option_off.db.t VALUES (6L, 6L)")
    spark.sql("UPDATE option_off.db.t SET v = 60 WHERE k = 6")
    spark.sql("DELETE FROM option_off.db.t WHERE k = 4")

    assert content(table) == [(2, 20), (3, 30), (5, 50), (6, 60)]
    assert marks(table) == [("untracked", 1)] * 9
    assert [one for one in marked_snapshots(table) if one] == [True] * 9

    table.write(rows((7, 7)), change_tracking=True)
    assert marks(table)[9:] == [(None, 1)]


def test_a_merge_of_sql_without_spark_is_left_out_of_the_log(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(rows((1, 1), (2, 2)))
    table = table.alter(SetOption("change-tracking", "false"))
    source = "(SELECT 1 AS k, 10 AS v UNION ALL SELECT 3, 30)"
    lakelog.sql.connect(catalog).sql(
        f"MERGE INTO db.t USING {source} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    table.alter(SetOption("change-tracking", "true")).write(rows((4, 4)))

    assert content(table) == [(1, 10), (3, 30), (4, 4)]
    assert marks(table) == [(None, 2), ("untracked", 1), (None, 1)]
    assert [one for one in marked_snapshots(table) if one] == [True]
    log = changes_in_log(table, OnUntracked.SKIP)
    assert log == [(0, 1, 1), (0, 2, 2), (0, 4, 4)]
    with pytest.raises(UntrackedChangesError, match="was written with change-tracking=false"):
        changes_in_log(table, OnUntracked.FAIL)


@pytest.mark.parametrize("keys", [("day", "k"), ()])
def test_statements_leave_partitions_out_by_the_condition(catalog: Catalog, keys: tuple[str, ...]) -> None:
    options = {"bucket": "1", "log.system": "kafka", "change-tracking.off-where": "day < 3"}
    if not keys:
        options["write-mode"] = "change-log"
    schema = pa.schema([pa.field("day", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False)])
    table = catalog.create_table("db.d", schema=schema, primary_keys=keys, partition_keys=["day"], options=options)
    table.write(pa.table([[1, 3, 2, 4], [1, 2, 3, 4]], schema=schema))
    table.write(pa.table([[5], [5]], schema=schema), mode="overwrite")
    table.delete("day = 5")

    assert table.count() == 0
    assert marks(table) == [("untracked", 3), ("untracked", 4), (None, 1)]


def test_a_stream_without_tracking_logs_the_statement_that_it_finishes(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(statement_runs, "finish", die)
        with pytest.raises(InjectedCrash):
            table.write(rows((1, 1)))
    logged = LoggedTable.of(table.store, log_target(table, is_tracked=False))
    logged.finish(logged.prepared.names())
    assert (content(table), marks(table)) == ([(1, 1)], [(None, 1)])


def test_another_writer_finishes_it_without_records(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(statement_runs, "finish", die)
        with pytest.raises(InjectedCrash):
            table.write(rows((1, 1)), change_tracking=False)
    logged = logged_table(open_table(table.path))
    (name,) = logged.prepared.names()
    finish([name], logged.ports)
    assert (content(table), marks(table)) == ([(1, 1)], [("untracked", 1)])


def test_sql_without_spark(catalog: Catalog) -> None:
    table = made(catalog)
    connection = lakelog.sql.connect(catalog)
    connection.sql("INSERT INTO db.t VALUES (1, 1)")
    connection.sql(f"INSERT INTO db.t /*+ OPTIONS({OFF}) */ SELECT 2, 2")
    connection.sql(f"INSERT INTO db.t WITH ({OFF}) (v, k) VALUES (3, 4)")
    connection.sql(f"INSERT OVERWRITE db.t /*+ OPTIONS({OFF}) */ SELECT 5, 5")
    for statement in ("UPDATE db.t {} SET v = 1", "DELETE FROM db.t {} WHERE k = 5"):
        with pytest.raises(UnsupportedError, match="has no meaning in this statement"):
            connection.sql(statement.format(f"WITH ({OFF})"))
    with pytest.raises(UnsupportedError, match="expected change-tracking"):
        connection.sql("INSERT INTO db.t WITH ('other' = '1') VALUES (3, 4)")
    assert content(table) == [(5, 5)]
    assert marks(table) == [(None, 1), ("untracked", 1), ("untracked", 1), ("untracked", 1)]


@pytest.mark.full
def test_sql_in_spark_and_a_stream_that_reads(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = made(catalog)
    with attached(spark, "untracked", catalog):
        check_a_stream_that_reads(spark, table, tmp_path)


def check_a_stream_that_reads(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    spark.sql("INSERT INTO untracked.db.t VALUES (1L, 1L)")

    def follow(folder: str, **options: str) -> None:
        stream = spark.readStream.format("lakelog").options(**options).load(table.path)
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{folder}-ck"))
        query.trigger(availableNow=True).start(str(tmp_path / folder)).awaitTermination()

    follow("out")
    spark.sql(f"INSERT INTO untracked.db.t WITH ({OFF}) SELECT 2L, 2L")
    frame = spark.createDataFrame([(3, 3)], "k BIGINT, v BIGINT")
    frame.writeTo("untracked.db.t").option("change-tracking", "false").append()
    frame.write.format("lakelog").option("change-tracking", "false").mode("append").save(table.path)

    assert content(table) == [(1, 1), (2, 2), (3, 3)]
    assert marks(table) == [(None, 1), *[("untracked", 1)] * 3]
    with pytest.raises(Exception, match="was written with change-tracking=false"):
        follow("out")
    follow("new")
    assert spark.read.parquet(str(tmp_path / "new")).count() == 3
    merge = "MERGE INTO untracked.db.t WITH ({}) USING untracked.db.t s ON s.k = 1 WHEN MATCHED THEN DELETE"
    update, delete = "UPDATE untracked.db.t WITH ({}) SET v = 1", "DELETE FROM untracked.db.t WITH ({}) WHERE k = 1"
    for statement in (update, delete, merge):
        with pytest.raises(Exception, match=r"takes no options: leave WITH .+ out|PARSE_SYNTAX_ERROR"):
            spark.sql(statement.format(OFF))


def test_a_table_without_a_log_refuses_the_option(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "plain")
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"])
    said = "has no log, and change_tracking=False is for one"
    with pytest.raises(InvalidRequestError, match=said):
        table.write(rows((1, 1)), change_tracking=False)
    with pytest.raises(InvalidRequestError, match=said):
        lakelog.sql.connect(catalog).sql(f"INSERT INTO db.t WITH ({OFF}) VALUES (3, 4)")
    with attached(spark, "plain", catalog), pytest.raises(Exception, match=said):
        spark.sql(f"INSERT INTO plain.db.t WITH ({OFF}) SELECT 2L, 2L")
    assert content(table) == []


def test_an_eventual_log_refuses_the_option(catalog: Catalog) -> None:
    table = made(catalog, options={"log.consistency": "eventual"})
    with pytest.raises(UnsupportedError, match="whose changes are all in the log"):
        table.write(rows((1, 1)), change_tracking=False)
