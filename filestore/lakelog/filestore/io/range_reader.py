"""A file that is read by ranges over a network."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

TAIL_BYTES = 64 << 10
READ_BYTES_MIN = 128 << 10
NOTHING = pa.py_buffer(b"")


class RangeReader:
    """A file for random reads, which Arrow wraps: each read fetches its range, and nothing else.

    The end is fetched when the file is opened, or before, because footers are there. Small reads fetch at least
    `READ_BYTES_MIN`, which saves requests if a format reads on from there. Arrow calls it from one thread at a time.
    """

    closed = False

    def __init__(self, size: int, tail: pa.Buffer, fetch: Callable[[int, int], pa.Buffer]) -> None:
        """A file of `size` bytes, whose last bytes are `tail`; `fetch` returns the bytes from a start to an end."""
        self.size = size
        self._tail = tail
        self._tail_start = size - len(tail)
        self._fetch = fetch
        self._at = 0
        self._block = NOTHING
        self._block_start = 0

    def read(self, size: int = -1) -> pa.Buffer:
        """The next bytes; fewer than `size` only at the end. Raises what `fetch` raises."""
        left = self.size - self._at
        length = max(0, left if size is None or size < 0 else min(size, left))
        if not length:
            return NOTHING
        start = self._at
        self._at += length
        if start >= self._tail_start:
            return self._tail.slice(start - self._tail_start, length)
        if not (self._block_start <= start and start + length <= self._block_start + len(self._block)):
            self._block = self._fetch(start, min(start + max(length, READ_BYTES_MIN), self.size))
            self._block_start = start
        return self._block.slice(start - self._block_start, length)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        """The byte that is read next."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Drop the fetched bytes."""
        self.closed = True
        self._block = self._tail = NOTHING
