"""Row filters: DuckDB is asked the same questions, and pruning never loses a row."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.encoding.binary_row import StoredValue, serialize_row, stored_row
from lakelog.filestore.encoding.key_order import comparable
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, SimpleStats
from lakelog.filestore.predicate import (
    ColumnBounds,
    RowTest,
    bounds_of_row,
    bounds_of_stats,
    check_filter,
    columns,
    equal_rows,
    may_match,
    parse_where,
    resolved_columns,
    to_polars,
)
from tests.support.examples import examples

CONNECTION = duckdb.connect()
TYPES = {
    "i": "INT",
    "t": "TINYINT",
    "x": "DECIMAL(6, 2)",
    "f": "DOUBLE",
    "s": "STRING",
    "d": "DATE",
    "ts": "TIMESTAMP(6)",
    "b": "BOOLEAN",
}
FIELDS = [DataField(id=index, name=name, type=parse_type(text)) for index, (name, text) in enumerate(TYPES.items())]
LITERALS = {
    "i": ["-1", "0", "1", "2", "1.5", "-0.5", "3000000000", "-3000000000"],
    "t": ["0", "1", "127", "128", "-129", "1.5"],
    "x": ["0", "1.5", "1.50", "1.505", "-1.505", "9999.99", "10000", "-10000"],
    "f": ["0", "0.5", "-0.5", "1e300", "-1e300"],
    "s": ["''", "'a'", "'ab'", "'b'", "'é'", "'%'"],
    "d": ["DATE '2024-02-29'", "DATE '1969-12-31'", "DATE '2024-03-01'"],
    "ts": [
        "TIMESTAMP '2024-02-29 12:34:56.789012'",
        "TIMESTAMP '2024-02-29 00:00:00'",
        "TIMESTAMP '1969-12-31 23:59:59.999999'",
    ],
    "b": ["true", "false"],
}
VALUES: dict[str, st.SearchStrategy[object]] = {
    "i": st.sampled_from([-1, 0, 1, 2, 2_147_483_647, -2_147_483_648]),
    "t": st.sampled_from([-128, 0, 1, 127]),
    "x": st.sampled_from([Decimal(text) for text in ("0", "1.50", "1.51", "-1.50", "-1.51", "9999.99", "-9999.99")]),
    "f": st.sampled_from([0.0, -0.0, 0.5, -0.5, 1e300, float("inf"), float("-inf"), float("nan")]),
    "s": st.sampled_from(["", "a", "ab", "abc", "b", "é", "%", "a%", "a\nb", "_"]),
    "d": st.sampled_from([date(2024, 2, 29), date(1969, 12, 31), date(2024, 3, 1)]),
    "ts": st.sampled_from(
        [datetime(2024, 2, 29, 12, 34, 56, 789_012), datetime(2024, 2, 29), datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    ),
    "b": st.booleans(),
}

rows = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
tables = st.lists(rows, min_size=1, max_size=6).map(
    lambda given: pa.Table.from_pylist(given, schema=to_arrow_schema(FIELDS))
)


def _comparisons(name: str) -> st.SearchStrategy[str]:
    literal = st.sampled_from([*LITERALS[name], "NULL"])
    operator = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
    forms = [
        st.builds(lambda op, value: f"{name} {op} {value}", operator, literal),
        st.builds(lambda op, value: f"{value} {op} {name}", operator, literal),
        st.builds(lambda low, high: f"{name} BETWEEN {low} AND {high}", literal, literal),
        st.builds(lambda items: f"{name} IN ({', '.join(items)})", st.lists(literal, min_size=1, max_size=3)),
        st.builds(lambda items: f"{name} NOT IN ({', '.join(items)})", st.lists(literal, min_size=1, max_size=3)),
        st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"]),
    ]
    if name == "s":
        patterns = st.sampled_from(["'%'", "'a%'", "'_'", "'%b'", "'a_c'", "'a'", "''", "'a.%'"])
        forms.append(
            st.builds(lambda word, pattern: f"s {word} {pattern}", st.sampled_from(["LIKE", "NOT LIKE"]), patterns)
        )
    if name == "b":
        forms.append(st.sampled_from(["b", "NOT b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b IS NOT FALSE"]))
    return st.one_of(forms)


filters = st.recursive(
    st.one_of([*(_comparisons(name) for name in TYPES), st.sampled_from(["true", "false", "NULL"])]),
    lambda inner: st.one_of(
        st.builds(lambda left, right: f"({left}) AND ({right})", inner, inner),
        st.builds(lambda left, right: f"({left}) OR ({right})", inner, inner),
        st.builds(lambda part: f"NOT ({part})", inner),
    ),
    max_leaves=5,
)


def passing(table: pa.Table, sql: str) -> list[bool | None]:
    """What the filter says of each row."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    answer = frame.select(to_polars(parse_where(sql), FIELDS).alias("answer"))["answer"]
    return answer.to_list() * (table.num_rows if len(answer) < table.num_rows else 1)


