"""Decimals, times and binaries are read in the form that a schema or the connector's options declare: no guesses.

Expectations follow Debezium's documentation of `decimal.handling.mode`, `time.precision.mode` and
`binary.handling.mode`; unscaled numbers are computed here as Java's BigInteger writes them.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any  # Any: parsed JSON, and values of any column

import pytest

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.logstore.codec.foreign import ForeignRows, decode_foreign
from lakelog.logstore.codec.foreign_forms import BinaryForm, DecimalForm, ForeignForms, TimeForm
from lakelog.logstore.codec.foreign_rules import ForeignRules

PRECISE = ForeignForms()
STRING = ForeignForms(decimals=DecimalForm.STRING)
DOUBLE = ForeignForms(decimals=DecimalForm.DOUBLE)
AT = dt.datetime(2026, 1, 1, 12, 30, 15)
SECONDS = 1_767_270_615
COUNTS = [1, 100]  # the second is read in columns


def decoded(kind: str, value: Any, forms: ForeignForms, count: int = 1, schema: Any = None) -> ForeignRows:
    record = {"before": None, "after": {"id": 1, "v": value}, "source": {}, "op": "c"}
    if schema is not None:
        fields = [{"type": "int32", "field": "id"}, {**schema, "field": "v"}]
        image = {"type": "struct", "fields": fields, "field": "after"}
        envelope = {"type": "struct", "fields": [image, {"type": "string", "field": "op"}]}
        record = {"schema": envelope, "payload": record}
    text = json.dumps(record, separators=(",", ":")).encode()
    rules = ForeignRules(fields=parse_ddl(f"id INT NOT NULL, v {kind}"), key_fields=("id",), forms=forms)
    return decode_foreign([text] * count, [None] * count, rules)


def values(found: ForeignRows) -> Any:
    """The value of all rows, which are equal."""
    assert found.bad == {}
    rows = found.rows["v"].to_pylist()
    assert all(row == rows[0] for row in rows)
    return rows[0]


def unscaled(number: int) -> str:
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("text", "number"), [("12e4", "-26604.24"), ("+123", "-3036.89"), ("5e05", "-17087.43"), ("1234", "-26588.24")]
)
def test_base64_that_looks_like_a_number_is_base64(text: str, number: str, count: int) -> None:
    assert unscaled(int(Decimal(number) * 100)) == text
    for kind, value, expected in nested(text, Decimal(number)):
        assert values(decoded(kind, value, PRECISE, count)) == expected


def nested(value: Any, expected: Any, leaf: str = "DECIMAL(18, 2)") -> list[tuple[str, Any, Any]]:
    """A value in a column, and in each nested type."""
    return [
        (leaf, value, expected),
        (f"ARRAY<{leaf}>", [value, None], [expected, None]),
        (f"STRUCT<a {leaf}>", {"a": value}, {"a": expected}),
        (f"MAP<STRING, {leaf}>", {"a": value}, [("a", expected)]),
        (f"ARRAY<STRUCT<a ARRAY<{leaf}>>>", [{"a": [value]}], [{"a": [expected]}]),
    ]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("text", ["1234", "20240101", "12.5", "-7", "1e3", "0000"])
def test_numbers_as_text_are_text(text: str, count: int) -> None:
    for kind, value, expected in nested(text, Decimal(text), "DECIMAL(30, 4)"):
        assert values(decoded(kind, value, STRING, count)) == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("forms", "value"),
    [
        (PRECISE, "12.50"),
        (PRECISE, "-5"),
        (PRECISE, ""),
        (PRECISE, "Infinity="),
        (STRING, "AMg="),
        (STRING, "Infinity"),
        (STRING, "NaN"),
        (STRING, ""),
        (DOUBLE, "1234"),
        (DOUBLE, "AMg="),
    ],
)
def test_a_decimal_of_another_form_is_bad(forms: ForeignForms, value: str, count: int) -> None:
    for kind, given, _ in nested(value, None, "DECIMAL(30, 4)"):
        found = decoded(kind, given, forms, count)
        assert len(found.bad) == count
        assert "column 'v'" in found.bad[0]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("forms", [PRECISE, STRING, DOUBLE])
def test_a_number_and_a_scale_of_its_own_need_no_option(forms: ForeignForms, count: int) -> None:
    for kind, value, expected in nested(12.5, Decimal("12.50")):
        assert values(decoded(kind, value, forms, count)) == expected
    for kind, value, expected in nested({"scale": 1, "value": unscaled(125)}, Decimal("12.50")):
        assert values(decoded(kind, value, forms, count)) == expected


def test_the_schema_decides_against_the_option() -> None:
    text = {"type": "string"}
    base = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    for schema, value, expected, forms in (
        (text, "1234", Decimal(1234), PRECISE),
        (base, "1234", Decimal("-26588.24"), STRING),
    ):
        column = decoded("DECIMAL(18, 2)", value, forms, schema=schema)
        assert values(column) == expected
        array = {"type": "array", "items": schema}
        assert values(decoded("ARRAY<DECIMAL(18, 2)>", [value], forms, schema=array)) == [expected]
        struct = {"type": "struct", "fields": [{**schema, "field": "a"}]}
        assert values(decoded("STRUCT<a DECIMAL(18, 2)>", {"a": value}, forms, schema=struct)) == {"a": expected}
        entries = {"type": "map", "keys": text, "values": schema}
        assert values(decoded("MAP<STRING, DECIMAL(18, 2)>", {"a": value}, forms, schema=entries)) == [("a", expected)]


FACTORS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
UNITS: list[tuple[TimeForm, str, str]] = [
    (TimeForm.ADAPTIVE, "TIMESTAMP(3)", "ms"),
    (TimeForm.ADAPTIVE, "TIMESTAMP(6)", "us"),
    (TimeForm.ADAPTIVE_TIME_MICROSECONDS, "TIMESTAMP(3)", "ms"),
    (TimeForm.CONNECT, "TIMESTAMP(3)", "ms"),
    (TimeForm.CONNECT, "TIMESTAMP(6)", "ms"),
    (TimeForm.MICROSECONDS, "TIMESTAMP(3)", "us"),
    (TimeForm.NANOSECONDS, "TIMESTAMP(6)", "ns"),
]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("mode", "leaf", "unit"), UNITS)
def test_a_number_of_a_timestamp_has_the_unit_of_the_mode(mode: TimeForm, leaf: str, unit: str, count: int) -> None:
    for kind, value, expected in nested(SECONDS * FACTORS[unit], AT, leaf):
        found = decoded(kind, value, ForeignForms(times=mode), count)
        assert values(found) == expected
        assert found.seen.odd == {}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("mode", "unit"),
    [
        (TimeForm.ADAPTIVE, "ms"),
        (TimeForm.ADAPTIVE_TIME_MICROSECONDS, "us"),
        (TimeForm.CONNECT, "ms"),
        (TimeForm.MICROSECONDS, "us"),
        (TimeForm.NANOSECONDS, "ns"),
    ],
)
def test_a_number_of_a_time_of_day_has_the_unit_of_the_mode(mode: TimeForm, unit: str, count: int) -> None:
    for kind, value, expected in nested(14_706 * FACTORS[unit], dt.time(4, 5, 6), "TIME(3)"):
        assert values(decoded(kind, value, ForeignForms(times=mode), count)) == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("unit", FACTORS)
def test_a_unit_of_one_column_is_that_of_its_numbers(unit: str, count: int) -> None:
    paths = ("v", "v.element", "v.a", "v.value", "v.element.a.element")
    for path, (kind, value, expected) in zip(paths, nested(SECONDS * FACTORS[unit], AT, "TIMESTAMP(6)"), strict=True):
        found = decoded(kind, value, ForeignForms(times=TimeForm.ISOSTRING, units={path: unit}), count)
        assert values(found) == expected


ISO: list[tuple[str, str, Any]] = [
    ("DATE", "2017-09-15Z", dt.date(2017, 9, 15)),
    ("TIME(3)", "04:05:11.789Z", dt.time(4, 5, 11, 789_000)),
    ("TIME(3)", "04:05:11Z", dt.time(4, 5, 11)),
    ("TIMESTAMP(6)", "2017-09-15T04:05:11Z", dt.datetime(2017, 9, 15, 4, 5, 11)),
    ("TIMESTAMP(6)", "2017-09-15T04:05:11.789123Z", dt.datetime(2017, 9, 15, 4, 5, 11, 789_123)),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "2017-09-15T04:05:11Z",
        dt.datetime(2017, 9, 15, 4, 5, 11, tzinfo=dt.UTC),
    ),
]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("has_schema", [False, True])
@pytest.mark.parametrize(("leaf", "text", "time"), ISO)
def test_iso_texts_are_times(leaf: str, text: str, time: Any, has_schema: bool, count: int) -> None:
    forms = ForeignForms(times=TimeForm.ISOSTRING)
    schema = {"type": "string", "name": "io.debezium.time.Iso"} if has_schema else None
    assert values(decoded(leaf, text, forms, count, schema)) == time
    for kind, value, expected in nested(text, time, leaf):
        assert values(decoded(kind, value, forms, count)) == expected
        assert values(decoded(kind, value, PRECISE, count)) == expected  # a text is never mistaken


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("leaf", ["DATE", "TIME(3)", "TIMESTAMP(6)"])
def test_a_number_where_the_connector_writes_texts_is_bad(leaf: str, count: int) -> None:
    for kind, value, _ in nested(17_000, None, leaf):
        found = decoded(kind, value, ForeignForms(times=TimeForm.ISOSTRING), count)
        assert len(found.bad) == count
        assert "time_precision_mode='isostring' writes strings" in found.bad[0]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("leaf", "number", "unit"),
    [
        ("TIMESTAMP(6)", SECONDS * 1_000, "us"),
        ("TIMESTAMP(6)", SECONDS, "us"),
        ("TIMESTAMP(6)", -SECONDS * 1_000, "us"),
        ("TIMESTAMP(3)", SECONDS, "ms"),
        ("TIMESTAMP(6)", SECONDS * 1_000_000_000, "us"),
        ("TIMESTAMP(3)", SECONDS * 1_000_000, "ms"),
        ("TIMESTAMP(3)", SECONDS * 1_000_000_000, "ms"),
    ],
)
def test_times_near_1970_or_beyond_9999_are_noted(leaf: str, number: int, unit: str, count: int) -> None:
    for kind, value, _ in nested(number, None, leaf):
        found = decoded(kind, value, PRECISE, count)
        assert [(odd.number, odd.unit) for odd in found.seen.odd.values()] == [(number, unit)]
        assert found.seen.plain == set()


def test_a_unit_that_is_known_is_not_noted() -> None:
    schema = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    declared = decoded("TIMESTAMP(6)", SECONDS * 1_000, PRECISE, schema=schema)
    given = decoded("TIMESTAMP(6)", SECONDS * 1_000, ForeignForms(units={"v": "us"}))
    zero = decoded("TIMESTAMP(6)", 0, PRECISE)

    assert [one.seen.odd for one in (declared, given, zero)] == [{}, {}, {}]


@pytest.mark.parametrize("count", COUNTS)
def test_a_number_whose_unit_the_schema_does_not_say_is_read_by_the_option(count: int) -> None:
    plain = {"type": "int64"}
    number = SECONDS * 1_000
    forms = ForeignForms(units={"v": "ms"})

    assert values(decoded("TIMESTAMP(6)", number, forms, count, plain)) == AT
    assert list(decoded("TIMESTAMP(6)", number, PRECISE, count, plain).seen.odd) == [("v",)]


@pytest.mark.parametrize("count", COUNTS)
def test_binaries_in_nested_values_have_the_form_of_the_option(count: int) -> None:
    forms = ForeignForms(binaries=BinaryForm.HEX)
    for kind, value, expected in nested("deadbeef", b"\xde\xad\xbe\xef", "BYTES"):
        assert values(decoded(kind, value, forms, count)) == expected
