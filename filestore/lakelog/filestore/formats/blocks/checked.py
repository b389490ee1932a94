"""Checksums of a data file's blocks: computed while it is written, and verified whenever a part of it is read.

A file is cut into blocks of 512 KiB, the last one may be shorter. The manifest entry of the file holds, in the field
`_LAKELOG_CHECKSUMS` that other readers skip, the CRC-32 of each block, four bytes big endian, one after the other. A
reader fetches whole blocks and returns no byte that differs from what was written, in data, footers and statistics. A
file that was replaced by another one has other blocks.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.filestore.formats.blocks.crc import crc32
from lakelog.filestore.formats.blocks.range_sums import RANGE_SUMS
from lakelog.filestore.io.fileio import FileIO, OutputFile
from lakelog.filestore.io.integrity import damaged

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BLOCK_BYTES = 512 << 10
CHECKSUM_BYTES = 4
_WRITE_BUFFER_BYTES = 256 << 10


class ChecksummedOutput(io.RawIOBase):
    """A file whose bytes go to `output`; `checksums` are those of all blocks so far.

    With `holds_errors` a failed write raises nothing: its error is held, and later writes do nothing.
    """

    def __init__(self, output: OutputFile, *, holds_errors: bool = False) -> None:
        self._output = output
        self._holds_errors = holds_errors
        self._error: BaseException | None = None
        self._sums: list[int] = []
        self._position = 0
        self._is_given_up = False

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Bytes written, also of a closed file."""
        return self._position

    def write(self, data: ReadableBuffer, /) -> int:
        """Append bytes."""
        view = memoryview(data)
        if self._is_given_up:
            return len(view)
        if self._error is None:
            self._write_on(data if isinstance(data, bytes) else bytes(view))  # the caller may reuse its buffer
        at = 0
        while at < len(view):
            inside = self._position % BLOCK_BYTES
            part = view[at : at + BLOCK_BYTES - inside]
            if inside:
                self._sums[-1] = crc32(part, self._sums[-1])
            else:
                self._sums.append(crc32(part))
            at += len(part)
            self._position += len(part)
        return len(view)

    def _write_on(self, data: bytes) -> None:
        try:
            self._output.write(data)
        except BaseException as error:
            if not self._holds_errors:
                raise
            self._error = error

    def give_up(self) -> None:
        """Ignore all later writes."""
        self._is_given_up = True

    def check(self) -> None:
        """Raise the error that is held."""
        if self._error is not None:
            raise self._error

    @property
    def checksums(self) -> bytes:
        """The checksums as a manifest holds them."""
        return struct.pack(f">{len(self._sums)}I", *self._sums)


class ChecksummedFile:
    """A new data file: what is written to `sink` goes into it. It is finished, or given up.

    With `holds_errors` the sink raises nothing, for libraries that abort on errors: `check` and `finish` raise.
    """

    def __init__(self, file_io: FileIO, path: str, *, holds_errors: bool = False) -> None:
        self._file_io = file_io
        self._path = path
        self._output = file_io.open_output(path)
        self._counted = ChecksummedOutput(self._output, holds_errors=holds_errors)
        # Arrow writes a page in pieces; without a buffer the calls would cost more than the bytes.
        self._buffered = io.BufferedWriter(self._counted, _WRITE_BUFFER_BYTES)
        self.sink = pa.PythonFile(self._buffered, mode="w")
        self.is_finished = False

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._counted.tell() if self._buffered.closed else self._buffered.tell()

    @property
    def checksums(self) -> bytes:
        """Checksums of all blocks so far, as a manifest holds them."""
        return self._counted.checksums

    def check(self) -> None:
        """Raise the error of a write that failed."""
        self._counted.check()

    def give_up(self, close: Callable[[], None] | None = None) -> None:
        """Abort the file unless it is finished; `close` closes the library's writer."""
        if self.is_finished:
            return
        if close is not None:
            # Arrow writes a footer when it closes. This may fail: an earlier error led here, and is the one to report.
            with contextlib.suppress(OSError, RuntimeError, ValueError, UnavailableError):
                close()
        self.abort()

    def finish(self) -> int:
        """Make the file durable and return its size in bytes."""
        self._buffered.flush()
        self.check()
        size = self.size_bytes
        self.sink.close()
        self._output.close()
        self._file_io.sync(self._path)
        self.is_finished = True
        return size

    def abort(self) -> None:
        """Give the file up."""
        self._counted.give_up()
        self.sink.close()
        self._output.abort()


