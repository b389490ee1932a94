"""A local file system that counts the bytes that are read of its files, and names the files that are read whole."""

from __future__ import annotations

import io

import pyarrow as pa

from lakelog.filestore.io.local_files import LocalFileIO


class _Counted(io.RawIOBase):
    """A file whose reads are reported to `owner`."""

    def __init__(self, inner: pa.NativeFile, owner: CountingFileIO) -> None:
        self._inner = inner
        self._owner = owner

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._inner.seek(offset, whence)
        return int(self._inner.tell())

    def tell(self) -> int:
        return int(self._inner.tell())

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._inner.read(None if size < 0 else size)
        self._owner.add(len(data))
        return data

    def close(self) -> None:
        self._inner.close()
        super().close()


class CountingFileIO(LocalFileIO):
    """Counts in `bytes_read` what readers ask for. `whole_reads` are the files that were read whole, in order."""

    def __init__(self) -> None:
        super().__init__(sync_data=False)
        object.__setattr__(self, "bytes_read", 0)
        object.__setattr__(self, "whole_reads", [])

    bytes_read: int
    whole_reads: list[str]

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file, named in `whole_reads`."""
        self.whole_reads.append(path)
        return super().read_bytes(path)

    def add(self, count: int) -> None:
        """Count bytes."""
        object.__setattr__(self, "bytes_read", self.bytes_read + count)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads, counted."""
        return pa.PythonFile(_Counted(super().open_input(path), self), mode="r")
