"""INSERT, UPDATE and MERGE without Spark find the fields of structs by their names, at any depth."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from lakelog.sql import SqlConnection

FIRST = {"a": 2, "b": 1}


@pytest.fixture
def connection(tmp_path: Path) -> SqlConnection:
    made = lakelog.sql.connect(Catalog(tmp_path))
    pair = "STRUCT<a: INT, b: BIGINT>"
    made.sql("CREATE DATABASE db")
    made.sql("USE db")
    made.sql(f"CREATE TABLE t (id INT NOT NULL, s {pair}, l ARRAY<{pair}>, m MAP<STRING, {pair}>, PRIMARY KEY (id))")
    made.sql("INSERT INTO t VALUES (0, NULL, NULL, NULL)")
    return made


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("s", "{'b': 1, 'a': 2}", FIRST),
        ("s", "{'B': 1, 'A': 2}", FIRST),
        ("s", "struct_pack(b := 1, a := 2)", FIRST),
        ("s", "{'b': 1, 'a': NULL}", {"a": None, "b": 1}),
        ("l", "[{'b': 1, 'a': 2}, NULL]", [FIRST, None]),
        ("l", "[]", []),
        ("m", "MAP {'k': {'b': 1, 'a': 2}}", [("k", FIRST)]),
    ],
)
def test_fields_are_stored_under_their_names(
    connection: SqlConnection, column: str, value: str, stored: object
) -> None:
    connection.sql(f"INSERT INTO t (id, {column}) VALUES (1, {value})")
    connection.sql(f"INSERT INTO t (id, {column}) SELECT 2, {value}")
    connection.sql(f"UPDATE t SET {column} = {value} WHERE id = 0")
    source = f"(SELECT 3 AS id, {value} AS v)"
    connection.sql(
        f"MERGE INTO t USING {source} AS x ON t.id = x.id WHEN NOT MATCHED THEN INSERT (id, {column}) "
        "VALUES (x.id, x.v)"
    )
    assert connection.sql(f"SELECT {column} FROM t")[column].to_pylist() == [stored] * 4


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("s", "row(5, 6)", "'s' is a struct with the fields a, b, found element1, element2"),
        ("s", "{'x': 5, 'y': 6}", "'s' is a struct with the fields a, b, found x, y"),
        ("s", "{'a': 5}", "'s' is a struct with the fields a, b, found a:"),
        ("s", "{'a': 5, 'b': 6, 'c': 7}", "'s' is a struct with the fields a, b, found a, b, c"),
        ("s", "{'a': 'five', 'b': 6}", "column 's' is .*, which cannot hold {'a': 'five', 'b': 6}"),
        ("l", "[{'a': 5}]", r"'l\[\]' is a struct with the fields a, b, found a:"),
        ("l", "[5]", "column 'l' is list<.*>, found values of type list<"),
        ("m", "MAP {'k': row(5, 6)}", r"'m\.value' is a struct with the fields a, b, found element1, element2"),
    ],
)
def test_other_fields_and_other_types_are_refused(
    connection: SqlConnection, column: str, value: str, message: str
) -> None:
    for statement in (f"INSERT INTO t (id, {column}) VALUES (1, {value})", f"UPDATE t SET {column} = {value}"):
        with pytest.raises(InvalidRequestError, match=message):
            connection.sql(statement)
    assert connection.sql(f"SELECT {column} FROM t")[column].to_pylist() == [None]


@pytest.mark.parametrize("column", ["s", "l"])
def test_structs_of_different_fields_in_one_column_do_not_get_nulls(connection: SqlConnection, column: str) -> None:
    """DuckDB gives each of them the fields of all."""
    both, one = "{'a': 1, 'b': 2}", "{'a': 3}"
    rows = f"(1, {both}), (2, {one})" if column == "s" else f"(1, [{both}, {one}])"
    with pytest.raises(InvalidRequestError, match="one struct has the fields a, b, another one beside it a"):
        connection.sql(f"INSERT INTO t (id, {column}) VALUES {rows}")
