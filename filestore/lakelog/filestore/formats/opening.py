"""Data files of any format, which is named by the part of the file's name after its last dot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField
from lakelog.filestore.formats.avro.avro_rows import AvroFile
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.formats.orc.orc import OrcFile
from lakelog.filestore.formats.parquet.parquet import ParquetFile


class DataFile(Protocol):
    """One open data file."""

    @property
    def names(self) -> list[str]:
        """Names of the columns that the file holds."""
        ...

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        ...

    @property
    def row_bytes(self) -> int:
        """The approximate bytes of a row; 0 if the file does not say."""
        ...

    def iter_batches(self, fields: Sequence[DataField], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The columns `fields`, found by name, in the order of the rows. Raises CorruptDataError."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_READERS: dict[str, Callable[[StoredFile], DataFile]] = {"parquet": ParquetFile, "orc": OrcFile, "avro": AvroFile}


def open_data_file(file: StoredFile) -> DataFile:
    """Open a data file in the format that its name ends with.

    Raises NotFoundError, CorruptDataError, and UnsupportedError for formats without a reader.
    """
    extension = file.path.rpartition(".")[2]
    reader = _READERS.get(extension)
    if reader is None:
        raise UnsupportedError(
            f"data file {file.path} has the format {extension!r}, which is not read; known are {', '.join(_READERS)}"
        )
    return reader(file)
