"""The kinds of written rows: an argument of the write, the column `_row_kind` of the rows, or a column of the table.

Source: Paimon, `RowKindGenerator` and `RowKind.fromShortString`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, RowKind
from lakelog.filestore.options.merging import ROWKIND_FIELD
from lakelog.filestore.schema.schema import TableSchema

_ROW_KINDS = [int(kind) for kind in RowKind]
_SPELLINGS = "'+I', '-U', '+U', '-D' or the numbers 0 to 3"

RowKinds: TypeAlias = str | int | pa.Array | pa.ChunkedArray | pl.Series | Sequence[str | int]


def parsed_kinds(given: RowKinds | None) -> pa.Array | int | None:
    """Row kinds as users give them: one for all rows, as an int, or one per row, as int8; None for None.

    Raises InvalidRequestError for other values than row kinds.
    """
    if given is None:
        return None
    if isinstance(given, str | int):
        return _number_of(given)
    try:
        kinds = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InvalidRequestError(
            f"row_kinds takes {_SPELLINGS}, one for all rows or one a row; found {shown(given)}"
        ) from error
    return kind_numbers(kinds, what="row_kinds")


def _number_of(kind: str | int) -> int:
    known = ROW_KIND_TEXTS if isinstance(kind, str) else _ROW_KINDS
    if isinstance(kind, bool) or kind not in known:
        raise InvalidRequestError(f"row_kinds takes {_SPELLINGS}, one for all rows or one a row; found {shown(kind)}")
    return ROW_KIND_TEXTS.index(kind) if isinstance(kind, str) else int(kind)


def kind_numbers(kinds: pa.Array | pa.ChunkedArray, *, what: str, rows_before: int = 0) -> pa.Array:
    """Row kinds as int8, from strings or numbers.

    Raises InvalidRequestError, which begins with `what`, for other values; row numbers in errors count from
    `rows_before`.
    """
    types, kind = pa.types, kinds.type
    if types.is_dictionary(kind):
        return kind_numbers(kinds.cast(kind.value_type), what=what, rows_before=rows_before)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return kinds_of_strings(kinds.cast(pa.string()), what=what, rows_before=rows_before)
    if not (types.is_integer(kind) or (types.is_null(kind) and not len(kinds))):
        raise InvalidRequestError(f"{what} must be {_SPELLINGS}, found values of the Arrow type {kind}")
    found = kinds.combine_chunks() if isinstance(kinds, pa.ChunkedArray) else kinds
    is_kind = pc.fill_null(pc.is_in(found, value_set=pa.array(_ROW_KINDS, found.type)), False)
    if not pc.all(is_kind, min_count=0).as_py():
        first = pc.index(is_kind, False).as_py()
        odd = found[first].as_py()
        raise InvalidRequestError(
            f"{what} must be {_SPELLINGS}, found {'a null' if odd is None else odd} in row {rows_before + first}"
        )
    return found.cast(pa.int8())


def with_kind_numbers(batch: pa.RecordBatch, *, rows_before: int = 0) -> pa.RecordBatch:
    """The batch with its column `_row_kind`, if it has one, as int8. Raises InvalidRequestError, as `kind_numbers`."""
    at = batch.schema.get_field_index(ROW_KIND_COLUMN)
    if at < 0:
        return batch
    kinds = kind_numbers(batch.column(at), what=f"column {ROW_KIND_COLUMN!r}", rows_before=rows_before)
    return batch.set_column(at, pa.field(ROW_KIND_COLUMN, pa.int8()), kinds)


def with_kinds(batches: Iterable[pa.RecordBatch], kinds: pa.Array | int | None) -> Iterator[pa.RecordBatch]:
    """Batches with row kinds in a column `_row_kind` of int8: their own, or `kinds` in order.

    Raises InvalidRequestError for kinds that are given in both ways, and if the numbers of kinds and rows differ.
    """
    taken = 0
    for batch in batches:
        if kinds is None:
            yield with_kind_numbers(batch, rows_before=taken)
            taken += batch.num_rows
            continue
        check_kinds_once(batch.schema)
        own = kinds_for(kinds if isinstance(kinds, int) else kinds.slice(taken, batch.num_rows), batch.num_rows)
        taken += batch.num_rows
        if isinstance(kinds, pa.Array) and len(own) < batch.num_rows:
            raise InvalidRequestError(
                f"row_kinds has {taken - batch.num_rows + len(own)} values, and the rows are more"
            )
        yield batch.append_column(ROW_KIND_COLUMN, own)
    if isinstance(kinds, pa.Array) and len(kinds) > taken:
        raise InvalidRequestError(f"row_kinds has {len(kinds)} values for {taken} rows")


def kinds_for(kinds: pa.Array | int, row_count: int) -> pa.Array:
    """The kinds of `row_count` rows."""
    return pa.nulls(row_count, pa.int8()).fill_null(kinds) if isinstance(kinds, int) else kinds


def split_kinds(rows: pa.Table) -> tuple[pa.Table, pa.Array | None]:
    """Rows without their column `_row_kind`, and this column unchanged, or None for rows without it."""
    if ROW_KIND_COLUMN not in rows.column_names:
        return rows, None
    return rows.drop_columns([ROW_KIND_COLUMN]), rows.column(ROW_KIND_COLUMN).combine_chunks()


def rows_and_kinds(rows: pa.Table, kinds: pa.Array | int | None) -> tuple[pa.Table, pa.Array | None]:
    """Rows without their column `_row_kind`, and their kinds as int8: those of this column, or `kinds`, or None.

    Raises InvalidRequestError for kinds that are given in both ways, for a value that is not a row kind, and if the
    numbers of kinds and rows differ.
    """
    if kinds is None:
        rows, own = split_kinds(rows)
        return rows, None if own is None else kind_numbers(own, what=f"column {ROW_KIND_COLUMN!r}")
    check_kinds_once(rows.schema)
    own = kinds_for(kinds, rows.num_rows)
    if len(own) != rows.num_rows:
        raise InvalidRequestError(f"row_kinds has {len(own)} values for {rows.num_rows} rows")
    return rows, own


def check_kinds_once(schema: pa.Schema) -> None:
    """Raise InvalidRequestError for rows that have a column `_row_kind` although kinds are given."""
    if ROW_KIND_COLUMN in schema.names:
        raise InvalidRequestError(f"the rows have a column {ROW_KIND_COLUMN!r}, and row_kinds are given too: give one")


def written_kinds(
    schema: TableSchema,
    rows: pa.Table,
    kinds: pa.Array | pa.ChunkedArray | None,
    *,
    table_name: str,
    rows_before: int = 0,
) -> pa.Array:
    """The kind of each row as int8: from the column that `rowkind.field` names, else as given, else upserts.

    `rows` has the table's columns. Raises InvalidRequestError for strings and numbers that are not row kinds, for
    nulls, and for kinds that are given in a write to a table with a column for them.
    """
    name = ROWKIND_FIELD.of(schema.options)
    if name is None:
        return checked_kinds(kinds, rows.num_rows)
    if kinds is not None:
        raise kinds_twice(name, table_name=table_name)
    what = f"table {table_name}, column {name!r}"
    return kinds_of_strings(rows.column(name), what=what, any_case=True, rows_before=rows_before)


def kinds_twice(name: str, *, table_name: str) -> InvalidRequestError:
    """The error for rows with kinds in a write to a table whose column `name` holds them."""
    return InvalidRequestError(
        f"table {table_name} has {ROWKIND_FIELD.key}={name}: column {name!r} holds the row kinds; write the rows "
        "without kinds, and without a column _row_kind"
    )


def kinds_of_strings(
    strings: pa.Array | pa.ChunkedArray, *, what: str, any_case: bool = False, rows_before: int = 0
) -> pa.Array:
    """Row kinds from `+I`, `-U`, `+U`, `-D`. Raises InvalidRequestError, beginning with `what`, for others."""
    spelled = pc.ascii_upper(strings) if any_case else strings
    kinds = pc.index_in(spelled, value_set=pa.array(ROW_KIND_TEXTS, strings.type))
    if kinds.null_count:
        first = pc.index(kinds.is_null(), True).as_py()
        odd = strings[first].as_py()
        raise InvalidRequestError(
            f"{what} must be one of {', '.join(ROW_KIND_TEXTS)}, found {'a null' if odd is None else repr(odd)} in row "
            f"{rows_before + first}"
        )
    found = kinds.cast(pa.int8())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def checked_kinds(kinds: pa.Array | pa.ChunkedArray | None, row_count: int) -> pa.Array:
    """Row kinds as one int8 array, upserts if none are given. Raises InvalidRequestError for anything else."""
    if kinds is None:
        return pa.nulls(row_count, pa.int8()).fill_null(int(RowKind.INSERT))
    found = kinds.combine_chunks() if isinstance(kinds, pa.ChunkedArray) else kinds
    if found.type != pa.int8() or len(found) != row_count or found.null_count:
        raise InvalidRequestError(
            f"row kinds must be {row_count} values of int8 without nulls; found {len(found)} of {found.type}, "
            f"{found.null_count} of them null"
        )
    odd = [kind for kind in found.unique().to_pylist() if kind not in _ROW_KINDS]
    if odd:
        raise InvalidRequestError(f"row kinds must be 0 (+I), 1 (-U), 2 (+U) or 3 (-D); found {odd[0]}")
    return found
