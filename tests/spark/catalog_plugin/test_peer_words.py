"""What users of Delta, Iceberg, Hudi and Paimon say: it works, or its error names what is said here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.catalog.names.peer_words import OPTIONS, STATEMENTS, meant_by_statement
from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.timestamps import utc_of
from lakelog.spark import LakelogSink, attach, compact, detach, merge, read, write, write_stream
from lakelog.spark.options import READ_OPTIONS, known_options

ROOT = Path(__file__).parents[3]
NAMES = ["lake.db.t", "db.t", "t", "lake.db.`t`"]


@pytest.fixture
def session(session: SparkSession) -> SparkSession:
    """The session with the keyed table `lake.db.t` of two snapshots, and its database as the current one."""
    session.sql("CREATE DATABASE lake.db")
    session.sql("USE lake.db")
    session.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id)) COMMENT 'c' TBLPROPERTIES ('bucket' = '2')")
    session.sql("INSERT INTO t VALUES (1, 'a')")
    session.sql("INSERT INTO t VALUES (2, 'b')")
    return session


def rows(session: SparkSession) -> DataFrame:
    """A row that the table lacks."""
    return session.sql("SELECT 3L AS id, 'c' AS v")


def streamed(session: SparkSession, folder: Path) -> DataFrame:
    """The row as a stream."""
    rows(session).write.parquet(str(folder / "rows"))
    return session.readStream.schema(rows(session).schema).parquet(str(folder / "rows"))


@pytest.mark.parametrize("name", NAMES)
def test_functions_know_the_names_of_the_session_s_sql(session: SparkSession, name: str) -> None:
    assert read(session, name).count() == 2
    write(rows(session), name)
    merge(rows(session), name).when_matched_delete().execute()

    assert session.table("t").count() == 2


def test_streams_and_jobs_know_the_names_of_the_session_s_sql(session: SparkSession, tmp_path: Path) -> None:
    query = write_stream(
        streamed(session, tmp_path), "lake.db.t", checkpoint_location=tmp_path / "checkpoint", available_now=True
    )
    query.awaitTermination()
    compact(session, "lake.db.t", full=True)

    assert session.table("t").count() == 3
    assert read(session, "lake.db.t$snapshots").count() == session.table("`t$snapshots`").count()


def test_a_batch_function_with_a_sink_knows_the_attached_warehouse(session: SparkSession, tmp_path: Path) -> None:
    sink = LakelogSink("lake.db.t")
    counts: list[int] = []

    def batch(rows: DataFrame, number: int) -> None:
        sink(rows, number)
        counts.extend(rows.sparkSession.sql("SELECT count(*) FROM lake.db.t").collect()[0])

    query = streamed(session, tmp_path).writeStream.foreachBatch(batch)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    assert counts == [3]


def test_a_name_with_a_meaning_in_each_of_two_sessions_is_refused(
    session: SparkSession, spark: SparkSession, tmp_path: Path
) -> None:
    other = spark.newSession()
    attach(other, "lake", tmp_path / "other")
    try:
        with pytest.raises(InvalidRequestError, match=f"several Spark sessions: .*{tmp_path}/lake, .*{tmp_path}/other"):
            LakelogSink("lake.db.t")
    finally:
        detach(other, "lake")
    LakelogSink("lake.db.t")


@pytest.mark.parametrize("option", ["versionAsOf", "timestampAsOf"])
@pytest.mark.parametrize("door", ["table", "load", "SQL"])
def test_the_options_of_spark_name_a_state(session: SparkSession, tmp_path: Path, door: str, option: str) -> None:
    table = Catalog(tmp_path / "lake").load_table("db.t")
    first = table.snapshot(snapshot_id=1)
    assert first is not None
    value = "1" if option == "versionAsOf" else utc_of(first.time_millis)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    doors: dict[str, Callable[[], DataFrame]] = {
        "table": lambda: session.read.option(option, value).table("lake.db.t"),
        "load": lambda: session.read.format("lakelog").option(option, value).load(table.path),
        "SQL": lambda: session.sql(f"SELECT * FROM t WITH ('{option}' = '{value}')"),
    }

    assert [row.id for row in doors[door]().collect()] == [1]


@pytest.mark.parametrize("key", OPTIONS)
def test_an_option_of_another_format_is_not_taken_for_another_meaning(key: str) -> None:
    with pytest.raises(OptionError) as raised:
        known_options({key.upper(): "1"}, READ_OPTIONS)

    assert OPTIONS[key] in str(raised.value)


@pytest.mark.parametrize(
    "text", ["DESCRIBE HISTORY t", "optimize t", "VACUUM t", "RESTORE TABLE t TO VERSION AS OF 1", "SHOW TAGS t"]
)
def test_a_statement_of_another_format_names_what_replaces_it(session: SparkSession, text: str) -> None:
    meant = meant_by_statement(text)
    assert meant is not None
    with pytest.raises(PySparkException) as raised:
        session.sql(text)

    assert meant in str(raised.value)


def test_the_page_has_each_statement() -> None:
    page = (ROOT / "docs" / "guide" / "peers.md").read_text()
    shown = [line.split("|")[1].strip(" `") for line in page.splitlines() if line.startswith("| `")]

    assert {meant_by_statement(text) for text in shown} >= {
        hint for words, hint in STATEMENTS if "BRANCHES" not in words
    }


@pytest.mark.parametrize("way", ["saveAsTable", "createOrReplace", "replace"])
def test_a_nightly_overwrite_keeps_keys_comment_and_options(session: SparkSession, way: str) -> None:
    before = session.sql("SHOW CREATE TABLE t").collect()
    if way == "saveAsTable":
        rows(session).write.mode("overwrite").saveAsTable("t")
    else:
        getattr(rows(session).writeTo("t"), way)()

    assert session.sql("SHOW CREATE TABLE t").collect() == before
    assert session.table("t").collect() == rows(session).collect()


@pytest.mark.parametrize("rows_of", ["VALUES (1, 'a'), (2, 'b'), (3, 'c')", "SELECT id, 'a' FROM range(0, 9, 1, 3)"])
def test_insert_takes_rows_of_several_tasks_into_changing_buckets(session: SparkSession, rows_of: str) -> None:
    session.sql("CREATE TABLE d (id BIGINT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '-1')")
    for _ in range(2):
        session.sql(f"INSERT INTO d {rows_of}")

    assert sorted(session.table("d").collect()) == sorted(session.sql(rows_of).collect())


def test_every_write_of_an_attached_table_takes_rows_of_several_tasks(session: SparkSession) -> None:
    session.sql("CREATE TABLE d (id BIGINT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '-1')")
    given = session.sql("SELECT id, 'a' AS v FROM range(0, 9, 1, 3)")
    for write_rows in (given.writeTo("d").append, given.writeTo("d").overwritePartitions):
        write_rows()
        assert sorted(session.table("d").collect()) == sorted(given.collect())
    session.sql("INSERT OVERWRITE d SELECT id, 'b' FROM range(0, 4, 1, 2)")
    assert session.table("d").where("v = 'b'").count() == session.table("d").count() == 4
