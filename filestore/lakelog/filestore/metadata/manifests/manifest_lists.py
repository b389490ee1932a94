"""Manifest lists as bytes: only records that the process has not just seen are encoded or decoded.

A commit writes the list of all manifests anew, and an expiry reads the list of each snapshot that it deletes. Lists of
neighbouring snapshots begin with the same records: a commit adds its manifests at the end. So the records of the last
list of each table are kept, with their bytes. Another list shares them as far as it begins with the same manifests, or
the same bytes. The bytes that are written are those of any Avro object file: a header, blocks of records, a marker
after each.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast  # Any: Avro records are untyped until they are parsed

import fastavro

from lakelog.common.bounded_cache import BoundedCache
from lakelog.filestore.formats.avro.avro import (
    avro_errors_named,
    checked_blocks,
    encode_container,
    packed_block,
    plain_bytes_max,
)
from lakelog.filestore.formats.avro.avro_blocks import MAGIC, SCHEMA_KEY, SYNC_BYTES, AvroBlocks
from lakelog.filestore.formats.avro.avro_values import long_bytes
from lakelog.filestore.formats.records import iter_records
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta, manifest_record, parse_manifest
from lakelog.filestore.metadata.manifests.manifest_schemas import LIST_SCHEMA

_BLOCK_BYTES = 64 << 10  # of records; a block may have one record more
_RECORDS_MIN = 8  # shorter lists, such as those of deltas, are not kept in place of a long one
_BYTES_MAX = 4 << 20  # of the records of a list that is kept
_TABLES_MAX = 16


@dataclass(frozen=True, slots=True)
class _Records:
    """The manifests of a list, the bytes of their records one after the other, and where each record ends."""

    manifests: tuple[ManifestFileMeta, ...] = ()
    data: bytes = b""
    ends: tuple[int, ...] = ()

    def end_of(self, count: int) -> int:
        """The end of the first `count` records."""
        return self.ends[count - 1] if count else 0

    def shared_by(self, manifests: Sequence[ManifestFileMeta]) -> int:
        """How many manifests, from the first on, are these very objects."""
        for count, (own, other) in enumerate(zip(self.manifests, manifests, strict=False)):
            if own is not other:
                return count
        return min(len(self.manifests), len(manifests))

    def shared_bytes(self, data: bytes) -> int:
        """How many records, from the first on, are in other bytes of records too."""
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high + 1) // 2
            if data.startswith(self.data[: self.end_of(middle)]):
                low = middle
            else:
                high = middle - 1
        return low


KNOWN_LISTS: BoundedCache[str, _Records] = BoundedCache(_TABLES_MAX)


def encode_list(manifests: Sequence[ManifestFileMeta], *, table: str, codec: str) -> bytes:
    """The bytes of a new list of the table at a path."""
    known = KNOWN_LISTS.get(table) or _Records()
    shared = known.shared_by(manifests)
    ends = [*known.ends[:shared]]
    buffer = io.BytesIO()
    buffer.write(known.data[: known.end_of(shared)])
    for manifest in manifests[shared:]:
        fastavro.schemaless_writer(buffer, LIST_SCHEMA, manifest_record(manifest))
        ends.append(buffer.tell())
    records = _Records(tuple(manifests), buffer.getvalue(), tuple(ends))
    _keep(table, records)
    sync = os.urandom(SYNC_BYTES)
    parts = [_header(codec), sync]
    for first, last in pairwise(_cuts(records)):
        packed = packed_block(codec, records.data[records.end_of(first) : records.end_of(last)])
        parts += [long_bytes(last - first), long_bytes(len(packed)), packed, sync]
    return b"".join(parts)


def decode_list(data: bytes, *, path: str, table: str) -> tuple[ManifestFileMeta, ...]:
    """The manifests in the bytes of a list. Raises CorruptDataError, KeyError, TypeError or ValueError.

    Lists with another schema than lakelog's, or in other formats, are decoded record by record.
    """
    found = _own_records(data, path) if data.startswith(MAGIC) else None
    if found is None:
        return tuple(map(parse_manifest, iter_records(data, path=path)))
    count, plain = found
    known = KNOWN_LISTS.get(table) or _Records()
    shared = known.shared_bytes(plain)
    ends, fields = [*known.ends[:shared]], list[dict[str, Any]]()
    source = io.BytesIO(plain)
    source.seek(known.end_of(shared))
    with avro_errors_named(path):
        while source.tell() < len(plain):
            record = fastavro.schemaless_reader(source, LIST_SCHEMA, None)
            fields.append(cast(dict[str, Any], record))  # the schema is a record's
            ends.append(source.tell())
    if len(ends) != count:
        raise damaged(path, f"its blocks claim {count} records and have {len(ends)}")
    manifests = (*known.manifests[:shared], *map(parse_manifest, fields))
    _keep(table, _Records(manifests, plain, tuple(ends)))
    return manifests


def _own_records(data: bytes, path: str) -> tuple[int, bytes] | None:
    """How many records the blocks of a list claim, and their bytes; None for a list with another schema."""
    with avro_errors_named(path):
        file = AvroBlocks(data)
        if file.meta[SCHEMA_KEY] != _schema_bytes():
            return None
        blocks = [*checked_blocks(file, bytes_max=plain_bytes_max(data))]
    return sum(count for count, _ in blocks), b"".join(block for _, block in blocks)


def _cuts(records: _Records) -> list[int]:
    """The numbers of records before each block, and of all."""
    cuts, start = [0], 0
    for number, end in enumerate(records.ends, start=1):
        if end - start >= _BLOCK_BYTES or number == len(records.ends):
            cuts.append(number)
            start = end
    return cuts


@lru_cache(maxsize=8)
def _header(codec: str) -> bytes:
    return encode_container(LIST_SCHEMA, (), codec=codec)[:-SYNC_BYTES]


@lru_cache(maxsize=1)
def _schema_bytes() -> bytes:
    return AvroBlocks(encode_container(LIST_SCHEMA, (), codec="null")).meta[SCHEMA_KEY]


def _keep(table: str, records: _Records) -> None:
    if len(records.ends) >= _RECORDS_MIN and len(records.data) <= _BYTES_MAX:
        KNOWN_LISTS.put(table, records)
