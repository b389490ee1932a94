"""Rows as JSON lines."""

from __future__ import annotations

import json
import math
from datetime import datetime, time
from decimal import Decimal
from typing import Any  # Any: JSON values

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, DataType, TypeRoot, array_of, map_of, parse_type, row_of
from lakelog.filestore.read.json_rows import to_json_lines
from tests.support.examples import examples
from tests.support.tables.column_types import fields_of, tables
from tests.support.tables.strategies import value_types

CALM = settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
INNER = [DataField(id=0, name="x", type=parse_type("INT")), DataField(id=0, name="y", type=parse_type("STRING"))]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("BOOLEAN", True, "true"),
        ("TINYINT", -128, "-128"),
        ("BIGINT", 2**63 - 1, "9223372036854775807"),
        ("FLOAT", 0.1, "0.1"),
        ("DOUBLE", -0.0, "-0.0"),
        ("DOUBLE", math.nan, '"NaN"'),
        ("FLOAT", -math.inf, '"-Infinity"'),
        ("DOUBLE", 1e300, "1e+300"),
        ("DECIMAL(38, 30)", Decimal("1E-30"), '"0.000000000000000000000000000001"'),
        ("DECIMAL(10, 2)", Decimal("-3"), '"-3.00"'),
        ("STRING", 'a"\\\n😀\x7f', '"a\\"\\\\\\n😀\x7f"'),
        ("BYTES", b"\x00\xff", '"00ff"'),
        ("DATE", 0, '"1970-01-01"'),
        ("TIME(0)", time(23, 59, 59), '"23:59:59"'),
        ("TIME(2)", time(23, 59, 59, 120_000), '"23:59:59.12"'),
        ("TIMESTAMP(0)", datetime(2024, 2, 29, 12, 34, 56), '"2024-02-29T12:34:56"'),
        ("TIMESTAMP(4)", datetime(2024, 2, 29, 12, 34, 56, 789_100), '"2024-02-29T12:34:56.7891"'),
        ("TIMESTAMP(9)", 1, '"1970-01-01T00:00:00.000000001"'),
        ("TIMESTAMP_LTZ(3)", 1, '"1970-01-01T00:00:00.001Z"'),
        ("TIMESTAMP_LTZ(0)", -1, '"1969-12-31T23:59:59Z"'),
        (array_of(parse_type("STRING")), ["b", None, '"'], '["b",null,"\\""]'),
        (map_of(parse_type("STRING"), parse_type("INT")), [("b", 1), ("a", None)], '[["a",null],["b",1]]'),
        (row_of(INNER), {"x": 1, "y": None}, '{"x":1,"y":null}'),
        (array_of(array_of(parse_type("INT"))), [[1], None, []], "[[1],null,[]]"),
    ],
    ids=str,
)
def test_a_value_has_its_text(kind: str | DataType, value: object, text: str) -> None:
    field = DataField(id=0, name='a "name"', type=parse_type(kind) if isinstance(kind, str) else kind)
    column = pa.array([value, None], to_arrow_type(field.type))
    rows = pa.table([column], names=[field.name])
    assert to_json_lines(rows, [field]) == [f'{{"a \\"name\\"":{text}}}', '{"a \\"name\\"":null}']


def test_columns_are_those_asked_for_in_their_order() -> None:
    rows = pa.table({"a": [1], "b": [2]})
    fields = [DataField(id=0, name=name, type=parse_type("BIGINT")) for name in ("b", "a")]
    assert to_json_lines(rows, fields) == ['{"b":2,"a":1}']
    assert to_json_lines(rows, []) == ["{}"]


@CALM
@given(fields=fields_of(value_types, min_size=1, max_size=4), data=st.data())
def test_every_row_of_every_type_is_the_json_of_its_values(fields: list[DataField], data: st.DataObject) -> None:
    rows = data.draw(tables(fields))
    start = data.draw(st.integers(0, rows.num_rows))
    part = rows.slice(start)
    batch = part.to_batches()[0] if part.num_rows else part
    for shown in (to_json_lines(part, fields), to_json_lines(batch, fields)):
        assert len(shown) == rows.num_rows - start
        for line, *values in zip(shown, *(column[start:] for column in rows.columns), strict=True):
            found = json.loads(line, parse_float=str, parse_int=str)
            assert list(found) == [field.name for field in fields]
            for field, value in zip(fields, values, strict=True):
                check(field.type, value, found[field.name])


def check(kind: DataType, value: pa.Scalar, found: Any) -> None:
    """Compare a scalar with the JSON value made of it; numbers came as texts."""
    root = kind.root
    if not value.is_valid:
        assert found is None
    elif root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        number = float(found) if root is TypeRoot.DOUBLE else np.float32(found)
        assert repr(float(number)) == repr(value.as_py())
    elif root is TypeRoot.ARRAY:
        assert kind.element is not None
        assert len(found) == len(value)
        for item, shown in zip(value, found, strict=True):
            check(kind.element, item, shown)
    elif root is TypeRoot.ROW:
        for member in kind.fields:
            check(member.type, value[member.name], found[member.name])
    elif root in (TypeRoot.MAP, TypeRoot.MULTISET):
        assert len(found) == len(value)
    elif root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        assert bytes.fromhex(found) == value.as_py()
    elif root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BOOLEAN):
        assert found == value.as_py()
    elif root is TypeRoot.DECIMAL:
        assert Decimal(found) == value.as_py()
    elif root in (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT):
        assert found == str(value.as_py())
    else:
        assert isinstance(found, str)
