"""The small language of conditions: what it takes means the same in DuckDB, and other texts are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.predicate import RowTest, check_filter, parse_where, required_predicate

KINDS = {
    "i": "INT",
    "l": "BIGINT",
    "x": "DECIMAL(10, 2)",
    "f": "DOUBLE",
    "s": "STRING",
    "c": "CHAR(3)",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIME(3)",
    "ts": "TIMESTAMP(6)",
    "tz": "TIMESTAMP_LTZ(6)",
    "y": "BYTES",
}
FIELDS = [DataField(id=at, name=name, type=parse_type(kind)) for at, (name, kind) in enumerate(KINDS.items())]
ROWS = [
    (
        1,
        10,
        Decimal("1.51"),
        0.5,
        "a",
        "a  ",
        True,
        date(2026, 1, 1),
        time(10, 0),
        datetime(2026, 1, 1, 10),
        10,
        b"\x01",
    ),
    (
        2,
        -1,
        Decimal("-1.50"),
        float("nan"),
        "a%b",
        "abc",
        False,
        date(2025, 12, 31),
        time(0),
        datetime(2025, 1, 1),
        11,
        b"",
    ),
    (None, None, None, None, None, None, None, None, None, None, None, None),
    (
        5,
        5,
        Decimal("0.00"),
        float("inf"),
        "",
        "b  ",
        None,
        date(1969, 1, 1),
        None,
        datetime(2026, 1, 1, 10, 0, 1),
        12,
        None,
    ),
]

SAME = [
    "i = 1",
    "2 < i",
    "i <> 1 AND l >= -1",
    "i IN (1, 5, NULL)",
    "i NOT IN (1, 2)",
    "i BETWEEN 2 AND 5.5",
    "NOT (i = 1 OR i IS NULL)",
    "i IS NOT NULL",
    "i = 1.5",
    "x = 1.51",
    "x > 1.505",
    "x = CAST(1.505 AS DECIMAL(10, 2))",
    "f > 0.25",
    "f = 'NaN'",
    "f >= 'Infinity'",
    "s = 'a'",
    "s > 'a'",
    "s LIKE 'a%'",
    "s LIKE 'a!%b' ESCAPE '!'",
    "s NOT LIKE '_'",
    "s IN ('a', '')",
    "c = 'a  '",
    "c IN ('abc', 'b  ')",
    "c LIKE 'a%'",
    "b",
    "NOT b",
    "b = true",
    "b IS NOT TRUE",
    "d = '2026-01-01'",
    "d > DATE '2025-12-31'",
    "d BETWEEN '1969-01-01' AND '2026-1-1'",
    "t = '10:00'",
    "ts = '2026-01-01 10:00:00'",
    "ts > TIMESTAMP '2026-01-01 10:00:00.5'",
    "ts < '2026-01-01'",
    "tz = '2026-01-01 10:00:00+00:00'",
    "tz > '2026-01-01 12:00:00+01:00'",
]


def table() -> pa.Table:
    schema = to_arrow_schema(FIELDS)
    rows = [[None if value is None else value for value in row] for row in ROWS]
    for row in rows:
        row[10] = None if row[10] is None else datetime(2026, 1, 1, row[10], tzinfo=UTC)  # type: ignore[arg-type]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.table(columns, schema=schema)


@pytest.mark.parametrize("text", SAME)
def test_a_condition_holds_for_the_rows_for_which_it_holds_in_duckdb(text: str) -> None:
    rows = table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", rows)
        theirs = connection.sql(f"SELECT coalesce({text}, false) FROM given").fetchall()
    assert [(one,) for one in RowTest(parse_where(text), FIELDS).passing(rows).to_pylist()] == theirs


REFUSED = [
    ("i = '1'", "a number, without quotes"),
    ("i IN (1, '2')", "a number, without quotes"),
    ("l BETWEEN '1' AND '2'", "a number, without quotes"),
    ("x = '1.511'", "a number, without quotes"),
    ("x = '1.51'", "a number, without quotes"),
    ("f > '0.5'", "a number, without quotes"),
    ("f = 'x'", "a number, without quotes"),
    ("s = 5", "a string in quotes"),
    ("s = true", "a string in quotes"),
    ("s = DATE '2026-01-01'", "a string in quotes"),
    ("c = 'a'", "a string of 3 characters, as they are stored, such as 'a  '"),
    ("c IN ('abc', 'b')", "such as 'b  '"),
    ("c > 'abcd'", "a string of 3 characters"),
    ("c = 'a    '", "such as 'a  '"),
    ("b = 1", "true or false"),
    ("b = 'yes'", "true or false"),
    ("d = '2026-01'", "a date such as"),
    ("d = 'today'", "a date such as"),
    ("ts = '2026-01'", "a timestamp such as"),
    ("ts = '2026-01-01 10:00:00Z'", "without a zone"),
    ("y = 'a'", "bytes such as"),
    ('s = "a"', "a string for Spark and a name for DuckDB"),
    ("\"s\" <> 'a'", "a string for Spark and a name for DuckDB"),
    ("i = CAST(1.7 AS INT)", "INT needs a whole number"),
    ("length(s) = 1", "which filters cannot hold"),
    ("i + 1 = 2", "which filters cannot hold"),
    ("i = l", "which filters cannot hold"),
    ("i IN (SELECT 1)", "which filters cannot hold"),
    ("s || 'a' = 'aa'", "which filters cannot hold"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_a_text_that_engines_read_differently_is_refused_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        check_filter(parse_where(text), FIELDS)


def test_a_stored_condition_of_an_earlier_release_is_read_as_it_was() -> None:
    """Before, a table took these in `change-tracking.off-where`; a stream that writes it must go on."""
    fields = [DataField(id=0, name="n", type=parse_type("INT")), DataField(id=1, name="s", type=parse_type("STRING"))]
    rows = pa.table({"n": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    for text in ("n = '1'", 's = "a"', "n <= '1' AND s = 'a'"):
        assert RowTest.stored(text, fields).passing(rows).to_pylist() == [True, False], text
        with pytest.raises(InvalidRequestError):
            required_predicate(text, fields=fields)
