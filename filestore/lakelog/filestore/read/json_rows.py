"""Rows as JSON lines, column by column.

| type | JSON |
|---|---|
| BOOLEAN, integers | as such |
| FLOAT, DOUBLE | numbers, or "NaN", "Infinity", "-Infinity" |
| DECIMAL | string with the full scale |
| CHAR, VARCHAR | string |
| BINARY, VARBINARY | string of lower-case hex digits |
| DATE, TIME(p) | `2024-02-29`, `23:59:59` and p digits |
| TIMESTAMP(p), TIMESTAMP_LTZ(p) | `2024-02-29T12:34:56` and p digits, the latter in UTC with `Z` |
| ARRAY, MAP and MULTISET, ROW | a list, a list of [key, value] in the order of their JSON, an object |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.merge.order import to_series

_NULL = "null"
_ESCAPED = '["\\\\\\x00-\\x1f]'
_INTEGERS = {TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT}
_NOT_NUMBERS = {"NaN": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def to_json_lines(rows: pa.Table | pa.RecordBatch, fields: Sequence[DataField]) -> list[str]:
    """Each row as one JSON object of the columns `fields`, without a line end."""
    if not fields:
        return ["{}"] * rows.num_rows
    parts: list[object] = []
    for index, field in enumerate(fields):
        parts.append(_scalar(f"{',' if index else '{'}{json.dumps(field.name, ensure_ascii=False)}:"))
        column = rows.column(field.name)
        parts.append(_json(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, field.type))
    lines: list[str] = _joined([*parts, _scalar("}")]).to_pylist()
    return lines


def _json(values: pa.Array, kind: DataType) -> pa.Array:
    """The JSON of each value."""
    found = _FORMS[kind.root](values, kind) if kind.root not in _INTEGERS else values.cast(pa.large_string())
    return pc.fill_null(found, _scalar(_NULL))


def _number_json(values: pa.Array, _: DataType) -> pa.Array:
    return to_series(values).cast(pl.String).replace(_NOT_NUMBERS).to_arrow().cast(pa.large_string())


def _decimal_json(values: pa.Array, _: DataType) -> pa.Array:
    return _quoted(to_series(values).cast(pl.String).to_arrow())


def _string_json(values: pa.Array, _: DataType) -> pa.Array:
    """Strings in quotes; values are converted one by one only if they have characters that JSON escapes."""
    series = to_series(values)
    needs_escape = series.str.contains(_ESCAPED).fill_null(False)
    if needs_escape.any():
        escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in series.filter(needs_escape)]
        series = series.scatter(needs_escape.arg_true(), escaped)
    return _quoted(series.to_arrow())


def _binary_json(values: pa.Array, _: DataType) -> pa.Array:
    return _quoted(to_series(values).bin.encode("hex").to_arrow())


def _plain_json(values: pa.Array, _: DataType) -> pa.Array:
    return _quoted(values.cast(pa.string()))


def _clock_json(values: pa.Array, kind: DataType) -> pa.Array:
    """Times and timestamps with as many digits of a second as their type has."""
    strings = to_series(values.cast(pa.string())).str.replace(" ", "T", literal=True)
    kept = f"(\\.[0-9]{{{kind.precision}}})[0-9]*(Z?)$" if kind.precision else "()(?:\\.[0-9]*)?(Z?)$"
    return _quoted(strings.str.replace(kept, "${1}${2}").to_arrow())


def _array_json(values: pa.Array, kind: DataType) -> pa.Array:
    assert kind.element is not None
    return _joined([_scalar("["), _joined_lists(values, _json(values.values, kind.element)), _scalar("]")])


def _map_json(values: pa.Array, kind: DataType) -> pa.Array:
    key = kind.element if kind.root is TypeRoot.MULTISET else kind.key
    value = DataType(root=TypeRoot.INT) if kind.root is TypeRoot.MULTISET else kind.value
    assert key is not None
    assert value is not None
    entries = _joined([_scalar("["), _json(values.keys, key), _scalar(","), _json(values.items, value), _scalar("]")])
    return _joined([_scalar("["), _joined_lists(values, entries, is_sorted=True), _scalar("]")])


def _row_json(values: pa.Array, kind: DataType) -> pa.Array:
    parts: list[object] = []
    for index, field in enumerate(kind.fields):
        parts.append(_scalar(f"{',' if index else '{'}{json.dumps(field.name, ensure_ascii=False)}:"))
        parts.append(_json(values.field(index), field.type))
    objects = _joined([*parts, _scalar("}")]) if parts else pa.array(["{}"] * len(values), pa.large_string())
    return pc.if_else(values.is_valid(), objects, pa.scalar(None, pa.large_string()))


def _joined_lists(lists: pa.Array, items: pa.Array, *, is_sorted: bool = False) -> pa.Array:
    """The JSON values of each list, joined by commas; null where the list is null."""
    offsets = pa.array(lists.offsets.to_numpy())
    grouped = pa.ListArray.from_arrays(offsets, items, mask=lists.is_null())
    series = to_series(grouped)
    joined = (series.list.sort() if is_sorted else series).list.join(",")
    return joined.to_arrow().cast(pa.large_string())


def _quoted(strings: pa.Array) -> pa.Array:
    return _joined([_scalar('"'), strings.cast(pa.large_string()), _scalar('"')])


def _joined(parts: Sequence[object]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _scalar(""))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


_FORMS: dict[TypeRoot, Callable[[pa.Array, DataType], pa.Array]] = {
    TypeRoot.FLOAT: _number_json,
    TypeRoot.DOUBLE: _number_json,
    TypeRoot.DECIMAL: _decimal_json,
    TypeRoot.CHAR: _string_json,
    TypeRoot.VARCHAR: _string_json,
    TypeRoot.BINARY: _binary_json,
    TypeRoot.VARBINARY: _binary_json,
    TypeRoot.BLOB: _binary_json,
    TypeRoot.DATE: _plain_json,
    TypeRoot.TIME: _clock_json,
    TypeRoot.TIMESTAMP: _clock_json,
    TypeRoot.TIMESTAMP_LTZ: _clock_json,
    TypeRoot.ARRAY: _array_json,
    TypeRoot.MAP: _map_json,
    TypeRoot.MULTISET: _map_json,
    TypeRoot.ROW: _row_json,
}
