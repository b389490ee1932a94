"""A warehouse as a catalog of a session: attached, detached, several at once, in other sessions and threads."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, InvalidRequestError, NotFoundError
from lakelog.spark import attach, detach, error_of


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    made = spark.newSession()
    attach(made, "lake", tmp_path / "lake")
    yield made
    if hasattr(made, "_lakelog_sql"):
        detach(made, "lake")


def fill(session: SparkSession, catalog: str = "lake") -> None:
    session.sql(f"CREATE TABLE {catalog}.db.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
    session.sql(f"INSERT INTO {catalog}.db.t VALUES (1, 'a'), (2, 'b')")


def test_attaching_again_changes_nothing_and_detaching_forgets_the_catalog(
    session: SparkSession, tmp_path: Path
) -> None:
    fill(session)
    attach(session, "lake", tmp_path / "lake")
    attach(session, "lake", Catalog(tmp_path / "lake"))
    assert session.table("lake.db.t").count() == 2
    detach(session, "lake")
    assert session.sql.__func__ is SparkSession.sql  # type: ignore[attr-defined]
    with pytest.raises(AnalysisException):
        session.table("lake.db.t")
    with pytest.raises(InvalidRequestError, match="no warehouse is attached as 'lake'; attached are: none"):
        detach(session, "lake")
    assert Catalog(tmp_path / "lake").load_table("db.t").count() == 2


def test_a_name_is_free_and_an_identifier(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'lake' is the name of another catalog of this session already"):
        attach(session, "lake", tmp_path / "other")
    for name in ("", "a.b", "1a", "spark_catalog", "system"):
        with pytest.raises(InvalidRequestError, match="is not a name for a catalog"):
            attach(session, name, tmp_path / "other")


def test_two_warehouses_are_joined_and_written_side_by_side(session: SparkSession, tmp_path: Path) -> None:
    attach(session, "other", tmp_path / "other")
    fill(session)
    session.sql("CREATE TABLE other.db.t AS SELECT id + 1 AS id, upper(v) AS w FROM lake.db.t")
    rows = session.sql("SELECT l.id, l.v, o.w FROM lake.db.t l JOIN other.db.t o ON l.id = o.id").collect()
    assert [tuple(row) for row in rows] == [(2, "b", "A")]
    detach(session, "other")
    assert session.table("lake.db.t").count() == 2


def test_a_new_session_has_the_warehouses_of_the_session_that_made_it(session: SparkSession) -> None:
    fill(session)
    other = session.newSession()
    assert other.table("lake.db.t").count() == 2
    other.sql("UPDATE lake.db.t SET v = 'c' WHERE id = 2")
    assert {tuple(row) for row in session.table("lake.db.t").collect()} == {(1, "a"), (2, "c")}


def test_the_current_catalog_and_database_shorten_names(session: SparkSession) -> None:
    fill(session)
    session.sql("USE lake.db")
    session.sql("UPDATE t SET v = 'z' WHERE id = 1")
    session.sql("DELETE FROM db.t WHERE id = 2")
    assert [tuple(row) for row in session.table("t").collect()] == [(1, "z")]
    assert session.catalog.currentCatalog() == "lake"


def test_an_extended_description_has_the_files_the_log_and_the_watermark(session: SparkSession) -> None:
    fill(session)
    session.sql("USE lake.db")
    for text in ("DESCRIBE TABLE EXTENDED lake.db.t", "DESC EXTENDED t", "DESCRIBE FORMATTED db.t"):
        found = {row.col_name: row.data_type for row in session.sql(text).collect()}
        assert (found["Snapshot id"], found["Log system"], found["Watermark"]) == ("1", "none", "")
        assert (found["id"], found["Provider"]) == ("bigint", "lakelog")
    assert "Snapshot id" not in {row.col_name for row in session.sql("DESCRIBE t").collect()}
    session.range(1).createOrReplaceTempView("view")
    assert "Snapshot id" not in {row.col_name for row in session.sql("DESCRIBE EXTENDED view").collect()}


def test_spark_reads_files_by_their_path_under_the_current_catalog(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    session.range(3).write.parquet(str(tmp_path / "plain"))
    session.sql("USE lake.db")
    assert session.sql(f"SELECT count(*) FROM parquet.`{tmp_path}/plain`").first() == (3,)
    assert session.sql("SELECT count(*) FROM t").first() == (2,)


def test_a_table_like_another_has_its_comment(session: SparkSession, tmp_path: Path) -> None:
    session.sql("CREATE TABLE lake.db.a (id INT) COMMENT 'of the day'")
    session.sql("CREATE TABLE lake.db.b LIKE lake.db.a")
    assert Catalog(tmp_path / "lake").load_table("db.b").schema.comment == "of the day"


def test_settings_of_paimon_are_said_to_have_no_effect(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.sql("SET `spark.paimon.scan.snapshot-id` = 1")
    assert "spark.paimon.scan.snapshot-id: settings of Paimon's connector have no effect" in caplog.text
    caplog.clear()
    detach(session, "lake")
    attach(session, "lake", tmp_path / "lake")
    assert "spark.paimon.scan.snapshot-id: settings" in caplog.text
    session.conf.unset("spark.paimon.scan.snapshot-id")


def test_statements_on_other_catalogs_pass_untouched(session: SparkSession) -> None:
    session.range(3).createOrReplaceTempView("numbers")
    assert session.sql("WITH q AS (SELECT * FROM numbers) SELECT sum(id) FROM q").first()[0] == 3  # type: ignore[index]
    assert session.sql("SELECT :a + 1", {"a": 1}).first()[0] == 2  # type: ignore[index]
    assert session.sql("SELECT count(*) FROM {rows}", rows=session.range(4)).first()[0] == 4  # type: ignore[index]


@pytest.mark.full
def test_statements_of_several_threads_are_right(session: SparkSession) -> None:
    fill(session)

    def ask(number: int) -> list[tuple[object, ...]]:
        name = f"lake.db.t{number}"
        session.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
        session.sql(f"INSERT INTO {name} SELECT id + {number}, v FROM lake.db.t")
        session.sql(f"UPDATE {name} SET v = concat(v, '!') WHERE id = {number + 1}")
        return [tuple(row) for row in session.sql(f"SELECT * FROM {name} ORDER BY id").collect()]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(10, 70, 10)))
    assert found == [[(number + 1, "a!"), (number + 2, "b")] for number in range(10, 70, 10)]


def test_errors_have_the_sentence_first_and_their_class(session: SparkSession) -> None:
    fill(session)
    with pytest.raises(PySparkException) as caught:
        session.table("lake.db.t").sparkSession.sql("SELECT * FROM lake.db.t VERSION AS OF 77")
    assert str(caught.value).startswith("snapshot 77 of ")
    assert isinstance(error_of(caught.value), NotFoundError)
    with pytest.raises(PySparkException, match=r"^UPDATE of lake.db.t sets 'id', a column of the primary key"):
        session.sql("UPDATE lake.db.t SET id = 7")
    with pytest.raises(AnalysisException) as missing:
        session.table("lake.db.none")
    assert missing.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def proxies(session: SparkSession) -> int:
    """How many objects of Python the JVM holds, once it has forgotten what it can."""
    jvm = session._jvm
    assert jvm is not None
    for _ in range(3):
        jvm.java.lang.System.gc()
        jvm.java.lang.System.runFinalization()
        gc.collect()
    return len(session.sparkContext._gateway.gateway_property.pool)  # type: ignore[union-attr]


def check_that_no_proxies_stay(session: SparkSession, statements: int) -> None:
    fill(session)
    before = proxies(session)  # those of other tests too
    for number in range(statements):
        session.sql(f"SELECT v FROM lake.db.t WHERE id = {number}").collect()
    assert proxies(session) < before + min(200, statements)


@pytest.mark.full
def test_statements_leave_no_proxies_behind(session: SparkSession) -> None:
    check_that_no_proxies_stay(session, 60)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_10000_statements_leave_no_proxies_behind(session: SparkSession) -> None:
    check_that_no_proxies_stay(session, 10_000)
