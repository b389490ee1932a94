"""The order of rows and keys in the format: nulls first, strings by their bytes, NaN last."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row, null_bits_width

_INTEGER_SLOTS = {
    TypeRoot.TINYINT: "b7x",
    TypeRoot.SMALLINT: "h6x",
    TypeRoot.INT: "i4x",
    TypeRoot.DATE: "i4x",
    TypeRoot.BIGINT: "q",
}


def comparable(kinds: Sequence[DataType], values: Sequence[StoredValue]) -> tuple[object, ...]:
    """A tuple that sorts as the format sorts rows: nulls first, strings by their bytes, -0.0 before 0.0, NaN last."""
    return tuple(_comparable(kind, value) for kind, value in zip(kinds, values, strict=True))


def comparable_key(kinds: Sequence[DataType], data: bytes) -> tuple[object, ...]:
    """`comparable` of a serialized BinaryRow, such as the min key of a file."""
    return comparable(kinds, deserialize_row(kinds, data))


def key_order(kinds: Sequence[DataType]) -> Callable[[bytes], tuple[object, ...]]:
    """The function `comparable_key` for rows of these kinds; fast for integer keys."""
    if not kinds or not all(kind.root in _INTEGER_SLOTS for kind in kinds):
        return lambda data: comparable_key(kinds, data)
    slots = struct.Struct("<" + "".join(_INTEGER_SLOTS[kind.root] for kind in kinds))
    start = 4 + null_bits_width(len(kinds))
    arity, no_nulls = len(kinds).to_bytes(4, "big"), bytes(start - 5)

    def order(data: bytes) -> tuple[object, ...]:
        if len(data) < start + slots.size or data[:4] != arity or data[5:start] != no_nulls:
            return comparable_key(kinds, data)
        return tuple([(1, value) for value in slots.unpack_from(data, start)])

    return order


def _comparable(kind: DataType, value: StoredValue) -> tuple[object, ...]:
    if value is None:
        return (0,)
    if isinstance(value, str):
        return 1, value.encode()
    if kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        assert isinstance(value, float | int)
        return 1, _float_order(float(value))
    return 1, value


def _float_order(value: float) -> int:
    if math.isnan(value):
        return 1 << 64
    bits = int(struct.unpack("<q", struct.pack("<d", value))[0])
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
