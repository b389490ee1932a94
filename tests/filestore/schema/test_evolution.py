"""Columns of older schemas as those of newer ones: matched by id, cast, nested ones too."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.schema.evolution import FieldMapping, keeps_order


def field(number: int, name: str, kind: str | dict[str, Any]) -> DataField:
    return DataField(id=number, name=name, type=parse_type(kind))


def read_as(wanted: list[DataField], stored: list[DataField], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    mapping = FieldMapping.of(wanted, stored)
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(mapping.stored))
    adapted = mapping.adapt(batch)
    assert adapted.schema == to_arrow_schema(wanted)
    found: list[dict[str, Any]] = adapted.to_pylist()
    return found


def test_columns_are_found_by_id_whatever_their_names_and_places() -> None:
    stored = [field(0, "a", "INT"), field(1, "b", "STRING"), field(2, "c", "INT")]
    wanted = [field(3, "a", "INT"), field(1, "renamed", "STRING"), field(0, "b", "INT")]
    rows = read_as(wanted, stored, [{"b": "x", "a": 1}, {"b": None, "a": None}])
    assert rows == [{"a": None, "renamed": "x", "b": 1}, {"a": None, "renamed": None, "b": None}]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("INT", "BIGINT", 5, 5),
        ("BIGINT", "INT", (1 << 32) + 7, 7),
        ("INT", "STRING", -5, "-5"),
        ("INT", "DECIMAL(10, 2)", 5, Decimal("5.00")),
        ("INT", "BOOLEAN", 2, True),
        ("FLOAT", "DOUBLE", 1.5, 1.5),
        ("DOUBLE", "INT", 2.75, 2),
        ("DECIMAL(8, 2)", "DECIMAL(12, 4)", Decimal("1.25"), Decimal("1.2500")),
        ("DECIMAL(8, 3)", "DECIMAL(4, 1)", Decimal("-1.250"), Decimal("-1.3")),
        ("DECIMAL(8, 2)", "STRING", Decimal("1.25"), "1.25"),
        ("BOOLEAN", "STRING", True, "true"),
        ("CHAR(3)", "STRING", "abc", "abc"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", None, None),
    ],
)
def test_values_are_cast(old: str, new: str, value: object, expected: object) -> None:
    assert read_as([field(0, "v", new)], [field(0, "v", old)], [{"v": value}]) == [{"v": expected}]


def test_members_of_rows_are_matched_by_id_too() -> None:
    old_row = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}, {"id": 2, "name": "y", "type": "INT"}]}
    new_row = {
        "type": "ROW",
        "fields": [{"id": 3, "name": "x", "type": "STRING"}, {"id": 1, "name": "was_x", "type": "BIGINT"}],
    }
    stored = [
        field(0, "r", old_row),
        field(4, "l", {"type": "ARRAY", "element": old_row}),
        field(5, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": old_row}),
    ]
    wanted = [
        field(0, "r", new_row),
        field(4, "l", {"type": "ARRAY", "element": new_row}),
        field(5, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": new_row}),
    ]
    old, new = {"x": 1, "y": 2}, {"x": None, "was_x": 1}
    rows = read_as(wanted, stored, [{"r": old, "l": [old, None], "m": [("k", old)]}, {"r": None, "l": None, "m": None}])
    assert rows == [{"r": new, "l": [new, None], "m": [("k", new)]}, {"r": None, "l": None, "m": None}]


def test_a_slice_of_nested_rows_is_adapted_as_a_slice() -> None:
    old, new = {"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "BIGINT"}
    mapping = FieldMapping.of([field(0, "l", new)], [field(0, "l", old)])
    rows = [{"l": [1, 2]}, {"l": None}, {"l": [3]}, {"l": []}]
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(mapping.stored)).slice(1, 2)
    assert mapping.adapt(batch).to_pylist() == rows[1:3]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("INT", "CHAR(4)", -34, "-34 "),
        ("INT", "VARCHAR(3)", -2147483648, "-21"),
        ("BOOLEAN", "CHAR(3)", False, "fal"),
        ("CHAR(5)", "VARCHAR(3)", "ZYZbY", "ZYZ"),
        ("CHAR(5)", "CHAR(8)", "bXYba", "bXYba   "),
        ("VARCHAR(10)", "VARCHAR(2)", "ü€x", "ü€"),
        ("CHAR(5)", "BINARY(8)", "XXaXX", b"XXaXX\0\0\0"),
        ("VARCHAR(10)", "VARBINARY(2)", "v29", b"v2"),
        ("BYTES", "BINARY(3)", b"|", b"|\0\0"),
        ("BINARY(4)", "BINARY(2)", b"\xff\x7f\xff\xff", b"\xff\x7f"),
        ("BYTES", "STRING", b"q\xac\x00", "q\ufffd\x00"),
        ("FLOAT", "INT", float("nan"), 0),
        ("FLOAT", "BIGINT", float("inf"), 9223372036854775807),
        ("FLOAT", "TINYINT", float("-inf"), 0),
        ("DOUBLE", "DECIMAL(12, 1)", -16.25, Decimal("-16.3")),
        ("DECIMAL(10, 2)", "DECIMAL(8, 1)", Decimal("99999999.99"), None),
        ("DECIMAL(10, 2)", "FLOAT", Decimal("93.91"), 93.91000366210938),
        ("DOUBLE", "STRING", 1e-300, "1.0E-300"),
        ("FLOAT", "STRING", float("-inf"), "-Infinity"),
        ("BOOLEAN", "DOUBLE", True, 1.0),
        ("BOOLEAN", "DECIMAL(5, 1)", True, Decimal("1.0")),
        ("INT", "TIMESTAMP(3)", 45, datetime(1970, 1, 1, 0, 0, 45)),
        ("TIMESTAMP(3)", "BIGINT", datetime(1999, 8, 30, 19, 58, 0, 428000), 936043080),
        ("TIMESTAMP(3)", "TIME(3)", datetime(2028, 12, 21, 6, 6, 28, 533000), time(6, 6, 28, 533000)),
        ("TIME(3)", "STRING", time(5, 33, 0, 464000), "05:33:00.464"),
        ("TIME(3)", "TIMESTAMP(3)", time(2, 27, 35, 497000), datetime(1970, 1, 1, 2, 27, 35, 497000)),
        ("STRING", "DOUBLE", " 7 ", 7.0),
        ("STRING", "DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
        ("STRING", "DECIMAL(38, 0)", "9" * 39, None),
        ("STRING", "DATE", "2024-2-3", date(2024, 2, 3)),
        ("STRING", "TIME(3)", "1:2:3", time(1, 2, 3)),
        ("STRING", "BOOLEAN", "y", True),
    ],
)
def test_values_are_cast_as_java_casts_them(old: str, new: str, value: object, expected: object) -> None:
    """What the Java library of Paimon 1.4.2 reads after an ALTER TABLE."""
    assert read_as([field(0, "v", new)], [field(0, "v", old)], [{"v": value}, {"v": None}]) == [
        {"v": expected},
        {"v": None},
    ]


def test_a_text_that_is_cut_does_not_keep_its_order() -> None:
    assert keeps_order(parse_type("CHAR(5)"), parse_type("VARCHAR(5)"))
    assert not keeps_order(parse_type("CHAR(5)"), parse_type("VARCHAR(3)"))


def test_values_that_do_not_fit_the_newer_type_are_named() -> None:
    far = datetime(9999, 12, 31)
    with pytest.raises(
        UnsupportedError, match=r"column 'v' is TIMESTAMP\(6\) in older files and TIMESTAMP\(9\) now, and"
    ):
        read_as([field(0, "v", "TIMESTAMP(9)")], [field(0, "v", "TIMESTAMP(6)")], [{"v": far}])
    with pytest.raises(
        UnsupportedError, match="is STRING in older files and INT now, and holds values that do not fit"
    ):
        read_as([field(0, "v", "INT")], [field(0, "v", "STRING")], [{"v": "x"}])


def test_a_type_without_a_cast_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"column 'v' is DATE in older files and INT now, which has no cast"):
        FieldMapping.of([field(0, "v", "INT")], [field(0, "v", "DATE")])
