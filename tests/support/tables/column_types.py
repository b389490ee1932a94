"""Strategies for columns of every type, and an exact comparison of tables."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from decimal import Decimal
from typing import Any  # Any: values of every column type

import pyarrow as pa
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_schema, to_arrow_type
from lakelog.common.types import MAX_LENGTH, DataField, DataType, TypeRoot, array_of, map_of, row_of

ODD_TEXTS = (
    "",
    "null",
    "NaN",
    '"',
    "\\",
    '\\"',
    "\n",
    "\r\n",
    "\x00",
    "\x1f\x7f\x85",
    "\u2028\u2029",
    "😀",
    "日本 ü€",
    "\ufeff\uffff",
    '},"after":{',
    '},"op":"c"}\n{"before":null,"after":{',
    '"d":"NaN"',
    " 1 ",
)
ODD_NAMES = ("id", "before", "after", "op", "payload", 'quo"te', "back\\slash", "ü 日本", "new\nline", "d", "D", ".")

_SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}

_decimals = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(
        lambda scale: DataType(root=TypeRoot.DECIMAL, precision=precision, scale=scale)
    )
)
_with_precision = st.builds(
    lambda root, precision: DataType(root=root, precision=precision),
    st.sampled_from((TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)),
    st.integers(0, 9),
)
_with_length = st.builds(
    lambda root: DataType(root=root, length=MAX_LENGTH),
    st.sampled_from((TypeRoot.VARCHAR, TypeRoot.VARBINARY)),
)
_fixed_length = st.builds(lambda root: DataType(root=root, length=5), st.sampled_from((TypeRoot.CHAR, TypeRoot.BINARY)))
_plain = st.builds(
    lambda root: DataType(root=root),
    st.sampled_from((TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, *_INT_BITS)),
)
scalar_types = st.one_of(_plain, _with_length, _fixed_length, _with_precision, _decimals)
_name_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
names = st.one_of(st.sampled_from(ODD_NAMES), st.text(_name_characters, min_size=1, max_size=6))


def fields_of(
    types: st.SearchStrategy[DataType], *, min_size: int, max_size: int
) -> st.SearchStrategy[list[DataField]]:
    """Lists of differently named fields."""
    return st.lists(
        st.builds(lambda name, kind: DataField(id=0, name=name, type=kind), names, types),
        min_size=min_size,
        max_size=max_size,
        unique_by=lambda field: field.name,
    )


def _row_types(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return fields_of(children, min_size=0, max_size=3).map(row_of)


column_types = st.recursive(
    scalar_types,
    lambda children: st.one_of(
        children.map(array_of),
        st.builds(map_of, children, children),
        children.map(lambda element: DataType(root=TypeRoot.MULTISET, element=element.with_nullable(False))),
        _row_types(children),
    ),
    max_leaves=4,
)


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """What `pyarrow.array` takes for the type, with nulls where it is nullable."""
    some = _some_values(kind)
    return st.one_of(st.none(), some) if kind.nullable else some


def _some_values(kind: DataType) -> st.SearchStrategy[Any]:
    root = kind.root
    if root in _INT_BITS:
        bits = _INT_BITS[root]
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    match root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT:
            return st.floats(width=32)
        case TypeRoot.DOUBLE:
            return st.floats()
        case TypeRoot.DECIMAL:
            limit, scale = 10 ** (kind.precision or 0) - 1, kind.scale or 0
            return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=12))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return st.binary(max_size=12)
        case TypeRoot.DATE:
            return st.one_of(st.integers(-800_000, 4_000_000), st.integers(-(1 << 31), (1 << 31) - 1))
        case TypeRoot.TIME:
            arrow_type = to_arrow_type(kind)
            return st.integers(0, 86_400 * _SECONDS[arrow_type.unit] - 1)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            second = _SECONDS[to_arrow_type(kind).unit]
            near = st.integers(-(1 << 40), 1 << 40).filter(lambda value: abs(value * second) < 1 << 63)
            far = st.integers(-(1 << 63), (1 << 63) - 1)
            return st.one_of(st.builds(lambda value: value * second + value % second, near).filter(_is_long), far)
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return st.lists(values_of(kind.element), max_size=4)
        case TypeRoot.MULTISET:
            assert kind.element is not None
            counts = st.integers(1, 9)
            return st.lists(st.tuples(values_of(kind.element), counts), max_size=3, unique_by=_identity)
        case TypeRoot.MAP:
            assert kind.key is not None
            assert kind.value is not None
            entries = st.tuples(values_of(kind.key.with_nullable(False)), values_of(kind.value))
            return st.lists(entries, max_size=3, unique_by=_identity)
        case TypeRoot.ROW:
            return st.fixed_dictionaries({field.name: values_of(field.type) for field in kind.fields})
        case _:
            raise AssertionError(f"no values for {kind}")


def _is_long(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


def _identity(entry: tuple[Any, Any]) -> str:
    return pprint.pformat(entry[0])  # as repr, but dicts in the order of their keys


@st.composite
def tables(draw: st.DrawFn, fields: Sequence[DataField], *, max_rows: int = 8) -> pa.Table:
    """Rows of these columns."""
    count = draw(st.integers(0, max_rows))
    schema = to_arrow_schema(fields)
    arrays = [
        pa.array(draw(st.lists(values_of(field.type), min_size=count, max_size=count)), arrow_field.type)
        for field, arrow_field in zip(fields, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def exact_rows(table: pa.Table) -> list[str]:
    """Each row as text that differs wherever a value differs: NaN is NaN, -0.0 is not 0.0, any year has a text."""
    plain = pa.schema([pa.field(field.name, _plain_type(field.type)) for field in table.schema])
    columns = [column.cast(field.type).to_pylist() for column, field in zip(table.columns, plain, strict=True)]
    return [repr(row) for row in zip(*columns, strict=True)]


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type with integers in place of dates and times."""
    types = pa.types
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_timestamp(kind) or types.is_time64(kind):
        return pa.int64()
    if types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    return kind
