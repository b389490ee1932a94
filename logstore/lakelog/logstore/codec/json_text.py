"""Arrow values as JSON, in columns.

| type | JSON |
|---|---|
| BOOLEAN, integers | literal and number |
| FLOAT, DOUBLE | the shortest number that reads back the same; strings `NaN`, `Infinity`, `-Infinity` |
| DECIMAL | number with every digit |
| CHAR, VARCHAR | string; control characters, quote and backslash escaped, all others as they are |
| BINARY, VARBINARY | string, base64 |
| DATE | string `2024-02-29` |
| TIME | string `23:59:59.123`, digits of the Arrow unit |
| TIMESTAMP | string `2024-02-29 23:59:59.123`, digits of the Arrow unit; years beyond 9999 have a sign |
| TIMESTAMP_LTZ | the same in UTC, with a `Z` |
| ARRAY | array |
| MAP, MULTISET | object; a key that is not a string is named by its JSON (without quotes of its own) |
| ROW | object |

Source: Flink's documentation, "JSON Format" (what its reader takes with no option set).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.logstore.codec.timestamp_text import timestamp_strings

NULL = "null"
TEXT = pa.large_string()
CYCLE_DAYS = 146_097  # after 400 years the calendar repeats
CYCLE_YEARS = 400
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS = 86_400
_YEAR_0_DAY = -719_528
_YEAR_10000_DAY = 2_932_897

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
} | {chr(code): f"\\u{code:04x}" for code in range(32) if chr(code) not in "\b\f\n\r\t"}
_ESCAPED = list(_ESCAPES)
_ESCAPE_TEXTS = list(_ESCAPES.values())
_FIRST_PLAIN, _QUOTE, _BACKSLASH = 32, ord('"'), ord("\\")

_QUOTED_ROOTS = frozenset(
    {
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.BINARY,
        TypeRoot.VARBINARY,
        TypeRoot.DATE,
        TypeRoot.TIME,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)


Piece: TypeAlias = str | pa.Array


@dataclass(frozen=True, slots=True)
class _Json:
    """The JSON of a column's values, null for a null. `bare` values still need quotes around them."""

    strings: pa.Array
    bare: bool

    def pieces(self) -> list[Piece]:
        return ['"', self.strings, '"'] if self.bare else [self.strings]


def row_json(rows: pa.Table, fields: Sequence[DataField], *, before: str = "", after: str = "") -> pa.Array:
    """Each row as a JSON object of `fields`, between two constants, in strings of type `TEXT`."""
    columns = [rows.column(field.name).combine_chunks() for field in fields]
    return joined([before, *_object_pieces(columns, fields), after], rows.num_rows)


def _value_texts(array: pa.Array, kind: DataType) -> pa.Array:
    """The JSON of each value, `null` for a null."""
    return joined(_value_json(array, kind).pieces(), len(array))


def escape(text: str) -> str:
    """`text`, escaped for the quotes of a JSON string."""
    return "".join(_ESCAPES.get(char, char) for char in text)


def _object_pieces(children: Sequence[pa.Array], fields: Sequence[DataField]) -> list[Piece]:
    pieces: list[Piece] = []
    opening = "{"
    for child, field in zip(children, fields, strict=True):
        pieces.append(f'{opening}"{escape(field.name)}":')
        pieces += _value_json(child, field.type).pieces()
        opening = ","
    return [*pieces, "}"] if fields else ["{}"]


def _value_json(array: pa.Array, kind: DataType) -> _Json:
    """The JSON of values; bare only when the column has no null."""
    expected = to_arrow_type(kind)
    if array.type != expected and not kind.is_nested:
        array = array.cast(expected)
    if kind.is_nested:
        strings = _Json(_nested_json(array, kind), bare=False)
    else:
        strings = _Json(_scalar_json(array, kind), bare=kind.root in _QUOTED_ROOTS)
        if kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            strings = _Json(_name_non_finite(strings.strings, array, quote='"'), bare=False)
    if array.null_count == 0:
        return strings
    given = strings.strings
    if given.null_count != array.null_count:
        given = pc.if_else(array.is_valid(), given, pa.scalar(None, TEXT))
    return _Json(_joined('"', given, '"') if strings.bare else given, bare=False)


def _scalar_json(array: pa.Array, kind: DataType) -> pa.Array:
    """JSON without quotes; null, or undefined, where the value is null."""
    match kind.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _escape_all(array.cast(TEXT))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _strings(_series(array).bin.encode("base64"))
        case TypeRoot.DATE:
            return _date_strings(array).cast(TEXT)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_strings(array).cast(TEXT)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _strings(_series(array).cast(pl.String))
        case _:
            return array.cast(TEXT)


def _name_non_finite(strings: pa.Array, array: pa.Array, *, quote: str) -> pa.Array:
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return strings
    names = {
        "NaN": f"{quote}NaN{quote}",
        "inf": f"{quote}Infinity{quote}",
        "-inf": f"{quote}-Infinity{quote}",
    }
    return _strings(_series(strings).replace(names))


