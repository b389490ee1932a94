"""BinaryRow bytes, against vectors that Paimon's own code gave and as a property over all key types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.common.types import DataType, TypeRoot, array_of, parse_type
from lakelog.filestore.encoding.binary_row import (
    StoredValue,
    decode_row,
    deserialize_row,
    encode_row,
    from_scalar,
    serialize_row,
    stored_row,
    to_scalar,
)
from lakelog.filestore.encoding.key_order import comparable, comparable_key
from tests.support.tables.column_types import scalar_types, values_of

MICROS = 1_767_323_045_678_901  # 2026-01-02 03:04:05.678901

VECTORS = [
    (("INT",), (1,), "0000000000000000 0100000000000000"),
    (("BIGINT",), (-7,), "0000000000000000 f9ffffffffffffff"),
    (("STRING",), ("abc",), "0000000000000000 6162630000000083"),
    (("INT",), (None,), "0001000000000000 0000000000000000"),
    (
        ("INT", "STRING"),
        (1, "20240514"),
        "0000000000000000 0100000000000000 0800000018000000 3230323430353134",
    ),
    (("TIMESTAMP(6)",), (MICROS,), "0000000000000000 88bf0d0010000000 2e8fa97c9b010000"),
    (("TIMESTAMP(3)",), (MICROS // 1_000,), "0000000000000000 2e8fa97c9b010000"),
    (("DECIMAL(10, 2)",), (Decimal("-12.34"),), "0000000000000000 2efbffffffffffff"),
    (
        ("DECIMAL(20, 2)",),
        (Decimal("-12.34"),),
        "0000000000000000 0200000010000000 fb2e000000000000 0000000000000000",
    ),
]


def types_of(*texts: str) -> list[DataType]:
    return [parse_type(text) for text in texts]


def test_the_worked_example_has_its_bytes() -> None:
    kinds = types_of("INT", "STRING", "INT", "BIGINT", "STRING")
    values = (1, "abc", None, 12_345_678_901, "longer than seven")
    expected = bytes.fromhex(
        "00000005 0004000000000000 0100000000000000 6162630000000083 0000000000000000 351cdcdf02000000"
        "1100000030000000 6c6f6e6765722074 68616e2073657665 6e00000000000000"
    )
    assert serialize_row(kinds, values) == expected
    assert deserialize_row(kinds, expected) == values


@pytest.mark.parametrize(("texts", "values", "expected"), VECTORS)
def test_rows_have_the_bytes_that_paimon_gives_them(
    texts: Sequence[str], values: Sequence[StoredValue], expected: str
) -> None:
    kinds = types_of(*texts)
    assert encode_row(kinds, values) == bytes.fromhex(expected)
    assert decode_row(kinds, bytes.fromhex(expected)) == tuple(values)


def test_a_row_of_no_fields_is_twelve_zero_bytes() -> None:
    assert serialize_row([], []) == bytes(12)
    assert deserialize_row([], bytes(12)) == ()


@settings(deadline=None)
@given(data=st.data())
def test_every_row_is_read_back_as_it_was(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(scalar_types, max_size=70))
    columns = [pa.array([data.draw(values_of(kind))], to_arrow_type(kind)) for kind in kinds]
    assume(not any(pa.types.is_timestamp(column.type) and _is_far(column) for column in columns))
    values = stored_row(kinds, columns, 0)
    row = serialize_row(kinds, [_whole_millis(kind, value) for kind, value in zip(kinds, values, strict=True)])
    again = deserialize_row(kinds, row)
    assert len(row) % 8 == 4
    for kind, before, after in zip(kinds, values, again, strict=True):
        assert repr(after) == repr(_whole_millis(kind, before))
        assert repr(from_scalar(kind, to_scalar(kind, before))) == repr(before)


def _is_far(column: pa.Array) -> bool:
    """True for seconds that milliseconds cannot hold."""
    value = column.cast(pa.int64())[0].as_py()
    return column.type.unit == "s" and value is not None and abs(value) > (1 << 63) // 1_000 - 1


def _whole_millis(kind: DataType, value: StoredValue) -> StoredValue:
    """TIME keeps milliseconds."""
    if kind.root is not TypeRoot.TIME or value is None:
        return value
    per_milli = {"ms": 1, "us": 1_000, "ns": 1_000_000}[to_arrow_type(kind).unit]
    assert isinstance(value, int)
    return value // per_milli * per_milli


def test_keys_sort_nulls_first_zeros_apart_and_nan_last() -> None:
    kinds = types_of("DOUBLE")
    ordered = [None, -math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan]
    assert sorted(ordered[5:] + ordered[:5], key=lambda value: comparable(kinds, [value])) == ordered


def test_strings_sort_by_their_bytes() -> None:
    kinds = types_of("STRING")
    texts = ["", "Z", "a", "a\x00", "é", "日", "😀", "\U0010ffff"]
    assert sorted(texts[4:] + texts[:4], key=lambda text: comparable(kinds, [text])) == texts


def test_a_key_sorts_column_by_column() -> None:
    kinds = types_of("INT", "STRING")
    rows: list[tuple[StoredValue, ...]] = [(None, "z"), (-1, None), (-1, "a"), (3, "")]
    keys = [serialize_row(kinds, row) for row in reversed(rows)]
    assert [deserialize_row(kinds, key) for key in sorted(keys, key=lambda key: comparable_key(kinds, key))] == rows


@pytest.mark.parametrize("damage", [b"", bytes(3), bytes(12), bytes.fromhex("00000001") + bytes(12)])
def test_bytes_that_are_no_such_row_are_corrupt(damage: bytes) -> None:
    with pytest.raises(CorruptDataError):
        deserialize_row(types_of("INT"), damage)


def test_a_text_beyond_the_end_of_the_row_is_corrupt() -> None:
    row = bytearray(serialize_row(types_of("STRING"), ["longer than seven"]))
    row[12] = 200
    with pytest.raises(CorruptDataError, match="a value ends at"):
        deserialize_row(types_of("STRING"), bytes(row))


def test_nested_types_have_no_place_in_keys() -> None:
    with pytest.raises(UnsupportedError, match="ARRAY<INT> cannot be part of a key"):
        encode_row([array_of(parse_type("INT"))], [b""])


@pytest.mark.parametrize(("text", "value"), [("TINYINT", 128), ("INT", 1 << 31), ("TIMESTAMP(0)", 1 << 60)])
def test_a_value_outside_its_type_is_named(text: str, value: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"{value} is outside the type"):
        encode_row(types_of(text), [value])
