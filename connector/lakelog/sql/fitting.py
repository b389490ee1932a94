"""Rows of a query as rows of a table: by position or by name, in the types of the columns.

Source: Spark, "ANSI Compliance", the rules of store assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.schema import TableSchema


def fitted(
    schema: TableSchema,
    rows: pa.Table,
    *,
    columns: Sequence[str],
    constants: Mapping[str, object],
    by_name: bool,
    what: str,
) -> pa.Table:
    """The rows under the table's names and types; `columns` are those that the query fills.

    Raises InvalidRequestError for a column too many or too few, and for a value that does not fit.
    """
    if by_name:
        wanted = {name.lower(): name for name in columns}
        unknown = [name for name in rows.column_names if name.lower() not in wanted]
        if unknown:
            raise InvalidRequestError(f"{what}: the table has no column {unknown[0]!r}; it has {', '.join(columns)}")
        rows = rows.rename_columns([wanted[name.lower()] for name in rows.column_names])
    else:
        if rows.num_columns != len(columns):
            raise InvalidRequestError(
                f"{what}: the query has {rows.num_columns} columns, and {len(columns)} are filled: {', '.join(columns)}"
            )
        rows = rows.rename_columns(list(columns))
    arrow = schema.arrow_schema
    made = {name: fitted_column(rows[name], arrow.field(name), what) for name in rows.column_names}
    for name, value in constants.items():
        given = pa.repeat(pa.scalar(value), rows.num_rows) if value is not None else pa.nulls(rows.num_rows)
        made[name] = pc.cast(given, arrow.field(name).type)
    return pa.table(made, schema=pa.schema([arrow.field(name).with_nullable(True) for name in made]))


def fitted_column(values: pa.ChunkedArray, field: pa.Field, what: str) -> pa.ChunkedArray:
    """The values in the type of a column. Raises InvalidRequestError."""
    if values.type == field.type:
        return values
    if not _is_assigned(values.type, field.type):
        raise InvalidRequestError(
            f"{what}: column {field.name!r} is {field.type}, found values of type {values.type}; write a CAST"
        )
    try:
        if pa.types.is_decimal(field.type) and not pa.types.is_floating(values.type):
            values = _decimals(values, field.type)
        return pc.cast(values, options=pc.CastOptions(field.type, allow_float_truncate=True, allow_time_truncate=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"{what}: column {field.name!r} of type {field.type}: {error}") from error


def _decimals(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Numbers with the digits behind the point that a decimal type has, rounded half up as Spark does."""
    if pa.types.is_integer(values.type):
        return pc.cast(values, pa.decimal128(38 - wanted.scale, 0))
    if pa.types.is_decimal(values.type) and values.type.scale > wanted.scale:
        return pc.round(values, ndigits=wanted.scale, round_mode="half_towards_infinity")
    return values


def _is_assigned(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark assigns values of one type to a column of another."""
    if pa.types.is_null(given) or pa.types.is_nested(given) or pa.types.is_nested(wanted):
        return True
    if _is_text(wanted):
        return True
    return _family(given) == _family(wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if _is_text(kind):
        return "text"
    return str(kind)
