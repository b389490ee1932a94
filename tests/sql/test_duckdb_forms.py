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
    """The rows in an order that does not depend on who gives them; NaN, which is not equal to itself, is a text."""
    return sorted((tuple("NaN" if value != value else value for value in row) for row in found), key=repr)  # noqa: PLR0124


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
    ("MERGE INTO t USING (SELECT id, v, n FROM s) AS s USING (id) WHEN MATCHED THEN UPDATE SET *",),
    ("MERGE INTO t USING (SELECT id, v, n FROM s) AS s USING (id) WHEN MATCHED THEN UPDATE BY POSITION",),
    ("MERGE INTO t USING (SELECT id, v, n FROM s) AS s USING (id) WHEN NOT MATCHED THEN INSERT BY POSITION",),
    (
        "MERGE INTO t USING (SELECT id AS i, v AS n, n AS v FROM s) AS s ON t.id = i "
        "WHEN MATCHED THEN UPDATE BY POSITION",
    ),
    ("MERGE INTO t USING (SELECT id AS i, v AS j, n FROM s) AS s ON id = i WHEN NOT MATCHED THEN INSERT BY POSITION",),
    ("MERGE INTO t USING s USING (id) WHEN NOT MATCHED BY TARGET THEN INSERT BY NAME *",),
    ("MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE SET (n, v) = (s.n + 1, upper(s.v))",),
    ("UPDATE t SET (n, v) = (id + 1, v || '!')",),
    ("UPDATE t SET (n, v) = (v, n) WHERE v IS NULL",),
    ("UPDATE t SET (n, v) = ROW(5, 'r') WHERE id = 1",),
    ("UPDATE t SET (n, v) = 5",),
    ("UPDATE t SET (n, v) = (SELECT 5)",),
    ("UPDATE t SET (v) = 'q', (n) = (s.n) FROM s WHERE s.id = t.id",),
    ("UPDATE t SET (n, v) = (s.n, s.v) FROM s WHERE s.id = t.id",),
    ("INSERT INTO t BY POSITION SELECT id + 10, v, n FROM s",),
    ("INSERT INTO s DEFAULT VALUES",),
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


VALUES = [
    ("BIGINT", "(9007199254740993), (1e0), ('7'), (-3), (2.0), (NULL)"),
    ("DOUBLE", "(0.1), ('nan'), (1), ('-inf')"),
    ("DATE", "('2026-02-01'), (DATE '2026-01-01'), (NULL)"),
    ("VARCHAR", "(1), (2.5), ('x'), (true), (2e0), (-0.50), (DATE '2026-01-01'), (TIMESTAMP '2026-01-01 10:00:00')"),
    ("VARCHAR", "(1.0), (25)"),
    ("BOOLEAN", "(true), ('false'), (0)"),
    ("BLOB", r"('abc'), ('\x01'::BLOB)"),
    ("DECIMAL(10, 2)", "(1.25), (100), ('7.5'), (2e0)"),
    ("TIMESTAMP", "(DATE '2026-01-01'), ('2026-01-01 10:00:00'), (TIMESTAMP '2026-01-01 10:00:00.5')"),
]


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_values_of_several_types_get_into_a_column_one_by_one(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, kind: str, values: str
) -> None:
    """In VALUES alone each column has one type, to which DuckDB casts: a text beside a DATE loses its time."""
    ours = {"BLOB": "BYTES", "TIMESTAMP": "TIMESTAMP_NTZ"}.get(kind, kind)
    connection.sql(f"CREATE TABLE m (k INT, x {ours})")
    plain.execute(f"CREATE TABLE m (k INT, x {kind})")
    connection.sql(f"INSERT INTO m (x) VALUES {values}")
    plain.execute(f"INSERT INTO m (x) VALUES {values}")
    both(connection, plain, "FROM m")


def test_numbered_parameters_are_those_of_a_list(connection: SqlConnection, plain: duckdb.DuckDBPyConnection) -> None:
    text = "UPDATE t SET v = $2, n = $1 WHERE id = $1 OR v = $2"
    connection.sql(text, [1, "b"])
    plain.execute(text, [1, "b"])
    both(connection, plain, "FROM t")
    for wrong in ("DELETE FROM t WHERE id = $2", "DELETE FROM t WHERE id = $1", "DELETE FROM t WHERE id = $3"):
        with pytest.raises(duckdb.Error):
            plain.execute(wrong, [1, "b"])
        with pytest.raises(InvalidRequestError, match="has no"):
            connection.sql(wrong, [1, "b"])


@pytest.mark.parametrize("behind", ["ORDER BY id DESC", "ORDER BY id LIMIT 1", "LIMIT 1 OFFSET 1"])
def test_a_pivot_is_ordered(connection: SqlConnection, plain: duckdb.DuckDBPyConnection, behind: str) -> None:
    text = f"PIVOT s ON v USING sum(n) GROUP BY id {behind}"
    assert [*connection.sql(text).to_pylist()] == plain.sql(text).to_arrow_table().to_pylist()


REFUSED = [
    (("UPDATE t SET n = row_number() OVER ()",), "'row_number.. OVER ..' is computed from several rows"),
    (("UPDATE t SET n = CASE WHEN n > 1 THEN unnest([1, 2]) END",), "'unnest.*' is computed from several rows"),
    (("UPDATE s SET n = unnest([1, 2])",), "'unnest.*' is computed from several rows"),
    (("UPDATE s SET n = generate_subscripts([5, 6], 1)",), "'generate_subscripts.*' is computed from several rows"),
    (("UPDATE t SET n = 1 + count(*)",), "'COUNT.*' is computed from several rows"),
    (("MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE SET n = sum(s.n)",), "'sum.*' is computed"),
    (("MERGE INTO t USING s USING (id) WHEN MATCHED AND rank() OVER () = 1 THEN DELETE",), "'(?i:rank).*' is computed"),
    (("MERGE INTO t USING s USING (id) WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a', unnest([1]))",), "is computed"),
    (("UPDATE t SET (n, v) = (1, 'a', 2)",), "2 columns and 3 values"),
    (("UPDATE t SET (n, n) = (1, 2)",), "column 'n' two values"),
    (("UPDATE t SET (n, v) = {'a': 1}",), "found values of type struct"),
    (("MERGE INTO t USING (SELECT *, 1 AS z FROM s) AS s USING (id) WHEN MATCHED THEN UPDATE BY POSITION",), "has 4"),
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
        ("MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE SET *", "write UPDATE BY NAME"),
        ("MERGE INTO t USING s USING (id) WHEN NOT MATCHED THEN INSERT *", "write INSERT BY NAME"),
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


def test_a_query_of_several_columns_in_set_names_the_way_out(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection
) -> None:
    text = "UPDATE t SET (n, v) = (SELECT n, v FROM s WHERE s.id = t.id)"
    with pytest.raises(duckdb.BinderException):
        plain.execute(text)
    with pytest.raises(UnsupportedError, match=r"one value, not 2; write UPDATE ... SET a = s.a, b = s.b FROM"):
        connection.sql(text)


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
