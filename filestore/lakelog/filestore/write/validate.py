"""Checks rows against a table's columns, before they are written or logged. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import misplaced_null, to_arrow_field, wide_decimal
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, shown
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.arrow_casts import named_type, refused_value, with_named_fields
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.columns import places_of_columns

_TEXT = {TypeRoot.CHAR, TypeRoot.VARCHAR}
_FAMILIES = (
    (pa.types.is_integer, (pa.types.is_integer,)),
    (pa.types.is_decimal, (pa.types.is_decimal, pa.types.is_integer)),
    (pa.types.is_string, (pa.types.is_large_string, pa.types.is_string_view)),
    (pa.types.is_binary, (pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)),
    (pa.types.is_date, (pa.types.is_date,)),
    (pa.types.is_time, (pa.types.is_time,)),
)
_SHOWN_COLUMNS = 6  # of a row that is refused
_LONG_DIGITS = 20  # digits of the largest 64-bit number


def validate_rows(schema: TableSchema, rows: pa.Table, *, table_name: str, rows_before: int = 0) -> pa.Table:
    """The rows with exactly the table's columns, in their order and types; a column that the rows lack is null.

    Types may differ if every value stays the same: narrower numbers, other string layouts, other units and zones of
    timestamps. Fields of structs are found by their names, and none may be missing. Raises InvalidRequestError naming
    table, column, what was found and what was expected; row numbers in errors count from `rows_before`.
    """
    places = check_columns(schema, rows.schema, table_name=table_name)
    columns = []
    keys = () if schema.is_counted else schema.primary_keys  # the whole row is the key, nulls included
    for field, place in zip(schema.fields, places, strict=True):
        if place is None:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, to_arrow_field(field).type)]))
            continue
        values = converted(rows.column(place), field, table_name)
        _check_nulls(values, field, table_name, rows, rows_before, is_key=field.name in keys)
        _check_lengths(values, field, table_name, rows_before)
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema.arrow_schema)


def check_columns(
    schema: TableSchema, found: pa.Schema, *, table_name: str, is_case_sensitive: bool = False
) -> list[int | None]:
    """For each column of the table its index in `found`, None for a missing nullable one.

    Raises InvalidRequestError for other columns than the table's, and for types that cannot be converted.
    """
    places = places_of_columns(schema, found.names, table_name=table_name, is_case_sensitive=is_case_sensitive)
    given = [(field, found.field(at).type) for field, at in zip(schema.fields, places, strict=True) if at is not None]
    _check_types(given, table_name)
    return places


def converted(values: pa.ChunkedArray, field: DataField, table_name: str) -> pa.ChunkedArray:
    """The values of a column in its type. Raises InvalidRequestError if a value would change."""
    wanted = to_arrow_field(field).type
    if values.type == wanted:
        return values
    _check_types([(field, values.type)], table_name)
    values = with_named_fields(values, wanted, what=f"table {table_name}", column=field.name)
    try:
        return _cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        refused = cut(str(refused_value(values, lambda part: _cast(part, wanted))))
        raise InvalidRequestError(
            f"table {table_name}, column {field.name!r}: values of type {values.type} do not fit {field.type}, such as "
            f"{refused}: {error}"
        ) from error


def _cast(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if isinstance(values.type, pa.UuidType) and pa.types.is_string(wanted):
        return pa.chunked_array([_uuid_texts(chunk.storage) for chunk in values.chunks], wanted)
    if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
        values = values.cast(pa.decimal128(_LONG_DIGITS, 0))
    if pa.types.is_decimal(values.type):
        values = values.cast(wide_decimal(wanted.scale))
    return values.cast(wanted)


def _check_types(given: Iterable[tuple[DataField, pa.DataType]], table_name: str) -> None:
    """Raise InvalidRequestError naming each column that cannot be converted, and for structs with other fields."""
    refused = []
    for field, found in given:
        wanted = to_arrow_field(field).type
        if not _is_convertible(named_type(found, wanted, what=f"table {table_name}", column=field.name), wanted):
            refused.append(f"column {field.name!r}: expected {_described(field.type)}, found the Arrow type {found}")
    if refused:
        raise InvalidRequestError(f"table {table_name}, {'; '.join(refused)}; cast before writing")


def _uuid_texts(values: pa.FixedSizeBinaryArray) -> pa.Array:
    """UUIDs as texts of 36 signs, such as `123e4567-e89b-12d3-a456-426614174000`."""
    digits = np.frombuffer(b"".join(values.fill_null(bytes(16)).to_pylist()).hex().encode(), "S1").reshape(-1, 32)
    texts = np.insert(digits, (8, 12, 16, 20), b"-", axis=1).view("S36").ravel()
    return pa.array(texts, pa.binary(), mask=values.is_null().to_numpy(zero_copy_only=False)).cast(pa.string())


def _is_convertible(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types are of one family, so that a checked cast keeps every value or fails."""
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return _is_convertible(given.value_type, wanted)
    if isinstance(given, pa.BaseExtensionType):
        is_text = isinstance(given, pa.UuidType) and types.is_string(wanted)
        is_flag = isinstance(given, pa.Bool8Type) and types.is_boolean(wanted)
        return is_text or is_flag or _is_convertible(given.storage_type, wanted)
    if types.is_floating(wanted):
        return bool(types.is_floating(given) and given.bit_width <= wanted.bit_width)
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None))
    for is_family, may_come_from in _FAMILIES:
        if is_family(wanted):
            return any(is_member(given) for is_member in may_come_from)
    return _is_nested_convertible(given, wanted)


