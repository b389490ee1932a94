"""Buckets: against those that Paimon chose, and the columnar hash against a plain one over row bytes."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any  # Any: JSON values

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot, parse_type
from lakelog.filestore.encoding.binary_row import StoredValue, encode_row, stored_row
from lakelog.filestore.encoding.bucket import bucket_of, hash_of
from tests.support.tables.column_types import scalar_types, values_of

TRUTH = Path(__file__).parent.parent.parent / "conformance" / "paimon" / "bucket_truth" / "bucket_truth.jsonl.gz"
MASK = 0xFFFF_FFFF


@cache
def truth() -> dict[str, list[dict[str, Any]]]:
    cases = defaultdict(list)
    with gzip.open(TRUTH, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            cases[row["case"]].append(row)
    return dict(cases)


def fields_of(kinds: Sequence[DataType]) -> list[DataField]:
    return [DataField(id=index, name=f"k{index}", type=kind) for index, kind in enumerate(kinds)]


def _column(kind: DataType, texts: Sequence[Any]) -> pa.Array:
    arrow_type = to_arrow_type(kind)
    match kind.root:
        case TypeRoot.DECIMAL:
            return pa.array([Decimal(text) for text in texts], arrow_type)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return pa.array([bytes.fromhex(text) for text in texts], arrow_type)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return pa.array([float(text) for text in texts], arrow_type)
        case TypeRoot.DATE:
            return pa.array([date.fromisoformat(text) for text in texts], arrow_type)
        case TypeRoot.TIME:
            return pa.array([time.fromisoformat(text) for text in texts], arrow_type)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return pa.array([text.rstrip("Z") for text in texts]).cast(pa.timestamp(arrow_type.unit)).cast(arrow_type)
        case _:
            return pa.array(texts, arrow_type)


def _fits(kind: DataType, value: Any) -> bool:
    """Arrow's nanoseconds go from 1677 to 2262 only."""
    return kind.precision != 9 or "1678" <= value[:4] < "2262"


@pytest.mark.parametrize("case", sorted(truth()))
def test_rows_go_where_paimon_put_them(case: str) -> None:
    rows = truth()[case]
    kinds = [parse_type(text) for text in rows[0]["types"]]
    rows = [row for row in rows if all(_fits(kind, key) for kind, key in zip(kinds, row["key"], strict=True))]
    fields = fields_of(kinds)
    columns = [_column(field.type, [row["key"][index] for row in rows]) for index, field in enumerate(fields)]
    table = pa.table(columns, names=[field.name for field in fields])
    function = case.rpartition("_")[2]

    buckets = bucket_of(table, fields, 7, function if function in ("mod", "hive") else "default")

    assert len(rows) > 50
    assert buckets.tolist() == [row["bucket"] for row in rows]


@pytest.mark.parametrize(
    ("texts", "values", "expected"),
    [
        (("INT", "STRING", "INT", "BIGINT", "STRING"), (1, "abc", None, 12345678901, "longer than seven"), 1595573210),
        (("INT",), (1,), 1465514398),
        (("INT",), (2,), 1340390384),
        (("INT",), (3,), -771300025),
        (("BIGINT",), (-7,), 1145478327),
        (("STRING",), ("abc",), -101922419),
        (("STRING",), ("longer than seven",), -856490772),
        (("INT",), (None,), -1748325344),
        (("INT", "STRING"), (1, "20240514"), -1950197722),
        (("TIMESTAMP(6)",), (1_767_323_045_678_901,), 1653032685),
        (("TIMESTAMP(3)",), (1_767_323_045_678,), -1190473389),
        (("DECIMAL(10, 2)",), (Decimal("-12.34"),), 808378434),
        (("DECIMAL(20, 2)",), (Decimal("-12.34"),), 809605724),
    ],
)
def test_hashes_are_those_of_paimon(texts: Sequence[str], values: Sequence[Any], expected: int) -> None:
    kinds = [parse_type(text) for text in texts]
    columns = [pa.array([value], to_arrow_type(kind)) for kind, value in zip(kinds, values, strict=True)]
    assert hash_of(columns, kinds).tolist() == [expected]


@settings(deadline=None)
@given(data=st.data())
def test_the_columnar_hash_is_the_hash_of_the_row_bytes(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(scalar_types, min_size=1, max_size=60))
    count = data.draw(st.integers(0, 5))
    start = data.draw(st.integers(0, count))
    columns = [
        pa.array(data.draw(st.lists(values_of(kind), min_size=count, max_size=count)), to_arrow_type(kind))[start:]
        for kind in kinds
    ]
    rows = [stored_row(kinds, columns, row) for row in range(count - start)]
    assert hash_of(columns, kinds).tolist() == [_signed(_murmur(_java_row(kinds, row))) for row in rows]