class CheckedInput(io.RawIOBase):
    """A file that is read by whole blocks, each compared with its checksum. The last blocks are kept."""

    def __init__(self, source: pa.NativeFile, path: str, *, size_bytes: int, checksums: bytes) -> None:
        self._source = source
        self.path = path
        self.checksums = checksums
        self._size = size_bytes
        self._sums = struct.unpack(f">{len(checksums) // CHECKSUM_BYTES}I", checksums)
        self._position = 0
        self._held_start = 0
        self._held = pa.py_buffer(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Close the file below."""
        if not self.closed:
            self._source.close()
        super().close()

    def size(self) -> int:
        """The file's bytes."""
        return self._size

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises CorruptDataError."""
        return self.read_buffer(size).to_pybytes()  # type: ignore[no-any-return]  # Arrow has no types

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """The next bytes, without a copy: Arrow calls this. Raises CorruptDataError."""
        start = min(self._position, self._size)
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        self._position = end
        if not self._held_start <= start <= end <= self._held_start + self._held.size:
            self._held_start = start - start % BLOCK_BYTES
            self._held = self.blocks(self._held_start, end)
        return self._held.slice(start - self._held_start, end - start)

    def hold(self, start: int, end: int) -> None:
        """Read a range of bytes at once, so that reads inside it find the bytes here. Raises CorruptDataError."""
        if self._held_start <= start <= end <= self._held_start + self._held.size:
            return
        self._held = pa.py_buffer(b"")  # before more is read
        self._held_start = start - start % BLOCK_BYTES
        self._held = self.blocks(self._held_start, min(end, self._size))

    def image(self, ranges: Iterable[tuple[int, int]]) -> bytes:
        """Bytes of the file's size: its blocks around the ranges, and zeros elsewhere. Raises CorruptDataError."""
        parts: list[bytes | pa.Buffer] = []
        position = 0
        for _, numbered in itertools.groupby(enumerate(_blocks_around(ranges)), key=lambda item: item[1] - item[0]):
            run = [block for _, block in numbered]
            start, end = run[0] * BLOCK_BYTES, min((run[-1] + 1) * BLOCK_BYTES, self._size)
            parts += [bytes(start - position), self.blocks(start, end)]
            position = end
        return b"".join([*parts, bytes(self._size - position)])

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine's system."""
        return isinstance(self._source, pa.OSFile)

    def own_file(self) -> BinaryIO | None:
        """The same open file for a library that reads it itself, unverified; None if the file is not local."""
        if not self.is_local:
            return None
        return open(os.dup(self._source.fileno()), "rb", buffering=0)  # noqa: PTH123  # a descriptor, not a path

    def verify(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Compare the blocks around the ranges with their checksums, and keep none of them. Raises CorruptDataError."""
        buffer = bytearray(BLOCK_BYTES)  # memory that is used again and again costs less than new memory
        for block in _blocks_around(ranges):
            self.read_block(block, buffer)

    def read_block(self, block: int, buffer: bytearray) -> memoryview:
        """Read the block with this number into `buffer`, which has room for it. Raises CorruptDataError."""
        start = block * BLOCK_BYTES
        view = memoryview(buffer)[: min(BLOCK_BYTES, self._size - start)]
        self._source.seek(start)
        found = view[: self._source.readinto(view)]
        self._compare(start, found)
        return found

    def read_known(self, start: int, end: int) -> bytes | None:
        """The bytes from `start` to `end` of a local file if their noted checksum holds, else None. Thread-safe."""
        expected = RANGE_SUMS.get((self.path, self.checksums), start, end)
        if expected is None or not self.is_local:
            return None
        found = os.pread(self._source.fileno(), end - start, start)
        return found if crc32(found) == expected and len(found) == end - start else None

    def note(self, start: int, verified: bytes) -> None:
        """Note the checksum of verified bytes from `start` on, for `read_known`."""
        RANGE_SUMS.put((self.path, self.checksums), start, start + len(verified), crc32(verified))

    def blocks(self, start: int, end: int) -> pa.Buffer:
        """Whole blocks that hold the bytes from the block start `start` to `end`. Raises CorruptDataError."""
        stop = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, self._size)
        self._source.seek(start)
        found = self._source.read_buffer(stop - start)
        view = memoryview(found)
        for at in range(start, stop, BLOCK_BYTES):
            self._compare(at, view[at - start : at - start + BLOCK_BYTES])
        return found

    def _compare(self, start: int, found: memoryview) -> None:
        """Raise CorruptDataError unless the bytes are the block that starts at `start`."""
        end = min(start + BLOCK_BYTES, self._size)
        found_sum, expected = crc32(found), self._sums[start // BLOCK_BYTES]
        if found_sum != expected or len(found) != end - start:
            raise damaged(
                self.path,
                f"bytes {start} to {end} have the checksum {found_sum:08x}, the manifest says {expected:08x}",
            )


def _blocks_around(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers of the blocks that hold ranges of bytes, in their order."""
    return sorted({at for start, end in ranges for at in range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))})