def _has_escaped(strings: pa.Array) -> bool:
    """Whether strings may have a byte that is escaped; no byte of a longer UTF-8 sequence is one."""
    _, offsets, data = strings.buffers()
    if data is None or not len(strings):
        return False
    ends = np.frombuffer(offsets, np.int64)
    found = np.frombuffer(data, np.uint8)[ends[strings.offset] : ends[strings.offset + len(strings)]]
    return bool((found < _FIRST_PLAIN).any() or (found == _QUOTE).any() or (found == _BACKSLASH).any())


def _escape_all(strings: pa.Array) -> pa.Array:
    if not _has_escaped(strings):
        return strings
    return _strings(_series(strings).str.replace_many(_ESCAPED, _ESCAPE_TEXTS))


def _date_strings(array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32()).cast(pa.int64())
    return _calendar_strings(array, days, units_per_day=1)


def _timestamp_strings(array: pa.Array) -> pa.Array:
    units_per_day = _DAY_SECONDS * UNITS_PER_SECOND[array.type.unit]
    numbers = array.cast(pa.int64())
    if _has_four_digit_years(numbers, units_per_day=units_per_day):
        return timestamp_strings(np.asarray(numbers.fill_null(0)), array.type.unit, has_zone=array.type.tz is not None)
    return _calendar_strings(array, numbers, units_per_day=units_per_day)


def _has_four_digit_years(numbers: pa.Array, *, units_per_day: int) -> bool:
    """Whether all are in the years 0 to 9999, which Arrow formats correctly."""
    extremes = pc.min_max(numbers)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is None or bool(low >= _YEAR_0_DAY * units_per_day and high < _YEAR_10000_DAY * units_per_day)


def _calendar_strings(array: pa.Array, numbers: pa.Array, *, units_per_day: int) -> pa.Array:
    """Arrow's format for the years 0 to 9999; the other years by whole cycles of 400 years."""
    if _has_four_digit_years(numbers, units_per_day=units_per_day):
        return array.cast(pa.string())
    values = np.asarray(numbers.fill_null(0))
    cycles, rest = np.divmod(values, CYCLE_DAYS * units_per_day)
    near = pa.array(rest).cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).cast(array.type)
    strings = near.cast(pa.string()).to_pylist()
    return pa.array(
        [
            _year_text(int(text[:4]) + CYCLE_YEARS * int(cycle)) + text[4:]
            for text, cycle in zip(strings, cycles.tolist(), strict=True)
        ],
        pa.string(),
    )


def _year_text(year: int) -> str:
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}"


def _nested_json(array: pa.Array, kind: DataType) -> pa.Array:
    """The JSON of nested values; undefined where the value is null."""
    if kind.root is TypeRoot.ROW:
        return joined(_object_pieces(array.flatten(), kind.fields), len(array))
    offsets = array.offsets
    start = offsets[0].as_py() if len(offsets) else 0
    length = (offsets[-1].as_py() if len(offsets) else 0) - start
    offsets = pc.subtract(offsets, pa.scalar(start, offsets.type))
    if kind.root is TypeRoot.ARRAY:
        assert kind.element is not None
        members = _value_texts(array.values.slice(start, length), kind.element)
        opening, closing = "[", "]"
    else:
        key_kind, value_kind = entry_types(kind)
        keys = _key_json(array.keys.slice(start, length), key_kind)
        values = _value_json(array.items.slice(start, length), value_kind)
        members = joined(['"', keys, '":', *values.pieces()], length)
        opening, closing = "{", "}"
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, members), pa.scalar(",", TEXT))
    return joined([opening, texts, closing], len(array))


def entry_types(kind: DataType) -> tuple[DataType, DataType]:
    """The key and value types of a MAP; a MULTISET maps its elements to their count."""
    if kind.root is TypeRoot.MULTISET:
        assert kind.element is not None
        return kind.element.with_nullable(False), DataType(root=TypeRoot.INT, nullable=False)
    assert kind.key is not None
    assert kind.value is not None
    return kind.key, kind.value


def _key_json(keys: pa.Array, kind: DataType) -> pa.Array:
    if kind.is_nested:
        return _escape_all(_nested_json(keys, kind))
    strings = _scalar_json(keys, kind)
    return _name_non_finite(strings, keys, quote="") if kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else strings


def _series(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series


def _strings(series: pl.Series) -> pa.Array:
    return series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def joined(pieces: Sequence[Piece], length: int) -> pa.Array:
    """Strings of type `TEXT` and constants, joined row by row; a null is the JSON of one.

    By Arrow: polars takes as long for many rows, and five times as long for ten.
    """
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif not isinstance(piece, str) or piece:
            merged.append(piece)
    if all(isinstance(piece, str) for piece in merged):
        return pa.repeat(pa.scalar("".join(merged), TEXT), length)
    return _joined(*merged, null_handling="replace", null_replacement=NULL)


def _joined(*pieces: Piece, **nulls: str) -> pa.Array:
    parts = [pa.scalar(piece, TEXT) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT), **nulls)