def _java_row(kinds: Sequence[DataType], values: Sequence[StoredValue]) -> bytes:
    """The row as Java's writers make it: a null with room in the variable part keeps offset and zeros."""
    stand_ins = [_stand_in(kind) if value is None else value for kind, value in zip(kinds, values, strict=True)]
    row = bytearray(encode_row(kinds, stand_ins))
    slots = (len(kinds) + 63 + 8) // 64 * 8
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if value is None:
            row[(index + 8) // 8] |= 1 << (index + 8) % 8
            at = slots + 8 * index
            if kind.root is TypeRoot.DECIMAL and (kind.precision or 0) > 18:
                row[at : at + 4] = bytes(4)
            elif stand_ins[index] is None:
                row[at : at + 8] = bytes(8)
    return bytes(row)


def _stand_in(kind: DataType) -> StoredValue:
    """A value whose bytes are those of a null that keeps its room; None where a null keeps none."""
    if kind.root is TypeRoot.DECIMAL and (kind.precision or 0) > 18:
        return Decimal(0)
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) and (kind.precision or 0) > 3:
        return 0
    return None


def _murmur(data: bytes) -> int:
    hashed = 42
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & MASK
        hashed ^= ((word << 15 | word >> 17) & MASK) * 0x1B873593 & MASK
        hashed = ((hashed << 13 | hashed >> 19) & MASK) * 5 + 0xE6546B64 & MASK
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    return hashed ^ hashed >> 16


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


@settings(deadline=None)
@given(unscaled=st.integers(-(10**18) + 1, 10**18 - 1), scale=st.integers(0, 18))
def test_hive_hashes_a_decimal_alike_in_narrow_and_wide_columns(unscaled: int, scale: int) -> None:
    value = Decimal(f"{unscaled}E-{scale}")
    narrow, wide = (fields_of([DataType(root=TypeRoot.DECIMAL, precision=p, scale=scale)]) for p in (18, 38))
    buckets = [
        bucket_of(pa.table({"k0": pa.array([value], to_arrow_type(field[0].type))}), field, 1_000_003, "hive").tolist()
        for field in (narrow, wide)
    ]
    assert buckets[0] == buckets[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.00", 0), ("1.00", 31), ("-1.00", -31), ("1.50", 15 * 31 + 1), ("12.34", 1234 * 31 + 2), ("100.00", 3_100)],
)
def test_hive_hashes_a_decimal_as_java_does(text: str, expected: int) -> None:
    fields = fields_of([parse_type("DECIMAL(10, 2)")])
    table = pa.table({"k0": pa.array([Decimal(text)], pa.decimal128(10, 2))})
    assert bucket_of(table, fields, 1 << 30, "hive").tolist() == [(expected & 0x7FFF_FFFF) % (1 << 30)]


def test_equal_floats_share_a_hive_bucket_and_every_nan_shares_a_bucket() -> None:
    fields = fields_of([parse_type("DOUBLE")])
    odd_nan = np.array([0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0000], np.uint64).view(np.float64)
    table = pa.table({"k0": pa.array([0.0, -0.0, float("nan"), *odd_nan])})
    hive, default = bucket_of(table, fields, 10**9, "hive"), bucket_of(table, fields, 10**9)
    assert hive[0] == hive[1]
    assert len(set(hive[2:])) == len(set(default[2:])) == 1


def test_mod_takes_the_floor_remainder() -> None:
    table = pa.table({"k0": pa.array([-1, 0, 8, None], pa.int64())})
    assert bucket_of(table, fields_of([parse_type("BIGINT")]), 7, "mod").tolist() == [6, 0, 1, 0]


def test_buckets_do_not_depend_on_chunks_or_on_arrow_types_of_equal_values() -> None:
    fields = fields_of([parse_type("STRING")])
    texts = [f"{'x' * (index % 40)}{index}" for index in range(1_000)]
    whole = bucket_of(pa.table({"k0": texts}), fields, 100).tolist()
    chunks = pa.chunked_array([texts[:1], texts[1:600], [], texts[600:]])
    assert bucket_of(pa.table({"k0": chunks}), fields, 100).tolist() == whole
    assert bucket_of(pa.table({"k0": pa.array(texts, pa.large_string())}), fields, 100).tolist() == whole
    assert bucket_of(pa.table({"k0": pa.array(texts).dictionary_encode()}), fields, 100).tolist() == whole


def test_no_rows_have_no_buckets() -> None:
    for text in ("INT", "STRING", "DECIMAL(38, 0)", "TIMESTAMP(9)", "BOOLEAN", "BYTES"):
        fields = fields_of([parse_type(text)])
        table = pa.table({"k0": pa.array([], to_arrow_type(fields[0].type))})
        assert bucket_of(table, fields, 4).tolist() == bucket_of(table, fields, 1).tolist() == []


def test_a_key_of_another_type_is_named() -> None:
    with pytest.raises(InvalidRequestError, match="'k0' has the Arrow type string, expected int32"):
        bucket_of(pa.table({"k0": ["x"]}), fields_of([parse_type("INT")]), 4)


def test_types_that_the_function_does_not_know_are_refused() -> None:
    table = pa.table({"k0": pa.array([0], pa.timestamp("us"))})
    with pytest.raises(UnsupportedError, match="TIMESTAMP"):
        bucket_of(table, fields_of([parse_type("TIMESTAMP(6)")]), 4, "hive")


def test_a_bucket_needs_a_count_and_a_key() -> None:
    with pytest.raises(InvalidRequestError, match="bucket=-1"):
        bucket_of(pa.table({"k0": [1]}), fields_of([parse_type("BIGINT")]), -1)
