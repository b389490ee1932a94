"""Defaults of columns for Spark, which puts them into INSERT statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # Any: py4j gives Java objects without types

from lakelog.catalog.columns.written_ddl import written_text
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.alter import with_default
from lakelog.filestore.schema import default_text
from lakelog.spark.types import to_spark_type

_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def default_sql(field: DataField) -> str | None:
    """The default of a column in Spark's SQL, with its type; None without one."""
    text = default_text(field)
    if text is None:
        return None
    written = written_text(text)
    if field.type.root in _TEXT:
        return written
    return f"CAST({written} AS {to_spark_type(field.type, name=field.name).simpleString()})"


def with_column_defaults(fields: Sequence[DataField], columns: Sequence[Any]) -> tuple[DataField, ...]:
    """The fields of a new table with the defaults that its Java Columns have. Raises as `stored_default`."""
    found = []
    for field, column in zip(fields, columns, strict=True):
        default = column.defaultValue()
        found.append(with_default(field, (field.name,), None if default is None else str(default.getSql())))
    return tuple(found)
