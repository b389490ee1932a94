"""Column types and row kinds, as the Paimon format names them.

Source: Paimon spec, "Schema" (type strings, nested type objects, field ids).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any  # Any: parsed JSON is untyped until it is checked here

from lakelog.common.errors import InvalidRequestError, UnsupportedError

MAX_LENGTH = 2_147_483_647
ROW_KIND_COLUMN = "_row_kind"


class RowKind(IntEnum):
    """The kind of a change; the value is the byte that the format stores."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return ROW_KIND_TEXTS[self]

    @property
    def is_add(self) -> bool:
        """True when the row is there after the change."""
        return self in (RowKind.INSERT, RowKind.UPDATE_AFTER)


ROW_KIND_TEXTS: Sequence[str] = ("+I", "-U", "+U", "-D")


class TypeRoot(Enum):
    """The family of a type; the value is the word in a type string."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"


_WITH_LENGTH = {TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}
_WITH_PRECISION = {TypeRoot.TIME: 0, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}
_NESTED = {TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW}
_ALIASES = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_TYPE_TEXT = re.compile(
    r"^(?P<root>[A-Z_]+)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<ltz>\s+WITH\s+LOCAL\s+TIME\s+ZONE)?(?:\s+WITHOUT\s+TIME\s+ZONE)?(?P<required>\s+NOT\s+NULL)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """One type. Which attributes are set depends on `root`; the others are None.

    `length`: CHAR, VARCHAR, BINARY, VARBINARY. `precision`: DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ.
    `scale`: DECIMAL. `element`: ARRAY, MULTISET. `key` and `value`: MAP. `fields`: ROW.
    """

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def is_nested(self) -> bool:
        """True for ARRAY, MAP, MULTISET and ROW."""
        return self.root in _NESTED

    def __str__(self) -> str:
        return f"{_type_word(self)}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A named column or ROW member. `id` is unique in the table and never reused."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


def array_of(element: DataType) -> DataType:
    """ARRAY<element>."""
    return DataType(root=TypeRoot.ARRAY, element=element)


def map_of(key: DataType, value: DataType) -> DataType:
    """MAP<key, value>; the key is made NOT NULL."""
    return DataType(root=TypeRoot.MAP, key=key.with_nullable(False), value=value)


def row_of(fields: Sequence[DataField]) -> DataType:
    """ROW<fields>."""
    return DataType(root=TypeRoot.ROW, fields=tuple(fields))


def _type_word(kind: DataType) -> str:
    root = kind.root
    if root is TypeRoot.VARCHAR and kind.length == MAX_LENGTH:
        return "STRING"
    if root is TypeRoot.VARBINARY and kind.length == MAX_LENGTH:
        return "BYTES"
    if root in _WITH_LENGTH:
        return f"{root.value}({kind.length})"
    if root is TypeRoot.DECIMAL:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if root is TypeRoot.TIMESTAMP_LTZ:
        return f"TIMESTAMP({kind.precision}) WITH LOCAL TIME ZONE"
    if root in _WITH_PRECISION:
        return f"{root.value}({kind.precision})"
    if root is TypeRoot.ARRAY or root is TypeRoot.MULTISET:
        return f"{root.value}<{kind.element}>"
    if root is TypeRoot.MAP:
        return f"MAP<{kind.key}, {kind.value}>"
    if root is TypeRoot.ROW:
        return "ROW<" + ", ".join(f"{field.name} {field.type}" for field in kind.fields) + ">"
    return str(root.value)


def parse_type(given: str | Mapping[str, Any]) -> DataType:
    """The type of a schema file's `type` value: a type string, or an object for nested types.

    Raises InvalidRequestError for text that is no type, UnsupportedError for a type lakelog lacks.
    """
    if isinstance(given, str):
        return _parse_text(given)
    words = str(given.get("type", "")).split()
    nullable = words[1:] != ["NOT", "NULL"]
    match words[:1]:
        case ["ARRAY"]:
            kind = array_of(parse_type(given["element"]))
        case ["MULTISET"]:
            kind = DataType(root=TypeRoot.MULTISET, element=parse_type(given["element"]))
        case ["MAP"]:
            kind = DataType(root=TypeRoot.MAP, key=parse_type(given["key"]), value=parse_type(given["value"]))
        case ["ROW"]:
            kind = row_of([parse_field(field) for field in given["fields"]])
        case _:
            raise UnsupportedError(
                f"type {given.get('type')!r} is not supported; known nested types: {_names(_NESTED)}"
            )
    return kind.with_nullable(nullable)


def _parse_text(text: str) -> DataType:
    match = _TYPE_TEXT.match(text.strip().upper())
    if match is None:
        raise InvalidRequestError(f"{text!r} is not a type; expected a form such as DECIMAL(10, 2) NOT NULL")
    word = _ALIASES.get(match["root"], match["root"])
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None
    nullable = match["required"] is None
    if word == "STRING":
        return DataType(root=TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=nullable)
    if word == "BYTES":
        return DataType(root=TypeRoot.VARBINARY, length=MAX_LENGTH, nullable=nullable)
    if word == "TIMESTAMP" and match["ltz"]:
        word = "TIMESTAMP_LTZ"
    try:
        root = TypeRoot(word)
    except ValueError:
        raise UnsupportedError(f"type {text!r} is not supported; known types: {_names(TypeRoot)}") from None
    if root in _NESTED:
        raise InvalidRequestError(f"{text!r}: nested types are written as objects in a schema file")
    if root in _WITH_LENGTH:
        return DataType(root=root, length=1 if first is None else first, nullable=nullable)
    if root is TypeRoot.DECIMAL:
        return DataType(root=root, precision=10 if first is None else first, scale=second or 0, nullable=nullable)
    if root in _WITH_PRECISION:
        precision = _WITH_PRECISION[root] if first is None else first
        return DataType(root=root, precision=precision, nullable=nullable)
    return DataType(root=root, nullable=nullable)


def _names(roots: Iterator[TypeRoot] | set[TypeRoot] | type[TypeRoot]) -> str:
    return ", ".join(sorted(root.value for root in roots))


def type_to_json(kind: DataType) -> str | dict[str, Any]:
    """The `type` value of a schema file: text for atomic types, an object for nested ones."""
    if not kind.is_nested:
        return str(kind)
    word = kind.root.value + ("" if kind.nullable else " NOT NULL")
    if kind.root is TypeRoot.MAP:
        assert kind.key is not None
        assert kind.value is not None
        return {"type": word, "key": type_to_json(kind.key), "value": type_to_json(kind.value)}
    if kind.root is TypeRoot.ROW:
        return {"type": word, "fields": [field_to_json(field) for field in kind.fields]}
    assert kind.element is not None
    return {"type": word, "element": type_to_json(kind.element)}


def parse_field(given: Mapping[str, Any]) -> DataField:
    """A field object of a schema file; unknown keys are ignored."""
    return DataField(
        id=int(given["id"]),
        name=str(given["name"]),
        type=parse_type(given["type"]),
        description=given.get("description"),
        default_value=given.get("defaultValue"),
    )


def field_to_json(field: DataField) -> dict[str, Any]:
    """The field object of a schema file; absent texts are left out."""
    json: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        json["description"] = field.description
    if field.default_value is not None:
        json["defaultValue"] = field.default_value
    return json
