"""A new file that is written over a network."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from lakelog.filestore.io.fileio import NewFile


class StoreWriter(NewFile):
    """A new file while it is written: the methods that Arrow needs; subclasses send the bytes."""

    def __init__(self, path: str) -> None:
        """Begin the file `path`, without bytes."""
        self._path = path
        self._size = 0

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True after `close` and `abort`."""

    @abstractmethod
    def _send(self, data: memoryview) -> None:
        """Send the next bytes. Raises UnavailableError."""

    def write(self, data: bytes | pa.Buffer) -> int:
        """Append bytes. Raises UnavailableError, and ValueError once the file is closed."""
        if self.closed:
            raise ValueError(f"{self._path} is closed")
        view = memoryview(data).cast("B")
        self._send(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size

    def flush(self) -> None:
        """Nothing: `close` makes the bytes durable."""
