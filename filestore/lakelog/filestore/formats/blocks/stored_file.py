"""A data file to open: where it is, and what the manifest says about its bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CHECKSUM_BYTES, CheckedInput
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file at `path`. `size_bytes` and the `checksums` of its blocks are the manifest's; None is unknown."""

    file_io: FileIO
    path: str
    size_bytes: int | None = None
    checksums: bytes | None = None

    def open(self) -> pa.NativeFile:
        """Open the file for readers of a format; its blocks are checked as they are read.

        Raises CorruptDataError for a file of another size, and on reads of damaged blocks; NotFoundError.
        """
        opened = self.open_input()
        return pa.PythonFile(opened, mode="r") if isinstance(opened, CheckedInput) else opened

    def open_input(self) -> CheckedInput | pa.NativeFile:
        """As `open`, with the object that checks the blocks if there are checksums."""
        source = self.file_io.open_input(self.path)
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
