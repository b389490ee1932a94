"""Avro object files, block by block: the sizes that they claim are checked before any memory is allocated for them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple  # Any: Avro schemas are JSON of many shapes

from lakelog.common.errors import UnsupportedError
from lakelog.common.json_fields import parse_json
from lakelog.filestore.formats.avro.avro_costs import check_no_empty_items
from lakelog.filestore.formats.avro.avro_values import long_bytes
from lakelog.filestore.formats.blocks.inflating import inflate

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA_KEY = "avro.schema"
CODEC_KEY = "avro.codec"
BLOCK_BYTES_MAX = 64 << 20  # of a block before compression
_VALUES_MAX = 300_000  # of a schema
_CACHED_MAX = 64 << 10
_LONG_BYTES_MAX = 10
_META_MAX = 1_000


class Block(NamedTuple):
    """One block of the file: the number of its records, and their compressed bytes."""

    records: int
    packed: bytes


class AvroBlocks:
    """The header and the blocks of a file. Raises ValueError, LookupError or EOFError for other bytes.

    `schema` is the header's, as parsed JSON; it may be replaced by another schema that fits the same bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        source = io.BytesIO(data)
        if source.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin as an Avro file")
        self.meta = read_meta(source)
        self.codec = self.meta.get(CODEC_KEY, b"null").decode()
        text = self.meta[SCHEMA_KEY]
        self.schema: Any = _cached_schema(text) if len(text) <= _CACHED_MAX else _parse_schema(text)
        self._sync = source.read(SYNC_BYTES)
        self._start = source.tell()

    def packed(self) -> Iterator[Block]:
        """The compressed blocks; each is checked to end with the file's sync marker."""
        source = io.BytesIO(self._data)
        source.seek(self._start)
        while source.tell() < len(self._data):
            count, size = read_long(source), read_long(source)
            if count < 0 or size < 0:
                raise ValueError(f"a block claims {count} records in {size} bytes")
            block = source.read(size)
            if len(block) < size or source.read(SYNC_BYTES) != self._sync:
                raise ValueError("a block is cut off or does not end with the file's marker")
            yield Block(count, block)

    def plain(self, *, bytes_max: int | None = None) -> Iterator[tuple[int, bytes]]:
        """For each block the number of its records and their bytes, at most `bytes_max` in all.

        Raises UnsupportedError for an unknown codec.
        """
        left = bytes_max
        for count, packed in self.packed():
            limit = BLOCK_BYTES_MAX if left is None else min(BLOCK_BYTES_MAX, left)
            try:
                block = inflate(self.codec, packed, limit)
            except KeyError as error:
                raise UnsupportedError(f"its codec {self.codec[:50]!r} is not supported") from error
            if count > len(block):
                raise ValueError(f"a block claims {count} records in {len(block)} bytes")
            left = None if left is None else left - len(block)
            yield count, block

    def stream(self, blocks: Iterator[tuple[int, bytes]], schema: bytes) -> PlainStream:
        """The file without compression, with another JSON of its schema."""
        head = header_bytes(self.meta | {CODEC_KEY: b"null", SCHEMA_KEY: schema}) + self._sync
        return PlainStream(head, (self.block_bytes(count, block) for count, block in blocks))

    def block_bytes(self, count: int, block: bytes) -> bytes:
        """The bytes of an uncompressed block in a file."""
        return b"".join((long_bytes(count), long_bytes(len(block)), block, self._sync))


def _parse_schema(text: bytes) -> Any:
    schema = parse_json(text, values_max=_VALUES_MAX)
    check_no_empty_items(schema)
    return schema


_cached_schema = lru_cache(maxsize=64)(_parse_schema)  # all manifests of a table have the same few


class PlainStream:
    """A file whose blocks are given one by one, for reading. A read ends at the end of a block at the latest."""

    def __init__(self, head: bytes, blocks: Iterator[bytes]) -> None:
        self._held = io.BytesIO(head)
        self._blocks = blocks

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none at the end."""
        found = self._held.read(size)
        if not found and size:
            self._held = io.BytesIO(next(self._blocks, b""))
            found = self._held.read(size)
        return found


def read_meta(source: io.BytesIO) -> dict[str, bytes]:
    """The map of a file's header: blocks of entries, ended by an empty block."""
    meta: dict[str, bytes] = {}
    while count := read_long(source):
        if count < 0:
            read_long(source)
        for _ in range(abs(count)):
            key = _read_bytes(source).decode()
            meta[key] = _read_bytes(source)
            if len(meta) > _META_MAX:
                raise ValueError(f"its header has more than {_META_MAX} entries")
    return meta


def _read_bytes(source: io.BytesIO) -> bytes:
    size = read_long(source)
    found = source.read(max(0, size))
    if len(found) != size:
        raise ValueError("its header ends early")
    return found


def read_long(source: io.BytesIO) -> int:
    """The next number. Raises ValueError at the end, and for more than 64 bits."""
    value = shift = 0
    for _ in range(_LONG_BYTES_MAX):
        byte = source.read(1)
        if not byte:
            raise ValueError("it ends early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise ValueError("it has a number of more than 64 bits")


def header_bytes(meta: dict[str, bytes]) -> bytes:
    """The start of an Avro object file, up to its sync marker."""
    parts = [MAGIC, long_bytes(len(meta))]
    for key, value in meta.items():
        for part in (key.encode(), value):
            parts += [long_bytes(len(part)), part]
    return b"".join((*parts, b"\x00"))
