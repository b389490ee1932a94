"""Column types and row kinds, as the Paimon format names them.

Source: Paimon spec, "Schema" (type strings, nested type objects, field ids).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum, IntEnum
from typing import Any  # Any: parsed JSON is untyped until it is checked here

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.json_fields import INT, items, optional, string, whole
from lakelog.common.quoting import cut, shown

MAX_LENGTH = 2_147_483_647
FIELDS_MAX = 10_000  # columns of a table, and members of a ROW
TYPE_DEPTH_MAX = 64
_DECIMAL_MAX = 38
_FRACTION_MAX = 9
_SHOWN_MAX = 100
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
        """True if the row exists after the change."""
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
    BLOB = "BLOB"
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
_TEXT_WORDS = ("STRING", "BYTES")  # of any length
_ALIASES = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_TYPE_TEXT = re.compile(
    r"^(?P<root>[A-Z_]+)\s*(?:\(\s*(?P<first>\d{1,10})\s*(?:,\s*(?P<second>\d{1,10})\s*)?\))?"
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

    @property
    def length_max(self) -> int | None:
        """The most characters or bytes of a value; None for a type that limits neither, such as STRING."""
        return None if self.length == MAX_LENGTH else self.length

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


def parse_type(given: str | Mapping[str, Any], *, depth: int = 0) -> DataType:
    """The type of a schema file's `type` value: a type string, or an object for nested types.

    `depth` is the number of types around it. Raises InvalidRequestError for a value that is not a type, or is beyond
    the limits of `check_type_limits`, and UnsupportedError for a type that lakelog lacks.
    """
    if isinstance(given, str):
        kind = _parse_text(given)
        check_type_limits(kind)
        return kind
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"{shown(given)} is not a type; expected a string or an object")
    check_depth(depth)
    words = str(given.get("type", "")).split()
    nullable = words[1:] != ["NOT", "NULL"]
    match words[:1]:
        case ["ARRAY"]:
            kind = array_of(_inner_type(given, "element", depth))
        case ["MULTISET"]:
            kind = DataType(root=TypeRoot.MULTISET, element=_inner_type(given, "element", depth))
        case ["MAP"]:
            inner = (_inner_type(given, name, depth) for name in ("key", "value"))
            kind = DataType(root=TypeRoot.MAP, key=next(inner), value=next(inner))
        case ["ROW"]:
            kind = row_of(parse_fields(items(given, "fields"), depth=depth + 1))
        case _:
            raise UnsupportedError(
                f"type {shown(given.get('type'))} is not supported; known nested types: {_names(_NESTED)}"
            )
    return kind.with_nullable(nullable)


def _inner_type(given: Mapping[str, Any], name: str, depth: int) -> DataType:
    if name not in given:
        raise InvalidRequestError(f"a type {given['type']} needs its {name}")
    return parse_type(given[name], depth=depth + 1)


def check_depth(depth: int) -> None:
    """Raise InvalidRequestError for a type inside too many others."""
    if depth > TYPE_DEPTH_MAX:
        raise InvalidRequestError(f"types are nested deeper than {TYPE_DEPTH_MAX}; make the inner ones columns")


def check_type_limits(kind: DataType) -> None:
    """Raise InvalidRequestError for a length, precision or scale beyond the format's limits, at any depth."""
    root, precision = kind.root, kind.precision or 0
    if root is TypeRoot.DECIMAL and not (1 <= precision <= _DECIMAL_MAX and 0 <= (kind.scale or 0) <= precision):
        raise InvalidRequestError(
            f"{shown_type(kind)} is not a type: DECIMAL has a precision from 1 to {_DECIMAL_MAX}, and a scale "
            "from 0 to the precision"
        )
    if root in _WITH_PRECISION and not 0 <= precision <= _FRACTION_MAX:
        raise InvalidRequestError(f"{shown_type(kind)} is not a type: {root.value} has 0 to {_FRACTION_MAX} digits")
    if root in _WITH_LENGTH and not 0 <= (kind.length or 0) <= MAX_LENGTH:
        raise InvalidRequestError(f"{shown_type(kind)} is not a type: {root.value} has a length up to {MAX_LENGTH}")
    for part in (kind.element, kind.key, kind.value, *(field.type for field in kind.fields)):
        if part is not None:
            check_type_limits(part)


def shown_type(kind: DataType) -> str:
    """A type as errors show it."""
    return cut(str(kind), _SHOWN_MAX)


def _parse_text(written: str) -> DataType:
    match = _TYPE_TEXT.match(written.strip().upper())
    if match is None:
        raise InvalidRequestError(f"{shown(written)} is not a type; expected a form such as DECIMAL(10, 2) NOT NULL")
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
        raise _unknown_type(written, match["root"]) from None
    if root in _NESTED:
        raise InvalidRequestError(f"{shown(written)}: nested types are written as objects in a schema file")
    if root in _WITH_LENGTH:
        return DataType(root=root, length=1 if first is None else first, nullable=nullable)
    if root is TypeRoot.DECIMAL:
        return DataType(root=root, precision=10 if first is None else first, scale=second or 0, nullable=nullable)
    if root in _WITH_PRECISION:
        precision = _WITH_PRECISION[root] if first is None else first
        return DataType(root=root, precision=precision, nullable=nullable)
    return DataType(root=root, nullable=nullable)


def _unknown_type(written: str, word: str) -> UnsupportedError:
    known = sorted({*(root.value for root in TypeRoot), *_TEXT_WORDS, *_ALIASES})
    near = get_close_matches(word, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return UnsupportedError(f"type {shown(written)} is not supported; known types: {', '.join(known)}{hint}")


def _names(roots: Iterator[TypeRoot] | set[TypeRoot] | type[TypeRoot]) -> str:
    return ", ".join(sorted(root.value for root in roots))


def type_to_json(kind: DataType) -> str | dict[str, Any]:
    """The `type` value of a schema file: a string for atomic types, an object for nested ones."""
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


def parse_fields(given: Sequence[Any], *, depth: int = 0) -> tuple[DataField, ...]:
    """The field objects of a schema file, whose names differ; unknown keys are ignored.

    Raises KeyError, ValueError or InvalidRequestError for a value that is not a list of fields, and UnsupportedError
    for a type that lakelog lacks.
    """
    if len(given) > FIELDS_MAX:
        raise ValueError(f"it has {len(given)} columns, at most {FIELDS_MAX} are read")
    fields = tuple(_parse_field(field, depth) for field in given)
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the column {twice!r} twice")
    return fields


def _parse_field(given: Any, depth: int) -> DataField:
    if not isinstance(given, Mapping) or "type" not in given:
        raise ValueError(f"a column with a type was expected, found {shown(given)}")
    return DataField(
        id=whole(given, "id", INT),
        name=string(given, "name"),
        type=parse_type(given["type"], depth=depth),
        description=optional(string, given, "description"),
        default_value=optional(string, given, "defaultValue"),
    )


def field_to_json(field: DataField) -> dict[str, Any]:
    """The field object of a schema file; absent strings are left out."""
    json: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        json["description"] = field.description
    if field.default_value is not None:
        json["defaultValue"] = field.default_value
    return json
