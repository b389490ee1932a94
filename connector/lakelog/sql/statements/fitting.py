"""Rows of a query as rows of a table: by position or by name, in the types of the columns.

Source: Spark, "ANSI Compliance", the rules of store assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakelog.catalog.columns.text_lengths import stored_text
from lakelog.common.arrow import from_arrow_type, wide_decimal
from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed
from lakelog.filestore.encoding import named_type, refused_value, with_named_fields
from lakelog.filestore.schema import TableSchema, default_of

Values: TypeAlias = "pa.Array | pa.ChunkedArray"


def fitted(
    schema: TableSchema,
    rows: pa.RecordBatchReader,
    *,
    columns: Sequence[str],
    constants: Mapping[str, object],
    by_name: bool,
    what: str,
    noted: Callable[[], AbstractContextManager[None]],
) -> pa.RecordBatchReader:
    """The rows under the table's names and types, as they arrive; `columns` are those that the query
    fills; those that nothing fills have their defaults.

    Raises InvalidRequestError for a column too many or too few, and the reader, in `noted()`, for a value that does not
    fit.
    """
    given = rows.schema.names
    if by_name:
        filled = [column_named(name, columns, what) for name in given]
    else:
        if len(given) != len(columns):
            raise InvalidRequestError(
                f"{what}: the query has {len(given)} columns, and {len(columns)} are filled: {', '.join(columns)}"
            )
        filled = list(columns)
    constants = {**_defaults(schema, (*filled, *constants)), **constants}
    fields = [schema.arrow_schema.field(name).with_nullable(True) for name in (*filled, *constants)]
    for column, field in zip(rows.schema, fields, strict=False):
        _check_assigned(column.type, field, what)

    kinds = {field.name: field.type for field in schema.fields}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            with noted():
                made = [fitted_column(*pair, what) for pair in zip(batch.columns, fields, strict=False)]
                made = [stored_text(values, kinds[field.name]) for values, field in zip(made, fields, strict=False)]
            for field, value in zip(fields[len(filled) :], constants.values(), strict=True):
                same = pa.nulls(batch.num_rows) if value is None else pa.repeat(value, batch.num_rows)
                made.append(stored_text(pc.cast(same, field.type), kinds[field.name]))
            yield pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))

    return pa.RecordBatchReader.from_batches(pa.schema(fields), batches())


def _defaults(schema: TableSchema, filled: Sequence[str]) -> dict[str, pa.Scalar]:
    """The defaults of the columns that are not filled."""
    left = (field for field in schema.fields if field.name not in filled)
    return {field.name: value for field in left if (value := default_of(field)) is not None}


def column_named(name: str, columns: Sequence[str], what: str) -> str:
    """The column that a name means. Raises InvalidRequestError if there is none, or are several."""
    found = matching(name, columns)
    if not found:
        raise InvalidRequestError(f"{what}: the table has no column {name!r}; it has {', '.join(columns)}")
    if len(found) > 1:
        raise InvalidRequestError(f"{what}: column {name!r} is ambiguous: {', '.join(found)}")
    return found[0]


def check_same_fields(query: exp.Expr, what: str) -> None:
    """Raise InvalidRequestError for structs of one column, or of one array, that are written with different fields:
    DuckDB gives each the fields of all, and nulls in them."""
    for rows in query.find_all(exp.Values, exp.Array):
        row_wise = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in rows.expressions]
        for values in zip(*row_wise, strict=False):
            fields = {tuple(sorted(_field_names(one))): one for one in values if isinstance(one, exp.Struct)}
            if len(fields) > 1:
                first, second, *_ = (listed(_field_names(one)) for one in fields.values())
                raise InvalidRequestError(f"{what}: one struct has the fields {first}, another one beside it {second}")


def _field_names(given: exp.Struct) -> list[str]:
    return [one.name.lower() for one in given.expressions]


def fitted_column(values: Values, field: pa.Field, what: str) -> Values:
    """The values in the type of a column. Raises InvalidRequestError."""
    if values.type == field.type:
        return values
    _check_assigned(values.type, field, what)
    values = with_named_fields(values, field.type, what=what, column=field.name)
    try:
        return _cast(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        refused = cut(str(refused_value(values, lambda part: _cast(part, field.type))))
        kind = from_arrow_type(field.type, name=field.name)
        raise InvalidRequestError(
            f"{what}: column {field.name!r} is {kind}, which cannot hold {refused}; give it another value, or a CAST"
        ) from error


def _cast(values: Values, wanted: pa.DataType) -> Values:
    """Digits behind the point and parts of a second are cut where Spark cuts them, and nothing else."""
    if pa.types.is_decimal(wanted) and not pa.types.is_floating(values.type):
        values = _decimals(values, wanted)
    if pa.types.is_integer(wanted) and pa.types.is_floating(values.type):
        values = pc.trunc(values)
    is_float = pa.types.is_floating(wanted)
    return pc.cast(values, options=pc.CastOptions(wanted, allow_float_truncate=is_float, allow_time_truncate=True))


def _check_assigned(given: pa.DataType, field: pa.Field, what: str) -> None:
    if given == field.type:
        return
    if not _is_assigned(named_type(given, field.type, what=what, column=field.name), field.type):
        raise InvalidRequestError(
            f"{what}: column {field.name!r} is {field.type}, found values of type {given}; write a CAST"
        )


def _decimals(values: Values, wanted: pa.DataType) -> Values:
    """Numbers with the digits behind the point that a decimal type has, rounded half up as Spark does."""
    if pa.types.is_integer(values.type):
        return pc.cast(values, pa.decimal128(38 - wanted.scale, 0))
    if pa.types.is_decimal(values.type):
        if values.type.scale > wanted.scale:
            values = pc.round(values, ndigits=wanted.scale, round_mode="half_towards_infinity")
        return pc.cast(values, wide_decimal(wanted.scale))
    return values


def _is_assigned(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark assigns values of one type, of `named_type`, to a column of another."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_nested(given) or pa.types.is_nested(wanted):
        parts = zip(_parts(given), _parts(wanted), strict=False)
        return _family(given) == _family(wanted) and all(_is_assigned(*pair) for pair in parts)
    return _is_text(wanted) or _family(given) == _family(wanted)


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """The types in a nested one."""
    return [kind.field(place).type for place in range(kind.num_fields)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_time(kind):
        return "time of a day"
    if _is_text(kind):
        return "text"
    return str(kind.id) if pa.types.is_nested(kind) else str(kind)
