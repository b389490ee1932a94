"""A value that a column cannot hold is refused with the column and the value, and is never changed into another."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from lakelog.sql import SqlConnection


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql("CREATE TABLE t (k INT NOT NULL, i INT, s TINYINT, d DECIMAL(5, 2), a ARRAY<TINYINT>, PRIMARY KEY (k))")
    made.sql("INSERT INTO t (k) VALUES (0)")
    return made


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("i", "-2.7", "'i' is INT, which cannot hold -2.7"),
        ("i", "3000000000", "'i' is INT, which cannot hold 3000000000"),
        ("i", "CAST('NaN' AS DOUBLE)", "'i' is INT, which cannot hold nan"),
        ("i", "1e30D", r"'i' is INT, which cannot hold 1e\+30"),
        ("s", "300", "'s' is TINYINT, which cannot hold 300"),
        ("s", "CAST('Infinity' AS DOUBLE)", "'s' is TINYINT, which cannot hold inf"),
        ("d", "12345.6", r"'d' is DECIMAL\(5, 2\), which cannot hold 12345.6"),
        ("d", "123456", r"'d' is DECIMAL\(5, 2\), which cannot hold 123456"),
        ("a", "array(1, 300)", r"'a' is ARRAY<TINYINT>, which cannot hold \[1, 300\]"),
    ],
)
def test_a_value_that_does_not_fit_is_named(connection: SqlConnection, column: str, value: str, message: str) -> None:
    for statement in (
        f"INSERT INTO t (k, {column}) SELECT 1, NULL UNION ALL SELECT 2, {value}",
        f"UPDATE t SET {column} = {value}",
    ):
        with pytest.raises(InvalidRequestError, match=message):
            connection.sql(statement)
    assert connection.sql(f"SELECT {column} FROM t")[column].to_pylist() == [None]


def test_digits_behind_the_point_of_a_double_are_cut_as_in_spark(connection: SqlConnection) -> None:
    connection.sql("UPDATE t SET i = -2.7D, s = 3.9D, d = 1.239")
    assert connection.sql("SELECT i, s, CAST(d AS STRING) AS d FROM t").to_pylist() == [{"i": -2, "s": 3, "d": "1.24"}]


def test_a_time_gets_into_a_column_of_times(connection: SqlConnection) -> None:
    connection.sql("CREATE TABLE times (k INT NOT NULL, at TIME(3), PRIMARY KEY (k))")
    connection.sql("INSERT INTO times VALUES (1, TIME '12:34:56.789'), (2, NULL)")
    connection.sql("UPDATE times SET at = TIME '01:02:03' WHERE k = 2")
    found = connection.sql("SELECT at FROM times ORDER BY k")["at"].to_pylist()
    assert found == [time(12, 34, 56, 789_000), time(1, 2, 3)]
