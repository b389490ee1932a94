"""Avro object files: records in, records out."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any  # Any: Avro records are untyped

import fastavro
import pyarrow as pa
from fastavro.read import BLOCK_READERS
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.integrity import damaged

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
_CHECKSUM_BYTES = 4
_SNAPPY_RATIO_MAX = 64  # its longest copy: 64 bytes for 3
_read_plain_block = BLOCK_READERS["null"]


def _read_snappy_block(source: object) -> io.BytesIO:
    """The bytes of a block, which their CRC-32 follows. Source: Avro specification, "snappy"."""
    block = _read_plain_block(source).getvalue()
    packed, checksum = block[:-_CHECKSUM_BYTES], block[-_CHECKSUM_BYTES:]
    size = shift = 0
    for byte in packed:  # the length comes first, seven bits a byte
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > len(packed) * _SNAPPY_RATIO_MAX:
        raise ValueError(f"a snappy block of {len(packed)} bytes claims to hold {size}")
    data = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("the checksum of a snappy block does not fit its bytes")
    return io.BytesIO(data)


# fastavro needs one more library for snappy, which Arrow has.
BLOCK_READERS["snappy"] = _read_snappy_block


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
    """The records of an Avro object file, one by one. Raises CorruptDataError or UnsupportedError, naming `path`."""
    try:
        yield from fastavro.reader(io.BytesIO(data))  # type: ignore[misc]  # our records are objects, never scalars
    except NOT_AVRO as error:
        if "you need to install" in str(error):
            raise UnsupportedError(f"{path} is compressed with a codec that is not installed: {error}") from error
        raise damaged(path, f"it is not a readable Avro file: {error!r}") from error
