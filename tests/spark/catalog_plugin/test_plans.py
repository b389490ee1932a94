"""What scans of an attached warehouse read: columns, rows, snapshots; and what Spark's optimizer knows of them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any  # Any: py4j gives Java objects without types

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.spark.catalog_plugin import table_scan
from lakelog.spark.catalog_plugin.java.java_predicates import pushed_filter
from tests.support.examples import examples, rest_in_full

COLUMNS = (
    "id bigint not null, tiny tinyint, small smallint, whole int, real float, wide double, money decimal(12, 2), "
    "text string, flag boolean, day date, at timestamp, local timestamp_ntz, raw binary"
)
ROWS = """
SELECT id,
  CAST(if(id % 7 = 0, NULL, id % 5) AS TINYINT) AS tiny, CAST(id % 300 AS SMALLINT) AS small,
  CAST(if(id % 11 = 0, NULL, id * 3 - 50) AS INT) AS whole, CAST(id / 4 AS FLOAT) AS real,
  CASE WHEN id % 13 = 0 THEN CAST('NaN' AS DOUBLE) WHEN id % 17 = 0 THEN NULL ELSE id / 3.0D END AS wide,
  CAST(id * 1.25 - 20 AS DECIMAL(12, 2)) AS money,
  CASE WHEN id % 9 = 0 THEN NULL WHEN id % 4 = 0 THEN concat('a%_', id) ELSE concat('b\\\\', id % 6) END AS text,
  if(id % 5 = 0, NULL, id % 2 = 0) AS flag, date_add(DATE'1969-12-20', CAST(id AS INT)) AS day,
  timestamp_micros(id * 3600000001 - 40000000) AS at, CAST(timestamp_micros(id * 60000000) AS TIMESTAMP_NTZ) AS local,
  CAST(CAST(id AS STRING) AS BINARY) AS raw
FROM range(200)
"""
LITERALS = {
    "id": ("7", "-1", "1000000"),
    "tiny": ("0", "4", "127"),
    "small": ("0", "250"),
    "whole": ("-47", "10", "NULL"),
    "real": ("2.5", "0.0"),
    "wide": ("1.0D", "33.0D", "double('NaN')"),
    "money": ("-20.00", "105.0", "1.255"),
    "text": ("'b\\\\1'", "'a%_8'", "''", "NULL"),
    "flag": ("true", "false"),
    "day": ("DATE'1970-01-01'", "DATE'1970-03-01'"),
    "at": ("TIMESTAMP'1970-01-02 00:00:00'", "TIMESTAMP'1970-01-01 01:00:00.000001'"),
    "local": ("TIMESTAMP_NTZ'1970-01-01 01:00:00'",),
    "raw": ("X'3137'",),
}


def plan(rows: DataFrame) -> str:
    """The physical plan as EXPLAIN shows it."""
    return str(rows._jdf.queryExecution().executedPlan().toString())


def condition(chance: random.Random, depth: int = 2) -> str:
    """A condition on the columns of ROWS."""
    if depth and chance.random() < 0.5:
        parts = [condition(chance, depth - 1) for _ in range(2)]
        return chance.choice(["({} AND {})", "({} OR {})", "(NOT {} OR {})"]).format(*parts)
    name = chance.choice(list(LITERALS))
    one, other = (chance.choice(LITERALS[name]) for _ in range(2))
    forms = [
        f"{name} {chance.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {one}",
        f"{one} >= {name}",
        f"{name} IN ({one}, {other})",
        f"{name} NOT IN ({one}, {other})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} BETWEEN {one} AND {other}",
        f"NOT ({name} <=> {one})",
    ]
    if name == "text":
        forms += ["text LIKE 'a%'", "text LIKE '%\\\\\\\\1'", "contains(text, '%_')", "startswith(text, 'b')"]
    return chance.choice(forms)


def check_random_conditions(session: SparkSession, count: int) -> None:
    """The same rows as from plain Parquet, for random conditions, columns and aggregates."""
    session.sql(ROWS).createOrReplaceTempView("plain")
    session.sql("CACHE TABLE plain")
    for name, bucket in (("merged", 2), ("one", 1)):
        options = f"'primary-key'='id', 'bucket'='{bucket}', 'write-only'='true'"
        session.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS}) TBLPROPERTIES ({options})")
        session.sql(f"INSERT INTO lake.db.{name} SELECT * FROM plain WHERE id % 3 <> 1")
        session.sql(f"INSERT INTO lake.db.{name} SELECT * FROM plain WHERE id % 3 <> 0")
    session.sql("CALL lake.sys.compact('db.one')")
    chance = random.Random(27)
    for number in range(count):
        where = condition(chance)
        columns = chance.sample(list(LITERALS), chance.randint(1, 4))
        chosen = chance.choice(
            [
                ", ".join(columns),
                "count(*)",
                f"count({columns[0]}), max(id)",
                "id, row_number() OVER (ORDER BY id) AS r",
            ]
        )
        statement = f"SELECT {chosen} FROM {{}} WHERE {where}"
        expected = sorted(map(str, session.sql(statement.format("plain")).collect()))
        for name in ("merged", "one"):
            found = sorted(map(str, session.sql(statement.format(f"lake.db.{name}")).collect()))
            assert found == expected, (number, statement, name)


def test_random_conditions_give_the_rows_of_plain_parquet(session: SparkSession) -> None:
    check_random_conditions(session, examples(24))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_many_random_conditions_give_the_rows_of_plain_parquet(session: SparkSession) -> None:
    check_random_conditions(session, 200)


def large(session: SparkSession, *, compacted: bool) -> None:
    """A table that is too large to be read by the driver, in many row groups."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key'='id')")
    rows = session.range(40_000).selectExpr("id", "concat('v', id) AS v", "CAST(id % 10 AS INT) AS n")
    rows.writeTo("lake.db.t").append()
    rows.where("id < 100").writeTo("lake.db.t").append()
    if compacted:
        session.sql("CALL lake.sys.compact('db.t')")


