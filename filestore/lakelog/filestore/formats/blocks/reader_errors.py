"""Errors of Arrow while it reads a data file, as errors of lakelog that name the file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.common.quoting import CAUSE_MAX, cut
from lakelog.filestore.io.integrity import damaged


@contextlib.contextmanager
def errors_named(path: str, kind: str) -> Iterator[None]:
    """Raise Arrow's errors for a data file as CorruptDataError, or as UnavailableError for a failing read.

    MemoryError is not about the file, and is raised as it is.
    """
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, ArithmeticError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, not of Arrow
            raise UnavailableError(f"{kind} file {path} could not be read: {cut(str(error), CAUSE_MAX)}") from error
        raise damaged(path, f"it is not readable as {kind}: {cut(str(error), CAUSE_MAX)}") from error


class WatchedInput(io.RawIOBase):
    """A file that holds its last error, for libraries that raise only the error's message."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._end = pa.py_buffer(b"")
        self.error: Exception | None = None

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
        return int(self._source.size())

    def tell(self) -> int:
        """Where the next read starts."""
        return int(self._source.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        return int(self._source.seek(offset, whence))

    def hold_end(self, size: int) -> None:
        """Read the last bytes at once, so that reads inside them find them here."""
        self._source.seek(max(0, self.size() - size))
        self._end = self.read_buffer(size)

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        return self.read_buffer(size).to_pybytes()  # type: ignore[no-any-return]  # Arrow has no types

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """The next bytes, without a copy: Arrow calls this."""
        try:
            start = self.tell() - self.size() + self._end.size
            if self._end.size and start >= 0:
                left = self._end.size - start
                found = self._end.slice(start, left if size < 0 else min(size, left))
                self._source.seek(self.tell() + found.size)
                return found
            return self._source.read_buffer(None if size < 0 else size)
        except Exception as error:
            self.error = error
            raise
