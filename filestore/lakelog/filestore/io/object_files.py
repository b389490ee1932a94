"""Objects as files: read by ranges, written in parts."""

from __future__ import annotations

from collections.abc import Callable

import obstore
import pyarrow as pa
from obstore.store import S3Store

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import UnavailableError
from lakelog.filestore.io.object_errors import errors_named
from lakelog.filestore.io.range_reader import NOTHING, TAIL_BYTES, RangeReader
from lakelog.filestore.io.store_writer import StoreWriter

PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
# The ends of files that are about to be opened, fetched ahead: each is taken once.
_ENDS: BoundedCache[str, pa.Buffer] = BoundedCache(bytes_max=32 << 20)


def open_object(store: S3Store, key: str, path: str) -> RangeReader:
    """Open an object; fetches its end. This and the reader's reads raise NotFoundError and UnavailableError."""
    with errors_named(path):
        size, tail = _tail(store, key)
    return RangeReader(size, tail, _fetching(store, key, path))


def open_known_object(store: S3Store, key: str, path: str, size_bytes: int) -> RangeReader:
    """Open an object of a known size; fetches nothing. The reader's reads raise NotFoundError and UnavailableError."""
    return RangeReader(size_bytes, _ENDS.take(path) or NOTHING, _fetching(store, key, path))


def fetch_end(store: S3Store, key: str, path: str, *, start: int, size_bytes: int) -> None:
    """Fetch the bytes of an object from `start` on, which `open_known_object` takes. Raises as the reader's reads."""
    if path not in _ENDS:
        _ENDS.put(path, _fetching(store, key, path)(start, size_bytes), size_bytes - start)


def _fetching(store: S3Store, key: str, path: str) -> Callable[[int, int], pa.Buffer]:
    """The function that fetches the bytes of an object from a start to an end."""

    def fetch(start: int, end: int) -> pa.Buffer:
        with errors_named(path):
            return pa.py_buffer(obstore.get_range(store, key, start=start, end=end))

    return fetch


def _tail(store: S3Store, key: str) -> tuple[int, pa.Buffer]:
    """The object's size and its last bytes, in one request; two for an empty object, which has no last bytes."""
    try:
        found = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
        return found.meta["size"], pa.py_buffer(found.bytes())
    except obstore.exceptions.BaseError:
        size = obstore.head(store, key)["size"]
        if size:
            raise
        return 0, NOTHING


class ObjectWriter(StoreWriter):
    """A new object, sent in parts while it is written. It exists once `close` has returned, and never in part.

    An aborted object, or one whose process was killed, is an incomplete upload, which no read sees; the object store's
    lifecycle rule for incomplete uploads deletes it.
    """

    def __init__(self, store: S3Store, key: str, path: str) -> None:
        """Start without sending anything."""
        super().__init__(path)
        with errors_named(path):
            self._upload: obstore.WritableFile | None = obstore.open_writer(
                store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    @property
    def closed(self) -> bool:
        """True after `close` and `abort`."""
        return self._upload is None

    def _send(self, data: memoryview) -> None:
        assert self._upload is not None
        try:
            with errors_named(self._path):
                self._upload.write(data)
        except UnavailableError:
            self.abort()  # the object would lack these bytes
            raise

    def close(self) -> None:
        """Create the object. Raises UnavailableError; then the object may exist or not."""
        upload, self._upload = self._upload, None
        if upload is not None:
            with errors_named(self._path):
                upload.close()

    def abort(self) -> None:
        """Abandon the object."""
        self._upload = None
