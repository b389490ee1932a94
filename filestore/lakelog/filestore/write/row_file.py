"""Rows in a temporary file without a name.

`TMPDIR` decides on which file system the file is. The system frees it when it is closed or the process ends in any way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET


@dataclass(slots=True, kw_only=True)
class RowFile:
    """One temporary file, an Arrow stream; `size_bytes` is the size of its rows in memory. Raises UnavailableError."""

    file: IO[bytes]
    writer: pa.ipc.RecordBatchStreamWriter
    size_bytes: int = 0
    is_written: bool = False

    @classmethod
    def create(cls, schema: pa.Schema) -> RowFile:
        """A file without rows."""
        with _disk_errors_named():
            file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        return cls(file=file, writer=pa.ipc.new_stream(file, schema, options=options))

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        with _disk_errors_named():
            self.writer.write_table(rows)
        self.size_bytes += rows.nbytes

    def read(self) -> pa.Table:
        """All rows; no more rows can be added afterwards."""
        with _disk_errors_named(), self._reader() as reader:
            return reader.read_all()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows as they were added; no more rows can be added afterwards."""
        with _disk_errors_named(), self._reader() as reader:
            yield from reader

    def close(self) -> None:
        """Free the file."""
        self.file.close()

    def _reader(self) -> pa.ipc.RecordBatchStreamReader:
        if not self.is_written:
            self.writer.close()
            self.is_written = True
        self.file.seek(0)
        return pa.ipc.open_stream(self.file)


@contextmanager
def _disk_errors_named() -> Iterator[None]:
    """Raise UnavailableError for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"rows beyond {READ_MEMORY_BUDGET.key} could not be spilled to {tempfile.gettempdir()}: {error}; let "
            f"TMPDIR name a folder with more space, set {READ_MEMORY_BUDGET.key} higher, or let a batch read fewer rows"
        ) from error
