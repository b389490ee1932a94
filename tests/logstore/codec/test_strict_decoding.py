"""What the decoder of debezium-json refuses, and by which words. Damage by seeds: tests/attacks/test_decoder.py."""

from __future__ import annotations

import time

import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import DataField, array_of, map_of, parse_type, row_of
from lakelog.logstore.codec.debezium import decode_changes
from lakelog.logstore.codec.envelope import _read_one_by_one, read_changes
from tests.support.tables.column_types import exact_rows

ID = DataField(id=0, name="id", type=parse_type("INT NOT NULL"))
GOOD = b'{"before":null,"after":{"id":1,"v":null},"op":"c"}'


def column(kind: str) -> DataField:
    return DataField(id=1, name="v", type=parse_type(kind))


def record(value: str) -> bytes:
    return f'{{"before":null,"after":{{"id":1,"v":{value}}},"op":"c"}}'.encode()


def refused(value: bytes, *fields: DataField) -> str:
    with pytest.raises(CorruptDataError) as caught:
        decode_changes([GOOD, value], [ID, *fields], name=lambda number: f"topic t, partition 0, offset {7 + number}")
    return str(caught.value)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ('{"v":5}', "column 'id': it is null or missing, and its type is INT NOT NULL"),
        ('{"ID":1,"v":5}', "column 'id': it is null or missing"),
        ('{"id":null,"v":5}', "column 'id': it is null or missing"),
        ("{}", "column 'id': it is null or missing"),
        ('{"id":1,"id":2,"v":5}', "column 'id': 'id' is there several times"),
        ('{"id":1,"v":5,"v":5}', "column 'v': 'v' is there several times"),
    ],
)
@pytest.mark.parametrize("gap", ["", " "])
def test_a_key_that_is_missing_or_there_twice_is_refused(image: str, why: str, gap: str) -> None:
    for text in (
        f'{{"before":null,"after":{image},"op":"c"}}{gap}',
        f'{{"before":{image},"after":null,"op":"d"}}{gap}',
        f'{{"before":{{"id":1,"v":5}},"after":{image},"op":"u"}}{gap}',
    ):
        assert f"topic t, partition 0, offset 8, {why}" in refused(text.encode(), column("INT"))


@pytest.mark.parametrize(
    "value",
    [
        b"\xef\xbb\xbf" + record("5"),
        record("5").replace(b'"id"', b'"\xffid"'),
        record("5").replace(b'"v"', b'"v\xc3"'),
        record("5").replace(b'"v"', b'"\xed\xa0\x80"'),
        record("5").replace(b'"v"', b'"\\ud800"'),
        record("5").decode().encode("utf-16"),
        record("5").decode().encode("utf-16-be"),
        record("5") + b"\0",
        record("5").replace(b'{"id":1,"v":5}', b'{"id":1}{"id":2}\0}'),
        record("1e99999999999999999999"),
        b"[" * 200_000,
        b"",
    ],
)
@pytest.mark.parametrize("gap", [b"", b" "])
def test_what_is_no_json_in_utf8_is_refused_by_its_offset(value: bytes, gap: bytes) -> None:
    for kind in ("INT", "STRING"):
        assert "topic t, partition 0, offset 8 is not a debezium-json record" in refused(value + gap, column(kind))


def test_a_name_that_is_no_utf8_is_refused_where_arrow_reads_the_whole_envelope() -> None:
    spaced = [one + b" " for one in (record("1"), record("5").replace(b'"v"', b'"\xff"'), GOOD)]
    with pytest.raises(CorruptDataError, match="record 1 is not a debezium-json record"):
        decode_changes(spaced, [ID, column("INT")])


@pytest.mark.parametrize("number", ["1e1000000", "-1e1000000", "1e99999999999", "9" * 400, "9" * 4_000])
@pytest.mark.parametrize(
    "kind",
    ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 0)", "DECIMAL(38, 38)", "DATE", "TIME(3)"],
)
def test_a_huge_number_is_refused_at_once(number: str, kind: str) -> None:
    started = time.process_time()
    for value in (number, f'"{number}"'):
        assert "topic t, partition 0, offset 8, column 'v': " in refused(record(value), column(kind))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", ['"1_0"', '"\uff11\uff12"', "1.5", "true", "NaN", '""']),
        ("DOUBLE", ["1e400", '"1e400"', '"1_0"', "true", '"1.5f"']),
        ("FLOAT", ["1e39", '"1e39"']),
        ("DECIMAL(20, 2)", ["Infinity", '"Infinity "', "NaN", "1.001", '"1_0.5"', "true"]),
        ("DECIMAL(38, 38)", ["1", "-7", "100"]),
        ("DATE", ['"2024-02-30"', '"\uff12\uff10\uff12\uff14-01-01"', '"99999999-01-01"', "2147483648"]),
        ("TIME(3)", ["86400000", "-1", '"24:00:00"']),
        ("TIMESTAMP(3)", ["9223372036854775808", '"2024-02-29 12:00:00+01:60"']),
        ("STRING", ["NaN", '"\\ud800"', '["\\udc00"]']),
        ("BYTES", ["Infinity", '"x"', "1"]),
        ("BOOLEAN", ["1", '"yes"', "[]"]),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, values: list[str]) -> None:
    for value in values:
        assert "topic t, partition 0, offset 8" in refused(record(value), column(kind)), value


def test_nulls_in_members_that_are_not_null_are_refused() -> None:
    texts = parse_type("STRING NOT NULL")
    row = row_of([DataField(id=2, name="a", type=texts)])
    for kind, value in (
        (array_of(texts), '["x",null]'),
        (row, "{}"),
        (row, '{"a":null}'),
        (array_of(row), '[{"a":"x"},{}]'),
        (map_of(texts, texts), '{"a":null}'),
    ):
        field = DataField(id=1, name="v", type=kind)
        assert "offset 8, column 'v': it is null or missing, and its type is STRING NOT NULL" in refused(
            record(value), field
        )


def test_strings_among_decimals_in_lists_and_spaced_records_are_read_as_base64_everywhere() -> None:
    """Arrow's parser would take a text of digits for a decimal, which is base64 where nothing else is said."""
    decimal = parse_type("DECIMAL(9, 2)")
    for kind, value in (
        (decimal, '"1234"'),
        (array_of(decimal), '[1.5,"1234"]'),
        (array_of(array_of(decimal)), '[[1.5],["1234"]]'),
    ):
        fields = [ID, DataField(id=1, name="v", type=kind)]
        for text in (record(value), record(value).replace(b'":', b'" :'), record(value).replace(b'"v"', b'"\\u0076"')):
            slow = _read_one_by_one([text], fields, str)
            assert exact_rows(read_changes([text], fields, str).rows) == exact_rows(slow.rows)