@pytest.mark.parametrize("compacted", [True, False])
def test_a_scan_reads_the_columns_and_the_rows_that_its_place_needs(session: SparkSession, compacted: bool) -> None:
    large(session, compacted=compacted)
    rows = session.sql("SELECT a.n, b.id FROM lake.db.t a JOIN lake.db.t b ON a.id = b.id WHERE a.id = 77 AND b.n >= 0")
    shown = plan(rows)
    scans = re.findall(r"lakelog scan of [^:]*: (.*?) RuntimeFilters", shown)
    assert [scan.partition(" where ")[0] for scan in scans] == ["id, n", "id, n"]
    assert ["where id = 77" in scan for scan in scans] == [True, True]
    assert ["where n >= 0" in scan for scan in scans] == [False, True]
    assert [tuple(row) for row in rows.collect()] == [(7, 77)]
    assert session.sql("SELECT sum(n) FROM lake.db.t").collect() == [(180_000,)]


def test_options_of_one_read_do_not_reach_another(session: SparkSession) -> None:
    large(session, compacted=False)
    session.sql("CALL lake.sys.create_tag('db.t', 'before')")
    session.sql("DELETE FROM lake.db.t WHERE id >= 30000")
    parts = (
        "lake.db.t",
        "lake.db.t WITH (where='n = 1')",
        "lake.db.t WITH (tag='before')",
        "lake.db.t VERSION AS OF 1",
    )
    sums = ", ".join(f"(SELECT sum(n) FROM {part})" for part in parts)
    assert session.sql(f"SELECT {sums}").collect() == [(135_000, 3_000, 180_000, 180_000)]


def test_a_range_of_changes_is_read_where_no_file_needs_a_merge(session: SparkSession) -> None:
    large(session, compacted=True)
    session.sql("INSERT INTO lake.db.t VALUES (99999, 'new', 1)")
    session.sql("CALL lake.sys.compact('db.t')")
    changed = "SELECT id FROM lake.db.t WITH (`incremental-between`='3,4')"
    assert session.sql(changed).collect() == [(99_999,)]
    assert session.sql("SELECT count(*) FROM lake.db.t WITH (where='id >= 39999')").collect() == [(2,)]


