"""Writes by SQL: tables with a log, streams by the names of tables, lineage, defaults of a session."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, ConflictError, Table
from lakelog.filestore.metadata.origins.record import TableSource, TableVersion, batches_of
from lakelog.spark import error_of
from lakelog.spark.catalog_plugin import write_proxy
from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.catalog_plugin.write_proxy import recorded_statement


def rows_of(session: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in session.table(name).collect())


@pytest.mark.integration
def test_a_table_with_a_log_is_made_written_and_changed(
    session: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    session.sql("SET `table-storage.bucket` = 2")
    session.sql(
        "CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) "
        f"TBLPROPERTIES ('log.system'='kafka', 'log.kafka.bootstrap.servers'='{bootstrap_servers}')"
    )
    session.sql("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    session.sql("UPDATE lake.db.t SET v = upper(v) WHERE id < 3")
    session.sql(
        "MERGE INTO lake.db.t t USING (SELECT CAST(id AS BIGINT) AS id FROM VALUES (3), (4) AS s(id)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    session.sql("DELETE FROM lake.db.t WHERE id = 2")
    assert rows_of(session, "lake.db.t") == [(1, "A"), (4, "new")]
    table = Catalog(tmp_path / "lake").load_table("db.t")
    assert table.log is not None
    assert table.schema.options["bucket"] == "2"
    assert session.sql("CALL lake.sys.verify_log('db.t')").collect()[0].is_equal
    kinds = {
        tuple(row) for row in session.sql("SELECT id, _change_type FROM lake.db.t CHANGES FROM VERSION 3").collect()
    }
    assert {(3, "delete"), (4, "insert"), (2, "delete")} <= kinds
    session.sql("INSERT OVERWRITE lake.db.t VALUES (9, 'only')")
    assert rows_of(session, "lake.db.t") == [(9, "only")]
    assert session.sql("CALL lake.sys.verify_log('db.t')").collect()[0].is_equal
    session.sql("DROP TABLE lake.db.t")


@pytest.mark.integration
def test_a_stream_reads_and_writes_tables_by_their_names(session: SparkSession, tmp_path: Path) -> None:
    session.sql("CREATE TABLE lake.db.source (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.source VALUES (1, 'a'), (2, 'b')")

    def run() -> None:
        rows = session.readStream.table("lake.db.source").selectExpr("id", "upper(v) AS v")
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writer.toTable("lake.db.copy").awaitTermination(120) is not False

    run()
    assert rows_of(session, "lake.db.copy") == [(1, "A"), (2, "B")]
    session.sql("INSERT INTO lake.db.source VALUES (3, 'c')")
    run()
    assert rows_of(session, "lake.db.copy") == [(1, "A"), (2, "B"), (3, "C")]


def sources_of(tmp_path: Path, name: str) -> set[tuple[str, int | None]]:
    """The tables and snapshots that the newest commit of a table was made from."""
    snapshot = Catalog(tmp_path / "lake").load_table(name).snapshot()
    assert snapshot is not None
    found = {source for batch in batches_of(snapshot) for source in batch.lineage.sources}
    ours = {source for source in found if isinstance(source, TableSource)}
    assert ours == found
    return {(one.table, one.end.snapshot_id if isinstance(one.end, TableVersion) else None) for one in ours}


def test_a_commit_by_sql_says_which_snapshots_made_it(session: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        session.sql(f"CREATE TABLE lake.db.{name} (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
        session.sql(f"INSERT INTO lake.db.{name} VALUES (1, 'x')")
    session.sql("INSERT INTO lake.db.a VALUES (2, 'y')")
    joined = "SELECT a.* FROM lake.db.a JOIN lake.db.b USING (id)"
    session.sql(f"CREATE TABLE lake.db.c TBLPROPERTIES ('primary-key'='id') AS {joined}")
    assert sources_of(tmp_path, "db.c") == {("db.a", 2), ("db.b", 1)}
    session.sql("INSERT INTO lake.db.c SELECT id + 10, v FROM lake.db.a VERSION AS OF 1")
    assert sources_of(tmp_path, "db.c") == {("db.a", 1)}
    session.sql("MERGE INTO lake.db.c t USING lake.db.b s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert sources_of(tmp_path, "db.c") == {("db.b", 1)}


def test_new_tables_take_the_defaults_of_the_session(session: SparkSession, tmp_path: Path) -> None:
    session.sql("SET `table-storage.bucket` = 3")
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key'='id')")
    session.sql("CREATE TABLE lake.db.u (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    session.conf.set("table-storage.bukket", "3")
    with pytest.raises(PySparkException, match=r"^unknown option 'table-storage.bukket'; did you mean"):
        session.sql("CREATE TABLE lake.db.v (id BIGINT NOT NULL)")
    catalog = Catalog(tmp_path / "lake")
    assert [catalog.load_table(f"db.{name}").schema.options["bucket"] for name in "tu"] == ["3", "1"]


def test_what_show_create_table_shows_makes_the_same_table(session: SparkSession, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE lake.db.t (id BIGINT NOT NULL COMMENT 'the key', day DATE NOT NULL, "
        "s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DECIMAL(10, 2)>, PRIMARY KEY (id, day) NOT ENFORCED) "
        "PARTITIONED BY (day) COMMENT 'what it is' TBLPROPERTIES ('bucket'='2', 'snapshot.num-retained.max'='40')"
    )
    catalog = Catalog(tmp_path / "lake")
    before = catalog.load_table("db.t").schema
    shown = session.sql("SHOW CREATE TABLE lake.db.t").first()
    assert shown is not None
    session.sql("DROP TABLE lake.db.t")
    session.sql(shown[0])
    after = catalog.load_table("db.t").schema
    assert (after.fields, after.primary_keys, after.partition_keys) == (
        before.fields,
        before.primary_keys,
        before.partition_keys,
    )
    assert after.comment == before.comment
    own = {"lakelog.table-uuid"}
    assert {k: v for k, v in after.options.items() if k not in own} == {
        k: v for k, v in before.options.items() if k not in own
    }


@pytest.mark.parametrize("options", ["'primary-key'='id'", "'bucket'='-1'", "'primary-key'='id', 'bucket'='-1'"])
def test_inserts_at_once_are_all_in(session: SparkSession, tmp_path: Path, options: str) -> None:
    session.sql(f"CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ({options})")

    def insert(number: int) -> None:
        session.range(number * 10, number * 10 + 10).selectExpr("id", f"'{number}' AS v").coalesce(1).writeTo(
            "lake.db.t"
        ).append()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(insert, range(9)))
    assert rows_of(session, "lake.db.t") == [(key, str(key // 10)) for key in range(90)]
    table = Catalog(tmp_path / "lake").load_table("db.t")
    assert len({file.path for file in table.system.files()}) <= len(list((tmp_path / "lake").rglob("data-*")))
    changed = {row["id"] for batch in table.changes(after=1) for row in batch.to_pylist()}
    assert len(changed) == 80


def test_an_overwrite_drops_no_commit_that_it_has_not_seen(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1, 'a')")

    def and_another_commits(jvm: Jvm, table: Table, options: Mapping[str, str]) -> Table:
        Catalog(tmp_path / "lake").load_table("db.t").write(pl.DataFrame({"id": [2], "v": ["other"]}))
        return recorded_statement(jvm, table, options)

    monkeypatch.setattr(write_proxy, "recorded_statement", and_another_commits)
    with pytest.raises(PySparkException, match="appeared behind the one that the statement sees") as caught:
        session.sql("INSERT OVERWRITE lake.db.t SELECT id, upper(v) FROM lake.db.t")
    assert isinstance(error_of(caught.value), ConflictError)
    monkeypatch.undo()
    session.sql("INSERT OVERWRITE lake.db.t SELECT id, upper(v) FROM lake.db.t")
    assert rows_of(session, "lake.db.t") == [(1, "A"), (2, "OTHER")]


def test_a_nightly_overwrite_keeps_the_key_and_the_options(session: SparkSession, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2') "
    )
    session.sql("INSERT INTO lake.db.t VALUES (1, 'old'), (9, 'old')")
    first, second = (session.createDataFrame([(1, v), (2, v)], "id BIGINT, v STRING") for v in ("first", "second"))

    first.write.mode("overwrite").saveAsTable("lake.db.t")
    assert rows_of(session, "lake.db.t") == [(1, "first"), (2, "first")]
    second.writeTo("lake.db.t").createOrReplace()
    assert rows_of(session, "lake.db.t") == [(1, "second"), (2, "second")]

    schema = Catalog(tmp_path / "lake").load_table("db.t").schema
    assert (schema.primary_keys, schema.options["bucket"]) == (("id",), "2")


@pytest.mark.full
def test_a_function_of_foreach_batch_finds_the_warehouse_in_each_batch(session: SparkSession, tmp_path: Path) -> None:
    session.sql("CREATE TABLE lake.db.s (id BIGINT)")
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT, PRIMARY KEY (id))")

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            "MERGE INTO lake.db.t AS t USING batch AS b ON t.id = b.id "
            "WHEN MATCHED THEN UPDATE SET n = n + 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (b.id, 1)"
        )

    for _ in range(2):  # a batch each, the second of them in the second run
        session.sql("INSERT INTO lake.db.s VALUES (7), (8)")
        stream = session.readStream.table("lake.db.s").writeStream.foreachBatch(merge)
        stream.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start().awaitTermination()
    assert rows_of(session, "lake.db.t") == [(7, 2), (8, 2)]