@settings(deadline=None, max_examples=examples(100))
@given(table=tables, sql=filters)
def test_a_filter_says_what_duckdb_says(table: pa.Table, sql: str) -> None:
    CONNECTION.register("given", table)
    answers = CONNECTION.execute(f"SELECT cast(({sql}) AS BOOLEAN) FROM given").fetchall()
    assert passing(table, sql) == [answer for (answer,) in answers], sql


WIDE = 10**38 - 1
wide_numbers = st.one_of(
    st.integers(-WIDE, WIDE), st.sampled_from([WIDE, -WIDE, WIDE - 1, 10**28, 10**28 + 1, 10**29, 10**29 + 1])
)


@settings(deadline=None, max_examples=examples(200))
@given(
    stored=wide_numbers,
    asked=wide_numbers,
    is_near=st.booleans(),
    scale=st.sampled_from([0, 3, 38]),
    operator=st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
)
def test_numbers_of_all_38_digits_are_compared_to_the_last(
    stored: int, asked: int, is_near: bool, scale: int, operator: str
) -> None:
    asked = max(-WIDE, min(WIDE, stored + asked % 3 - 1)) if is_near else asked
    field = DataField(id=0, name="v", type=parse_type(f"DECIMAL(38, {scale})"))
    number, literal = (Decimal(f"{digits}e-{scale}") for digits in (stored, asked))
    rows = pa.table([pa.array([number], pa.decimal128(38, scale))], schema=to_arrow_schema([field]))
    expected = {
        "=": stored == asked,
        "<>": stored != asked,
        "<": stored < asked,
        "<=": stored <= asked,
        ">": stored > asked,
        ">=": stored >= asked,
    }[operator]
    where = parse_where(f"v {operator} {literal:f}")
    assert RowTest(where, [field]).passing(rows).to_pylist() == [expected]
    assert may_match(where, [field], {"v": ColumnBounds(least=number, most=number)}) is expected


def _bounds(table: pa.Table) -> dict[str, ColumnBounds]:
    least: list[StoredValue] = []
    most: list[StoredValue] = []
    counts = []
    kinds = [field.type for field in FIELDS]
    stored = [stored_row(kinds, table.columns, row) for row in range(table.num_rows)]
    for index, kind in enumerate(kinds):
        values = [row[index] for row in stored]
        present = sorted(
            (value for value in values if value is not None), key=lambda value: comparable([kind], [value])
        )
        least.append(present[0] if present else None)
        most.append(present[-1] if present else None)
        counts.append(len(values) - len(present))
    stats = SimpleStats(
        min_values=serialize_row(kinds, least), max_values=serialize_row(kinds, most), null_counts=tuple(counts)
    )
    return bounds_of_stats(FIELDS, stats, row_count=table.num_rows)


@settings(deadline=None, max_examples=examples(100))
@given(table=tables, sql=filters)
def test_pruning_never_loses_a_row(table: pa.Table, sql: str) -> None:
    where = parse_where(sql)
    answers = passing(table, sql)
    if True in answers:
        assert may_match(where, FIELDS, _bounds(table)), sql
        assert may_match(where, FIELDS, {})
    kinds = [field.type for field in FIELDS]
    for row, answer in enumerate(answers):
        values = stored_row(kinds, table.columns, row)
        alone = bounds_of_row(FIELDS, serialize_row(kinds, values))
        if answer:
            assert may_match(where, FIELDS, alone), sql
            for field, value in zip(FIELDS, values, strict=True):
                equal = equal_rows(where, FIELDS, [field.name])
                assert equal is None or (value,) in equal, sql
            combinations = equal_rows(where, FIELDS, ["i", "s"])
            assert combinations is None or (values[0], values[4]) in combinations, sql