def test_rows_are_counted_by_metadata_where_that_is_exact(session: SparkSession) -> None:
    large(session, compacted=True)
    counted = session.sql("SELECT count(*), count(*) + 1 FROM lake.db.t")
    assert "LocalTableScan" in plan(counted)
    assert counted.collect() == [(40_000, 40_001)]
    session.sql("INSERT INTO lake.db.t VALUES (5, 'again', 0)")
    merged = session.sql("SELECT count(*) FROM lake.db.t")
    assert "LocalTableScan" not in plan(merged)
    assert merged.collect() == [(40_000,)]
    assert session.table("lake.db.t").count() == 40_000
    assert session.sql("SELECT count(*) FROM lake.db.t WHERE n = 3").collect() == [(4_000,)]


@pytest.mark.full
def test_extremes_come_from_metadata_where_these_are_exact(session: SparkSession) -> None:
    large(session, compacted=True)
    found = session.sql("SELECT min(id), max(id), max(n), count(*) FROM lake.db.t")
    assert "LocalTableScan" in plan(found)
    assert found.collect() == [(0, 39_999, 9, 40_000)]
    texts = session.sql("SELECT min(v), max(v) FROM lake.db.t")  # whose statistics are cut
    assert "LocalTableScan" not in plan(texts)
    assert texts.collect() == [("v0", "v9999")]
    assert session.sql("SELECT n, max(id) FROM lake.db.t GROUP BY n ORDER BY n LIMIT 1").collect() == [(0, 39_990)]
    session.sql("DELETE FROM lake.db.t WHERE id = 39999")
    assert session.sql("SELECT max(id) FROM lake.db.t").collect() == [(39_998,)]
    session.sql("TRUNCATE TABLE lake.db.t")
    assert session.sql("SELECT min(id), max(n), count(*) FROM lake.db.t").collect() == [(None, None, 0)]


