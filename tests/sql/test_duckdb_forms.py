"""DuckDB's own forms do on tables what DuckDB does on its tables with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.sql import SqlConnection

MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT DEFAULT 7)",
    "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (4, NULL, NULL)",
    "CREATE TABLE s (n INT, v VARCHAR(20), id INT)",
    "INSERT INTO s VALUES (20, 'x', 2), (30, 'y', 3)",
)


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    for text in ("CREATE DATABASE db", "USE db", *MADE):
        made.sql(text)
    return made


@pytest.fixture
def plain() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for text in ("CREATE SCHEMA db", "USE db", *MADE):
        made.execute(text)
    return made


def rows(found: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in found), key=repr)


def both(connection: SqlConnection, plain: duckdb.DuckDBPyConnection, query: str) -> None:
    """Check that a query gives the columns and the rows of DuckDB."""
    theirs = plain.sql(query)
    ours = connection.sql(query)
    assert ours.column_names == theirs.columns
    columns = [column.to_pylist() for column in ours.columns]
    assert rows([*zip(*columns, strict=True)]) == rows(theirs.fetchall())


CHANGES: list[tuple[str, ...]] = [
    ("UPDATE t SET v = s.v FROM s WHERE t.id = s.id",),
    ("UPDATE t AS x SET v = s.v, n = s.n + x.n FROM s WHERE x.id = s.id",),
    ("UPDATE t SET v = q.v FROM s JOIN s AS q USING (id) WHERE t.id = id",),
    ("UPDATE t SET v = q.v FROM s LEFT JOIN s AS q ON q.id = s.n WHERE t.id = s.id",),
    ("UPDATE t SET v = s.v FROM s, db.s AS q WHERE t.id = s.id AND q.id = s.id",),
    ("UPDATE t SET v = 'q' FROM (SELECT 1 AS k) AS z WHERE k = id",),
    ("UPDATE t SET v = x.v FROM (VALUES (2, 'val')) AS x (id, v) WHERE t.id = x.id",),
    ("UPDATE s SET v = t.v FROM t WHERE t.id = s.id",),
    ("UPDATE db.t SET v = s.v FROM db.s WHERE db.t.id = db.s.id",),
    ("DELETE FROM db.t USING db.s WHERE db.t.id = db.s.id",),
    ("MERGE INTO db.t USING s ON db.t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",),
    ("WITH z AS (SELECT 1 AS k) UPDATE t SET n = k FROM z WHERE id = k",),
    ("DELETE FROM t USING s WHERE t.id = s.id",),
    ("INSERT INTO s VALUES (21, 'w', 2)", "DELETE FROM t USING s WHERE t.id = s.id"),
    ("DELETE FROM t USING s, s AS q WHERE t.id = s.id AND s.id = q.id",),
    ("DELETE FROM t USING s",),
    ("DELETE FROM t USING t AS u WHERE t.id + 1 = u.id",),
    ("UPDATE t SET v = u.v FROM t AS u WHERE t.id = u.id + 1",),
    ("DELETE FROM s", "DELETE FROM t USING s"),
    ("DELETE FROM s", "UPDATE t SET n = 1 FROM s"),
    ("DELETE FROM s AS x USING t WHERE x.id = t.id",),
    ("WITH z AS (SELECT 1 AS k) DELETE FROM t USING z WHERE id = k",),
    ("INSERT OR REPLACE INTO t VALUES (1, 'z', 5), (9, 'y', 6)",),
    ("INSERT OR REPLACE INTO t (id, v) VALUES (1, 'z'), (9, 'y')",),
    ("INSERT OR REPLACE INTO t BY NAME SELECT * FROM s",),
    ("INSERT OR REPLACE INTO t (id, v) SELECT id, v || '!' FROM t",),
    ("WITH q AS (SELECT 2 AS id, 'q' AS v) INSERT OR REPLACE INTO t (id, v) FROM q",),
    ("INSERT INTO t BY NAME SELECT 'z' AS v, 11 AS id",),
    ("INSERT INTO t FROM (SELECT id, v, n FROM s WHERE id = 3)",),
    (
        "MERGE INTO t USING (SELECT id, v, n FROM s) AS s USING (id) "
        "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT",
    ),
    ("MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME",),
    (
        "MERGE INTO t USING (SELECT id, v FROM s) AS s USING (id) "
        "WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME",
    ),
    ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'p', 4)",),
    (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.n > 1 THEN DO NOTHING "
        "WHEN MATCHED THEN UPDATE SET v = 'zz' WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT", "ALTER TABLE t ADD COLUMN IF NOT EXISTS w INT"),
    ("CREATE TABLE u AS FROM t", "INSERT INTO s SELECT n, v, id FROM u"),
]


@pytest.mark.parametrize("texts", CHANGES)
def test_a_statement_changes_the_rows_that_duckdb_changes(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, texts: tuple[str, ...]
) -> None:
    for text in texts:
        connection.sql(text)
        plain.execute(text)
    both(connection, plain, "FROM t")
    both(connection, plain, "FROM s")


REFUSED = [
    (("UPDATE t SET v = s.v FROM s WHERE id = s.id",), "Ambiguous"),
    (("MERGE INTO t USING (SELECT *, 1 AS z FROM s) AS s USING (id) WHEN MATCHED THEN UPDATE BY NAME",), "'?z'?"),
    (("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'p')",), "3 columns|2 values"),
    (("CREATE TABLE t (id INT)",), "exists"),
]


@pytest.mark.parametrize(("texts", "told"), REFUSED)
def test_a_statement_that_duckdb_refuses_is_refused(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, texts: tuple[str, ...], told: str
) -> None:
    for text in texts:
        with pytest.raises(duckdb.Error):
            plain.execute(text)
        with pytest.raises(InvalidRequestError, match=told):
            connection.sql(text)
    both(connection, plain, "FROM t")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("UPDATE t SET v = s.v FROM s WHERE t.id = s.id", "several rows of the source change one row"),
        ("INSERT OR REPLACE INTO t (id, v) SELECT id, v FROM s", "several rows of the source change one row"),
        (
            "INSERT OR REPLACE INTO t VALUES (9, 'a', 1), (9, 'b', 2)",
            "INSERT OR REPLACE INTO .*several rows of the source insert one primary key",
        ),
        ("MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE", "write UPDATE BY NAME"),
        ("MERGE INTO t USING s USING (id) WHEN NOT MATCHED THEN INSERT", "write INSERT BY NAME"),
    ],
)
def test_what_would_be_chance_or_a_column_under_another_name_is_refused(
    connection: SqlConnection, text: str, told: str
) -> None:
    """DuckDB takes one of several rows, and columns by their places."""
    connection.sql("INSERT INTO s VALUES (21, 'w', 2)")
    before = connection.sql("FROM t ORDER BY id")
    with pytest.raises(InvalidRequestError, match=told):
        connection.sql(text)
    assert connection.sql("FROM t ORDER BY id") == before


def test_columns_have_the_types_that_duckdb_spells(connection: SqlConnection, plain: duckdb.DuckDBPyConnection) -> None:
    columns = (
        'id INT PRIMARY KEY, name VARCHAR NOT NULL, tags VARCHAR[], part STRUCT(x INT, "y z" VARCHAR[]), '
        "counts MAP(VARCHAR, INT), large HUGEINT, small UTINYINT, day DATETIME"
    )
    values = "1, 'a', ['b', NULL], {'x': 1, 'y z': ['c']}, MAP {'k': 2}, 12345678901234567890, 255, '2024-01-31'"
    for text in (
        f"CREATE TABLE typed ({columns})",
        "ALTER TABLE typed ADD COLUMN more VARCHAR",
        f"INSERT INTO typed VALUES ({values}, 'text')",
    ):
        connection.sql(text)
        plain.execute(text)
    both(connection, plain, "SELECT * REPLACE (counts['k'] AS counts, CAST(large AS VARCHAR) AS large) FROM typed")


def test_a_type_that_neither_lakelog_nor_duckdb_has_is_refused(connection: SqlConnection) -> None:
    with pytest.raises(UnsupportedError, match="column 'a': type 'FOO' is not supported"):
        connection.sql("CREATE TABLE typed (id INT PRIMARY KEY, a FOO)")


def test_a_table_in_a_warehouse_without_databases_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"there is no database lake\.db; CREATE DATABASE lake\.db makes it"):
        lakelog.sql.connect(Catalog(tmp_path / "new")).sql("CREATE TABLE db.t (id INT PRIMARY KEY)")
