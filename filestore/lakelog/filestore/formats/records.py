"""Manifests, their lists and index manifests: records of a file whose first bytes show its format.

Paimon writes them as Avro, or with the option `manifest.format`, which it dropped in 2026, as ORC or Parquet with the
same fields, records as structs, and bytes as binary. The format is found from the bytes and never from the option,
which may have changed since a file was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any  # Any: records are untyped

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakelog.filestore.formats.avro.avro import iter_container
from lakelog.filestore.formats.blocks.reader_errors import errors_named
from lakelog.filestore.formats.orc.orc_timestamps import check_decimals
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged, read_checked

_BLOCK_BYTES_MAX = 64 << 20  # of an ORC file before compression; Paimon's have 256 KiB


def _read_orc(data: bytes, path: str) -> pa.Table:
    check_decimals(lambda start, size: data[start : start + size], len(data))
    file = orc.ORCFile(pa.BufferReader(data))
    _check_rows(file.nrows, data, path)
    if file.compression_size > _BLOCK_BYTES_MAX:
        raise damaged(path, f"it has blocks of {file.compression_size} bytes, expected at most {_BLOCK_BYTES_MAX}")
    return file.read()


def _read_parquet(data: bytes, path: str) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(data))
    _check_rows(file.metadata.num_rows, data, path)
    return file.read()


_COLUMNAR: dict[bytes, tuple[str, Callable[[bytes, str], pa.Table]]] = {
    b"ORC": ("ORC", _read_orc),
    b"PAR1": ("Parquet", _read_parquet),
}


def columnar_records(data: bytes, *, path: str) -> pa.Table | None:
    """The records of an ORC or Parquet file as columns; None for bytes of another format. Raises CorruptDataError."""
    for start, (name, read) in _COLUMNAR.items():
        if data.startswith(start):
            with errors_named(path, name):
                table = read(data, path)
                table.validate(full=True)  # strings and names must be UTF-8, which Arrow has not checked yet
                for field in table.schema:
                    _check_name(field)
                return table
    return None


def iter_records(data: bytes, *, path: str) -> Iterator[dict[str, Any]]:
    """The records of a file, one by one. Raises CorruptDataError or UnsupportedError, naming `path`."""
    table = columnar_records(data, path=path)
    if table is None:
        yield from iter_container(data, path=path)
        return
    for batch in table.to_batches(max_chunksize=1_024):
        yield from batch.to_pylist()


def read_records(file_io: FileIO, path: str, *, size_bytes: int | None = None) -> list[dict[str, Any]]:
    """The records of the file at `path`. Raises NotFoundError or CorruptDataError as `read_checked`."""
    return list(iter_records(read_checked(file_io, path, size_bytes=size_bytes), path=path))


def _check_name(field: pa.Field) -> None:
    """Raise ValueError for a name that is not a string, in nested fields too."""
    if not field.name.isprintable():
        raise ValueError(f"it has a column of the name {field.name!r}")
    for at in range(field.type.num_fields):
        _check_name(field.type.field(at))


def _check_rows(count: int, data: bytes, path: str) -> None:
    """Raise CorruptDataError for more records than bytes, since each record names another file."""
    if count > len(data):
        raise damaged(path, f"it claims {count} records in {len(data)} bytes")
