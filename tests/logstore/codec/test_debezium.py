"""debezium-json in columns: what is encoded is decoded, and is what other readers expect."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.arrow import from_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.types import DataField, DataType, RowKind, map_of, parse_type
from lakelog.logstore.codec.debezium import decode_changes, encode_changes
from lakelog.logstore.codec.envelope import _read_one_by_one, _read_uniform
from lakelog.logstore.codec.json_columns import NotColumnarError
from lakelog.logstore.options import ChangelogMode
from tests.support.tables.column_types import column_types, exact_rows, fields_of, scalar_types, tables

INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)


def _fields(**types: str) -> list[DataField]:
    return [DataField(id=number, name=name, type=parse_type(text)) for number, (name, text) in enumerate(types.items())]


def _encode(rows: pa.Table, kinds: list[int] | None = None, mode: ChangelogMode = ChangelogMode.ALL) -> list[Any]:
    fields = [from_arrow_field(field) for field in rows.schema]
    codes = None if kinds is None else pa.array(kinds, pa.int8())
    return [json.loads(value) for value in encode_changes(rows, codes, fields, [rows.column_names[0]], mode).values]


@st.composite
def _changes(draw: st.DrawFn, types: st.SearchStrategy[DataType]) -> tuple[list[DataField], pa.Table, list[int]]:
    fields = draw(fields_of(types, min_size=1, max_size=4))
    rows = draw(tables(fields))
    if draw(st.booleans()):  # some keys repeat in a row, so that pairs meet
        rows = rows.take(pa.array([number // 2 for number in range(rows.num_rows)], pa.int64()))
    kinds = draw(st.lists(st.integers(0, 3), min_size=rows.num_rows, max_size=rows.num_rows))
    return fields, rows, kinds


def _logged(kinds: list[int], keys: list[str], mode: ChangelogMode) -> list[tuple[int, int]]:
    """(row, kind) as a reader of the log must see it: the law, one row at a time."""
    seen: list[tuple[int, int]] = []
    numbered = [pair for pair in enumerate(kinds) if mode is ChangelogMode.ALL or pair[1] != BEFORE]
    at = 0
    while at < len(numbered):
        row, kind = numbered[at]
        after = numbered[at + 1] if at + 1 < len(numbered) else None
        if kind == BEFORE and after is not None and after[1] == AFTER and keys[row] == keys[after[0]]:
            seen += [(row, BEFORE), (after[0], AFTER)]
            at += 2
            continue
        seen.append((row, DELETE if kind in (BEFORE, DELETE) else INSERT))
        at += 1
    return seen


@given(given_changes=_changes(column_types), mode=st.sampled_from((ChangelogMode.ALL, ChangelogMode.UPSERT)))
def test_what_is_encoded_is_decoded(
    given_changes: tuple[list[DataField], pa.Table, list[int]], mode: ChangelogMode
) -> None:
    fields, rows, kinds = given_changes
    with patch("lakelog.logstore.codec.debezium._CHUNK_ROWS", 5):
        records = encode_changes(rows, pa.array(kinds, pa.int8()), fields, [fields[0].name], mode)

    decoded, decoded_kinds = decode_changes(records.values, fields)

    keys = exact_rows(rows.select([0]))
    expected = _logged(kinds, keys, mode)
    assert decoded.schema == rows.schema
    assert decoded_kinds.to_pylist() == [kind for _, kind in expected]
    texts = exact_rows(rows)
    assert exact_rows(decoded) == [texts[row] for row, _ in expected]
    assert len(records.keys) == len(records.values)
    assert records.row_count == len(expected)


@given(given_changes=_changes(scalar_types))
def test_the_fast_and_the_slow_readers_agree(given_changes: tuple[list[DataField], pa.Table, list[int]]) -> None:
    fields, rows, kinds = given_changes
    records = encode_changes(rows, pa.array(kinds, pa.int8()), fields, [fields[0].name], ChangelogMode.ALL)
    decoded, decoded_kinds = decode_changes(records.values, fields)

    slow = _read_one_by_one(records.values, fields, str)
    assert exact_rows(slow.rows) == exact_rows(decoded)
    assert slow.kinds.tolist() == decoded_kinds.to_pylist()
    if not records.values:
        return
    spaced = [json.dumps(json.loads(value, parse_float=str)).encode() for value in records.values]
    assert len(decode_changes(spaced, [])[1]) == len(decoded_kinds)
    try:
        uniform = _read_uniform(records.values, fields)
    except NotColumnarError:
        return
    assert exact_rows(uniform.rows) == exact_rows(decoded)
    assert uniform.kinds.tolist() == decoded_kinds.to_pylist()


@given(given_changes=_changes(scalar_types))
def test_every_record_is_json_with_the_key_columns_as_key(
    given_changes: tuple[list[DataField], pa.Table, list[int]],
) -> None:
    fields, rows, kinds = given_changes
    keys = [field.name for field in fields[:2]]
    records = encode_changes(rows, pa.array(kinds, pa.int8()), fields, keys, ChangelogMode.ALL)

    for key, value in zip(records.keys, records.values, strict=True):
        envelope = json.loads(value)
        assert list(envelope) == ["before", "after", "op"]
        assert key is not None
        image = envelope["after"] or envelope["before"]
        assert json.loads(key) == {name: image[name] for name in keys}


def test_records_without_key_columns_have_no_key() -> None:
    rows = pa.table({"a": [1, 2]})

    records = encode_changes(rows, None, [from_arrow_field(field) for field in rows.schema], [], ChangelogMode.ALL)

    assert records.keys == [None, None]


def test_without_key_columns_each_row_is_a_record() -> None:
    rows = pa.table({"a": [1, 2, 3]})
    fields = [from_arrow_field(field) for field in rows.schema]

    records = encode_changes(rows, pa.array([BEFORE, AFTER, DELETE], pa.int8()), fields, [], ChangelogMode.ALL)

    assert [json.loads(value)["op"] for value in records.values] == ["d", "c", "d"]
    assert decode_changes(records.values, fields)[1].to_pylist() == [DELETE, INSERT, DELETE]


def test_an_update_with_both_images_is_one_record_and_an_image_alone_is_a_create() -> None:
    rows = pa.table({"id": [1, 1, 2, 3, 4, 4], "v": list("abcdef")})

    records = _encode(rows, [BEFORE, AFTER, AFTER, BEFORE, DELETE, INSERT])

    assert [(record["op"], record["before"], record["after"]) for record in records] == [
        ("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        ("c", None, {"id": 2, "v": "c"}),
        ("d", {"id": 3, "v": "d"}, None),
        ("d", {"id": 4, "v": "e"}, None),
        ("c", None, {"id": 4, "v": "f"}),
    ]


def test_an_update_of_another_key_is_no_pair() -> None:
    records = _encode(pa.table({"id": [1, 2]}), [BEFORE, AFTER])

    assert [record["op"] for record in records] == ["d", "c"]


def test_upsert_mode_has_no_before_images_of_updates() -> None:
    records = _encode(pa.table({"id": [1, 1, 2]}), [BEFORE, AFTER, DELETE], ChangelogMode.UPSERT)

    assert [record["op"] for record in records] == ["c", "d"]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("TIMESTAMP(3)", 1710723723962, '"2024-03-18 01:02:03.962"'),
        ("TIMESTAMP(0)", 1710723723, '"2024-03-18 01:02:03"'),
        ("TIMESTAMP(6)", 253402300800000000, '"+10000-01-01 00:00:00.000000"'),
        ("TIMESTAMP(6)", -62167219200000001, '"-0001-12-31 23:59:59.999999"'),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", 1710723723962, '"2024-03-18 01:02:03.962Z"'),
        ("DATE", 19782, '"2024-02-29"'),
        ("TIME(3)", 1, '"00:00:00.001"'),
        (
            "DECIMAL(38, 2)",
            Decimal("123456789012345678901234567890123456.78"),
            "123456789012345678901234567890123456.78",
        ),
        ("DOUBLE", float("nan"), '"NaN"'),
        ("DOUBLE", float("-inf"), '"-Infinity"'),
        ("DOUBLE", -0.0, "-0.0"),
        ("DOUBLE", 0.1, "0.1"),
        ("FLOAT", 0.1, "0.1"),
        ("BYTES", b"\xde\xad", '"3q0="'),
        ("BOOLEAN", True, "true"),
        ("STRING", 'a"\\\n\x01\u2028ü', '"a\\"\\\\\\n\\u0001\u2028ü"'),
        ("STRING", None, "null"),
    ],
)
def test_values_are_written_as_flink_reads_them(text: str, value: object, expected: str) -> None:
    fields = _fields(x=text)
    rows = pa.table([pa.array([value], to_arrow_type(fields[0].type))], names=["x"])

    records = encode_changes(rows, None, fields, [], ChangelogMode.ALL)

    assert records.values == [f'{{"before":null,"after":{{"x":{expected}}},"op":"c"}}'.encode()]


def test_tombstones_give_no_rows() -> None:
    values = [None, b'{"before":null,"after":{"id":1},"op":"c"}', None]

    rows, kinds = decode_changes(values, _fields(id="INT"))

    assert rows.to_pylist() == [{"id": 1}]
    assert kinds.to_pylist() == [INSERT]


def test_an_update_without_before_image_gives_the_new_row() -> None:
    rows, kinds = decode_changes([b'{"before":null,"after":{"id":1},"op":"u"}'], _fields(id="INT"))

    assert rows.to_pylist() == [{"id": 1}]
    assert kinds.to_pylist() == [AFTER]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "record 1 is not a debezium-json record"),
        (b"\xff", "record 1 is not a debezium-json record"),
        (b"[1]", "record 1 is not a debezium-json record"),
        (b'{"before":null,"after":{"id":1},"op":"x"}', "record 1 has the op 'x'; expected one of"),
        (b'{"before":null,"after":null,"op":"c"}', "record 1 has op 'c' and no 'after' image"),
        (b'{"before":null,"after":{"id":"one"},"op":"c"}', "record 1, column 'id': 'one' is not of the type INT"),
        (b'{"before":null,"after":{"id":2147483648},"op":"c"}', "2147483648 is not of the type INT"),
        (b'{"before":null,"after":{"id":1},"id":2},"op":"c"}', "record 1 is not a debezium-json record"),
        (b'{"before":null,"after":{"id":1}{"id":2},"op":"c"}', "record 1 is not a debezium-json record"),
    ],
)
def test_a_corrupt_record_is_named(value: bytes, message: str) -> None:
    good = b'{"before":null,"after":{"id":1},"op":"c"}'

    with pytest.raises(CorruptDataError, match=message):
        decode_changes([good, value, good], _fields(id="INT"))


def test_a_corrupt_record_is_named_by_the_callers_words() -> None:
    with pytest.raises(CorruptDataError, match="topic t-0, offset 12 is not a debezium-json record"):
        decode_changes([None, b"{"], _fields(id="INT"), name=lambda number: f"topic t-0, offset {number + 11}")


def test_a_truncation_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="record 0 truncates the table"):
        decode_changes([b'{"before":null,"after":null,"op":"t"}'], _fields(id="INT"))


def test_a_string_in_a_decimal_column_is_refused_when_it_may_be_base64() -> None:
    with pytest.raises(CorruptDataError, match="may be a number in decimal form or in base64"):
        decode_changes([b'{"before":null,"after":{"n":"1234"},"op":"c"}'], _fields(n="DECIMAL(10, 0)"))


def test_a_number_as_the_key_of_a_map_is_not_taken_for_base64() -> None:
    kind = map_of(parse_type("DECIMAL(4, 0)"), parse_type("INT"))
    fields = [DataField(id=0, name="m", type=kind)]
    rows = pa.table([pa.array([[(Decimal(1000), 1)]], to_arrow_type(kind))], names=["m"])

    records = encode_changes(rows, None, fields, [], ChangelogMode.ALL)

    assert decode_changes(records.values, fields)[0]["m"].to_pylist() == [[(Decimal(1000), 1)]]


def test_pairs_meet_over_the_chunks_that_rows_are_encoded_in(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": [number // 2 for number in range(41)], "v": list(range(41))})
    kinds = [BEFORE, AFTER] * 20
    for changed in ([*kinds, INSERT], [INSERT, *kinds], [BEFORE, *kinds]):
        whole = _encode(rows, changed)
        for chunk_rows in (1, 2, 3, 7):
            with monkeypatch.context() as patched:
                patched.setattr("lakelog.logstore.codec.debezium._CHUNK_ROWS", chunk_rows)
                assert _encode(rows, changed) == whole


def test_an_update_too_large_for_a_record_is_a_delete_and_an_insert() -> None:
    rows = pa.table({"id": [1, 1, 2, 2], "v": ["a" * 100, "b" * 100, "c" * 99, "d" * 100]})
    fields = [from_arrow_field(field) for field in rows.schema]
    kinds = pa.array([BEFORE, AFTER, BEFORE, AFTER], pa.int8())
    whole = encode_changes(rows, kinds, fields, ["id"], ChangelogMode.ALL)
    largest = max(len(key or b"") + len(value) for key, value in zip(whole.keys, whole.values, strict=True))

    cut = encode_changes(rows, kinds, fields, ["id"], ChangelogMode.ALL, update_bytes_max=largest - 1)

    assert [json.loads(value)["op"] for value in whole.values] == ["u", "u"]
    assert [json.loads(value)["op"] for value in cut.values] == ["d", "c", "u"]
    assert cut.keys == [b'{"id":1}', b'{"id":1}', b'{"id":2}']
    decoded, found = decode_changes(cut.values, fields)
    assert decoded.to_pylist() == rows.to_pylist()
    assert found.to_pylist() == [DELETE, INSERT, BEFORE, AFTER]
    fits = encode_changes(rows, kinds, fields, ["id"], ChangelogMode.ALL, update_bytes_max=largest)
    assert fits.values == whole.values
