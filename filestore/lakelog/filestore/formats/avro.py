"""Avro object files: records in, records out."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any  # Any: Avro records are untyped

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.integrity import damaged, read_checked

_CODECS = {"zstd": "zstandard", "zstandard": "zstandard", "none": "null", "null": "null"}
_CODECS |= {"uncompressed": "null", "deflate": "deflate", "gzip": "deflate"}
# What fastavro and the libraries below it raise for bytes that are no Avro file.
NOT_AVRO = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    EOFError,
    RecursionError,
    RuntimeError,
    SchemaParseException,
    TypeError,
    UnknownType,
    ValueError,
    struct.error,
)


def codec_of(compression: str) -> str:
    """Avro's name of a compression. Raises InvalidRequestError."""
    try:
        return _CODECS[compression.lower()]
    except KeyError as error:
        known = ", ".join(sorted(_CODECS))
        raise InvalidRequestError(
            f"compression {compression!r} is not known for Avro files; known are {known}"
        ) from error


def encode_container(schema: Schema, records: Iterable[Mapping[str, Any]], *, codec: str = "zstandard") -> bytes:
    """The bytes of an Avro object file. `schema` is best parsed once, by `fastavro.parse_schema`."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records, codec=codec)
    return buffer.getvalue()


def decode_container(data: bytes, *, path: str) -> list[dict[str, Any]]:
    """The records of an Avro object file. Raises CorruptDataError, naming `path`."""
    return list(iter_container(data, path=path))


def iter_container(data: bytes, *, path: str) -> Iterator[dict[str, Any]]:
    """The records of an Avro object file, one at a time. Raises CorruptDataError, naming `path`."""
    try:
        yield from fastavro.reader(io.BytesIO(data))  # type: ignore[misc]  # our records are objects, never scalars
    except NOT_AVRO as error:
        if "you need to install" in str(error):
            raise UnsupportedError(f"{path} is compressed with a codec that is not installed: {error}") from error
        raise damaged(path, f"it is not a readable Avro file: {error!r}") from error


def read_container(file_io: FileIO, path: str, *, size_bytes: int | None = None) -> list[dict[str, Any]]:
    """The records of the Avro object file at `path`. Raises NotFoundError or CorruptDataError as `read_checked`."""
    return decode_container(read_checked(file_io, path, size_bytes=size_bytes), path=path)
