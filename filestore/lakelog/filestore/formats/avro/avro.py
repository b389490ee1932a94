"""Avro object files: records in, records out."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any  # Any: Avro records are untyped

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.formats.avro.avro_blocks import SCHEMA_KEY, AvroBlocks
from lakelog.filestore.formats.avro.avro_costs import check_cost
from lakelog.filestore.formats.blocks.inflating import INFLATE_ERRORS
from lakelog.filestore.io.integrity import damaged

_CODECS = {"zstd": "zstandard", "zstandard": "zstandard", "none": "null", "null": "null"}
_CODECS |= {"uncompressed": "null", "deflate": "deflate", "gzip": "deflate"}
# What fastavro and its libraries raise for bytes that are not an Avro file.
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
    *INFLATE_ERRORS,
)
_PLAIN_BYTES_MIN = 16 << 20  # bytes of all blocks before compression that a file may have, whatever its own size
_PLAIN_RATIO = 32  # and beyond that, this many times its size
_OBJECTS_BYTES_MAX = 96 << 20  # of the records of a block in memory
_ZSTD_LEVEL = 3  # as fastavro compresses


def codec_of(compression: str) -> str:
    """Avro's name for a compression. Raises InvalidRequestError."""
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


def packed_block(codec: str, data: bytes, *, zstd_level: int = _ZSTD_LEVEL) -> bytes:
    """The records of a block, compressed by Avro's name of a codec."""
    if codec == "zstandard":
        return _zstd(zstd_level).compress(data, asbytes=True)  # type: ignore[no-any-return]  # Arrow has no types
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)  # Avro's deflate has neither header nor checksum
        return packer.compress(data) + packer.flush()
    return data


@lru_cache(maxsize=32)
def _zstd(level: int) -> pa.Codec:
    return pa.Codec("zstd", compression_level=level)


def iter_container(data: bytes, *, path: str) -> Iterator[dict[str, Any]]:
    """The records of an Avro object file, one by one. Raises CorruptDataError or UnsupportedError, naming `path`."""
    with avro_errors_named(path):
        file = AvroBlocks(data)
        yield from decoded(file, file.meta[SCHEMA_KEY], bytes_max=plain_bytes_max(data))


def plain_bytes_max(data: bytes) -> int:
    """The bytes before compression that a file may have to be decoded whole."""
    return max(_PLAIN_BYTES_MIN, _PLAIN_RATIO * len(data))


def decoded(file: AvroBlocks, schema: bytes, *, bytes_max: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of a file by the JSON of its schema; the records of each block are first checked to fit into memory.

    Its blocks have at most `bytes_max` before compression. Raises what `avro_errors_named` names.
    """
    stream = file.stream(checked_blocks(file, bytes_max=bytes_max), schema)
    # fastavro needs only `read` of a file, and may give any type: the files of tables have records.
    yield from fastavro.reader(stream)  # type: ignore[misc,arg-type]


def checked_blocks(file: AvroBlocks, *, bytes_max: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The blocks of a file without compression: the number of records of each, which fit into memory, and its bytes.

    Raises what `avro_errors_named` names.
    """
    for count, block in file.plain(bytes_max=bytes_max):
        check_cost(file.schema, block, count, limit=_OBJECTS_BYTES_MAX)
        yield count, block


@contextmanager
def avro_errors_named(path: str) -> Iterator[None]:
    """Raise errors of Avro files as CorruptDataError or UnsupportedError with the path."""
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(f"{path} is not read: {error}; copy the table by Paimon") from error
    except NOT_AVRO as error:
        raise damaged(path, f"it is not a readable Avro file: {str(error)[:300] or repr(error)[:300]}") from error
