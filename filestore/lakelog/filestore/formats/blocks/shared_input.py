"""An open data file for libraries whose threads share one handle. It returns only verified bytes."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import Protocol

from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CheckedInput

BLOCKS_HELD = 8  # of an open file


class VerifiedBlocks:
    """The blocks of an open file, for several threads; the last ones are kept.

    The range that one thread reads ends in the block where the next one starts.
    """

    def __init__(self, source: CheckedInput) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._held: OrderedDict[int, bytearray] = OrderedDict()

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._source.size()

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises CorruptDataError.

        Of a range that was read before no other bytes are read: its checksum is known.
        """
        known = self._source.read_known(start, end)
        if known is not None:
            return known
        with self._lock:  # bytes that differ are looked at too: the checksums of the blocks say where
            found = self._read_blocks(start, end)
        self._source.note(start, found)
        return found

    def _read_blocks(self, start: int, end: int) -> bytes:
        numbers = range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        # The memory of a block is used again after as many others.
        parts = [
            b"".join(self._part(number, start, end) for number in numbers[at : at + BLOCKS_HELD])
            for at in range(0, len(numbers), BLOCKS_HELD)
        ]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, number: int, start: int, end: int) -> memoryview:
        """The bytes of a block that are between `start` and `end`."""
        at = number * BLOCK_BYTES
        return memoryview(self._block(number))[max(0, start - at) : end - at]

    def _block(self, number: int) -> bytearray:
        """The memory that begins with a block: that of the least recently used block, if all memory is used."""
        if number not in self._held:
            is_full = len(self._held) == BLOCKS_HELD
            buffer = self._held.popitem(last=False)[1] if is_full else bytearray(BLOCK_BYTES)
            self._source.read_block(number, buffer)
            self._held[number] = buffer
        self._held.move_to_end(number)
        return self._held[number]


class ReadableRanges(Protocol):
    """A file of which ranges are read, by several threads."""

    @property
    def size(self) -> int:
        """The bytes of the file."""

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises CorruptDataError."""


class SharedFile:
    """A file that several threads read, each at its own position.

    DuckDB's threads seek and read in two calls, without a lock around them.
    """

    closed = False

    def __init__(self, blocks: ReadableRanges) -> None:
        self._blocks = blocks
        self._places = threading.local()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._blocks.size}[whence]
        self._places.at = start + offset
        return start + offset

    def tell(self) -> int:
        """Where the calling thread reads next."""
        at: int = getattr(self._places, "at", 0)
        return at

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises CorruptDataError."""
        start = min(self.tell(), self._blocks.size)
        end = self._blocks.size if size < 0 else min(start + size, self._blocks.size)
        self._places.at = end
        return self._blocks.read(start, end)

    def close(self) -> None:
        """Nothing: other handles may share the open file, which is closed when the last of them is deleted."""
