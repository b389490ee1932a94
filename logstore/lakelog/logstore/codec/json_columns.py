"""Lines of JSON as Arrow columns, by Arrow's own parser.

A *wire type* is the Arrow type that the parser gives a column; a columnar conversion casts it to the column's own
type. Lines that the parser cannot read raise NotColumnarError, and the caller uses `json_value`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lakelog.common.arrow import misplaced_null, to_arrow_type, wide_decimal
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.logstore.codec.json_text import escape
from lakelog.logstore.codec.json_value import OWN_FORMS, Json, JsonValueError, ValueForms, parser_of

_BLOCK_BYTES_MAX = (1 << 31) - 1
_BINARY_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMP_ROOTS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_MANY_FORMS = _BINARY_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.DECIMAL}

VARIABLE_DECIMAL = pa.struct([("scale", pa.int32()), ("value", pa.string())])
Unknown = Literal["ignore", "infer", "error"]

_NUL = re.compile(rb"\0")
_CONSTANTS = tuple(
    (re.compile(word), re.compile(rb"%b(?<=[:\[,\s-]%b)(?=\s*[,}\]])" % (word, word))) for word in (b"NaN", b"Infinity")
)


class NotColumnarError(Exception):
    """Arrow's parser cannot read these lines, which may be valid."""


@dataclass(frozen=True, slots=True)
class WireColumn:
    """How a column is read: the type for the parser, and the conversion from that type to the column's type."""

    field: DataField
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array]


def wire_column(field: DataField, sample: Json = None, forms: ValueForms = OWN_FORMS) -> WireColumn | None:
    """How to read a column, judged by one of its JSON values; None if the parser cannot read it (maps).

    Without a sample the form is the one that lakelog and Flink write.
    """
    kind = field.type
    if kind.root in _MANY_FORMS and sample is not None:
        other = _other_form(kind, sample, forms)
        if other is not None:
            return WireColumn(field, *other)
    wire = _wire_type(kind)
    return None if wire is None else WireColumn(field, wire, lambda array: _from_wire(array, kind, forms))


def parse_lines(text: pa.Buffer, count: int, schema: pa.Schema, *, unknown: Unknown = "ignore") -> pa.Table:
    """One row per line. Raises NotColumnarError.

    Members that the schema lacks are left out, whatever JSON they hold. With `infer` they follow those that it has,
    with `error` they are refused.
    """
    if not count:
        return schema.empty_table()
    given, ignores = text, unknown == "ignore"
    if _NUL.search(text):  # the parser would stop there
        raise NotColumnarError
    _check_decimals_are_numbers(text, schema)
    table = None
    with contextlib.suppress(pa.ArrowInvalid):  # raised for a member that the schema lacks, too
        table = _parse(text, schema, unknown="error") if ignores else None
    if table is None:
        if _may_have_constants(text):  # the parser would accept them, also in what it leaves out
            raise NotColumnarError
        table, text = _parse_either(text, schema, unknown=unknown)
    if table.num_rows != count:
        raise NotColumnarError
    if _count_floats(table, _is_constant) and (_has_overflown(table, text) or (ignores and _may_have_constants(given))):
        raise NotColumnarError
    return table


def _parse_either(text: pa.Buffer, schema: pa.Schema, *, unknown: Unknown) -> tuple[pa.Table, pa.Buffer]:
    """The rows and their text, in which strings such as "NaN" are bare where it helps. Raises NotColumnarError."""
    try:
        return _parse(text, schema, unknown=unknown), text
    except pa.ArrowInvalid as error:
        bare = pa.py_buffer(_unquote_non_finite(text.to_pybytes(), schema))
        try:
            return _parse(bare, schema, unknown=unknown), bare
        except pa.ArrowInvalid:
            raise NotColumnarError from error


def _may_have_constants(text: pa.Buffer) -> bool:
    """Whether there may be NaN or Infinity without quotes, which is not JSON; also True for one inside a string."""
    return any(word.search(text) and constant.search(text) for word, constant in _CONSTANTS)


