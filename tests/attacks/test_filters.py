"""Filters that are long, deep or nonsense: a clear error or the right rows, and soon."""

from __future__ import annotations

import functools
import operator
import random
import time

import polars as pl
import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.predicate import ColumnBounds, RowTest, equal_rows, may_match, parse_where
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_polars
from tests.support.tables.small_tables import append_rows

ROWS = 1_000
VALUES = 100_000
TYPES = {
    "i": "INT",
    "l": "BIGINT",
    "x": "DECIMAL(38, 3)",
    "f": "DOUBLE",
    "s": "STRING",
    "y": "BYTES",
    "b": "BOOLEAN",
    "d": "DATE",
    "ts": "TIMESTAMP(6)",
}
FIELDS = [DataField(id=index, name=name, type=parse_type(text)) for index, (name, text) in enumerate(TYPES.items())]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """A thousand rows with a number and its text."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    schema = build_schema(columns, primary_keys=["id"], options={"bucket": "2"})
    table = FileStoreTable.create(tmp_path_factory.mktemp("filters") / "t", schema, LocalFileIO(sync_data=False))
    append_rows(table, pa.table([list(range(ROWS)), [str(number) for number in range(ROWS)]], schema=columns))
    return table


def found(table: FileStoreTable, where: str) -> list[int]:
    """The ids of the rows that pass."""
    ids: list[int] = sorted(table.to_arrow(columns=["id"], where=where)["id"].to_pylist())
    return ids


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (f"id IN ({', '.join(str(number * 3) for number in range(VALUES))})", range(0, ROWS, 3)),
        (f"id NOT IN ({', '.join(str(number * 3) for number in range(VALUES))})", [n for n in range(ROWS) if n % 3]),
        ("name IN ('" + "', '".join(str(number * 3) for number in range(VALUES)) + "')", range(0, ROWS, 3)),
    ],
    ids=["in", "not in", "texts"],
)
def test_a_list_of_100_000_values_takes_seconds_at_most(table: FileStoreTable, where: str, wanted: range) -> None:
    assert found(table, where) == list(wanted)
    took: list[float] = []
    while len(took) < 3 and min(took, default=10) >= 10:
        start = time.process_time()
        found(table, where)
        took.append(time.process_time() - start)
    assert min(took) < 10, took  # compared value by value it takes minutes


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (" OR ".join(f"id = {number}" for number in range(0, 8_000, 2)), range(0, ROWS, 2)),
        (" AND ".join(f"id <> {number}" for number in range(0, 8_000, 2)), range(1, ROWS, 2)),
        (" AND ".join(f"id >= {number - 4_900}" for number in range(5_000)), range(99, ROWS)),
        (" OR ".join(f"(id = {number} AND name <> 'x')" for number in range(0, 4_000, 2)), range(0, ROWS, 2)),
        ("NOT (" + " OR ".join(f"id < {number - 4_900}" for number in range(5_000)) + ")", range(99, ROWS)),
        ("(" * 60 + "id < 3" + ")" * 60, range(3)),
        ("NOT " * 5_000 + "id < 3", range(3)),
        ("id < " + "- " * 5_000 + "3", range(3)),
        ("id BETWEEN 1 AND 3 " + "/* much */ " * 10_000, range(1, 4)),
    ],
    ids=["or", "and", "comparisons", "mixed", "not", "parentheses", "nots", "signs", "comments"],
)
def test_long_filters_find_their_rows(table: FileStoreTable, where: str, wanted: range) -> None:
    assert found(table, where) == list(wanted)


def test_a_long_chain_in_a_lazy_frame_finds_its_rows(table: FileStoreTable) -> None:
    chain = functools.reduce(operator.or_, [pl.col("id") == number for number in range(0, 1_200, 2)])
    assert to_polars(table).filter(chain).collect()["id"].sort().to_list() == list(range(0, ROWS, 2))


@pytest.mark.parametrize(
    "where",
    [
        "(" * 3_000 + "id = 1" + ")" * 3_000,
        "NOT (" * 3_000 + "id = 1" + ")" * 3_000,
        "id IN " + "(" * 3_000 + "1" + ")" * 3_000,
        "(" * 100_000,
        ")" * 100_000,
        "id = 1e999999999",
        "id = '1e999999999'",
        "id IN (1, 1e999999999)",
        "id = 1e99999999999999999999999",
        "id = " + "9" * 1_000_000,
        "id = 1e-999999999",
        "name = X'ABC'",
        "name = X'zz'",
        "name = '\ud800'",
        "name = '\\ud800'",
        "name = '\\U00110000'",
        "name = 'never closed",
        "`id = 1",
        "id = CAST(",
        "id IN (1, 2",
        "id IN (" + "1," * 50_000,
        "name LIKE '%' ESCAPE ''",
        "id = NaN",
        "id = 'nan'",
        "\x00",
        "id = 1 AND" * 5_000,
    ],
    ids=lambda where: repr(where[:20]),
)
def test_invalid_filters_are_errors(table: FileStoreTable, where: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^.{10,1500}$"):
        found(table, where)


PIECES = (
    *TYPES, "`i`", "nope", "(", "(", ")", ")", ",", "AND", "OR", "NOT", "!", "IN (", "NOT IN (", "BETWEEN", "LIKE",
    "ESCAPE", "IS", "NULL", "TRUE", "=", "<>", "<=", ">", "<=>", "1", "-1", "1.5", "1e300", "1e400", "9" * 30, "1L",
    "''", "'a'", "'1'", "'%_'", "'\\\\'", "'2024-02-30'", "'2024-01-01 10:00:00'", "X'00'", "X'0'", "DATE '2024-01-01'",
    "TIMESTAMP '9999-12-31 23:59:59'", "CAST(", "AS INT)", "'", '"', "--", "/*", "*/", ";", ".", "é", "\ud800", "nan",
)  # fmt: skip


FITTING = {
    "i": ("1", "-1", "1.5", "3000000000"),
    "l": ("1", "9223372036854775808", "1e18"),
    "x": ("1", "1.0005", "9" * 38),
    "f": ("1", "1e300", "'nan'"),
    "s": ("''", "'a'", "'%_'"),
    "y": ("X'00'", "X''"),
    "b": ("TRUE", "FALSE", "'true'"),
    "d": ("DATE '2024-01-01'", "'2024-01-01 10:00:00'"),
    "ts": ("TIMESTAMP '9999-12-31 23:59:59'", "'2024-01-01'"),
}


def _filter(chance: random.Random) -> str:
    """Words in any order, or a condition with some of them changed."""
    if chance.random() < 0.3:
        return " ".join(chance.choices(PIECES, k=chance.randint(1, 12)))
    parts: list[str] = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(tuple(TYPES))
        words = [name, chance.choice(("=", "<", ">=", "<>", "IN (", "NOT IN (")), chance.choice(FITTING[name])]
        words += [")"] if words[1].endswith("(") else []
        if chance.random() < 0.1:
            words[chance.randrange(len(words))] = chance.choice(PIECES)
        parts += [*words, chance.choice(("AND", "OR", "AND NOT"))]
    return " ".join(parts[:-1])


def _try_filters(seeds: range) -> int:
    """How many of the filters of seeds are conditions over the columns."""
    schema = to_arrow_schema(FIELDS)
    table = pa.Table.from_pylist([{"i": 1, "s": "a", "b": True, "f": 1.0}, {"l": 1, "y": b"a"}], schema=schema)
    good = 0
    for seed in seeds:
        text = _filter(random.Random(seed))
        try:
            where = parse_where(text)
            RowTest(where, FIELDS).passing(table)
            may_match(where, FIELDS, {"i": ColumnBounds(least=0, most=5), "s": ColumnBounds(least="", most="z")})
            equal_rows(where, FIELDS, ["i", "s"])
        except LakelogError:
            continue
        except Exception as error:  # noqa: BLE001 - what must not come is reported with the seed
            pytest.fail(f"seed {seed}, {text!r}: {error!r}")
        good += 1
    return good


@pytest.mark.parametrize("pattern", ["_" * 100_000, "%_" * 10_000, "%a" * 200_000])
def test_a_pattern_of_too_many_wildcards_is_refused(table: FileStoreTable, pattern: str) -> None:
    with pytest.raises(InvalidRequestError, match="of % and _; at most 4000 are"):
        found(table, f"name LIKE '{pattern}'")


@pytest.mark.parametrize(
    ("pattern", "wanted"), [("%" * 200_000, range(ROWS)), ("_" * 3_000, []), ("%_" * 1_900, []), ("%%7%%7%%", [77])]
)
def test_long_patterns_find_their_rows(table: FileStoreTable, pattern: str, wanted: list[int]) -> None:
    assert [number for number in found(table, f"name LIKE '{pattern}'") if number < 100 or len(wanted) > 1] == list(
        wanted
    )


def test_any_words_are_a_filter_or_a_clear_error() -> None:
    assert _try_filters(range(500)) > 50


@pytest.mark.full
def test_10_000_times_any_words_are_a_filter_or_a_clear_error() -> None:
    assert _try_filters(range(10_000)) > 1_000
