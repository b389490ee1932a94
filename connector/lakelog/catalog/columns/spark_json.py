"""Columns from the JSON form of a Spark schema, `StructType.jsonValue()`. Needs no Spark.

The JSON is an object: type "struct", fields [{name, type, nullable, metadata}]; a type is a name such as "long" or
"decimal(10,2)", or an object: array {elementType, containsNull}, map {keyType, valueType, valueContainsNull}, or
struct. The comment of a column is in its metadata, under the key "comment". Source: Spark, `DataType.fromJson`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import shown
from lakelog.common.types import DataField, DataType, array_of, check_depth, map_of, parse_type, row_of

_NAMES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BYTES",
    "date": "DATE",
    "timestamp": "TIMESTAMP_LTZ(6)",
    "timestamp_ntz": "TIMESTAMP(6)",
}
_WITH_DIGITS = re.compile(r"(?:decimal|char|varchar|time)\([0-9, ]+\)")


def columns_of_struct(struct: Mapping[str, Any]) -> tuple[DataField, ...]:
    """The columns of a Spark schema, with ids 0. Raises UnsupportedError, naming the column."""
    return _members(struct["fields"], "", 0)


def _members(fields: Sequence[Mapping[str, Any]], above: str, depth: int) -> tuple[DataField, ...]:
    return tuple(
        DataField(
            id=0,
            name=field["name"],
            type=_type(field["type"], f"{above}{field['name']}", depth).with_nullable(field["nullable"]),
            description=(field.get("metadata") or {}).get("comment"),
        )
        for field in fields
    )


def _type(kind: Any, path: str, depth: int) -> DataType:
    check_depth(depth)
    if isinstance(kind, str):
        if kind in _NAMES or _WITH_DIGITS.fullmatch(kind):
            return parse_type(_NAMES.get(kind, kind))
    elif kind["type"] == "array":
        return array_of(_type(kind["elementType"], f"{path}.element", depth + 1).with_nullable(kind["containsNull"]))
    elif kind["type"] == "map":
        value = _type(kind["valueType"], f"{path}.value", depth + 1).with_nullable(kind["valueContainsNull"])
        return map_of(_type(kind["keyType"], f"{path}.key", depth + 1), value)
    elif kind["type"] == "struct":
        return row_of(_members(kind["fields"], f"{path}.", depth + 1))
    name = kind if isinstance(kind, str) else shown(kind["type"])
    raise UnsupportedError(
        f"column {path!r} has the Spark type {name}, which the Paimon format cannot hold: cast it or leave it out"
    )
