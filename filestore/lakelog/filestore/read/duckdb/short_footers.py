"""Data files for DuckDB whose footers describe the columns of a read alone.

DuckDB parses the whole footer of each file for each query, 64 KB for a million rows of 10 columns in 62 row groups. A
file keeps the size and the data that it has in the store. In the place of its footer there may be zeros and a shorter
footer: for all reads of a relation or for none, since DuckDB may cache parts of a file by its name.

To shorten a footer takes longer than to parse ten. It is done for a file whose end was read several times, and used by
relations that are made later.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.common.bounded_cache import BoundedCache
from lakelog.filestore.formats.blocks.shared_input import VerifiedBlocks
from lakelog.filestore.formats.parquet.footer_columns import footer_of_columns
from lakelog.filestore.formats.parquet.parquet_check import FOOT_BYTES, MAGIC

READS_BEFORE = 5
_LENGTH_BYTES = 4
_PLACES: BoundedCache[str, bytes] = BoundedCache(bytes_max=16 << 20)  # no bytes where a footer cannot be shortened
_READS: BoundedCache[str, list[None]] = BoundedCache(bytes_max=1 << 20)  # for each read of an end an item


class ShortFooter:
    """The shortened footer of a file with the columns `names`, if there was one when this was made.

    `place` are the bytes from the place of the whole footer to the end of the file.
    """

    def __init__(self, path: str, checksums: bytes, names: Iterable[str]) -> None:
        """The path of the file, and the checksums of its blocks."""
        self.names = frozenset(names)
        self._key = "\n".join([path, checksums.hex(), *sorted(self.names)])
        held = _PLACES.get(self._key)
        self._is_known = held is not None
        self.place = held or None

    def count_read(self, blocks: VerifiedBlocks) -> None:
        """Count a read of the file's end; shorten the footer for later, once it was read often enough."""
        if self._is_known:
            return
        _READS.add(self._key, [])
        reads = _READS.get(self._key)
        if reads is None:  # it made room already
            return
        reads.append(None)
        if len(reads) >= READS_BEFORE:
            reads.clear()  # if the footer is dropped from the cache, this many reads are needed again
            place = _shortened(blocks, self.names) or b""
            _PLACES.add(self._key, place, len(place))


class ShortFooterFile:
    """An open data file, for several threads, with the shortened footer if there is one."""

    def __init__(self, blocks: VerifiedBlocks, footer: ShortFooter) -> None:
        self._blocks = blocks
        self._footer = footer

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._blocks.size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises CorruptDataError."""
        place = self._footer.place
        if place is None:
            if end == self.size:
                self._footer.count_read(self._blocks)
            return self._blocks.read(start, end)
        place_start = self.size - len(place)
        if end <= place_start:
            return self._blocks.read(start, end)
        found = place[max(0, start - place_start) : end - place_start]
        return found if start >= place_start else self._blocks.read(start, place_start) + found


def _shortened(blocks: VerifiedBlocks, names: frozenset[str]) -> bytes | None:
    foot = blocks.read(blocks.size - FOOT_BYTES, blocks.size)
    length = int.from_bytes(foot[:_LENGTH_BYTES], "little")
    footer = blocks.read(blocks.size - FOOT_BYTES - length, blocks.size - FOOT_BYTES)
    short = footer_of_columns(footer, names)
    if short is None or len(short) >= length:
        return None
    return bytes(length - len(short)) + short + len(short).to_bytes(_LENGTH_BYTES, "little") + MAGIC
