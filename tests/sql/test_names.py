"""What a name means in a statement without Spark: scopes of common table expressions, and names that differ in case."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, LakelogError, UnsupportedError
from lakelog.sql import SqlConnection


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def connection(catalog: Catalog) -> SqlConnection:
    made = lakelog.sql.connect(catalog)
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql("CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (id))")
    made.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return made


@pytest.mark.parametrize(
    "query",
    [
        "WITH t AS (SELECT id + 10 AS id FROM t) SELECT id FROM t",
        "WITH t AS (SELECT 9 AS id) SELECT id FROM db.t",
        "WITH t AS (SELECT 9 AS id) SELECT id FROM t",
        "WITH x AS (SELECT id FROM t), t AS (SELECT 77 AS id) SELECT id FROM x",
        "WITH t AS (SELECT 1 AS id), x AS (SELECT id FROM t) SELECT id FROM x",
        "WITH t AS (SELECT 5 AS id) SELECT id FROM (WITH t AS (SELECT id + 1 AS id FROM t) SELECT id FROM t) AS q",
        "SELECT id FROM (WITH t AS (SELECT 5 AS id) SELECT id FROM t) AS q UNION ALL SELECT id FROM t",
        "WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM t WHERE id < 4) SELECT id FROM t",
        "SELECT id FROM t WHERE EXISTS (WITH t AS (SELECT 2 AS n) SELECT 1 FROM t AS u WHERE u.n = t.id)",
    ],
)
def test_a_common_table_expression_hides_a_table_in_its_scope_alone(connection: SqlConnection, query: str) -> None:
    plain = duckdb.connect()
    plain.execute("CREATE SCHEMA db")
    plain.execute("SET schema = 'db'")
    plain.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS q (id, v)")
    theirs = [row[0] for row in plain.execute(query).fetchall()]
    assert sorted(connection.sql(query)["id"].to_pylist()) == sorted(theirs)


def test_a_common_table_expression_named_like_a_whole_name_hides_nothing(connection: SqlConnection) -> None:
    found = connection.sql("WITH `lake.db.t` AS (SELECT 5 AS id) SELECT id FROM t")
    assert found["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("statement", "stored"),
    [
        (
            "MERGE INTO t USING t AS s ON s.id = t.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')",
            {1: "a", 2: "b", 3: "new"},
        ),
        ("INSERT INTO t SELECT id, 'new' FROM t", {1: "a", 2: "b", 3: "new"}),
        ("UPDATE t SET v = 'new' WHERE id + 1 IN (SELECT id FROM t)", {1: "a", 2: "new"}),
        ("DELETE FROM t WHERE id + 1 IN (SELECT id FROM t)", {1: "a"}),
    ],
)
def test_a_statement_changes_its_table_beside_an_expression_of_that_name(
    connection: SqlConnection, statement: str, stored: dict[int, str]
) -> None:
    connection.sql(f"WITH t AS (SELECT 3 AS id) {statement}")
    assert {row["id"]: row["v"] for row in connection.sql("SELECT * FROM t").to_pylist()} == stored


def test_a_struct_is_no_table_of_another_query(connection: SqlConnection) -> None:
    query = "SELECT s.a.b AS found FROM (SELECT {'a': {'b': 7}} AS s) AS q"
    connection.sql("CREATE TABLE s (a INT)")
    connection.sql("INSERT INTO s VALUES (1)")
    found = connection.sql(f"{query} WHERE EXISTS (SELECT 1 FROM s)")
    assert found["found"].to_pylist() == [7]


def test_tables_whose_names_differ_in_case_are_read_together(connection: SqlConnection) -> None:
    connection.sql("CREATE TABLE `T` (id INT NOT NULL, v STRING, PRIMARY KEY (id))")
    connection.sql("INSERT INTO `T` VALUES (1, 'A')")
    assert connection.sql("SELECT x.v, y.v AS w FROM t x JOIN `T` y USING (id)").to_pylist() == [{"v": "a", "w": "A"}]
    connection.sql("MERGE INTO `T` AS x USING t AS y ON x.id = y.id WHEN NOT MATCHED THEN INSERT *")
    assert sorted(connection.sql("SELECT v FROM `T`")["v"].to_pylist()) == ["A", "b"]
    assert sorted(connection.sql("SELECT v FROM t")["v"].to_pylist()) == ["a", "b"]


@pytest.fixture
def two(catalog: Catalog, connection: SqlConnection) -> SqlConnection:
    """A table whose columns another program has named `a` and `A`."""
    schema = pa.schema([("id", pa.int32()), ("a", pa.int32()), ("A", pa.int32())])
    table = catalog.create_table("db.two", schema=schema, primary_keys=["id"])
    table.write(pa.table({"id": [1], "a": [10], "A": [20]}, schema=schema))
    return connection


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT A FROM two",
        "SELECT * FROM two",
        "UPDATE two SET a = 1",
        "DELETE FROM two WHERE A = 10",
        "MERGE INTO two USING (SELECT 1 AS id, 5 AS a) AS s ON s.id = two.id WHEN MATCHED THEN UPDATE SET a = s.a",
        "SELECT * FROM two CHANGES FROM VERSION 1",
    ],
)
def test_columns_that_duckdb_cannot_tell_apart_are_refused(
    two: SqlConnection, catalog: Catalog, statement: str
) -> None:
    with pytest.raises(UnsupportedError, match=r"lake\.db\.two.* has the columns 'a' and 'A', .*RENAME COLUMN"):
        two.sql(statement)
    assert catalog.load_table("db.two").to_arrow().to_pylist() == [{"id": 1, "a": 10, "A": 20}]


def test_an_insert_fills_the_column_of_the_exact_name(two: SqlConnection, catalog: Catalog) -> None:
    two.sql("INSERT INTO two (id, a) VALUES (2, 5)")
    two.sql("INSERT INTO two BY NAME SELECT 3 AS id, 6 AS A")
    rows = {row["id"]: (row["a"], row["A"]) for row in catalog.load_table("db.two").to_arrow().to_pylist()}
    assert rows == {1: (10, 20), 2: (5, None), 3: (None, 6)}


def test_a_name_that_is_no_column_names_those_that_are(connection: SqlConnection) -> None:
    for statement in ("INSERT INTO t (id, w) VALUES (3, 'c')", "UPDATE t SET w = 'c'"):
        with pytest.raises(LakelogError, match="the table has no column 'w'; it has id, v"):
            connection.sql(statement)
