"""Messages of protobuf, which ORC uses for footers: decoded to their fields in order, and encoded."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.filestore.formats.blocks.varints import varint_bytes

_VARINT_BYTES_MAX = 10
_FIXED_BYTES = {1: 8, 5: 4}
Field = tuple[int, int, bytes, int]  # number, wire type, bytes of the value, and the value if it is a number


def parse_message(data: bytes) -> list[Field]:
    """The fields of a protobuf message, in their order. Raises ValueError."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        key, at = parse_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = parse_varint(data, at)
            fields.append((key >> 3, wire, b"", value))
            continue
        size = _FIXED_BYTES.get(wire)
        if size is None:
            if wire != 2:
                raise ValueError(f"a field of the wire type {wire}")
            size, at = parse_varint(data, at)
        if at + size > len(data):
            raise ValueError("a field ends behind its message")
        fields.append((key >> 3, wire, data[at : at + size], 0))
        at += size
    return fields


def parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises ValueError."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number does not end")


def number_in(fields: Sequence[Field], key: int) -> int:
    """The first number with a key; 0 without one, as in protobuf."""
    return next((field[3] for field in fields if field[0] == key and field[1] == 0), 0)


def encode_field(field: Field) -> bytes:
    """The bytes of a field."""
    number, wire, data, value = field
    if wire == 0:
        return varint_field(number, value)
    return bytes_field(number, data) if wire == 2 else varint_bytes(number << 3 | wire) + data


def varint_field(number: int, value: int) -> bytes:
    """The bytes of a number with its key."""
    return varint_bytes(number << 3) + varint_bytes(value)


def bytes_field(number: int, data: bytes) -> bytes:
    """The bytes of a string or message with its key."""
    return varint_bytes(number << 3 | 2) + varint_bytes(len(data)) + data
