"""Rows of VALUES whose values of one column have several types.

DuckDB gives each column of VALUES one type, and casts to it: a text beside a DATE loses its time, a BIGINT beside a
DOUBLE its last digits. Where the rows are those of an INSERT it casts each value to the type of the column instead, and
so such values get there one by one: as texts, which are stored exactly or refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakelog.common.types import DataField, TypeRoot
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.spans import replaced

_TEXT, _NULL = "text", "null"
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_CASTS = {
    TypeRoot.FLOAT: "DOUBLE",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.BINARY: "BLOB",
    TypeRoot.VARBINARY: "BLOB",
    TypeRoot.BLOB: "BLOB",
}


def keep_values(query: exp.Expr, fields: Sequence[DataField]) -> None:
    """Cast values of VALUES, which fill these columns, where those of one column have several types."""
    if not isinstance(query, exp.Values):
        return
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions]
    for field, values in zip(fields, zip(*rows, strict=False), strict=False):
        if len({_kind(value, field) for value in values} - {_NULL}) > 1 and not field.type.is_nested:
            for value in values:
                _cast(value, _CASTS.get(field.type.root, "VARCHAR"))


def _kind(value: exp.Expr, field: DataField) -> str:
    """What decides about the type of a value; numbers that are decimals together stay exact in a column of numbers."""
    plain = value
    while isinstance(plain, exp.Paren | exp.Neg):
        plain = plain.this
    match plain:
        case exp.Null():
            return _NULL
        case exp.Literal() if plain.is_string:
            return _TEXT
        case exp.Literal() if "e" in plain.name.lower():
            return "double"
        case exp.Literal():
            return f"scale {len(plain.name.partition('.')[2])}" if field.type.root in _STRINGS else "exact"
        case exp.Cast():
            return str(plain.args["to"].sql())
    return plain.key


def _cast(value: exp.Expr, kind: str) -> None:
    if kind == "VARCHAR" and isinstance(value, exp.Literal) and value.is_string:
        return
    made = exp.cast(value.copy(), kind, dialect=LakelogDialect)
    replaced(value, made, f"CAST({value.sql(dialect=LakelogDialect)} AS {kind})")
