"""Types that columns may be widened to: old files are read as them, value for value."""

from __future__ import annotations

from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, DataType, parse_type
from lakelog.filestore.alter.widening import keeps_values
from lakelog.filestore.schema.evolution import FieldMapping

_NAMES = """
BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE CHAR(3) CHAR(5) VARCHAR(3) VARCHAR(5) STRING BINARY(3) BINARY(5)
VARBINARY(3) BYTES DATE TIME(3) TIMESTAMP(0) TIMESTAMP(3) TIMESTAMP(6) TIMESTAMP(7) TIMESTAMP(9) TIMESTAMP_LTZ(3)
TIMESTAMP_LTZ(6) DECIMAL(5,2) DECIMAL(9,2) DECIMAL(19,0) DECIMAL(12,2) DECIMAL(20,5) DECIMAL(38,19) DECIMAL(38,30)
"""
TYPES = [parse_type(text) for text in _NAMES.split()]
EXTREMES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-(1 << 7), (1 << 7) - 1],
    "SMALLINT": [-(1 << 15), (1 << 15) - 1],
    "INT": [-(1 << 31), (1 << 31) - 1, 16_777_217],
    "BIGINT": [-(1 << 63), (1 << 63) - 1],
    "FLOAT": [0.1, -3.4e38, 1e-45],
    "DATE": [-719162, 2932896],
    "TIMESTAMP(0)": [-62_135_596_800, 253_402_300_799],
    "TIMESTAMP(3)": [-62_135_596_800_000, 253_402_300_799_999],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": [-62_135_596_800_000, 253_402_300_799_999],
}


def extremes(kind: DataType) -> pa.Array:
    """The values of a type that are hardest to keep."""
    arrow = to_arrow_type(kind)
    if pa.types.is_decimal(arrow):
        whole = "9" * (arrow.precision - arrow.scale) or "0"
        fraction = "9" * arrow.scale
        text = f"{whole}.{fraction}" if fraction else whole
        return pa.array([text, f"-{text}", None]).cast(arrow)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        size = min(kind.length or 0, 8)
        return pa.array(["é" * size if pa.types.is_string(arrow) else b"\xff" * size, None], arrow)
    return pa.array([*EXTREMES.get(str(kind), [0, 1]), None], arrow)


WIDENINGS = [(old, new) for old in TYPES for new in TYPES if old != new and keeps_values(old, new)]


@pytest.mark.parametrize(("old", "new"), WIDENINGS, ids=str)
def test_what_a_type_may_become_holds_all_its_values(old: DataType, new: DataType) -> None:
    values = extremes(old)
    stored, wanted = DataField(id=0, name="v", type=old), DataField(id=0, name="v", type=new)
    mapping = FieldMapping.of([wanted], [stored])
    read = mapping.adapt(pa.record_batch([values], names=["v"])).column(0)
    if pa.types.is_string(read.type) and not pa.types.is_string(values.type):
        expected = [None if value is None else str(value).lower() for value in values.to_pylist()]
        assert read.to_pylist() == expected
    else:
        assert read.cast(values.type).equals(values)
        assert read.null_count == values.null_count


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        ("INT", "BIGINT", True),
        ("INT", "DOUBLE", True),
        ("BIGINT", "DECIMAL(19,0)", True),
        ("FLOAT", "DOUBLE", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("CHAR(3)", "STRING", True),
        ("CHAR(3)", "CHAR(5)", False),
        ("BINARY(3)", "BINARY(5)", False),
        ("INT", "FLOAT", False),
        ("BIGINT", "DOUBLE", False),
        ("BIGINT", "DECIMAL(19,1)", False),
        ("DECIMAL(9,2)", "DECIMAL(9,3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False),
        ("DOUBLE", "STRING", False),
        ("STRING", "VARCHAR(5)", False),
        ("STRING", "BYTES", False),
    ],
)
def test_types_go_where_nothing_is_lost(old: str, new: str, *, is_kept: bool) -> None:
    assert keeps_values(parse_type(old), parse_type(new)) is is_kept
