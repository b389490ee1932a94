"""The iteration order of Java's hash collections. Pure.

Aggregates of Paimon that hold sets, or rows by key, return them in this order. Source: Java, `HashMap`; Paimon,
`MurmurHashUtils`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from lakelog.common.types import DataType, TypeRoot

_WORD = 0xFFFF_FFFF
_SMALLEST_TABLE = 16
_INTS = {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT}
_SEED = 42


def hash_order(hashes: Sequence[int], *, is_newest_first: bool = False) -> list[int]:
    """The indices of elements in the order of a hash table; `hashes` are in the order in which the elements were put.

    Elements in one slot of the table are in the order in which they were put, or in reverse order if they were put by
    `computeIfAbsent`.
    """
    size = _SMALLEST_TABLE
    while len(hashes) * 4 > size * 3:
        size *= 2
    places = [((value & _WORD) ^ ((value & _WORD) >> 16)) & (size - 1) for value in hashes]
    indices = range(len(hashes))
    return sorted(reversed(indices) if is_newest_first else indices, key=places.__getitem__)


def hash_code(kind: DataType, value: object) -> int:
    """Java's hash of an element; 0 for types whose hashes are not known here: their elements stay in order."""
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, str):
        return _murmur(value.encode())
    if isinstance(value, int) and kind.root in _INTS:
        return value
    if isinstance(value, int) and kind.root is TypeRoot.BIGINT:
        return _folded(value)
    if isinstance(value, float) and kind.root is TypeRoot.FLOAT:
        return int.from_bytes(struct.pack("<f", value), "little")
    if isinstance(value, float) and kind.root is TypeRoot.DOUBLE:
        return _folded(int.from_bytes(struct.pack("<d", value), "little"))
    return 0


def _folded(value: int) -> int:
    return (value ^ ((value & ((1 << 64) - 1)) >> 32)) & _WORD


def _murmur(data: bytes) -> int:
    """Murmur3 (x86, 32 bits), with each byte of the tail as a word."""
    words = [*struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])]
    tail = struct.unpack(f"<{len(data) % 4}b", data[len(data) // 4 * 4 :])
    found = _SEED
    for word in (*words, *tail):
        mixed = (word & _WORD) * 0xCC9E2D51 & _WORD
        mixed = ((mixed << 15 | mixed >> 17) & _WORD) * 0x1B873593 & _WORD
        found ^= mixed
        found = ((found << 13 | found >> 19) & _WORD) * 5 + 0xE6546B64 & _WORD
    found ^= len(data)
    found = (found ^ found >> 16) * 0x85EBCA6B & _WORD
    found = (found ^ found >> 13) * 0xC2B2AE35 & _WORD
    return found ^ found >> 16
