"""New values of columns: plain values, or polars expressions over a row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_field
from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.row_places import without_places
from lakelog.filestore.write.columns import names_of
from lakelog.filestore.write.validate import validate_rows


def named_columns(
    table: TableStore, values: Mapping[str, object], what: str, *, takes_keys: bool = False
) -> dict[str, object]:
    """Values by the table's names of columns. Raises InvalidRequestError for columns that the table lacks.

    Also raises it for columns of the primary key, unless rows are new: a row with another key is another row.
    """
    schema, column_of = table.schema, names_of(table.schema)
    if not values:
        raise InvalidRequestError(f"{what} of table {table.name} names no column; give set={{column: value}}")
    columns = {name: column_of(name) for name in values}
    unknown = [name for name, column in columns.items() if column is None]
    if unknown:
        raise InvalidRequestError(
            f"{what} names column(s) {listed(unknown)}, which table {table.name} lacks; it has "
            f"{listed(schema.field_names)}"
        )
    keys = [name for name, column in columns.items() if column in schema.primary_keys]
    if keys and not takes_keys:
        raise InvalidRequestError(
            f"{what} sets column(s) {listed(keys)} of the primary key of table {table.name}: a row with another key "
            "is another row; delete the old rows and write the new ones"
        )
    return {str(columns[name]): value for name, value in values.items()}


def with_values(
    table: TableStore, rows: pa.Table, values: Mapping[str, object], *, frame: pl.DataFrame | None = None, what: str
) -> pa.Table:
    """The rows with new values in columns. Raises InvalidRequestError for values that do not fit.

    Expressions are over the `frame`, which has a row for each of `rows`; by default it is these rows.
    """
    rows = without_places(rows)
    made: dict[str, pa.ChunkedArray] = {}
    for name, value in values.items():
        if isinstance(value, pl.Expr):
            frame = pl.DataFrame(rows) if frame is None else frame
            found = evaluated(frame, value, f"{what} of table {table.name}")
            made[name] = pa.chunked_array([found.to_arrow(compat_level=pl.CompatLevel.oldest())])
            continue
        kind = to_arrow_field(table.schema.field(name)).type
        try:
            constant = pa.scalar(_assigned(value, kind), kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise InvalidRequestError(
                f"table {table.name}, column {name!r}: the value {value!r} does not fit {table.schema.field(name).type}"
                f"; give one that does, or a polars expression over the row, such as pl.col({name!r}): {error}"
            ) from error
        made[name] = pa.chunked_array([pa.repeat(constant, rows.num_rows)])
    changed = rows
    for name, column in made.items():
        changed = changed.set_column(changed.column_names.index(name), name, column)
    return validate_rows(table.schema, changed, table_name=table.name)


def _assigned(value: object, kind: pa.DataType) -> object:
    """The value, with the fields of structs under the names of the type.

    Raises ArrowInvalid for what `pyarrow.scalar` would fill with nulls, leave out or cut.
    """
    types = pa.types
    if types.is_struct(kind) and isinstance(value, Mapping):
        given = {str(name): one for name, one in value.items()}
        own = {one.name: matching(one.name, given) for one in kind}
        if len(own) != len(given) or any(len(found) != 1 for found in own.values()):
            raise pa.ArrowInvalid(f"the fields are {listed(own)}, found {listed(given)}")
        return {name: _assigned(given[found[0]], kind.field(name).type) for name, found in own.items()}
    if types.is_map(kind) and isinstance(value, Mapping):
        value = list(value.items())
    if types.is_map(kind) and isinstance(value, list):
        return [(_assigned(key, kind.key_type), _assigned(item, kind.item_type)) for key, item in value]
    if types.is_list(kind) and isinstance(value, list | tuple):
        return [_assigned(one, kind.value_type) for one in value]
    if (types.is_integer(kind) and isinstance(value, float) and not value.is_integer()) or (
        types.is_date(kind) and isinstance(value, datetime)
    ):
        raise pa.ArrowInvalid("a part of it would be cut")
    return value


def evaluated(frame: pl.DataFrame, expression: pl.Expr, what: str) -> pl.Series:
    """The value of an expression for each row. Raises InvalidRequestError if the expression fails."""
    try:
        found = frame.lazy().select(expression.alias("value")).collect()["value"]
    except pl.exceptions.PolarsError as error:
        raise InvalidRequestError(f"an expression of {what} failed: {error}") from error
    return found if len(found) == frame.height else found.new_from_index(0, frame.height)
