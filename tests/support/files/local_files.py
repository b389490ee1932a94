"""Data files of this machine, opened without a manifest, or with what one would say of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.io.local_files import LocalFileIO


def local_file(path: Path | str, *, size_bytes: int | None = None, checksums: bytes | None = None) -> StoredFile:
    """A data file to be opened."""
    return StoredFile(file_io=LocalFileIO(), path=str(path), size_bytes=size_bytes, checksums=checksums)


def read_parquet(path: Path | str, fields: Sequence[DataField]) -> pa.Table:
    """The columns `fields` of a Parquet file, by name, as their Arrow types."""
    with ParquetFile(local_file(path)) as file:
        return file.read(fields)
