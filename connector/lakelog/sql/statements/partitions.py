"""PARTITION (column = value, ...) of statements."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakelog.catalog.columns.text_lengths import stored_text
from lakelog.catalog.columns.written_ddl import quoted_name, written_text
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import TypeRoot
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.parsing import parsed_one

if TYPE_CHECKING:
    from lakelog.catalog import Table

_OF_LITERALS = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL)


def partition_where(table: Table, partition: exp.Expr) -> str:
    """The condition of PARTITION (column = value, ...). Raises InvalidRequestError for other columns."""
    return condition_of(partition_values_of(table, partition))


def where_of(table: Table, text: str) -> str:
    """The condition of the text PARTITION (column = value, ...). Raises InvalidRequestError."""
    return partition_where(table, partition_of(text))


def partition_of(text: str) -> exp.Partition:
    """The text PARTITION (column = value, ...) as an expression. Raises InvalidRequestError."""
    found = parsed_one(f"TRUNCATE TABLE t {text}").args.get("partition")
    if not isinstance(found, exp.Partition):
        raise InvalidRequestError(f"{shown(text)}: expected PARTITION (column = value, ...)")
    return found


def condition_of(values: Mapping[str, object]) -> str:
    """The condition that these columns have these values."""
    return " AND ".join(
        f"{quoted_name(name)} IS NULL" if value is None else f"{quoted_name(name)} = {_literal(value)}"
        for name, value in values.items()
    )


def _literal(value: object) -> str:
    """A value in our conditions."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | Decimal) else written_text(str(value))


def partition_values_of(table: Table, partition: exp.Expr | None) -> dict[str, Any]:
    """The values of PARTITION (column = value, ...); a column without a value is filled by the query."""
    found: dict[str, Any] = {}
    for one in () if partition is None else partition.expressions:
        column = one.this if isinstance(one, exp.EQ) else one
        name = column.name
        own = {key.lower(): key for key in table.schema.partition_keys}.get(name.lower())
        if own is None:
            raise InvalidRequestError(f"PARTITION ({name}): {name!r} is not a partition column of {table.name}")
        if isinstance(one, exp.EQ):
            value, kind = _plain_value(one.expression), table.schema.field(own).type
            if isinstance(value, str) and kind.root is TypeRoot.CHAR:
                value = stored_text(pa.array([value]), kind)[0].as_py()
            elif isinstance(value, str) and kind.root in _OF_LITERALS:
                value = _read_as(table.schema.arrow_schema.field(own).type, value, f"PARTITION ({name} = ...)")
            found[own] = value
    return found


def _read_as(kind: pa.DataType, text: str, what: str) -> Any:
    """The value that a text says of a type. Raises InvalidRequestError."""
    try:
        return pc.cast(pa.scalar(text), kind).as_py()
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"{what} is {kind}, found {shown(text)}") from error


def _plain_value(given: exp.Expr) -> Any:
    """The value of a literal, `DATE '2026-01-01'` as its text. Raises UnsupportedError for an expression."""
    match given:
        case exp.Cast(this=exp.Literal()):
            return given.this.name
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.Neg(this=exp.Literal()):
            return given.to_py()
    raise UnsupportedError(f"PARTITION (... = {given.sql(dialect=LakelogDialect)}): expected a value")
