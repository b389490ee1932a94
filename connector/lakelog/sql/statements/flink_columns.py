"""Computed columns and watermarks of CREATE TABLE: Flink reads them; tables here keep them as options.

Source: FLIP-188, "CREATE TABLE".
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.common.arrow import from_arrow_type, to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.options import computed_column, watermark
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.spans import without_spans
from lakelog.sql.language.writers import WatermarkClause
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.selects import named

_NOW = "PROCTIME"
_STORED = "stored"  # the table of the stored columns, in a query for the type of an expression
_NOW_TYPE = DataType(root=TypeRoot.TIMESTAMP_LTZ, precision=3)


def is_computed(column: exp.ColumnDef) -> bool:
    """Whether a column of a statement has an expression in place of a type."""
    return column.args.get("kind") is None and column.find(exp.ComputedColumnConstraint) is not None


def flink_options(names: SqlNames, stored: str, given: Sequence[exp.Expr]) -> dict[str, str]:
    """The options of a table whose stored columns have this DDL.

    Raises InvalidRequestError for an expression with an unknown column, and for a watermark of a column without times.
    """
    columns = [one for one in given if isinstance(one, exp.ColumnDef)]
    marks = [one for one in given if isinstance(one, WatermarkClause)]
    if not marks and not any(map(is_computed, columns)):
        return {}
    if not stored:
        raise InvalidRequestError("a table needs a column that is stored: give one a type")
    fields = parse_ddl(stored)
    found: dict[str, str] = {}
    for place, column in enumerate(columns):
        if is_computed(column):
            expression = column.args["constraints"][0].args["kind"].this
            kind = _type(names, fields, expression, column.name)
            comment = column.find(exp.CommentColumnConstraint)
            found |= computed_column(
                place,
                name=column.name,
                kind=_shown(kind),
                expression=_text(expression),
                comment=None if comment is None else comment.this.name,
            )
    if len(marks) > 1:
        raise InvalidRequestError("a table has one watermark: leave the others out")
    for mark in marks:
        time = next((field for field in fields if field.name.lower() == mark.name.lower()), None)
        if time is None or time.type.root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
            what = "no such column" if time is None else str(time.type)
            raise InvalidRequestError(f"WATERMARK FOR {mark.name}: {what}, expected a column of type TIMESTAMP(3)")
        _type(names, fields, mark.expression, mark.name)
        found |= watermark(column=time.name, kind=_shown(time.type), expression=_text(mark.expression))
    return found


def _shown(kind: DataType) -> str:
    return str(kind.with_nullable(True))


def _text(expression: exp.Expr) -> str:
    return without_spans(expression).sql(dialect="spark", identify=True)


def _type(names: SqlNames, fields: Sequence[DataField], expression: exp.Expr, name: str) -> DataType:
    """The type of the values of an expression over columns."""
    if isinstance(expression, exp.Anonymous) and expression.name.upper() == _NOW:
        return _NOW_TYPE
    if expression.find(exp.Query) is not None:
        raise InvalidRequestError(
            f"column {name!r} is computed by {shown(_text(expression))}: expected an expression over columns of the "
            "table, found a query"
        )
    query = exp.select(named(expression.copy(), name)).from_(_STORED)
    for function in list(query.find_all(exp.Anonymous)):
        if function.name.upper() == _NOW:
            function.replace(exp.CurrentTimestamp())
    tables = QueryTables(names=names, given={_STORED: to_arrow_schema(fields).empty_table()})
    return from_arrow_type(tables.run(query).schema.field(0).type, name=name)
