"""Decompression up to a limit: a file of 256 KiB may claim to hold gigabytes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa

INFLATE_ERRORS = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, pa.ArrowException)
_XZ_MEMORY_MAX = 64 << 20
_SNAPPY_RATIO_MAX = 64  # its longest copy: 3 bytes become 64
_CHECKSUM_BYTES = 4
_READ_BYTES = 1 << 20


def inflate(codec: str, block: bytes, limit: int) -> bytes:
    """The bytes of a block of an Avro file. Raises one of INFLATE_ERRORS, or KeyError for an unknown codec.

    Beyond `limit` bytes it uses at most one more MiB, and the memory of the codec.
    """
    data = _CODECS[codec](block, limit)
    if len(data) > limit:
        raise ValueError(f"a block of {len(block)} bytes holds more than {limit}")
    return data


def _plain(block: bytes, limit: int) -> bytes:
    del limit
    return block


def _deflate(block: bytes, limit: int) -> bytes:
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(block, limit + 1)


def _zstd(block: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        while left and (part := stream.read(min(left, _READ_BYTES))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def _bzip2(block: bytes, limit: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(block, limit + 1)


def _xz(block: bytes, limit: int) -> bytes:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_MAX).decompress(block, limit + 1)


def _snappy(block: bytes, limit: int) -> bytes:
    """The bytes of a block, which their CRC-32 follows. Source: Avro specification, "snappy"."""
    packed, checksum = block[:-_CHECKSUM_BYTES], block[-_CHECKSUM_BYTES:]
    size = shift = 0
    for byte in packed[:5]:  # the length comes first, seven bits a byte
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > min(limit, len(packed) * _SNAPPY_RATIO_MAX):
        raise ValueError(f"a snappy block of {len(packed)} bytes claims to hold {size}")
    data: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("the checksum of a snappy block does not fit its bytes")
    return data


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "zstandard": _zstd,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
}


def lz4_size(block: bytes) -> int:
    """How many bytes a block of LZ4 holds. The block does not say it: it is computed from its literals and matches."""
    size, at = 0, 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        size, at = size + literals, at + literals
        if at >= len(block):  # the last sequence has no match
            break
        match, at = _lz4_length(block, at + 2, token & 15)
        size += match + 4
    return size


def _lz4_length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length and where it ends: a length of 15 continues in the next bytes, up to the first that is not 255."""
    if length == 15:
        while True:
            more = block[at]
            at, length = at + 1, length + more
            if more < 255:
                break
    return length, at
