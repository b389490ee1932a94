"""Objects as files: read by ranges, written in parts."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import TracebackType
from typing import Self

import obstore
import pyarrow as pa
from obstore.store import S3Store

from lakelog.common.errors import UnavailableError
from lakelog.filestore.object_errors import errors_named

TAIL_BYTES = 64 << 10
READ_BYTES_MIN = 128 << 10
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
_NOTHING = pa.py_buffer(b"")


class ObjectReader:
    """A file to read at random, for Arrow to wrap: what is read is fetched by its range, and nothing else.

    The end comes with the opening, because footers are there. Small reads fetch `READ_BYTES_MIN` at least, which spares
    requests where a format reads on from there. Arrow lets one thread in at a time.
    """

    closed = False

    def __init__(self, store: S3Store, key: str, path: str) -> None:
        """Fetch the end of the object. Raises NotFoundError, UnavailableError."""
        self._store, self._key, self._path = store, key, path
        self._at = 0
        with errors_named(path):
            self.size, self._tail = _tail(store, key)
        self._tail_start = self.size - len(self._tail)
        self._block = _NOTHING
        self._block_start = 0

    def read(self, size: int = -1) -> pa.Buffer:
        """The next bytes; fewer than `size` only at the end."""
        left = self.size - self._at
        length = max(0, left if size is None or size < 0 else min(size, left))
        if not length:
            return _NOTHING
        start = self._at
        self._at += length
        if start >= self._tail_start:
            return self._tail.slice(start - self._tail_start, length)
        if not (self._block_start <= start and start + length <= self._block_start + len(self._block)):
            self._fetch(start, max(length, READ_BYTES_MIN))
        return self._block.slice(start - self._block_start, length)

    def _fetch(self, start: int, length: int) -> None:
        """Make the block hold a range; what of it is in the tail is not fetched again."""
        end = min(start + length, self.size)
        with errors_named(self._path):
            block = pa.py_buffer(obstore.get_range(self._store, self._key, start=start, end=end))
        self._block, self._block_start = block, start

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
        """Let go of what was fetched."""
        self.closed = True
        self._block = self._tail = _NOTHING


def _tail(store: S3Store, key: str) -> tuple[int, pa.Buffer]:
    """The object's size and its last bytes, in one request; two for an empty object, which has no last bytes."""
    try:
        found = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
        return found.meta["size"], pa.py_buffer(found.bytes())
    except obstore.exceptions.BaseError:
        size = obstore.head(store, key)["size"]
        if size:
            raise
        return 0, _NOTHING


class ObjectWriter:
    """A new object, sent in parts while it is written. It is there once `close` has returned, and never in part.

    What is given up, or left behind by a process that died, is an upload that nobody sees; the store's rule for
    incomplete uploads clears it away.
    """

    def __init__(self, store: S3Store, key: str, path: str) -> None:
        """Send nothing yet."""
        self._path = path
        self._size = 0
        with errors_named(path):
            self._upload: obstore.WritableFile | None = obstore.open_writer(
                store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    @property
    def closed(self) -> bool:
        """True after `close` and `abort`."""
        return self._upload is None

    def write(self, data: bytes | pa.Buffer) -> int:
        """Append bytes."""
        if self._upload is None:
            raise ValueError(f"{self._path} is closed")
        view = memoryview(data).cast("B")
        try:
            with errors_named(self._path):
                self._upload.write(view)
        except UnavailableError:
            self.abort()  # what is sent now would lack these bytes
            raise
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size

    def flush(self) -> None:
        """Nothing: an object is there whole or not at all."""

    def close(self) -> None:
        """Make the object. Raises UnavailableError; then it may be there or not."""
        upload, self._upload = self._upload, None
        if upload is not None:
            with errors_named(self._path):
                upload.close()

    def abort(self) -> None:
        """Give the object up."""
        self._upload = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finish: Callable[[], None] = self.close if kind is None else self.abort
        finish()