@pytest.mark.parametrize(
    ("sql", "match"),
    [
        ("i = 5", False),
        ("i = 3", True),
        ("i > 4", False),
        ("i < 1", False),
        ("i IN (7, 8)", False),
        ("i IS NULL", False),
        ("i = 2 AND s = 'zz'", False),
        ("i = 9 OR s = 'b'", True),
        ("s LIKE 'c%'", False),
        ("s LIKE 'a%'", True),
        ("s LIKE 'b_'", True),
        ("s IS NOT NULL", True),
        ("NOT (i BETWEEN 0 AND 9)", False),
        ("f = 1", True),
        ("i = 1.5", False),
        ("false", False),
        ("i = NULL", False),
        ("d = DATE '2024-01-01'", False),
    ],
)
def test_files_that_cannot_match_are_skipped(sql: str, match: bool) -> None:
    bounds = {
        "i": ColumnBounds(least=1, most=4, may_be_null=False),
        "s": ColumnBounds(least="a", most="bz"),
        "d": ColumnBounds(may_be_present=False),
    }
    assert may_match(parse_where(sql), FIELDS, bounds) is match


def test_equal_values_are_found_where_they_are_few() -> None:
    def values(sql: str, name: str = "i") -> tuple[StoredValue, ...] | None:
        found = equal_rows(parse_where(sql), FIELDS, [name])
        return None if found is None else tuple(value for (value,) in found)

    assert values("i = 3") == (3,)
    assert values("i IN (1, 2, 2, NULL) AND b") == (1, 2)
    assert values("i IN (1, 2) AND i IN (2, 3)") == (2,)
    assert values("i = 1 OR i = 2") == (1, 2)
    assert values("i = 1 OR s = 'a'") is None
    assert values("i > 1") is None
    assert values("i = 1.5") == values("i = NULL") == values("false") == ()
    assert values("f = 0", "f") is None
    assert equal_rows(parse_where("i IN (1, 2) AND s = 'a'"), FIELDS, ["s", "i"]) == [("a", 1), ("a", 2)]
    assert equal_rows(parse_where("i = 1"), FIELDS, ["s", "i"]) is None
    many = ", ".join(map(str, range(2_000)))
    assert equal_rows(parse_where(f"i IN ({many})"), FIELDS, ["i"]) is None


def test_statistics_without_counts_or_of_other_columns_prune_little() -> None:
    kinds = [parse_type("INT")]
    unknown = SimpleStats(
        min_values=serialize_row(kinds, [None]), max_values=serialize_row(kinds, [None]), null_counts=None
    )
    assert may_match(parse_where("i = 3"), FIELDS, bounds_of_stats(FIELDS[:1], unknown, row_count=3))
    assert bounds_of_stats(FIELDS[:1], EMPTY_STATS, row_count=3) == {}


MOMENTS = [
    DataField(id=index, name=name, type=parse_type(text))
    for index, (name, text) in enumerate(
        {
            "d": "DATE",
            "n": "TIMESTAMP(6)",
            "z": "TIMESTAMP_LTZ(3)",
            "s": "TIMESTAMP(0)",
            "t9": "TIMESTAMP(9)",
            "tm": "TIME(3)",
        }.items()
    )
]


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("d = '2024-01-02'", True),
        ("d = '2024-01-02 10:00:00'", True),
        ("d < TIMESTAMP '2024-01-02 10:00:00'", True),
        ("d = TIMESTAMP '2024-01-02 10:00:00'", False),
        ("n = '2024-01-02T03:04:05.678901'", True),
        ("n > '2024-01-02'", True),
        ("n < TIMESTAMP '2024-01-02 03:04:05.6789011'", True),
        ("z = '2024-01-02 04:04:05.678+01:00'", True),
        ("z = TIMESTAMP '2024-01-02 03:04:05.678Z'", True),
        ("z = '2024-01-02 04:04:05.678 Europe/Berlin'", True),
        ("z = TIMESTAMP '2024-01-02 03:04:05.678'", True),
        ("s = '2024-01-02 03:04:05'", True),
        ("s < '2024-01-02 03:04:05.1'", True),
        ("t9 = '2024-01-02 03:04:05.678901234'", True),
        ("tm = '03:04:05.678'", True),
        ("tm BETWEEN '03:04' AND '03:05'", True),
        ("tm > '23:59:59'", False),
    ],
)
def test_dates_and_times_compare_exactly(sql: str, answer: bool) -> None:
    nanos = 1_704_164_645_678_901_234
    stored = [
        19_724,
        nanos // 1_000,
        nanos // 1_000_000,
        nanos // 1_000_000_000,
        nanos,
        nanos // 1_000_000 % 86_400_000,
    ]
    arrays = [
        pa.array([value], pa.int32() if field.type.bit_width == 32 else pa.int64()).view(field.type)
        for value, field in zip(stored, to_arrow_schema(MOMENTS), strict=True)
    ]
    frame = pl.from_arrow(pa.table(arrays, schema=to_arrow_schema(MOMENTS)))
    assert isinstance(frame, pl.DataFrame)
    assert frame.select(to_polars(parse_where(sql), MOMENTS)).to_series().to_list() == [answer]


