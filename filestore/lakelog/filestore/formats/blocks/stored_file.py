"""A data file to open: where it is, and what the manifest says about its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CHECKSUM_BYTES, CheckedInput
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.io.network import fetch_ends, open_known

_FOOT_BYTES = 64 << 10  # of a footer, or a little more than its end


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file at `path`. `size_bytes` and the `checksums` of its blocks are the manifest's; None is unknown."""

    file_io: FileIO
    path: str
    size_bytes: int | None = None
    checksums: bytes | None = None

    def open(self) -> pa.NativeFile:
        """Open the file for readers of a format; its blocks are checked as they are read.

        Raises CorruptDataError for a file of another size, and on reads of damaged blocks; NotFoundError, for a file in
        an object store also when it is read first.
        """
        opened = self.open_input()
        return pa.PythonFile(opened, mode="r") if isinstance(opened, CheckedInput) else opened

    def open_input(self) -> CheckedInput | pa.NativeFile:
        """As `open`, with the object that checks the blocks if there are checksums."""
        if self.size_bytes is None or self.checksums is None:
            source = self.file_io.open_input(self.path)
        else:  # of a file of another size the checksums differ
            source = open_known(self.file_io, self.path, self.size_bytes)
        try:
            found = source.size()
            if self.size_bytes is not None and found != self.size_bytes:
                raise damaged(self.path, f"it has {found} bytes, expected {self.size_bytes}")
            if self.checksums is None:
                return source
            held, expected = len(self.checksums), -(-found // BLOCK_BYTES) * CHECKSUM_BYTES
            if held != expected:
                raise damaged(self.path, f"it has {found} bytes, and its manifest {held} of checksums, not {expected}")
        except BaseException:
            source.close()
            raise
        return CheckedInput(source, self.path, size_bytes=found, checksums=self.checksums)


def fetch_stored_ends(files: Sequence[StoredFile]) -> None:
    """Fetch the ends of files that are about to be opened, at once; only in a store behind a network.

    An end has a footer, and a file of one block has nothing else. Files without checksums are left out. Raises
    NotFoundError.
    """
    ends = [
        (file.path, max(0, file.size_bytes - _FOOT_BYTES) // BLOCK_BYTES * BLOCK_BYTES, file.size_bytes)
        for file in files
        if file.size_bytes and file.checksums is not None
    ]
    if files:
        fetch_ends(files[0].file_io, ends)