def _has_overflown(table: pa.Table, text: pa.Buffer) -> bool:
    """Whether more numbers are infinite than are written as Infinity: the parser makes too large ones infinite."""
    infinite = _count_floats(table, pc.is_inf)
    if not infinite:
        return False
    lines = text.to_pybytes()
    names = set(_leaf_names(table.schema, pa.types.is_floating))
    openings = [f'"{escape(name)}":{sign}Infinity'.encode() for name in names for sign in ("", "-")]
    return bool(infinite != sum(lines.count(opening) for opening in openings))


def _is_constant(floats: pa.Array) -> pa.Array:
    """Which are NaN or infinite, including those that the parser has read from the words."""
    return pc.invert(pc.is_finite(floats))


def _count_floats(table: pa.Table, test: Callable[[pa.Array], pa.Array]) -> int:
    """How many floating numbers of a table meet a test, at any depth."""
    return sum(_count_in(chunk, test) for column in table.columns for chunk in column.chunks)


def _count_in(array: pa.Array, test: Callable[[pa.Array], pa.Array]) -> int:
    if pa.types.is_floating(array.type):
        return pc.sum(test(array)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(_count_in(child, test) for child in array.flatten())
    return _count_in(array.flatten(), test) if pa.types.is_list(array.type) else 0


def _parse(text: pa.Buffer, schema: pa.Schema, *, unknown: Unknown) -> pa.Table:
    """Raises ArrowInvalid."""
    return pa_json.read_json(
        pa.BufferReader(text),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=min(text.size + 1, _BLOCK_BYTES_MAX)),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
    )


def convert_columns(columns: Sequence[WireColumn], arrays: Sequence[pa.ChunkedArray | pa.Array]) -> list[pa.Array]:
    """The columns in their own types. Raises NotColumnarError, also for a null where a type is NOT NULL."""
    try:
        converted = [column.convert(_one_chunk(array)) for column, array in zip(columns, arrays, strict=True)]
    except (pa.ArrowException, pl.exceptions.PolarsError, JsonValueError) as error:
        raise NotColumnarError from error
    if any(
        misplaced_null(array, column.field.type) is not None for column, array in zip(columns, converted, strict=True)
    ):
        raise NotColumnarError
    return converted


