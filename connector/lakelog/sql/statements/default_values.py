"""DEFAULT in statements: the constant that a column has, or null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lakelog.catalog.columns.written_ddl import type_ddl
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.schema import default_text
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.spans import replaced

_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def fill_defaults(query: exp.Expr, fields: Sequence[DataField]) -> None:
    """Put the defaults of columns, which the query gives in this order, in the place of DEFAULT."""
    if isinstance(query, exp.Values):
        rows = [row.expressions for row in query.expressions if isinstance(row, exp.Tuple)]
    else:
        rows = [query.expressions] if isinstance(query, exp.Select) else []
    for row in rows:
        for value, field in zip(row, fields, strict=False):
            if _is_default(value):
                made = default_expression(field)
                replaced(value, made, made.sql(dialect=LakelogDialect))


def with_defaults(fields: Sequence[DataField], values: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    """The values of columns, with defaults in the place of DEFAULT."""
    by_name = {field.name: field for field in fields}
    return {name: default_expression(by_name[name]) if _is_default(value) else value for name, value in values.items()}


def default_expression(field: DataField) -> exp.Expr:
    """The default of a column, with its type; null without one."""
    text = default_text(field)
    if text is None:
        return exp.Null()
    literal = exp.Literal.string(text)
    if field.type.root in _TEXT:
        return literal
    return exp.cast(literal, type_ddl(field.type.with_nullable(True)), dialect=LakelogDialect)


def _is_default(value: exp.Expr) -> bool:
    if isinstance(value, exp.Paren):
        return _is_default(value.this)
    plain = isinstance(value, exp.Var) or (
        isinstance(value, exp.Column) and not value.args.get("table") and not value.this.args.get("quoted")
    )
    return plain and value.name.upper() == "DEFAULT"
