"""BinaryRow: the bytes of keys, partitions and statistics.

Layout, little endian, for n fields:

    null bits       ((n + 63 + 8) // 64) * 8 bytes; byte 0 is the row kind, field i is null when bit 8 + i is set
    n slots         8 bytes each: the value, or for longer values offset << 32 | length, the offset counted from byte 0
    variable part   the longer values in field order, each padded with zeros to a multiple of 8

The serialized form of manifests is the field count as 4 bytes big endian, then these bytes.
Source: Paimon spec, "Manifest"; `BinaryRow` of Paimon.

*Stored values* are what Arrow stores: bool, int, float, Decimal, str and bytes; DATE is days, TIME, TIMESTAMP and
TIMESTAMP_LTZ are integers in the unit of the column's Arrow type (`lakelog.common.arrow`). They are exact where
Python's dates are not. `to_scalar` gives the Arrow scalar.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Context, Decimal

import pyarrow as pa

from lakelog.common.arrow import time_unit, to_arrow_type
from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot

StoredValue = bool | int | float | Decimal | str | bytes | None

MAX_COMPACT_PRECISION = 18
IN_SLOT_BYTES = 7
_WIDE_DECIMAL_BYTES = 16
_DECIMALS = Context(prec=80)
_TEMPORAL = {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_TEXT = {TypeRoot.CHAR, TypeRoot.VARCHAR}
_BYTES = {TypeRoot.BINARY, TypeRoot.VARBINARY}
_TIMESTAMPS = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SLOT_FORMATS = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<b",
    TypeRoot.SMALLINT: "<h",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
}


def null_bits_width(arity: int) -> int:
    """Bytes before the first slot."""
    return (arity + 63 + 8) // 64 * 8


def encode_row(kinds: Sequence[DataType], values: Sequence[StoredValue]) -> bytes:
    """The BinaryRow of values. Raises InvalidRequestError for a value outside its type, UnsupportedError if nested."""
    width = null_bits_width(len(kinds))
    fixed = bytearray(width + 8 * len(kinds))
    variable = bytearray()
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if value is None:
            bit = index + 8
            fixed[bit // 8] |= 1 << bit % 8
            continue
        try:
            slot, tail = _encode_value(kind, value, len(fixed) + len(variable))
        except (struct.error, OverflowError) as error:
            raise InvalidRequestError(f"{value!r} is outside the type {kind}: {error}") from error
        at = width + 8 * index
        fixed[at : at + len(slot)] = slot
        variable += tail
    return bytes(fixed + variable)


def serialize_row(kinds: Sequence[DataType], values: Sequence[StoredValue]) -> bytes:
    """The serialized BinaryRow of manifests: field count, then the row."""
    return len(kinds).to_bytes(4, "big") + encode_row(kinds, values)


def deserialize_row(kinds: Sequence[DataType], data: bytes) -> tuple[StoredValue, ...]:
    """Stored values of a serialized BinaryRow. Raises CorruptDataError for bytes of other types."""
    arity = int.from_bytes(data[:4], "big")
    if len(data) < 4 or arity != len(kinds):
        raise CorruptDataError(f"a row of {len(kinds)} fields was expected, found one of {arity}: {data[:16].hex()}")
    return decode_row(kinds, data[4:])


def decode_row(kinds: Sequence[DataType], data: bytes) -> tuple[StoredValue, ...]:
    """Stored values of a BinaryRow without field count. Raises CorruptDataError."""
    width = null_bits_width(len(kinds))
    if len(data) < width + 8 * len(kinds):
        raise CorruptDataError(f"a row of {len(kinds)} fields needs {width + 8 * len(kinds)} bytes, found {len(data)}")
    values: list[StoredValue] = []
    for index, kind in enumerate(kinds):
        bit = index + 8
        if data[bit // 8] >> bit % 8 & 1:
            values.append(None)
            continue
        try:
            values.append(_decode_value(kind, data, width + 8 * index))
        except (struct.error, UnicodeDecodeError, IndexError, ValueError) as error:
            raise CorruptDataError(f"field {index} ({kind}) of row {data.hex()} is not readable: {error}") from error
    return tuple(values)


def to_scalar(kind: DataType, value: StoredValue) -> pa.Scalar:
    """The Arrow scalar of a stored value."""
    arrow_type = to_arrow_type(kind)
    if value is None or kind.root not in _TEMPORAL:
        return pa.scalar(value, arrow_type)
    storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    return pa.array([value], storage).view(arrow_type)[0]


def from_scalar(kind: DataType, scalar: pa.Scalar) -> StoredValue:
    """The stored value of an Arrow scalar of the type `to_arrow_type(kind)`."""
    if not scalar.is_valid:
        return None
    value: StoredValue = scalar.value if kind.root in _TEMPORAL else scalar.as_py()
    return value


def stored_row(kinds: Sequence[DataType], columns: Sequence[pa.Array | pa.ChunkedArray], row: int) -> list[StoredValue]:
    """The stored values of one row of Arrow columns."""
    return [from_scalar(kind, column[row]) for kind, column in zip(kinds, columns, strict=True)]


def read_slot(kind: DataType, data: bytes, index: int) -> StoredValue:
    """The stored value of one field of a serialized BinaryRow. Raises CorruptDataError."""
    width = null_bits_width(int.from_bytes(data[:4], "big"))
    bit = index + 8
    try:
        if data[4 + bit // 8] >> bit % 8 & 1:
            return None
        return _decode_value(kind, data[4:], width + 8 * index)
    except (struct.error, UnicodeDecodeError, IndexError, ValueError) as error:
        raise CorruptDataError(f"field {index} ({kind}) of row {data.hex()} is not readable: {error}") from error


def _encode_value(kind: DataType, value: StoredValue, tail_offset: int) -> tuple[bytes, bytes]:
    """Slot and variable part of a value that is not null."""
    root = kind.root
    if root in _SLOT_FORMATS:
        is_nan = isinstance(value, float) and math.isnan(value)
        return struct.pack(_SLOT_FORMATS[root], math.nan if is_nan else value), b""
    if root in _TEXT:
        assert isinstance(value, str)
        return _encode_bytes(value.encode(), tail_offset)
    if root in _BYTES:
        assert isinstance(value, bytes)
        return _encode_bytes(value, tail_offset)
    if root is TypeRoot.DECIMAL:
        assert isinstance(value, Decimal)
        unscaled = int(_DECIMALS.scaleb(value, kind.scale or 0))
        if (kind.precision or 0) <= MAX_COMPACT_PRECISION:
            return struct.pack("<q", unscaled), b""
        digits = unscaled.to_bytes(_minimal_length(unscaled), "big", signed=True)
        return struct.pack("<II", len(digits), tail_offset), digits.ljust(_WIDE_DECIMAL_BYTES, b"\0")
    if root is TypeRoot.TIME:
        assert isinstance(value, int)
        return struct.pack("<i", value // _time_units_per_milli(kind)), b""
    if root in _TIMESTAMPS:
        assert isinstance(value, int)
        millis, nanos = _millis_and_nanos(kind, value)
        if (kind.precision or 0) <= 3:
            return struct.pack("<q", millis), b""
        return struct.pack("<II", nanos, tail_offset), struct.pack("<q", millis)
    raise UnsupportedError(f"type {kind} cannot be part of a key, a partition or a bucket")


def _encode_bytes(data: bytes, tail_offset: int) -> tuple[bytes, bytes]:
    if len(data) <= IN_SLOT_BYTES:
        return data.ljust(7, b"\0") + bytes([0x80 | len(data)]), b""
    return struct.pack("<II", len(data), tail_offset), data.ljust(-(-len(data) // 8) * 8, b"\0")


def _minimal_length(unscaled: int) -> int:
    """Bytes of the shortest two's complement form, at least one, as Java's BigInteger.toByteArray has it."""
    return (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1


def _time_units_per_milli(kind: DataType) -> int:
    """TIME is stored in milliseconds, whatever its precision."""
    return 1 if (kind.precision or 0) <= 3 else _UNITS_PER_SECOND[time_unit(kind.precision or 0)] // 1_000


def _millis_and_nanos(kind: DataType, value: int) -> tuple[int, int]:
    per_second = _UNITS_PER_SECOND[time_unit(kind.precision or 0)]
    if per_second <= 1_000:
        return value * (1_000 // per_second), 0
    millis, rest = divmod(value, per_second // 1_000)
    return millis, rest * (1_000_000_000 // per_second)


def _decode_value(kind: DataType, data: bytes, at: int) -> StoredValue:
    root = kind.root
    if root in _SLOT_FORMATS:
        value: StoredValue = struct.unpack_from(_SLOT_FORMATS[root], data, at)[0]
        return value
    if root in _TEXT:
        return _decode_bytes(data, at).decode()
    if root in _BYTES:
        return _decode_bytes(data, at)
    if root is TypeRoot.DECIMAL:
        return _decode_decimal(kind, data, at)
    if root is TypeRoot.TIME:
        return int(struct.unpack_from("<i", data, at)[0]) * _time_units_per_milli(kind)
    if root in _TIMESTAMPS:
        return _decode_timestamp(kind, data, at)
    raise UnsupportedError(f"type {kind} cannot be part of a key, a partition or statistics")


def _decode_bytes(data: bytes, at: int) -> bytes:
    mark = data[at + 7]
    if mark & 0x80:
        return data[at : at + (mark & 0x7F)]
    length, offset = struct.unpack_from("<II", data, at)
    if offset + length > len(data):
        raise ValueError(f"a value ends at {offset + length}, the row at {len(data)}")
    return data[offset : offset + length]


def _decode_decimal(kind: DataType, data: bytes, at: int) -> Decimal:
    if (kind.precision or 0) <= MAX_COMPACT_PRECISION:
        unscaled = int(struct.unpack_from("<q", data, at)[0])
    else:
        unscaled = int.from_bytes(_decode_bytes(data, at), "big", signed=True)
    return decimal_of(unscaled, kind)


def decimal_of(unscaled: int, kind: DataType) -> Decimal:
    """The number of a DECIMAL whose digits without the point are `unscaled`, all of them kept."""
    return _DECIMALS.scaleb(Decimal(unscaled), -(kind.scale or 0))


def _decode_timestamp(kind: DataType, data: bytes, at: int) -> int:
    if (kind.precision or 0) <= 3:
        millis, nanos = int(struct.unpack_from("<q", data, at)[0]), 0
    else:
        nanos, offset = struct.unpack_from("<II", data, at)
        millis = int(struct.unpack_from("<q", data, offset)[0])
    per_second = _UNITS_PER_SECOND[time_unit(kind.precision or 0)]
    if per_second <= 1_000:
        return millis // (1_000 // per_second)
    return millis * (per_second // 1_000) + nanos // (1_000_000_000 // per_second)


def to_table(fields: Sequence[DataField], rows: Sequence[Sequence[StoredValue]]) -> pa.Table:
    """Rows of stored values as columns, named and typed as `fields` are."""
    columns = [
        pa.array([to_scalar(field.type, row[at]) for row in rows], to_arrow_type(field.type))
        for at, field in enumerate(fields)
    ]
    return pa.table(columns, names=[field.name for field in fields])
