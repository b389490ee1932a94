"""A value that a column cannot hold is refused with the column and the value, and is never changed into another."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, LakelogError
from lakelog.sql import SqlConnection


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql(
        "CREATE TABLE t (k INT NOT NULL, i INT, s TINYINT, d DECIMAL(5, 2), a ARRAY<TINYINT>, "
        "f FLOAT, day DATE, at TIMESTAMP(3), v STRING, w DECIMAL(38, 0), ad ARRAY<DECIMAL(5, 2)>, aday ARRAY<DATE>, "
        "af ARRAY<FLOAT>, av ARRAY<STRING>, st STRUCT<x: DECIMAL(5, 2), days: ARRAY<DATE>>, m MAP<STRING, INT>, "
        "instant TIMESTAMP, "
        "PRIMARY KEY (k))"
    )
    made.sql("INSERT INTO t (k) VALUES (0)")
    return made


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("i", "-2.7", "'i' is INT, which cannot hold -2.7"),
        ("i", "3000000000", "'i' is INT, which cannot hold 3000000000"),
        ("i", "CAST('NaN' AS DOUBLE)", "'i' is INT, which cannot hold nan"),
        ("i", "1e30", r"'i' is INT, which cannot hold 1e\+30"),
        ("i", "'1x'", "'i' is INT, which cannot hold 1x"),
        ("f", "1e300", r"'f' is FLOAT, which cannot hold 1e\+300"),
        ("day", "'soon'", "'day' is DATE, which cannot hold soon"),
        ("day", "TIMESTAMP '2026-01-31 01:00:00'", "'day' is DATE, which cannot hold 2026-01-31 01:00:00"),
        ("at", "TIMESTAMP '2026-01-31 01:00:00.1234'", r"'at' is TIMESTAMP\(3\), which cannot hold .*\.1234"),
        ("d", "1.239", r"'d' is DECIMAL\(5, 2\), which cannot hold 1.239"),
        ("d", "CAST(1.239 AS DOUBLE)", r"'d' is DECIMAL\(5, 2\), which cannot hold 1.239"),
        ("s", "300", "'s' is TINYINT, which cannot hold 300"),
        ("s", "CAST('Infinity' AS DOUBLE)", "'s' is TINYINT, which cannot hold inf"),
        ("d", "12345.6", r"'d' is DECIMAL\(5, 2\), which cannot hold 12345.6"),
        ("d", "123456", r"'d' is DECIMAL\(5, 2\), which cannot hold 123456"),
        ("a", "[1, 300]", r"'a' is ARRAY<TINYINT>, which cannot hold \[1, 300\]"),
        ("a", "[1, 1.5]", r"'a' is ARRAY<TINYINT>, which cannot hold \[Decimal\('1.0'\), Decimal\('1.5'\)\]"),
        ("ad", "[1.5, 1.239]", r"'ad' is ARRAY<DECIMAL\(5, 2\)>, which cannot hold .*1.239'\)\]"),
        ("ad", "[1.239::DOUBLE]", r"'ad' is ARRAY<DECIMAL\(5, 2\)>, which cannot hold \[1.239\]"),
        ("aday", "[NULL, TIMESTAMP '2026-01-31 01:00:00']", r"'aday' is ARRAY<DATE>, which cannot hold \[None, .*\]"),
        ("af", "[1e300]", r"'af' is ARRAY<FLOAT>, which cannot hold \[1e\+300\]"),
        ("st", "{'x': 1.239::DOUBLE, 'days': []}", "'st' is ROW<.*>, which cannot hold {'x': 1.239, 'days': .*}"),
        ("st", "{'x': 1, 'days': ['soon']}", "'st' is ROW<.*>, which cannot hold {'x': 1, 'days': .*soon.*}"),
        ("m", "MAP {'k': 2.5}", r"'m' is MAP<.*>, which cannot hold \[\('k', Decimal\('2.5'\)\)\]"),
        ("w", str(2**127 - 1), rf"'w' is DECIMAL\(38, 0\), which cannot hold {2**127 - 1}"),
    ],
)
@pytest.mark.full
def test_a_value_that_does_not_fit_is_named(connection: SqlConnection, column: str, value: str, message: str) -> None:
    for statement, row in (
        (f"INSERT INTO t (k, {column}) SELECT 1, NULL UNION ALL SELECT 2, {value}", 2),
        (f"UPDATE t SET {column} = {value}", 1),
        (f"MERGE INTO t USING (SELECT 0 AS k) AS s USING (k) WHEN MATCHED THEN UPDATE SET {column} = {value}", 1),
    ):
        with pytest.raises(InvalidRequestError, match=f"{message}[0-9 ]*, in row {row};"):
            connection.sql(statement)
    assert connection.sql(f'SELECT "{column}" FROM t')[column].to_pylist() == [None]


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("i", "CAST(-2 AS DOUBLE)", -2),
        ("i", "'12'", 12),
        ("f", "0.1", 0.10000000149011612),
        ("d", "CAST(1.1 AS DOUBLE)", Decimal("1.10")),
        ("day", "'2026-01-31'", date(2026, 1, 31)),
        ("day", "TIMESTAMP '2026-01-31 00:00:00'", date(2026, 1, 31)),
        ("instant", "'2026-01-31 01:00:00'", datetime(2026, 1, 31, 1, tzinfo=UTC)),
        ("instant", "'2026-01-31 01:00:00+02:00'", datetime(2026, 1, 30, 23, tzinfo=UTC)),
        ("instant", "'2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC)),
        ("v", "TIMESTAMP '2026-01-31 01:00:00'", "2026-01-31 01:00:00"),
        ("v", "CAST(1 AS DOUBLE)", "1.0"),
        ("w", "sum(12345678901234567890)", Decimal("12345678901234567890")),
        ("ad", "[1, NULL]", [Decimal("1.00"), None]),
        ("ad", "[1.1::DOUBLE]", [Decimal("1.10")]),
        ("af", "[0.1]", [0.10000000149011612]),
        ("av", "[CAST(1 AS DOUBLE), NULL]", ["1.0", None]),
        ("st", "{'x': 1, 'days': ['2026-01-31']}", {"x": Decimal("1.00"), "days": [date(2026, 1, 31)]}),
        ("st", "{'days': NULL, 'X': 2.5}", {"x": Decimal("2.50"), "days": None}),
        ("m", "MAP {'k': 2.0, 'l': NULL}", [("k", 2), ("l", None)]),
    ],
)
def test_a_value_that_fits_is_stored_as_it_is(
    connection: SqlConnection, column: str, value: str, stored: object
) -> None:
    connection.sql(f"INSERT INTO t (k, {column}) SELECT 1, {value}")
    connection.sql(f"UPDATE t SET {column} = (SELECT {value}) WHERE k = 0")
    assert connection.sql(f'SELECT "{column}" FROM t')[column].to_pylist() == [stored, stored]


def test_nested_values_of_many_rows_are_stored_as_they_are(connection: SqlConnection) -> None:
    query = (
        "SELECT x + 1 AS k, CASE WHEN x % 3 > 0 THEN range(x % 4) END AS ad, "
        "CASE WHEN x % 5 > 0 THEN MAP {'k': x, 'l': NULL} END AS m FROM range(70_000) AS r(x)"
    )
    connection.sql(f"INSERT INTO t (k, ad, m) {query}")
    found = connection.sql("SELECT k, ad, m FROM t WHERE k > 0 ORDER BY k").to_pylist()
    expected = duckdb.connect().sql(f"{query} ORDER BY k").to_arrow_table().to_pylist()
    assert found == expected  # a decimal is equal to the whole number that it holds


@pytest.mark.parametrize("query", [f"SELECT {2**127 - 1} AS x", f"SELECT [{2**127 - 1}] AS x, 1 AS y"])
def test_a_table_of_a_query_holds_no_number_that_its_type_does_not(connection: SqlConnection, query: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"CREATE TABLE lake.db.made: column 'x' is .*, in row 1;"):
        connection.sql(f"CREATE TABLE made AS {query}")
    with pytest.raises(LakelogError, match="does not exist"):
        connection.sql("SELECT * FROM made")


def test_a_time_gets_into_a_column_of_times(connection: SqlConnection) -> None:
    connection.sql("CREATE TABLE times (k INT NOT NULL, at TIME(3), PRIMARY KEY (k))")
    connection.sql("INSERT INTO times VALUES (1, TIME '12:34:56.789'), (2, NULL)")
    connection.sql("UPDATE times SET at = TIME '01:02:03' WHERE k = 2")
    found = connection.sql('SELECT "at" FROM times ORDER BY k')["at"].to_pylist()
    assert found == [time(12, 34, 56, 789_000), time(1, 2, 3)]


REFUSED = """
import sys

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError

connection = lakelog.sql.connect(Catalog(sys.argv[1]))
connection.sql("CREATE DATABASE db")
connection.sql("CREATE TABLE db.t (id INT PRIMARY KEY)")
try:
    connection.sql("INSERT INTO db.t VALUES (3000000000)")
except InvalidRequestError as error:
    print(error)
"""
UNCAUGHT = f"{REFUSED.partition('try:')[0]}connection.sql('INSERT INTO db.t VALUES (3000000000)')"


def test_a_refused_value_leaves_no_engine_of_duckdb_behind(tmp_path: Path) -> None:
    """At its end a process says on stderr which connections nothing could free."""
    ended = subprocess.run([sys.executable, "-c", REFUSED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot hold 3000000000" in ended.stdout
    assert ended.stderr == ""


def test_an_error_that_ends_a_program_leaves_no_engine_of_duckdb_behind(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", UNCAUGHT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "cannot hold 3000000000" in ended.stderr.splitlines()[-1]
