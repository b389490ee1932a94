"""Roaring bitmaps in their portable form. Pure. Source: RoaringFormatSpec, "Standard 32-bit"."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

_COOKIE_NO_RUNS = 12346
_COOKIE = 12347
_ARRAY_MAX = 4096  # up to this number of values a container lists them; above, it sets bits
_BITMAP_BYTES = 8192
NUMBERS_MAX = 1 << 25  # 128 MiB
_OFFSETS_FROM = 4  # from this number of containers on, a bitmap with runs has offsets

Positions = npt.NDArray[np.uint32]


def decode_roaring(data: bytes | memoryview, *, numbers_max: int = NUMBERS_MAX) -> tuple[Positions, int]:
    """The numbers of a 32-bit bitmap, in ascending order, and the size of the bitmap in bytes.

    Raises ValueError for other bytes, and for more than `numbers_max` numbers: a few bytes may stand for 65,536.
    """
    view = memoryview(data)
    try:
        return _decode(view, numbers_max)
    except (struct.error, IndexError) as error:
        raise ValueError(f"the bitmap ends early: {error}") from error


def encode_roaring(numbers: Positions) -> bytes:
    """A 32-bit bitmap of ascending numbers, without runs."""
    keys, starts = np.unique(numbers >> np.uint32(16), return_index=True)
    low = (numbers & np.uint32(0xFFFF)).astype("<u2")
    containers = [_packed(part) for part in np.split(low, starts[1:])] if len(keys) else []
    counts = np.diff(np.append(starts, len(numbers)))
    heads = np.column_stack([keys, counts - 1]).astype("<u2").tobytes()
    first = 8 + 8 * len(keys)  # behind cookie, number of containers, their headers and their offsets
    offsets = first + np.cumsum([0, *(len(container) for container in containers[:-1])])
    head = struct.pack("<II", _COOKIE_NO_RUNS, len(keys))
    return b"".join([head, heads, offsets.astype("<u4").tobytes() if containers else b"", *containers])


def _packed(low: npt.NDArray[np.uint16]) -> bytes:
    """The low 16 bits of one container's numbers."""
    if len(low) <= _ARRAY_MAX:
        return low.tobytes()
    bits = np.zeros(8 * _BITMAP_BYTES, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _decode(view: memoryview, numbers_max: int) -> tuple[Positions, int]:
    (word,) = struct.unpack_from("<I", view, 0)
    at = 4
    flags = b""
    if word & 0xFFFF == _COOKIE:
        count = (word >> 16) + 1
        flags = bytes(view[at : at + (count + 7) // 8])
        at += (count + 7) // 8
        has_offsets = count >= _OFFSETS_FROM
    elif word == _COOKIE_NO_RUNS:
        (count,) = struct.unpack_from("<I", view, at)
        at += 4
        has_offsets = True
    else:
        raise ValueError(f"a roaring bitmap begins with {_COOKIE_NO_RUNS} or {_COOKIE}, found {word & 0xFFFF}")
    heads = struct.unpack_from(f"<{2 * count}H", view, at)
    total = sum(heads[1::2]) + count
    if total > numbers_max:
        raise ValueError(f"it claims {total} numbers, at most {numbers_max} are read")
    at += 4 * count + (4 * count if has_offsets else 0)
    parts: list[Positions] = []
    for index in range(count):
        key, cardinality = heads[2 * index], heads[2 * index + 1] + 1
        is_run = bool(flags) and bool(flags[index // 8] >> index % 8 & 1)
        low, at = _container(view, at, cardinality, is_run=is_run)
        if len(low) != cardinality:
            raise ValueError(f"container {index} has {len(low)} numbers, its header says {cardinality}")
        parts.append(low + np.uint32(key << 16))
    return (np.concatenate(parts) if parts else np.zeros(0, np.uint32)), at


def _container(view: memoryview, at: int, cardinality: int, *, is_run: bool) -> tuple[Positions, int]:
    """The low 16 bits of a container's numbers, and where it ends."""
    if is_run:
        (runs,) = struct.unpack_from("<H", view, at)
        pairs = np.frombuffer(_cut(view, at + 2, 4 * runs), "<u2").astype(np.uint32).reshape(-1, 2)
        if int(pairs[:, 1].sum()) + runs != cardinality:
            raise ValueError(
                f"a container has runs of {int(pairs[:, 1].sum()) + runs} numbers, its header says {cardinality}"
            )
        ranges = [np.arange(start, start + length + 1, dtype=np.uint32) for start, length in pairs]
        return (np.concatenate(ranges) if ranges else np.zeros(0, np.uint32)), at + 2 + 4 * runs
    if cardinality > _ARRAY_MAX:
        bits = np.unpackbits(np.frombuffer(_cut(view, at, _BITMAP_BYTES), np.uint8), bitorder="little")
        return np.flatnonzero(bits).astype(np.uint32), at + _BITMAP_BYTES
    return np.frombuffer(_cut(view, at, 2 * cardinality), "<u2").astype(np.uint32), at + 2 * cardinality


def _cut(view: memoryview, at: int, size: int) -> memoryview:
    if len(view) < at + size:
        raise IndexError(f"{at + size} bytes expected, {len(view)} found")
    return view[at : at + size]
