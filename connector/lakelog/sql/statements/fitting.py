"""Rows of a query as rows of a table: by position or by name, in the types of the columns.

A value is assigned exactly, or refused: nothing is rounded or cut, and nothing becomes null. FLOAT and DOUBLE take the
nearest value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakelog.catalog.columns.text_lengths import stored_text
from lakelog.common.arrow import from_arrow_type
from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed
from lakelog.filestore.encoding import named_type, refused_place, with_named_fields
from lakelog.filestore.schema import TableSchema, default_of
from lakelog.sql.statements.exact import Values, exact, is_text

_DIGITS = 38  # of a decimal


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
    """The rows under the table's names and types, as they arrive.

    `columns` are those that the query fills; those that nothing fills have their defaults.

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
        before = 0
        for batch in rows:
            with noted():
                pairs = zip(batch.columns, fields, strict=False)
                made = [fitted_column(*pair, what, before=before) for pair in pairs]
                made = [stored_text(values, kinds[field.name]) for values, field in zip(made, fields, strict=False)]
            for field, value in zip(fields[len(filled) :], constants.values(), strict=True):
                same = pa.nulls(batch.num_rows) if value is None else pa.repeat(value, batch.num_rows)
                made.append(stored_text(pc.cast(same, field.type), kinds[field.name]))
            yield pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))
            before += batch.num_rows

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
    """Raise InvalidRequestError for structs of one column that are written with different fields."""
    for rows in query.find_all(exp.Values, exp.Array):
        row_wise = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in rows.expressions]
        for values in zip(*row_wise, strict=False):
            fields = {tuple(sorted(_field_names(one))): one for one in values if isinstance(one, exp.Struct)}
            if len(fields) > 1:
                first, second, *_ = (listed(_field_names(one)) for one in fields.values())
                raise InvalidRequestError(f"{what}: one struct has the fields {first}, another one beside it {second}")


def _field_names(given: exp.Struct) -> list[str]:
    return [one.name.lower() for one in given.expressions]


def fitted_column(values: Values, field: pa.Field, what: str, *, before: int = 0) -> Values:
    """The values in the type of a column; `before` rows of the query came earlier. Raises InvalidRequestError."""
    if values.type == field.type and not _has_huge(field.type):
        return values
    _check_assigned(values.type, field, what)
    values = with_named_fields(values, field.type, what=what, column=field.name)
    try:
        return exact(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        place = refused_place(values, lambda part: exact(part, field.type))
        refused = cut(str(values[place].as_py()))
        kind = from_arrow_type(field.type, name=field.name)
        raise InvalidRequestError(
            f"{what}: column {field.name!r} is {kind}, which cannot hold {refused}, in row {before + place + 1:,}; "
            "give it another value, or a CAST"
        ) from error


def checked(
    rows: pa.RecordBatchReader, what: str, *, noted: Callable[[], AbstractContextManager[None]]
) -> pa.RecordBatchReader:
    """The rows of a query that makes a table. Its reader raises InvalidRequestError for a value that no type holds."""

    def batches() -> Iterator[pa.RecordBatch]:
        before = 0
        for batch in rows:
            with noted():
                for values, field in zip(batch.columns, batch.schema, strict=True):
                    fitted_column(values, field, what, before=before)
            yield batch
            before += batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _has_huge(kind: pa.DataType) -> bool:
    """Whether values of a type may be HUGEINTs of DuckDB, with more digits than a decimal has."""
    if pa.types.is_nested(kind):
        return any(map(_has_huge, _parts(kind)))
    return bool(pa.types.is_decimal(kind) and kind.precision == _DIGITS and not kind.scale)


def _check_assigned(given: pa.DataType, field: pa.Field, what: str) -> None:
    if given == field.type:
        return
    if not _is_assigned(named_type(given, field.type, what=what, column=field.name), field.type):
        raise InvalidRequestError(
            f"{what}: column {field.name!r} is {field.type}, found values of type {given}; write a CAST"
        )


def _is_assigned(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type, of `named_type`, may be those of another: a text is read as what it says."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_nested(given) or pa.types.is_nested(wanted):
        parts = zip(_parts(given), _parts(wanted), strict=False)
        return _family(given) == _family(wanted) and all(_is_assigned(*pair) for pair in parts)
    return is_text(wanted) or is_text(given) or _family(given) == _family(wanted)


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """The types in a nested one."""
    return [kind.field(place).type for place in range(kind.num_fields)]


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_time(kind):
        return "time of a day"
    if is_text(kind):
        return "text"
    return str(kind.id) if pa.types.is_nested(kind) else str(kind)
