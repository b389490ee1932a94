"""The kinds of rows that are written: given beside the rows, or as a text in a column of the table. Pure.

Source: Paimon, `RowKindGenerator` and `RowKind.fromShortString`.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS, RowKind
from lakelog.filestore.options.merging import ROWKIND_FIELD
from lakelog.filestore.schema.schema import TableSchema

_ROW_KINDS = [int(kind) for kind in RowKind]


def written_kinds(
    schema: TableSchema, rows: pa.Table, kinds: pa.Array | pa.ChunkedArray | None, *, table_name: str
) -> pa.Array:
    """The kind of each row as int8: by the column that `rowkind.field` names, else as given, else upserts.

    `rows` has the table's columns. Raises InvalidRequestError for texts and numbers that are no kind, nulls too, and
    for kinds that are given to a table whose column tells them.
    """
    name = ROWKIND_FIELD.of(schema.options)
    if name is None:
        return checked_kinds(kinds, rows.num_rows)
    if kinds is not None:
        raise kinds_twice(name, table_name=table_name)
    return kinds_of_texts(rows.column(name), what=f"table {table_name}, column {name!r}", any_case=True)


def kinds_twice(name: str, *, table_name: str) -> InvalidRequestError:
    """The error for rows that come with kinds to a table whose column `name` tells them."""
    return InvalidRequestError(
        f"table {table_name} has {ROWKIND_FIELD.key}={name}: column {name!r} says what each row is; write the rows "
        "without kinds, and without a column _row_kind"
    )


def kinds_of_texts(texts: pa.Array | pa.ChunkedArray, *, what: str, any_case: bool = False) -> pa.Array:
    """Row kinds of texts `+I`, `-U`, `+U`, `-D`. Raises InvalidRequestError, with `what` they are, for other texts."""
    spelled = pc.ascii_upper(texts) if any_case else texts
    kinds = pc.index_in(spelled, value_set=pa.array(ROW_KIND_TEXTS, texts.type))
    if kinds.null_count:
        first = pc.index(kinds.is_null(), True).as_py()
        odd = texts[first].as_py()
        raise InvalidRequestError(
            f"{what} must be one of {', '.join(ROW_KIND_TEXTS)}, found {'a null' if odd is None else repr(odd)} in row "
            f"{first}"
        )
    found = kinds.cast(pa.int8())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def checked_kinds(kinds: pa.Array | pa.ChunkedArray | None, row_count: int) -> pa.Array:
    """Row kinds as one int8 array, upserts where none are given. Raises InvalidRequestError for anything else."""
    if kinds is None:
        return pa.nulls(row_count, pa.int8()).fill_null(int(RowKind.INSERT))
    found = kinds.combine_chunks() if isinstance(kinds, pa.ChunkedArray) else kinds
    if found.type != pa.int8() or len(found) != row_count or found.null_count:
        raise InvalidRequestError(
            f"row kinds must be {row_count} values of int8 without nulls; found {len(found)} of {found.type}, "
            f"{found.null_count} of them null"
        )
    unknown = pl.from_arrow(found.unique())
    assert isinstance(unknown, pl.Series)
    odd = [kind for kind in unknown if kind not in _ROW_KINDS]
    if odd:
        raise InvalidRequestError(f"row kinds must be 0 (+I), 1 (-U), 2 (+U) or 3 (-D); found {odd[0]}")
    return found
