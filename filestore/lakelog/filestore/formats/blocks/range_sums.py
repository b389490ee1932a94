"""Checksums of ranges of files, computed from verified bytes: the next read of such a range needs no whole blocks.

The manifest has checksums of blocks, and one column of a row group is a part of each block around it: two columns of
ten may lie in every block. Bytes that were verified once have a checksum of their own, with which bytes that are read
again are compared. So a later damage is found as in blocks, and other bytes are neither read nor compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

_RANGES_MAX = 1 << 16  # about 200 bytes of memory each
FileName = tuple[str, bytes]  # the path of a file, and the checksums of its blocks


class RangeSums:
    """The checksums of ranges, up to a total number, of the files read last. Thread-safe."""

    def __init__(self, ranges_max: int) -> None:
        self._ranges_max = ranges_max
        self._lock = threading.Lock()
        self._held: OrderedDict[FileName, dict[tuple[int, int], int]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """The number of ranges."""
        return self._count

    def get(self, file: FileName, start: int, end: int) -> int | None:
        """The checksum of the bytes from `start` to `end` of a file, or None if it is not known."""
        with self._lock:
            held = self._held.get(file)
            if held is None:
                return None
            self._held.move_to_end(file)
            return held.get((start, end))

    def put(self, file: FileName, start: int, end: int, checksum: int) -> None:
        """Hold the checksum of the verified bytes from `start` to `end` of a file."""
        with self._lock:
            held = self._held.setdefault(file, {})
            self._held.move_to_end(file)
            before = len(held)
            held[start, end] = checksum
            self._count += len(held) - before
            while self._count > self._ranges_max:
                _, dropped = self._held.popitem(last=False)
                self._count -= len(dropped)

    def clear(self) -> None:
        """Drop all checksums."""
        with self._lock:
            self._held.clear()
            self._count = 0


RANGE_SUMS = RangeSums(_RANGES_MAX)
