"""ALTER TABLE of Spark as changes of a schema.

Source: Spark, `org.apache.spark.sql.connector.catalog.TableChange`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark

from lakelog.catalog import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataType
from lakelog.spark.types import from_spark_schema

_COMMENT = "comment"
_REFUSED = {"AddConstraint": "ADD CONSTRAINT", "DropConstraint": "DROP CONSTRAINT", "ClusterBy": "CLUSTER BY"}


def altered(changes: Any) -> Iterator[SchemaChange]:  # Java TableChange[]s
    """The changes. Raises UnsupportedError for one that a table cannot have."""
    for change in changes:
        yield _change(change)


def _change(change: Any) -> SchemaChange:  # a Java TableChange
    kind = change.getClass().getSimpleName()
    match kind:
        case "SetProperty":
            key, value = str(change.property()), str(change.value())
            if key == "location":
                raise UnsupportedError("SET LOCATION: a table of a warehouse is where its name says; RENAME moves it")
            return SetTableComment(value) if key == _COMMENT else SetOption(key, value)
        case "RemoveProperty":
            key = str(change.property())
            return SetTableComment(None) if key == _COMMENT else RemoveOption(key)
    if kind in _REFUSED:
        raise UnsupportedError(
            f"ALTER TABLE ... {_REFUSED[kind]}: a table keeps the primary key with which it was made"
        )
    column = tuple(str(name) for name in change.fieldNames())
    path = ".".join(column)
    match kind:
        case "AddColumn":
            if change.defaultValue() is not None or not change.isNullable():
                raise UnsupportedError(
                    f"column {path!r} is added with DEFAULT or NOT NULL: rows that exist have null in a new column; "
                    "leave it out"
                )
            comment, kind_of = change.comment(), _type(path, change.dataType(), is_nullable=True)
            return AddColumn(column, kind_of, comment=comment, position=_position(change.position()))
        case "RenameColumn":
            return RenameColumn(column, str(change.newName()))
        case "UpdateColumnType":
            return UpdateColumnType(column, _type(path, change.newDataType(), is_nullable=True))
        case "UpdateColumnNullability":
            return SetNullability(column, bool(change.nullable()))
        case "UpdateColumnComment":
            return SetComment(column, change.newComment())
        case "UpdateColumnDefaultValue":
            return SetDefault(column, str(change.newDefaultValue()) or None)
        case "UpdateColumnPosition":
            position = _position(change.position())
            assert position is not None, "a move has a place"
            return UpdateColumnPosition(column, position)
        case "DeleteColumn":
            return DropColumn(column)
    raise UnsupportedError(f"ALTER TABLE: {change.toString()} is not a change that a table here can have")


def _type(path: str, kind: Any, *, is_nullable: bool) -> DataType:  # a Java DataType
    python = spark.StructType.fromJson(
        {"type": "struct", "fields": [{"name": path, "type": json.loads(kind.json()), "nullable": True}]}
    )
    return from_spark_schema(python)[0].type.with_nullable(is_nullable)


def _position(position: Any) -> Position | None:  # a Java ColumnPosition
    if position is None:
        return None
    if position.getClass().getSimpleName() == "First":
        return Position(Place.FIRST)
    return Position(Place.AFTER, str(position.column()))
