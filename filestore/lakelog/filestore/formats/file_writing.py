"""New data files of any format, and the interface of the writers of formats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField
from lakelog.filestore.formats.avro.avro_writing import AvroWriter
from lakelog.filestore.formats.orc.orc_writing import STRIPE_BYTES, OrcWriter
from lakelog.filestore.formats.parquet.parquet_writing import (
    LOOKED_UP_GROUP_ROWS,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    ParquetWriter,
)
from lakelog.filestore.io.fileio import FileIO


class DataFileWriter(Protocol):
    """One new data file, written piece by piece. A context manager: an unfinished file is deleted at its end."""

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without the buffered ones."""
        ...

    @property
    def checksums(self) -> bytes:
        """Checksums of the blocks of a finished file."""
        ...

    @property
    def footer(self) -> pq.FileMetaData | None:
        """The footer of a finished Parquet file; None in other formats."""
        ...

    def write(self, table: pa.Table) -> None:
        """Append rows: the columns have the Arrow types of the file's fields. Raises InvalidRequestError."""
        ...

    def finish(self) -> int:
        """Make the file durable and return its size in bytes."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def create_data_file(
    file_io: FileIO,
    path: str,
    fields: Sequence[DataField],
    *,
    compression: str,
    compression_level: int,
    block_bytes: int | None = None,
    is_looked_up: bool = False,
    without_bounds: Collection[str] = (),
) -> DataFileWriter:
    """A new data file of the columns `fields`; the part of its name after the last dot is its format.

    `block_bytes` is the size of a row group or stripe; None leaves it to the format. A file that `is_looked_up` has
    smaller row groups in Parquet, since lookups read whole ones. The columns `without_bounds` get no statistics in a
    Parquet footer. Raises InvalidRequestError.
    """
    extension = path.rpartition(".")[2]
    if extension == "parquet":
        return ParquetWriter(
            file_io,
            path,
            fields,
            compression=compression,
            compression_level=compression_level,
            row_group_bytes=block_bytes or ROW_GROUP_BYTES,
            row_group_rows=LOOKED_UP_GROUP_ROWS if is_looked_up else ROW_GROUP_ROWS,
            without_bounds=without_bounds,
        )
    if extension == "orc":
        return OrcWriter(file_io, path, fields, compression=compression, stripe_bytes=block_bytes or STRIPE_BYTES)
    if extension == "avro":
        return AvroWriter(file_io, path, fields, compression=compression, compression_level=compression_level)
    raise UnsupportedError(f"data file {path} has the format {extension!r}, which is not written")