def test_a_zone_says_where_clocks_of_literals_stand() -> None:
    frame = pl.DataFrame({"z": [datetime(2024, 7, 1, 10)]}).cast(pl.Datetime("ms", "UTC"))
    where = parse_where("z = TIMESTAMP '2024-07-01 12:00:00'", zone="Europe/Berlin")
    assert frame.filter(to_polars(where, MOMENTS)).height == 1


def test_bytes_floats_and_escapes_compare_as_spark_has_it() -> None:
    fields = [DataField(id=0, name="y", type=parse_type("BYTES")), DataField(id=1, name="r", type=parse_type("FLOAT"))]
    frame = pl.DataFrame({"y": [b"\xab", b"\xab\x00"], "r": [0.1, float("nan")]}, schema_overrides={"r": pl.Float32})

    def kept(sql: str) -> int:
        return frame.filter(to_polars(parse_where(sql), fields)).height

    assert (kept("y = X'AB'"), kept("y > X'AB'"), kept("y = X''")) == (1, 1, 0)
    assert (kept("r >= 'NaN'"), kept("r < 'Infinity'")) == (1, 1)  # as the refusal of a cast says
    assert (kept("r = 0.1"), kept("r < 0.11"), kept("r > 1e300")) == (
        0,
        1,
        1,
    )  # 0.1 as FLOAT is not 0.1; NaN is largest
    texts = pl.DataFrame({"s": ["50%", "50x", "a_c", "abc", "it's", "a\\b"]})
    for sql, wanted in {
        r"s LIKE '50\\%'": ["50%"],
        "s LIKE 'a!_c' ESCAPE '!'": ["a_c"],
        "s NOT LIKE '%!%%' ESCAPE '!'": ["50x", "a_c", "abc", "it's", "a\\b"],
        "S = 'it''s'": ["it's"],
        "`s` <=> 'abc'": ["abc"],
    }.items():
        assert texts.filter(to_polars(parse_where(sql), FIELDS))["s"].to_list() == wanted, sql


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("zz = 1", "names column 'zz', which does not exist; the columns are i, t, x, f, s, d, ts, b"),
        ("s = 1", r"column 's' \(STRING\) with the number 1; expected a string in quotes"),
        ("i = 'x'", r"column 'i' \(INT\) with the string x; expected a number"),
        ("i = CAST('NaN' AS DOUBLE)", "the number CAST\\('NaN' AS DOUBLE\\) in the filter is not usable"),
        ("f > CAST('NaN' AS DOUBLE)", "without a cast: x >= 'NaN', x < 'Infinity'"),
        ("f = DOUBLE '-Infinity'", "without a cast: x >= 'NaN', x < 'Infinity'"),
        ("d = 5", "expected a date or time in quotes"),
        ("d = '2024-02-30'", "expected a date such as '2026-01-31'"),
        ("ts = '2024-01-01 00:00:00Z'", "expected a timestamp such as '2026-01-31 23:59:59', without a zone"),
        ("ts = '25:00'", "expected a timestamp"),
        ("b = 3", "expected true or false"),
        ("i LIKE 'a'", r"LIKE needs a string; column 'i' has the type INT"),
        (r"s LIKE 'a\\'", "has .* before None"),
    ],
)
def test_a_filter_that_does_not_fit_the_columns_says_why(sql: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check_filter(parse_where(sql), FIELDS)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "is not a SQL condition"),
        ("i =", "is not a SQL condition"),
        ("i = 1; DROP TABLE t", "is not a SQL condition"),
        ("SELECT 1", "is not a SQL condition"),
        ("lower(s) = 'x'", r"holds .*LOWER\(s\)"),
        ("i + 1 = 2", "which filters cannot hold"),
        ("i = x", "which filters cannot hold"),
        ("i IN (SELECT 1)", "which filters cannot hold"),
        ("s RLIKE 'a'", "which filters cannot hold"),
        ("r.x = 1", "filters take whole columns"),
        ("ts > now()", "which filters cannot hold"),
        ("5", "which filters cannot hold"),
    ],
)
def test_what_is_no_filter_is_quoted(sql: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        parse_where(sql)


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("i = CAST(1.0 AS INT)", [1]),
        ("i = CAST(-1 AS BIGINT)", [-1]),
        ("i > CAST(0 AS SMALLINT)", [1]),
        ("i IN (CAST('1' AS TINYINT), CAST(5 AS INT))", [1]),
        ("x = CAST(0.26 AS DECIMAL(3, 1))", [1]),
        ("x = CAST(-0.25 AS DECIMAL(38, 1))", [-1]),
        ("x = CAST(0.26 AS DECIMAL)", [0]),
        ("f = 0.3", []),
        ("f = 0.3F", [1]),
        ("f = CAST(0.3 AS FLOAT)", [1]),
        ("g = 0.3F", []),
        ("g = 0.3D", [1]),
        ("d = DATE ' 2026-01-31'", [1]),
        ("d = CAST(' 2026-01-03 12:00:00' AS DATE)", [-1]),
        ("d = DATE '2026-1-3'", [-1]),
    ],
)
def test_a_cast_literal_is_what_spark_makes_of_it(sql: str, answer: list[int]) -> None:
    kinds = {"i": "INT", "x": "DECIMAL(38, 1)", "f": "FLOAT", "g": "DOUBLE", "d": "DATE"}
    fields = [DataField(id=index, name=name, type=parse_type(text)) for index, (name, text) in enumerate(kinds.items())]
    rows = [
        {"i": -1, "x": Decimal("-0.3"), "f": -0.3, "g": -0.3, "d": date(2026, 1, 3)},
        {"i": 0, "x": Decimal(0), "f": 0.0, "g": 0.0, "d": date(2026, 1, 4)},
        {"i": 1, "x": Decimal("0.3"), "f": 0.3, "g": 0.3, "d": date(2026, 1, 31)},
    ]
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(fields))

    passing = RowTest(parse_where(sql), fields).passing(table)

    assert table.filter(passing)["i"].to_pylist() == answer


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("i = CAST('1.7' AS INT)", "INT needs a whole number"),
        ("i = CAST(1.7 AS INT)", "INT needs a whole number"),
        ("i = CAST(300 AS TINYINT)", "does not fit into TINYINT"),
        ("t = 257Y", "the number 257Y in the filter is not usable: it does not fit into TINYINT"),
        ("i = 1.5L", "must have only digits before it"),
        ("x = CAST(1000 AS DECIMAL(5, 2))", "does not fit into DECIMAL"),
        ("x = CAST(1 AS DECIMAL(39, 2))", "up to 38 digits"),
        ("x = CAST(1 AS DECIMAL(1, 2, 3))", "precision and scale"),
        ("f = CAST(1e39 AS FLOAT)", "does not fit into FLOAT"),
        ("d = DATE '2026-01-311'", "expected a date"),
        ("d = DATE '2026-01-31junk'", "expected a date"),
        ("z = TIMESTAMP '2026-01-31 00:00:00+99:99'", "expected a timestamp"),
        ("z = TIMESTAMP '2026-01-31 00:00:00-18:01'", "expected a timestamp"),
    ],
)
def test_a_literal_that_its_type_cannot_hold_says_why(sql: str, message: str) -> None:
    zoned = DataField(id=99, name="z", type=parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    with pytest.raises(InvalidRequestError, match=message):
        check_filter(parse_where(sql), [*FIELDS, zoned])


def test_a_nested_column_can_only_be_asked_for_null() -> None:
    fields = [DataField(id=0, name="a", type=parse_type({"type": "ARRAY", "element": "INT"}))]
    frame = pl.DataFrame({"a": [[1], None]})
    assert frame.filter(to_polars(parse_where("a IS NULL"), fields)).height == 1
    with pytest.raises(InvalidRequestError, match="filters allow only IS NULL on it"):
        check_filter(parse_where("a = 1"), fields)


def test_names_in_another_case_are_found_unless_in_doubt() -> None:
    fields = [DataField(id=index, name=name, type=parse_type("INT")) for index, name in enumerate(["a", "A", "Bee"])]
    where = parse_where("BEE = 1 AND a = 2")
    assert columns(where) == {"BEE", "a"}
    assert "Bee" in [field.name for field in resolved_columns(where, fields)]
    with pytest.raises(InvalidRequestError, match="is ambiguous: Bee, bEE"):
        check_filter(parse_where("bee = 1"), [*fields, DataField(id=3, name="bEE", type=parse_type("INT"))])


def test_a_filter_travels_to_other_processes() -> None:
    where = parse_where("i = 1 AND (s LIKE 'a%' OR x IN (1.5, NULL)) AND d IS NOT NULL")
    assert pickle.loads(pickle.dumps(where)) == where
