"""Data files for DuckDB whose footers describe the columns of a read alone.

DuckDB parses the whole footer of each file for each query, 64 KB for a million rows of 10 columns in 62 row groups. It
reads the end of a file first, and then the footer, if that is longer than what it has read. A file keeps the size and
the data that it has in the store. For a read of the end, zeros and a shorter footer are in the place of the footer;
a read of exactly the whole footer finds that one. So readers that began with one of the two are not mixed up.

To shorten a footer takes as long as to parse about ten. It is done for a file whose end was read as often.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.filestore.formats.blocks.shared_input import VerifiedBlocks
from lakelog.filestore.formats.parquet.footer_columns import footer_of_columns
from lakelog.filestore.formats.parquet.parquet_check import FOOT_BYTES, MAGIC
from lakelog.filestore.io.name_cache import NameCache

READS_BEFORE = 10
_LENGTH_BYTES = 4
_Place = tuple[bytes, int]  # the place of a footer to the end of the file, and the bytes of the footer in it
_PLACES: NameCache[_Place | None] = NameCache(16 << 20)  # None where a footer cannot be shortened
_READS: NameCache[list[None]] = NameCache(1 << 20)  # for each read of an end an item


class ShortFooterFile:
    """An open data file, for several threads, with the columns `names` in its footer."""

    def __init__(self, blocks: VerifiedBlocks, names: Iterable[str]) -> None:
        self._blocks = blocks
        self._names = frozenset(names)
        # The name of a data file is unique, and so are its bytes: they have these checksums.
        self._key = "\n".join([blocks.path, blocks.checksums.hex(), *sorted(self._names)])

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._blocks.size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises CorruptDataError."""
        held = _PLACES.get(self._key) or self._counted(end)
        place = None if held is None else held[0]
        if place is not None:
            content, length = place
            place_start = self.size - len(content)
            if end == self.size:
                found = content[max(0, start - place_start) :]
                return found if start >= place_start else self._blocks.read(start, place_start) + found
            if (start, end) == (self.size - FOOT_BYTES - length, self.size - FOOT_BYTES):
                return content[-FOOT_BYTES - length : -FOOT_BYTES]
        return self._blocks.read(start, end)

    def _counted(self, end: int) -> tuple[_Place | None] | None:
        """Count a read of the end; the place of the shortened footer, once it was read often enough."""
        if end != self.size:
            return None
        _READS.put(self._key, ([],), 0)
        for reads in _READS.get(self._key) or ():
            reads.append(None)
            if len(reads) < READS_BEFORE:
                return None
            reads.clear()  # if the footer is dropped from the cache, this many reads are needed again
        place = self._shortened()
        _PLACES.put(self._key, (place,), 0 if place is None else len(place[0]))
        return (place,)

    def _shortened(self) -> _Place | None:
        foot = self._blocks.read(self.size - FOOT_BYTES, self.size)
        length = int.from_bytes(foot[:_LENGTH_BYTES], "little")
        footer = self._blocks.read(self.size - FOOT_BYTES - length, self.size - FOOT_BYTES)
        short = footer_of_columns(footer, self._names)
        if short is None or len(short) == length:
            return None
        return bytes(length - len(short)) + short + len(short).to_bytes(_LENGTH_BYTES, "little") + MAGIC, len(short)
