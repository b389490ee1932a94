"""Varints, as Avro, Parquet's footers and ORC's have them: seven bits per byte, the lowest first.

The top bit of a byte is set if more bytes follow.
"""

from __future__ import annotations


def varint_bytes(value: int) -> bytes:
    """A number of zero or more as a varint."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