@pytest.mark.full
def test_a_limit_reads_as_many_files_as_have_so_many_rows(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.a (id BIGINT, n INT) TBLPROPERTIES ('bucket'='-1', 'write-only'='true')")
    for begin in range(0, 400_000, 100_000):
        session.range(begin, begin + 100_000, 1, 1).selectExpr("id", "1 AS n").writeTo("lake.db.a").append()
    few = session.sql("SELECT * FROM lake.db.a LIMIT 10")
    assert "limit 10" in plan(few)
    assert few.count() == 10
    files = {row[0] for row in few.select("id").selectExpr("id div 100000").distinct().collect()}
    assert len(files) == 1
    whole = _size(session.table("lake.db.a"))
    assert _size(few) < 0.3 * whole
    assert 0.4 * whole < _size(session.sql("SELECT * FROM lake.db.a LIMIT 100001")) < 0.6 * whole
    assert session.sql("SELECT * FROM lake.db.a LIMIT 500000").count() == 400_000
    assert session.sql("SELECT sum(n) FROM (SELECT n FROM lake.db.a LIMIT 150000)").collect() == [(150_000,)]
    # What is counted behind a limit is what the limit leaves.
    assert session.sql("SELECT count(*) FROM (SELECT * FROM lake.db.a LIMIT 7)").collect() == [(7,)]
    filtered = session.sql("SELECT * FROM lake.db.a WHERE id >= 399990 LIMIT 10")
    assert "limit 10" not in plan(filtered)
    assert filtered.count() == 10
    joined = session.sql("SELECT count(*) FROM (SELECT id FROM lake.db.a LIMIT 10) x JOIN lake.db.a y ON x.id = y.id")
    assert joined.collect() == [(10,)]


def _size(rows: DataFrame) -> int:
    """The bytes that the only scan of a plan reads."""
    scans = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    return int(str(scans.apply(0).computeStats().sizeInBytes()))


def test_a_limit_of_rows_that_need_a_merge_is_that_of_spark(session: SparkSession) -> None:
    large(session, compacted=True)
    session.sql("DELETE FROM lake.db.t WHERE id < 20000")
    assert session.sql("SELECT * FROM lake.db.t LIMIT 30000").count() == 20_000
    assert {row[0] >= 20_000 for row in session.sql("SELECT id FROM lake.db.t LIMIT 15").collect()} == {True}


def test_a_small_table_is_broadcast_and_filters_the_scan_of_a_large_one(session: SparkSession) -> None:
    large(session, compacted=True)
    session.sql("CREATE TABLE lake.db.few (id BIGINT NOT NULL, w STRING) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.few VALUES (3, 'x'), (39000, 'y')")
    rows = session.sql("SELECT t.v, f.w FROM lake.db.t t JOIN lake.db.few f ON t.id = f.id WHERE f.w = 'y'")
    assert [tuple(row) for row in rows.collect()] == [("v39000", "y")]
    assert "BroadcastHashJoin" in plan(rows)


@pytest.mark.full
def test_a_long_list_of_values_that_a_join_finds_is_not_brought_here(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives the keys of the smaller side to the scan of the other one: a call for each takes minutes."""
    read: list[int] = []

    def counting(jvm: Any, predicate: Any, fields: Any) -> Any:
        read.append(len(predicate.children()))
        return pushed_filter(jvm, predicate, fields)

    large(session, compacted=True)
    session.sql("CREATE TABLE lake.db.few (id BIGINT NOT NULL, w INT) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.few SELECT id * 3, CAST(id % 2 AS INT) FROM range(6000)")
    monkeypatch.setattr(table_scan, "pushed_filter", counting)
    for condition, count in (("f.w = 1", 3_000), ("f.w = 1 AND f.id < 300", 50)):
        rows = session.sql(f"SELECT count(t.v) FROM lake.db.t t JOIN lake.db.few f ON t.id = f.id WHERE {condition}")
        assert rows.collect() == [(count,)]
    assert read  # the short list is used
    assert max(read) <= 51


def test_one_statement_sees_one_snapshot_and_the_next_the_newest(session: SparkSession, tmp_path: Path) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key'='id')")
    session.sql("INSERT INTO lake.db.t VALUES (1)")
    held = session.table("lake.db.t")
    twice = session.sql("SELECT (SELECT count(*) FROM lake.db.t), count(*) FROM lake.db.t")
    assert twice.collect() == [(1, 1)]
    Catalog(tmp_path / "lake").load_table("db.t").write(held.where("id = 1").selectExpr("id + 1 AS id").toArrow())
    assert held.count() == session.table("lake.db.t").count() == 2  # Spark loads a table again for a new action
    session.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM lake.db.t")
    session.sql("INSERT INTO lake.db.t VALUES (3)")
    assert session.table("v").count() == 3


def test_a_cached_table_is_read_again_after_a_write(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key'='id')")
    session.sql("CACHE TABLE lake.db.t")
    session.sql("INSERT INTO lake.db.t VALUES (1), (2)")
    assert session.table("lake.db.t").count() == 2
    session.sql("DELETE FROM lake.db.t WHERE id = 1")
    assert session.table("lake.db.t").count() == 1
    session.sql("CALL lake.sys.restore('db.t', snapshot => 1)")
    assert session.table("lake.db.t").count() == 2


LISTED = {
    "id": [str(one) for one in range(3, 200, 9)],
    "tiny": [*(str(one) for one in range(-10, 3)), "NULL"],
    "small": [str(one) for one in range(40, 60)],
    "whole": [*(str(one * 3 - 50) for one in range(13)), "NULL"],
    "real": [f"CAST({one / 4} AS FLOAT)" for one in range(14)],
    "wide": [*(f"{one} / 3.0D" for one in range(14)), "1e300D"],
    "money": [f"CAST({one * 1.25 - 20} AS DECIMAL(12, 2))" for one in range(14)],
    "text": [
        *(f"'b\\\\{one}'" for one in range(5)),
        *(
            "'a%_8'",
            "''",
            "'null'",
            "NULL",
            "'NULL'",
            "'it''s, ''this'''",
            "''''",
            "', '",
            "'[x]'",
            "'\\n'",
            "'日本 😀'",
        ),
    ],
    "flag": ["true", "NULL"],
    "day": [f"DATE'1970-01-{one:02}'" for one in range(1, 14)] + ["DATE'0001-01-01'", "DATE'9999-12-31'"],
    "at": [f"timestamp_micros({one} * 3600000001 - 40000000)" for one in range(0, 28, 2)],
    "local": [f"TIMESTAMP_NTZ'1970-01-01 00:{one:02}:00'" for one in range(14)],
    "raw": [*(f"X'31{one}'" for one in range(30, 40)), "X''", "X'00ff'", "NULL", "X'39'"],
}
ODD_STRINGS = ["null", "NULL", "it's, 'this'", "'", ", ", "[x]", "\n", "日本 😀", "", "it", "this'", "b\\"]


@pytest.mark.parametrize("column", rest_in_full(LISTED, 1))
def test_a_list_of_values_means_in_lakelog_what_it_means_in_spark(session: SparkSession, column: str) -> None:
    """DELETE is evaluated by lakelog alone, so a value that is taken for another one is seen in the rows that stay."""
    odd = session.createDataFrame([(1_000 + at, text) for at, text in enumerate(ODD_STRINGS)], "id BIGINT, text STRING")
    session.sql(ROWS).unionByName(odd, allowMissingColumns=True).createOrReplaceTempView("plain")
    session.sql("CACHE TABLE plain")
    listed = f"{column} IN ({', '.join(LISTED[column])})"
    session.sql(f"CREATE TABLE lake.db.t ({COLUMNS}) TBLPROPERTIES ('primary-key'='id')")
    session.table("plain").writeTo("lake.db.t").append()
    for where in (listed, f"NOT {listed}", f"id < 50 AND ({listed} OR id = 7)"):
        expected = sorted(session.sql(f"SELECT id FROM plain WHERE {where}").collect())
        assert sorted(session.sql(f"SELECT id FROM lake.db.t WHERE {where}").collect()) == expected, where
    session.sql(f"DELETE FROM lake.db.t WHERE {listed}")
    expected = sorted(session.sql(f"SELECT id FROM plain WHERE NOT coalesce({listed}, false)").collect())
    assert sorted(session.sql("SELECT id FROM lake.db.t").collect()) == expected


def test_a_list_with_another_column_is_left_to_spark(session: SparkSession) -> None:
    session.sql("CREATE TABLE lake.db.t (id BIGINT, wide DOUBLE, `1e5` DOUBLE)")
    session.sql("INSERT INTO lake.db.t VALUES (1, 100000, 3), (2, 7, 7), (3, 8, 9)")
    listed = session.sql("SELECT id FROM lake.db.t WHERE wide IN (6.0D, `1e5`, 8.0D) ORDER BY id")
    assert listed.collect() == [(2,), (3,)]
    assert " where " not in re.sub("where wide IS NOT NULL", "", plan(listed))


@pytest.mark.parametrize("column", rest_in_full(["id", "v"], 1))
def test_a_list_of_values_takes_as_many_calls_whatever_its_length(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    large(session, compacted=True)
    gateway: Any = session.sparkContext._gateway
    client = gateway._gateway_client
    send, calls = client.send_command, 0

    def counting(command: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += not command.startswith("m\n")  # which releases objects, whenever Python collects them
        return send(command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", counting)
    sent: list[int] = []
    for length in (20, 20, 5_000):  # the first time classes are looked up
        calls = 0
        values = [at * 7 % 40_000 if column == "id" else f"'v{at * 7 % 40_000}'" for at in range(length)]
        found = session.sql(f"SELECT n FROM lake.db.t WHERE {column} IN ({', '.join(map(str, values))})").collect()
        assert len(found) == length
        sent.append(calls)
    assert sent[2] <= sent[1] + 10, sent
