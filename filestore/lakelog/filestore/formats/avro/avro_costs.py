"""The memory that Avro records need as Python objects, estimated before any object is created.

A byte of Avro may become a record of 200 bytes, and a count in two bytes may become an array of any length. So arrays
of values that take no bytes are refused, and large blocks are walked value by value until it is clear that they fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: Avro schemas are JSON of many shapes

_REFERENCE = 8
_RECORD = 200
_MEMBER = 16
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS = ("int", "long", "enum")
_VARINT_BYTES_MAX = 10
RATIO_MAX = 240  # bytes in memory that a byte of Avro can become


def check_no_empty_items(schema: Any) -> None:
    """Raise ValueError for a schema with arrays of values that take no bytes: any number of them fits into a file."""
    _Sizes(schema).check(schema)


def check_cost(schema: Any, block: bytes, count: int, *, limit: int) -> None:
    """Raise ValueError if `count` records in a block need more memory than `limit`, or do not end with the block."""
    if len(block) * RATIO_MAX <= limit:
        return
    walk = _Walk(_Sizes(schema).named, block, limit)
    for _ in range(count):
        walk.skip(schema)


class _Sizes:
    """The fewest bytes that values of a schema take."""

    def __init__(self, schema: Any) -> None:
        self.named: dict[str, Any] = {}
        self._name(schema)

    def _name(self, schema: Any) -> None:
        for part in schema if isinstance(schema, list) else [schema]:
            if isinstance(part, Mapping):
                if "name" in part:
                    space = f"{part['namespace']}." if part.get("namespace") else ""
                    self.named[str(part["name"])] = self.named[f"{space}{part['name']}"] = part
                for inner in _inside(part):
                    self._name(inner)

    def check(self, schema: Any) -> None:
        for part in schema if isinstance(schema, list) else [schema]:
            if isinstance(part, Mapping):
                if _kind(part) == "array" and not self.least(part["items"], ()):
                    raise ValueError("it has an array of values that take no bytes")
                for inner in _inside(part):
                    self.check(inner)

    def least(self, schema: Any, outer: tuple[str, ...]) -> int:
        """A lower bound. A recursive record takes a byte: only a union ends the recursion."""
        if isinstance(schema, list):
            return 1
        kind = _kind(schema)
        if kind in _FIXED_BYTES:
            return _FIXED_BYTES[kind]
        if kind == "fixed":
            return max(0, int(schema["size"]))
        if kind == "record":
            name = str(schema.get("name"))
            if name in outer:
                return 1
            return sum(self.least(field["type"], (*outer, name)) for field in schema["fields"])
        if isinstance(schema, str) and schema in self.named:
            return 1 if schema in outer else self.least(self.named[schema], (*outer, schema))
        return 1


def _kind(schema: Any) -> str:
    found = schema["type"] if isinstance(schema, Mapping) else schema
    return _kind(found) if isinstance(found, Mapping) else str(found)


def _inside(schema: Mapping[str, Any]) -> list[Any]:
    inner = [schema[key] for key in ("items", "values") if key in schema]
    inner += [field["type"] for field in schema.get("fields", ())]
    return inner if not isinstance(schema.get("type"), Mapping | list) else [*inner, schema["type"]]


class _Walk:
    """A position in a block, and the memory that the values before it need."""

    def __init__(self, named: Mapping[str, Any], block: bytes, limit: int) -> None:
        self._named = named
        self._block = block
        self._at = 0
        self._left = limit

    def skip(self, schema: Any) -> None:
        """Skip a value."""
        if isinstance(schema, list):
            self.skip(schema[self._long()])
            return
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = _kind(schema)
        if kind == "record":
            self._needs(_RECORD + _MEMBER * len(schema["fields"]))
            for field in schema["fields"]:
                self.skip(field["type"])
        elif kind in ("array", "map"):
            self._items(schema, kind)
        elif kind in _VARINTS:
            self._long()
            self._needs(4 * _REFERENCE)
        elif kind in _FIXED_BYTES:
            self._go(_FIXED_BYTES[kind])
            self._needs(3 * _REFERENCE)
        elif kind in ("string", "bytes", "fixed"):
            size = int(schema["size"]) if kind == "fixed" else self._long()
            self._go(size)
            self._needs(size + 6 * _REFERENCE)
        else:
            raise ValueError(f"its schema has the type {kind[:50]!r}")

    def _items(self, schema: Mapping[str, Any], kind: str) -> None:
        self._needs(8 * _REFERENCE)
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                self._needs(_REFERENCE)
                if kind == "map":
                    self.skip("string")
                self.skip(schema["items" if kind == "array" else "values"])

    def _long(self) -> int:
        value = shift = 0
        for byte in self._block[self._at : self._at + _VARINT_BYTES_MAX]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self._at += shift // 7
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a block ends early")

    def _go(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._block):
            raise ValueError("a block ends early")
        self._at += size

    def _needs(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("its records claim more memory than those of any real table")
