"""Values in another type, exactly or not at all: nothing is rounded or cut, at any depth of lists, structs and maps."""

from __future__ import annotations

from typing import TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

Values: TypeAlias = "pa.Array | pa.ChunkedArray"
_ZONE = r":.*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"  # at the end of a text of an instant
_WHOLE = r"^([+-]?[0-9]+)\.0+$"  # a whole number with digits behind its point
_DAY = "1970-01-01"  # of a time: Arrow reads no text as a time alone


def exact(values: Values, wanted: pa.DataType) -> Values:
    """The values in a type, whose structs have the same fields; FLOAT and DOUBLE take the nearest value.

    Raises ArrowInvalid for one that the type cannot hold as it is.
    """
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([exact(chunk, wanted) for chunk in values.chunks], wanted)
    if not pa.types.is_nested(wanted):
        return _single(values, wanted)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), wanted)
    if pa.types.is_struct(wanted):
        members = [exact(part, field.type) for part, field in zip(values.flatten(), wanted, strict=True)]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=values.is_null())
    if not pa.types.is_map(wanted) and not pa.types.is_list(values.type):
        values = pc.cast(values, pa.list_(values.type.value_type))
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    offsets, is_null = pc.subtract(values.offsets, values.offsets[0]), values.is_null()
    if pa.types.is_map(wanted):
        keys = exact(values.keys[first:last], wanted.key_type)
        items = exact(values.items[first:last], wanted.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=is_null)
    elements = exact(values.values[first:last], wanted.value_type)
    return pa.ListArray.from_arrays(offsets, elements, type=wanted, mask=is_null)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _single(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    given, types = values.type, pa.types
    if types.is_decimal(given):
        values.validate(full=True)  # a HUGEINT of DuckDB is a decimal of 38 digits, and may have 39
    if is_text(wanted) and not (is_text(given) or types.is_null(given)):
        return pc.cast(_texts(values), wanted)
    if is_text(given) and types.is_integer(wanted):
        values = pc.replace_substring_regex(values, _WHOLE, r"\1")
    if is_text(given) and types.is_timestamp(wanted) and wanted.tz:
        return _instants(values, wanted)
    if is_text(given) and types.is_time(wanted):
        at = pc.cast(pc.binary_join_element_wise(_DAY, values, " "), pa.timestamp(wanted.unit))
        return pc.cast(at, wanted)
    if types.is_decimal(wanted) and types.is_integer(given):
        values = pc.cast(values, pa.decimal128(38 - wanted.scale, 0))
    made = pc.cast(values, options=pc.CastOptions(wanted, allow_float_truncate=types.is_floating(wanted)))
    if types.is_floating(given) and types.is_floating(wanted):
        lost = pc.and_(pc.is_finite(values), pc.invert(pc.is_finite(made)))
    elif not _is_rounded(given, wanted):
        return made
    else:
        lost = pc.not_equal(pc.cast(made, given), values)
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid("a value is not held as it is")
    return made


def _is_rounded(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow rounds or cuts values of one type in silence, where another is wanted."""
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_floating(given))
    return bool(pa.types.is_date(wanted) and pa.types.is_timestamp(given))


def _instants(values: pa.Array, wanted: pa.TimestampType) -> pa.Array:
    """The instants in texts; one without a zone is in UTC."""
    has_zone = pc.match_substring_regex(values, _ZONE)
    zoned = pc.if_else(has_zone, values, None)
    plain = pc.cast(pc.if_else(has_zone, None, values), pa.timestamp(wanted.unit))
    return pc.coalesce(pc.cast(zoned, wanted), pc.assume_timezone(plain, "UTC").cast(wanted))


def _texts(values: pa.Array) -> pa.Array:
    """The values as DuckDB writes them."""
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"value": values}))
        made = connection.sql('SELECT CAST("value" AS VARCHAR) FROM rows').to_arrow_table()[0]
    return made.combine_chunks()
