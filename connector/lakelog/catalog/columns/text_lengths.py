"""Strings in columns of type CHAR and VARCHAR, as SQL stores and compares them.

A CHAR is padded with spaces up to its length. Spaces behind the length of either type are cut; a string that is longer
without them is left as it is, and the write refuses it.

Source: Spark, `CharVarcharCodegenUtils`, `ApplyCharTypePadding`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, DataType, TypeRoot

Values: TypeAlias = "pa.Array | pa.ChunkedArray"
_STORED, _IS_STORED = "__lakelog_stored_", "__lakelog_is_stored"
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def stored_text(values: Values, kind: DataType) -> Values:
    """Strings as a column of this type stores them; values of other types as they are."""
    length = kind.length_max
    if kind.root not in _TEXT or length is None:
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


def stored_rows(
    rows: pa.Table,
    sides: Sequence[Sequence[str]],
    known: Iterable[pa.RecordBatch],
    fields: Sequence[DataField],
    *,
    what: str,
) -> pa.Table:
    """The rows with the values in the columns of each side as a table stores them; those that it lacks are padded.

    `known` are the stored values, in columns of `fields`; those of other writers may lack the spaces of a CHAR. Raises
    InvalidRequestError for values that are stored with spaces and without.
    """
    wanted = [field.name for field in fields]
    given = [with_stored_text(rows.select(names).rename_columns(wanted), fields) for names in sides]
    types = given[0].schema
    asked = pl.concat([pl.DataFrame(one) for one in given])
    variants = asked.clear().with_columns(pl.lit(None, asked.schema[name]).alias(_STORED + name) for name in wanted)
    for batch in known:
        stored = pa.Table.from_batches([batch]).cast(types)
        texts = pl.DataFrame(stored).rename(lambda name: _STORED + name)
        padded = pl.DataFrame(with_stored_text(stored, fields)).hstack(texts)
        variants = pl.concat([variants, padded.join(asked, on=wanted, how="semi", nulls_equal=True)]).unique()
    twice = variants.filter(pl.struct(wanted).is_duplicated())
    if twice.height:
        shown = ", ".join(f"{name} {value!r}" for name, value in twice.select(wanted).row(0, named=True).items())
        raise InvalidRequestError(
            f"{what}: the table has rows with {shown}, with the spaces of CHAR and without, which another writer has "
            "written: delete those of one form with Table.delete before"
        )
    known_rows = variants.with_columns(pl.lit(value=True).alias(_IS_STORED))
    for names, one in zip(sides, given, strict=True):
        found = pl.DataFrame(one).join(known_rows, on=wanted, how="left", maintain_order="left", nulls_equal=True)
        is_stored = found[_IS_STORED].is_not_null()
        for name, own in zip(names, wanted, strict=True):
            values = found[_STORED + own].zip_with(is_stored, found[own]).to_arrow()
            rows = rows.set_column(rows.column_names.index(name), name, values.cast(types.field(own).type))
    return rows