def _one_chunk(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _wire_type(kind: DataType) -> pa.DataType | None:
    match kind.root:
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return None
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.DATE | TypeRoot.TIME:
            return pa.string()
        case TypeRoot.ARRAY:
            assert kind.element is not None
            element = _wire_type(kind.element)
            # Strings among decimals in lists of lists are not found.
            is_hidden = element is not None and pa.types.is_list(element) and _has_decimals(element)
            return None if element is None or is_hidden else pa.list_(element)
        case TypeRoot.ROW:
            members = [(field.name, _wire_type(field.type)) for field in kind.fields]
            return None if any(wire is None for _, wire in members) else pa.struct(members)
        case TypeRoot.DECIMAL:
            return wide_decimal(kind.scale or 0)
        case _:
            return to_arrow_type(kind)


def _other_form(
    kind: DataType, sample: Json, forms: ValueForms
) -> tuple[pa.DataType, Callable[[pa.Array], pa.Array]] | None:
    """The wire type and conversion of a form that only Debezium writes; None for the usual form."""
    if kind.root is TypeRoot.DECIMAL:
        parse, final = parser_of(kind, forms), to_arrow_type(kind)
        wire = pa.string() if isinstance(sample, str) else VARIABLE_DECIMAL if isinstance(sample, Mapping) else None
        return None if wire is None else (wire, lambda array: pa.array(map(parse, array.to_pylist()), final))
    unit = forms.unit(kind) if isinstance(sample, int) and kind.root not in _BINARY_ROOTS else None
    return None if unit is None else (pa.int64(), lambda array: _from_number(array, kind, unit, forms))


def _from_number(array: pa.Array, kind: DataType, unit: str, forms: ValueForms) -> pa.Array:
    """Days, or seconds, milli-, micro- or nanoseconds, as Debezium writes them."""
    forms.see(kind, array.drop_null().to_numpy(), unit)
    final = to_arrow_type(kind)
    if kind.root is TypeRoot.DATE:
        return array.cast(pa.int32()).cast(final)
    if kind.root is TypeRoot.TIME:
        is_short = unit in ("s", "ms")
        return (array.cast(pa.int32()).cast(pa.time32(unit)) if is_short else array.cast(pa.time64(unit))).cast(final)
    return array.cast(pa.timestamp(unit, final.tz)).cast(final)


def _from_wire(array: pa.Array, kind: DataType, forms: ValueForms) -> pa.Array:
    final = to_arrow_type(kind)
    if kind.root in TIMESTAMP_ROOTS and array.null_count < len(array):
        forms.see_text(kind)
    if array.type == final:
        return array
    if kind.root in _BINARY_ROOTS:
        strings = pl.from_arrow(array)
        assert isinstance(strings, pl.Series)
        return strings.str.decode("base64").to_arrow().cast(final)
    if kind.root is TypeRoot.ARRAY:
        assert kind.element is not None
        offsets = array.offsets
        start = offsets[0].as_py()
        values = _from_wire(
            array.values.slice(start, offsets[-1].as_py() - start), kind.element, forms.inside("element")
        )
        offsets = pc.subtract(offsets, pa.scalar(start, offsets.type))
        return pa.ListArray.from_arrays(offsets, values, type=final, mask=array.is_null())
    if kind.root is TypeRoot.ROW:
        children = [
            _from_wire(child, field.type, forms.inside(field.name))
            for child, field in zip(array.flatten(), kind.fields, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(final), mask=array.is_null())
    if kind.root is TypeRoot.TIME:
        timestamps = pc.binary_join_element_wise(pa.scalar("1970-01-01 "), array, pa.scalar(""))
        return timestamps.cast(pa.timestamp(final.unit)).cast(final)
    return array.cast(final)


def _check_decimals_are_numbers(text: pa.Buffer, schema: pa.Schema) -> None:
    """Raise NotColumnarError for a string in a decimal column, which the parser would take, though it may be base64."""
    names = sorted({pl.escape_regex(escape(name)) for name in _leaf_names(schema, _is_decimal)})
    if not names:
        return
    offsets = pa.py_buffer(np.array([0, text.size], np.int64))
    lines = pl.from_arrow(pa.LargeStringArray.from_buffers(1, offsets, text))
    assert isinstance(lines, pl.Series)
    has_lists = any(pa.types.is_list(field.type) for field in _all_fields(schema))
    numbers_first = r"(?:\[[\s0-9,.eE+\-nul]*)?" if has_lists else ""
    opening = rf'\s*:\s*{numbers_first}"'
    patterns = [rf'"(?:{"|".join(names)})"{opening}']
    if lines.str.contains("\\", literal=True).item():
        patterns.append(rf'\\[^"]*"{opening}')  # an escaped name may be any name
    if any(lines.str.contains(pattern).item() for pattern in patterns):
        raise NotColumnarError


def _has_decimals(kind: pa.DataType) -> bool:
    return next(_leaf_names([pa.field("of any name", kind)], _is_decimal), None) is not None


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


def _unquote_non_finite(text: bytes, schema: pa.Schema) -> bytes:
    """`"x":"NaN"` as `"x":NaN`, which the parser reads as a number, for every floating point `x`.

    If `x` is also the name of another member, the parser then finds a number that it refuses: an error, never a wrong
    value.
    """
    for name in set(_leaf_names(schema, pa.types.is_floating)):
        opening = f'"{escape(name)}":'.encode()
        for word in (b"NaN", b"Infinity", b"-Infinity"):
            text = text.replace(b'%b"%b"' % (opening, word), opening + word)
    return text


def _leaf_names(fields: Iterable[pa.Field], is_wanted: Callable[[pa.DataType], bool]) -> Iterator[str]:
    """The names of the wanted fields at any depth."""
    for field in _all_fields(fields):
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        if is_wanted(kind):
            yield field.name


def _all_fields(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """The fields, and those of the structs in them."""
    for field in fields:
        yield field
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            yield from _all_fields(kind)
