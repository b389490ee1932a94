"""Files, frames of Python and temporary tables beside tables: what DuckDB answers over the same rows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.sql import SqlConnection
from tests.sql.test_duckdb_forms import MADE, both, rows

OUTSIDE = pa.table({"id": [1, 7], "v": ["module", "module"]})


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlConnection:
    monkeypatch.chdir(tmp_path)
    made = lakelog.sql.connect(Catalog(tmp_path / "lake"))
    for text in ("CREATE DATABASE db", "USE db", *MADE):
        made.sql(text)
    return made


@pytest.fixture
def plain(connection: SqlConnection) -> duckdb.DuckDBPyConnection:
    """DuckDB in the same folder; `connection` sets that."""
    assert connection
    made = duckdb.connect()
    for text in ("CREATE SCHEMA db", "USE db", *MADE):
        made.execute(text)
    return made


QUERIES = [
    "FROM t",
    "FROM t SELECT id, v WHERE n > 10",
    "SELECT * EXCLUDE (v) FROM t",
    "SELECT * REPLACE (n + 1 AS n) FROM t",
    "SELECT COLUMNS('i|n') FROM t",
    "SELECT [x + 1 FOR x IN [id, n] IF x > 1] AS l FROM t",
    'SELECT "id" AS "the id", t."v" FROM "t" WHERE "v" <> \'a\'',
    'SELECT db.t.id, "db"."t".n FROM db.t',
    "SELECT t FROM t",
    "SELECT id, {'a': v, 'b': [n]}.b[1] AS b FROM t",
    "SELECT id FROM t ORDER BY ALL DESC LIMIT 50%",
    "PIVOT t ON v USING sum(n) GROUP BY id",
    "UNPIVOT (SELECT id, n FROM t) ON id, n",
    "SELECT * FROM t POSITIONAL JOIN s",
    "SELECT t.id, l.k FROM t, LATERAL (SELECT t.id + 1 AS k) AS l",
    "SELECT id, row_number() OVER (ORDER BY id) AS r FROM t QUALIFY r = 2",
    "SELECT v, count(*) AS n FROM t GROUP BY ALL",
    "TABLE t",
    "SUMMARIZE t",
    "SUMMARIZE SELECT id, n FROM t WHERE id < 3",
    "SELECT t.id, s.id AS other FROM t ASOF JOIN s ON t.id >= s.id",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM t WHERE (id, v) IN (SELECT id, v FROM t)",
    "SELECT 1_000 AS n, 'a' || 'b' AS v, 7 // 2 AS d, 2 ** 3 AS p",
    "WITH a AS MATERIALIZED (FROM t) FROM a SELECT max(id) AS id",
    "SELECT * FROM (FROM t) AS q (a, b, c)",
    "SELECT id FROM t UNION ALL BY NAME SELECT n, id FROM s",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_in_duckdbs_forms_gives_what_duckdb_gives(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, query: str
) -> None:
    both(connection, plain, query)


def test_names_in_backticks_and_in_quotes_are_names(connection: SqlConnection) -> None:
    found = connection.sql('SELECT `id`, "v" FROM `db`.`t` WHERE "v" = \'a\'')
    assert found.to_pylist() == [{"id": 1, "v": "a"}]
    connection.sql("DELETE FROM t WHERE \"v\" <> 'x' AND `n` < 20")
    assert connection.sql("SELECT id FROM t ORDER BY id")["id"].to_pylist() == [2, 4]


def test_parameters_have_names_behind_a_dollar(connection: SqlConnection, plain: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT id + $more AS id FROM t WHERE v = $v"
    found = plain.execute(text, {"more": 10, "v": "b"}).fetchall()
    assert [(one,) for one in connection.sql(text, {"more": 10, "v": "b"})["id"].to_pylist()] == found


FILES = [
    "FROM 'x.parquet'",
    'FROM "x.csv"',
    "SELECT x.id FROM 'x.parquet' AS x JOIN t ON x.id = t.id",
    "FROM read_csv('x.csv', header = true) AS r WHERE r.id = 1",
    "SELECT count(*) AS n FROM '*.parquet'",
    "SELECT content FROM read_text('x.csv')",
    "FROM read_json('x.json')",
    "FROM parquet_schema('x.parquet') SELECT name",
    "SELECT * FROM read_parquet(['x.parquet', 'x.parquet'])",
    "SELECT id FROM t WHERE id IN (SELECT id FROM 'x.parquet')",
]


@pytest.mark.parametrize("query", FILES)
def test_files_are_read_as_duckdb_reads_them(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, tmp_path: Path, query: str
) -> None:
    pq.write_table(OUTSIDE, tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("id,v\n1,one\n2,two\n")
    (tmp_path / "x.json").write_text('{"id": 1, "v": [1, 2]}\n')
    both(connection, plain, query)


def test_the_rows_of_a_file_are_stored(connection: SqlConnection, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [8], "v": ["file"]}), tmp_path / "x.parquet")
    connection.sql("INSERT INTO t BY NAME FROM 'x.parquet'")
    connection.sql("UPDATE t SET n = 3 FROM 'x.parquet' AS x WHERE x.id = t.id")
    assert connection.sql("FROM t WHERE id = 8").to_pylist() == [{"id": 8, "v": "file", "n": 3}]


def test_a_table_is_read_where_a_file_has_its_name(connection: SqlConnection, tmp_path: Path) -> None:
    pq.write_table(OUTSIDE, tmp_path / "t")
    assert connection.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("statement", "file"),
    [
        ("COPY (SELECT * FROM t WHERE id < 3) TO 'out.parquet' (FORMAT parquet, COMPRESSION zstd)", "out.parquet"),
        ("COPY t TO 'out.csv'", "out.csv"),
        ("COPY db.t TO 'out.csv' (DELIMITER '|')", "out.csv"),
        ("COPY (FROM t) TO 'out.json'", "out.json"),
    ],
)
def test_copy_writes_the_file_that_duckdb_writes(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection, tmp_path: Path, statement: str, file: str
) -> None:
    told = connection.sql(statement)
    ours = (tmp_path / file).read_bytes()
    theirs = plain.execute(statement).fetchall()
    assert [tuple(row.values()) for row in told.to_pylist()] == theirs
    if file.endswith("parquet"):
        assert pq.read_table(tmp_path / file) == pq.read_table(pa.BufferReader(ours))
    else:
        assert (tmp_path / file).read_bytes() == ours


def test_copy_into_a_table_names_the_statement_that_does_it(connection: SqlConnection) -> None:
    with pytest.raises(UnsupportedError, match="INSERT INTO"):
        connection.sql("COPY t FROM 'x.csv'")


def test_frames_of_the_caller_are_read_by_their_names(
    connection: SqlConnection, plain: duckdb.DuckDBPyConnection
) -> None:
    arrow = pa.table({"id": [1, 5], "w": ["k", "l"]})
    pandas = pd.DataFrame({"id": [1, 2], "w": ["p", "q"]}, index=[7, 8])
    polars = pl.DataFrame({"id": [1, 3], "w": ["x", "y"]})
    lazy = polars.lazy().filter(pl.col("id") > 1)
    batch = arrow.to_batches()[0]
    assert len(lazy.collect()) + len(pandas) == 3
    for name in ("arrow", "pandas", "polars", "lazy", "OUTSIDE"):
        query = f"SELECT * FROM {name} AS f LEFT JOIN t USING (id)"
        theirs, ours = plain.sql(query), connection.sql(query)
        assert ours.column_names == theirs.columns
        columns = [column.to_pylist() for column in ours.columns]
        assert rows([*zip(*columns, strict=True)]) == rows(theirs.fetchall())
    assert connection.sql("FROM batch").num_rows == batch.num_rows
    reader = arrow.to_reader()
    found = connection.sql("SELECT count(*) AS n FROM reader AS a JOIN reader AS b USING (id)")
    assert reader
    assert found["n"].to_pylist() == [2]


def test_a_frame_changes_a_table(connection: SqlConnection) -> None:
    changes = pa.table({"id": [1, 9], "v": ["new", "more"]})
    connection.sql(
        "MERGE INTO t USING changes USING (id) WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME"
    )
    connection.sql("DELETE FROM t USING changes WHERE changes.id + 1 = t.id")
    found = connection.sql("FROM t ORDER BY id").to_pylist()
    assert changes
    assert found == [
        {"id": 1, "v": "new", "n": 10},
        {"id": 4, "v": None, "n": None},
        {"id": 9, "v": "more", "n": 7},
    ]


def test_a_table_is_read_where_a_variable_has_its_name(connection: SqlConnection) -> None:
    t = OUTSIDE
    assert t
    assert connection.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [3]


def test_variables_are_read_only_from_the_caller_and_from_what_is_given(connection: SqlConnection) -> None:
    given = pa.table({"id": [4]})
    assert connection.sql("FROM other", frames={"other": given}).to_pylist() == [{"id": 4}]
    for name, frames in (("given", {}), ("statement", None), ("text", None), ("connection", None), ("nothing", None)):
        with pytest.raises(NotFoundError):
            connection.sql(f"FROM {name}", frames=frames)
    with pytest.raises(UnsupportedError, match="a table has states"):
        connection.sql("FROM given AT (VERSION => 1)")


TEMPORARY = [
    "CREATE TEMP TABLE x AS SELECT id + 100 AS id, v FROM t",
    "INSERT INTO x VALUES (7, 'seven')",
    "INSERT INTO x (v) FROM (SELECT 'text')",
    "UPDATE x SET v = 'u' WHERE x.id = 7",
    "DELETE FROM x USING t WHERE x.id = t.id + 100 AND t.id = 1",
    "ALTER TABLE x ADD COLUMN z DOUBLE",
    "MERGE INTO x USING t ON t.id = x.id WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.v, 1.5)",
    "INSERT INTO t BY NAME SELECT id + 50 AS id FROM x WHERE id < 50",
    "CREATE TEMP TABLE IF NOT EXISTS x AS SELECT 1 AS a",
    "CREATE TEMPORARY TABLE y (id INTEGER PRIMARY KEY, l INTEGER[], v VARCHAR DEFAULT 'd')",
    "INSERT INTO y (id) VALUES (1)",
    "INSERT OR REPLACE INTO y VALUES (1, [2], 'z'), (2, [], NULL)",
    "CREATE OR REPLACE TEMP TABLE z AS FROM y",
    "DROP TABLE y",
    "TRUNCATE z",
]


def test_temporary_tables_are_duckdbs(connection: SqlConnection, plain: duckdb.DuckDBPyConnection) -> None:
    for text in TEMPORARY:
        connection.sql(text)
        plain.execute(text)
    for query in ("FROM x", "FROM t", "FROM z", "SELECT * FROM x LEFT JOIN t USING (v)"):
        both(connection, plain, query)
    assert connection.sql("SHOW TABLES")["tableName"].to_pylist() == ["s", "t"]
    with pytest.raises(NotFoundError):
        connection.sql("FROM y")
    connection.sql("CREATE TEMP TABLE t AS SELECT 1 AS only")
    connection.sql("DROP TABLE t")
    both(connection, plain, "FROM t")


def test_a_temporary_table_has_its_own_connection(connection: SqlConnection, tmp_path: Path) -> None:
    connection.sql("CREATE TEMP TABLE x AS SELECT 1 AS a")
    with pytest.raises(InvalidRequestError):
        connection.sql("CREATE TEMP TABLE x AS SELECT 2 AS a")
    other = lakelog.sql.connect(Catalog(tmp_path / "lake"))
    other.sql("USE db")
    with pytest.raises(NotFoundError):
        other.sql("FROM x")


@pytest.mark.parametrize("text", ["FROM w AT (VERSION => 1)", "SELECT * FROM w VERSION AS OF 1"])
def test_a_view_has_no_states(connection: SqlConnection, text: str) -> None:
    connection.sql("CREATE TEMPORARY VIEW w AS SELECT * FROM t")
    with pytest.raises(UnsupportedError, match="a table has states"):
        connection.sql(text)


def test_a_query_locks_nothing(connection: SqlConnection) -> None:
    with pytest.raises(UnsupportedError, match="FOR UPDATE"):
        connection.sql("SELECT * FROM t FOR UPDATE")
