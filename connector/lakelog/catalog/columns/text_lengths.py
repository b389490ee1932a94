"""Strings in columns of type CHAR and VARCHAR, as SQL stores and compares them.

A CHAR is padded with spaces up to its length. Spaces behind the length of either type are cut; a string that is longer
without them is left as it is, and the write refuses it.

Source: Spark, `CharVarcharCodegenUtils`, `ApplyCharTypePadding`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import MAX_LENGTH, DataField, DataType, TypeRoot

Values: TypeAlias = "pa.Array | pa.ChunkedArray"
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def char_lengths(fields: Sequence[DataField]) -> dict[str, int]:
    """The lengths of the CHAR columns, by their names."""
    return {one.name: one.type.length or 0 for one in fields if one.type.root is TypeRoot.CHAR}


def stored_text(values: Values, kind: DataType) -> Values:
    """Strings as a column of this type stores them; values of other types as they are."""
    length = kind.length
    if kind.root not in _TEXT or length is None or length == MAX_LENGTH:
        return values
    is_cut = pc.and_(
        pc.greater(pc.utf8_length(values), length),
        pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), length),
    )
    if pc.any(is_cut).as_py():
        values = pc.if_else(is_cut, pc.utf8_slice_codeunits(values, 0, length), values)
    return pc.utf8_rpad(values, length, " ") if kind.root is TypeRoot.CHAR else values


def with_stored_text(rows: pa.Table, fields: Sequence[DataField], *, kept: Collection[str] = ()) -> pa.Table:
    """The rows with their strings as the columns store them, except the columns `kept`."""
    for at, field in enumerate(fields):
        if field.type.root in _TEXT and field.name not in kept:
            values = pc.cast(rows.column(at), pa.string())
            rows = rows.set_column(at, field.name, stored_text(values, field.type))
    return rows