def _is_nested_convertible(given: pa.DataType, wanted: pa.DataType) -> bool:
    """`given` is a type of `named_type`."""
    types = pa.types
    if types.is_map(wanted):
        return (
            types.is_map(given)
            and _is_convertible(given.key_type, wanted.key_type)
            and _is_convertible(given.item_type, wanted.item_type)
        )
    if types.is_list(wanted):
        is_list = types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
        return is_list and _is_convertible(given.value_type, wanted.value_type)
    if types.is_struct(wanted) and types.is_struct(given):
        return all(_is_convertible(mine.type, own.type) for mine, own in zip(given, wanted, strict=True))
    return False


def _check_nulls(
    values: pa.ChunkedArray, field: DataField, table_name: str, rows: pa.Table, rows_before: int, *, is_key: bool
) -> None:
    if values.null_count and (is_key or not field.type.nullable):
        what = "a primary key column" if is_key else "NOT NULL"
        first = pc.index(values.is_null(), True).as_py()
        raise InvalidRequestError(
            f"table {table_name}, column {field.name!r} is {what}, but {values.null_count} row(s) have a null, "
            f"the first is row {rows_before + first}, which begins with {_shown(rows, first)}"
        )
    place = misplaced_null(values, field.type)
    if place is not None:
        raise InvalidRequestError(
            f"table {table_name}, column {field.name!r} has nulls at {field.name}{place}, which is NOT NULL; its type "
            f"is {field.type}"
        )


def _shown(rows: pa.Table, number: int) -> str:
    """The first columns of a row, for an error."""
    names = rows.column_names[:_SHOWN_COLUMNS]
    (row,) = rows.select(names).slice(number, 1).to_pylist()
    return ", ".join(f"{shown(name)}: {shown(row[name])}" for name in names)


def _check_lengths(values: pa.ChunkedArray, field: DataField, table_name: str, rows_before: int) -> None:
    kind = field.type
    length_max = kind.length_max
    if length_max is None:
        return
    lengths = pc.utf8_length(values) if kind.root in _TEXT else pc.binary_length(values)
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > length_max:
        first = pc.index(pc.greater(lengths, length_max), True).as_py()
        unit = "characters" if kind.root in _TEXT else "bytes"
        raise InvalidRequestError(
            f"table {table_name}, column {field.name!r} is {kind}, but row {rows_before + first} has {lengths[first]} "
            f"{unit}"
        )


def _described(kind: DataType) -> str:
    return f"{kind} (Arrow {to_arrow_field(DataField(id=0, name='', type=kind)).type})"
