"""Avro object files: records in, records out.

lakelog's files carry the metadata key `lakelog.digest`: blake2b (16 bytes, hex) over the whole file with the digest
itself as zeros. Avro has no checksums but snappy's, so a flipped bit could otherwise go unseen. Other readers skip it.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any  # Any: Avro records are untyped

import fastavro
from fastavro.types import Schema

from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.filestore.fileio import FileIO

_DIGEST_KEY = "lakelog.digest"
_DIGEST_BYTES = 16
_PLACEHOLDER = "0" * (2 * _DIGEST_BYTES)
_CODECS = {"zstd": "zstandard", "zstandard": "zstandard", "none": "null", "null": "null"}
_CODECS |= {"deflate": "deflate", "gzip": "deflate"}


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
    """The bytes of an Avro object file with a digest. `schema` is best parsed once, by `fastavro.parse_schema`."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records, codec=codec, metadata={_DIGEST_KEY: _PLACEHOLDER})
    data = bytearray(buffer.getbuffer())
    at = _digest_position(data)
    assert at is not None
    data[at : at + len(_PLACEHOLDER)] = _digest(data).encode()
    return bytes(data)


def decode_container(data: bytes, *, path: str) -> list[dict[str, Any]]:
    """The records of an Avro object file. Raises CorruptDataError, naming `path`; checks the digest where one is."""
    return list(_records(data, path))


def iter_container(file_io: FileIO, path: str) -> Iterator[dict[str, Any]]:
    """The records of the Avro object file at `path`, one at a time. Raises NotFoundError or CorruptDataError."""
    return _records(file_io.read_bytes(path), path)


def check_digest(data: bytes, *, path: str) -> None:
    """Raise CorruptDataError when the bytes of an Avro object file do not have the digest that they name, if any."""
    at = _digest_position(data)
    if at is not None:
        found = data[at : at + len(_PLACEHOLDER)]
        cleared = bytearray(data)
        cleared[at : at + len(_PLACEHOLDER)] = _PLACEHOLDER.encode()
        expected = _digest(cleared).encode()
        if found != expected:
            raise CorruptDataError(f"{path} is damaged: its digest is {found!r}, its bytes have {expected!r}")


def _records(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    check_digest(data, path=path)
    try:
        yield from fastavro.reader(io.BytesIO(data))  # type: ignore[misc]  # our records are objects, never scalars
    except ValueError as error:
        if "you need to install" in str(error):
            raise UnsupportedError(f"{path} is compressed with a codec that is not installed: {error}") from error
        raise CorruptDataError(f"{path} is not a readable Avro file: {error!r}") from error
    except (EOFError, KeyError, IndexError, TypeError, struct.error, OSError, RuntimeError) as error:
        raise CorruptDataError(f"{path} is not a readable Avro file: {error!r}") from error


def read_container(file_io: FileIO, path: str) -> list[dict[str, Any]]:
    """The records of the Avro object file at `path`. Raises NotFoundError or CorruptDataError."""
    return decode_container(file_io.read_bytes(path), path=path)


def _digest(data: bytes | bytearray) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _digest_position(data: bytes | bytearray) -> int | None:
    """Where the digest's hex digits start: after the key, and one byte of length."""
    key = data.find(_DIGEST_KEY.encode())
    return None if key < 0 else key + len(_DIGEST_KEY) + 1
