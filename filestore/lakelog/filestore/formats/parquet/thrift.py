"""Thrift's compact protocol: wanted fields are read from bytes, others are skipped. It knows no file format.

Source: Thrift, `thrift-compact-protocol.md`. Bytes that end too soon raise IndexError, other errors are ValueError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import IntEnum

DEPTH_MAX = 64
_VARINT_BITS_MAX = 70


class Wire(IntEnum):
    """The type of a field, and of the items of a list."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


INTEGERS = frozenset({Wire.I16, Wire.I32, Wire.I64})
_VARINTS = frozenset({4, 5, 6})
_FIXED = {3: 1, 7: 8, 13: 16}
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12


class ThriftCursor:
    """A position in bytes, which advances with everything that is read or skipped."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def position(self) -> int:
        """The number of bytes before the next value."""
        return self._at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and type of each field of a struct; the caller reads or skips its value.

        Raises ValueError for a duplicate field: readers would mix both.
        """
        seen = set()
        number = 0
        data = self._data
        while True:
            head = data[self._at]
            self._at += 1
            kind = head & 0x0F
            if kind == 0:
                return
            delta = head >> 4
            number = number + delta if delta else self.integer()
            if number in seen:
                raise ValueError(f"field {number} of a struct is there twice")
            seen.add(number)
            yield number, kind

    def items(self, expected: Collection[int]) -> range:
        """The indexes of the items of a list; the caller reads each item. Raises ValueError for other types."""
        count, kind = self._list_head()
        if count and kind not in expected:
            raise ValueError(f"a list has items of the type {kind}, expected {', '.join(map(str, expected))}")
        return range(count)

    def integer(self) -> int:
        """A whole number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary_length(self) -> int:
        """The number of bytes of a string, which is skipped."""
        length = self._varint()
        self._pass(length)
        return length

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip the value of a field."""
        if kind in _VARINTS:
            self._varint()
        elif kind == _BINARY:
            self._pass(self._varint())
        elif kind == _STRUCT:
            self._skip_struct(depth)
        elif kind in (_LIST, _SET):
            self._skip_list(depth)
        elif kind == _MAP:
            self._skip_map(depth)
        elif kind in _FIXED:
            self._pass(_FIXED[kind])
        elif kind not in (1, 2):
            raise ValueError(f"{kind} is not a type of Thrift")

    def _skip_struct(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"its values are nested deeper than {DEPTH_MAX}")
        data = self._data
        while True:
            head = data[self._at]
            self._at += 1
            if head & 0x0F == 0:
                return
            if not head >> 4:
                self._varint()
            self.skip(head & 0x0F, depth + 1)

    def _skip_list(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"its values are nested deeper than {DEPTH_MAX}")
        count, kind = self._list_head()
        for _ in range(count):
            self._skip_item(kind, depth)

    def _skip_map(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"its values are nested deeper than {DEPTH_MAX}")
        count = self._varint()
        if not count:
            return
        kinds = self._data[self._at]
        self._at += 1
        for _ in range(count):
            self._skip_item(kinds >> 4, depth)
            self._skip_item(kinds & 0x0F, depth)

    def _skip_item(self, kind: int, depth: int) -> None:
        """Skip an item: unlike a boolean field, a boolean item has a byte."""
        if kind in (1, 2):
            self._pass(1)
        else:
            self.skip(kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._data[self._at]
        self._at += 1
        count = head >> 4
        return (self._varint() if count == 15 else count), head & 0x0F

    def _pass(self, length: int) -> None:
        self._at += length
        if self._at > len(self._data):
            raise IndexError(self._at)

    def _varint(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        shift = 7
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift >= _VARINT_BITS_MAX:
                raise ValueError("a number has more than 10 bytes")
