"""Timestamps of ORC files that Arrow does not read, or reads wrongly.

Timestamps beyond the years 1678 to 2261 do not fit Arrow's nanoseconds in 64 bits. Timestamps before 1970 and their
neighbours, from a writer in another zone than UTC, may be off by one second or more.

ORC stores a timestamp as two numbers: seconds since 2015 in the writer's zone (the stream DATA), and nanoseconds
(SECONDARY). The seconds are rounded towards 1970 in UTC if the time is before 1970 and has a millisecond or more after
its second: so one second is subtracted before the zone is applied, not after it as in Arrow.

Arrow reads each of the two numbers from a file of one stripe, which is built in memory from the stripe: one file has a
footer in which the timestamps are LONG, so that Arrow gives the seconds; in the other all seconds are zero, so that
Arrow gives the nanoseconds. Both have the file's nulls and nesting. Source: ORC specification v1; the readers of
timestamps of ORC in C++ and in Java; the one in Java decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakelog.common.quoting import cause
from lakelog.filestore.formats.blocks.inflating import inflate, lz4_size
from lakelog.filestore.formats.orc.orc_zones import SINCE_2015, UTC, local_seconds, start_of_2015
from lakelog.filestore.formats.orc.protobuf import (
    Field,
    bytes_field,
    encode_field,
    number_in,
    parse_message,
    parse_varint,
    varint_field,
)

ReadAt = Callable[[int, int], bytes]

_MAGIC = b"ORC"
_CODECS = {0: "null", 1: "deflate", 2: "snappy", 3: "lzo", 4: "lz4", 5: "zstandard"}
_FOOTER_BYTES_MAX = 64 << 20
_ORIGINAL_BYTES_MAX = (1 << 23) - 1  # a block's length is in 23 bits
_LONG, _TIMESTAMP, _INSTANT = 4, 9, 18
_DATA, _BLOOM_FILTER = 1, 7
_ZONE = 3  # of the writer, in the footer of a stripe
_ZEROS_V1, _ZEROS_V2 = (130, b"\x7f\x00\x00"), (512, b"\xc1\xff\x00\x00")  # values of a run, and its bytes
_SECOND_VERSION = 2  # of the encoding of numbers
_NANOS, _MICROS_A_SECOND = 1_000_000_000, 1_000_000
_NS_MAX = 9_223_372_035  # seconds that fit nanoseconds in 64 bits
_DIGITS_MAX = 38


def read_timestamps(read_at: ReadAt, size_bytes: int, stripe: int, names: Sequence[str]) -> dict[str, pa.Array]:
    """The columns `names` of a stripe, with timestamps in microseconds if nanoseconds cannot hold them.

    Raises ValueError or one of Arrow's errors for bytes that are not an ORC file, KeyError for a compression that is
    not supported here.
    """
    try:
        given = _Tail(read_at, size_bytes).stripe(stripe)
        seconds = _columns(given.as_seconds(), names)
        count = max((_leaves(array) for array in seconds.values()), default=0)
        nanos = _columns(given.as_nanos(count), names)
    except (EOFError, IndexError, OverflowError, zlib.error) as error:
        raise ValueError(f"its parts do not fit: {cause(error)}") from error
    return {name: _joined(seconds[name], nanos[name], given) for name in names}


def has_local_times(read_at: ReadAt, size_bytes: int, stripe: int) -> bool:
    """Whether the timestamps of a stripe were written in another zone than UTC. Raises as `read_timestamps`."""
    try:
        return _zone_of(_Tail(read_at, size_bytes).stripe_footer(stripe)) not in UTC
    except (EOFError, IndexError, OverflowError, zlib.error) as error:
        raise ValueError(f"its parts do not fit: {cause(error)}") from error


def _zone_of(footer: Sequence[Field]) -> str:
    zones = [field[2].decode() for field in footer if field[0] == _ZONE]
    return zones[0] if zones else "UTC"


def check_decimals(read_at: ReadAt, size_bytes: int) -> None:
    """Raise ValueError for a decimal of more digits than Arrow has: Arrow aborts the process on such a type.

    A file in a compression that is not supported here, LZO, is not checked.
    """
    try:
        tail = _Tail(read_at, size_bytes)
    except KeyError:
        return
    except (EOFError, IndexError, OverflowError, zlib.error) as error:
        raise ValueError(f"its footer is not readable: {cause(error)}") from error
    if tail.precision_max > _DIGITS_MAX:
        raise ValueError(f"it has a decimal of {tail.precision_max} digits, expected at most {_DIGITS_MAX}")


def _columns(data: bytes, names: Sequence[str]) -> dict[str, pa.Array]:
    batch = orc.ORCFile(pa.BufferReader(data)).read_stripe(0, columns=list(names))
    return {name: batch.column(name) for name in names}


def _leaves(array: pa.Array) -> int:
    """The values of the longest array inside an array."""
    return max([len(array), *(_leaves(child) for child in _children(array))])


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(at) for at in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.values] if pa.types.is_list(array.type) else []


def _joined(seconds: pa.Array, nanos: pa.Array, stripe: _Stripe) -> pa.Array:
    """Columns with timestamps, from the columns with their seconds and those with their nanoseconds."""
    if pa.types.is_timestamp(nanos.type):
        return _timestamps(seconds, nanos, stripe)
    mask = seconds.is_null() if seconds.null_count else None
    pairs = zip(_children(seconds), _children(nanos), strict=True)
    children = [_joined(one, other, stripe) for one, other in pairs]
    if pa.types.is_struct(seconds.type):
        members = [field.with_type(child.type) for field, child in zip(seconds.type, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=members, mask=mask)
    if pa.types.is_map(seconds.type):
        return pa.MapArray.from_arrays(_offsets(seconds), *children, mask=mask)
    return pa.ListArray.from_arrays(_offsets(seconds), children[0], mask=mask) if children else seconds


def _offsets(lists: pa.Array) -> pa.Array:
    return pa.array(lists.offsets.to_numpy())


def _timestamps(seconds: pa.Array, nanos: pa.Array, stripe: _Stripe) -> pa.Array:
    """Timestamps from seconds since 2015 in the writer's zone, and from nanoseconds after the start of 2015."""
    is_null = seconds.is_null().to_numpy(zero_copy_only=False)
    tz = nanos.type.tz
    zone = "UTC" if tz else stripe.zone
    whole = seconds.fill_null(0).to_numpy() + start_of_2015(zone)
    parts = nanos.cast(pa.int64()).fill_null(SINCE_2015 * _NANOS).to_numpy() - SINCE_2015 * _NANOS
    # Java's writers round times before 1970 towards 1970, which is corrected here; Arrow's have negative nanoseconds.
    whole = local_seconds(whole - ((whole < 0) & (parts > 999_999)), zone)
    if not is_null.all() and np.abs(whole[~is_null]).max() < _NS_MAX:
        return pa.array(whole * _NANOS + parts, pa.timestamp("ns", tz), mask=is_null)
    return pa.array(whole * _MICROS_A_SECOND + parts // 1_000, pa.timestamp("us", tz), mask=is_null)


class _Tail:
    """The end of an ORC file: its compression, its types and its stripes."""

    def __init__(self, read_at: ReadAt, size_bytes: int) -> None:
        self._read_at = read_at
        post_bytes = read_at(size_bytes - 1, 1)[0]
        self._post = parse_message(read_at(size_bytes - 1 - post_bytes, post_bytes))
        self.codec = _CODECS.get(number_in(self._post, 2), "")
        self.block_bytes = min(max(number_in(self._post, 3), 1 << 10), _ORIGINAL_BYTES_MAX)
        footer_bytes = number_in(self._post, 1)
        start = size_bytes - 1 - post_bytes - footer_bytes
        self._footer = parse_message(self.unpacked(read_at(start, footer_bytes)))
        types = [parse_message(field[2]) for field in self._footer if field[0] == 4]
        self.kinds = [number_in(one, 1) for one in types]
        self.precision_max = max((field[3] for one in types for field in one if field[0] == 5), default=0)

    def stripe(self, number: int) -> _Stripe:
        """One stripe of the file."""
        offset, index_bytes, data_bytes, _, rows = self._sizes(number)
        data = self._read_at(offset, index_bytes + data_bytes)
        return _Stripe(self, data, index_bytes, self.stripe_footer(number), rows)

    def stripe_footer(self, number: int) -> list[Field]:
        """The footer of one stripe."""
        offset, index_bytes, data_bytes, footer_bytes, _ = self._sizes(number)
        return parse_message(self.unpacked(self._read_at(offset + index_bytes + data_bytes, footer_bytes)))

    def _sizes(self, number: int) -> list[int]:
        found = [parse_message(field[2]) for field in self._footer if field[0] == 3][number]
        return [number_in(found, key) for key in range(1, 6)]

    def unpacked(self, data: bytes) -> bytes:
        """The bytes of blocks."""
        if self.codec == "null":
            return data
        parts = []
        at = 0
        while at < len(data):
            head = int.from_bytes(data[at : at + 3], "little")
            block = data[at + 3 : at + 3 + (head >> 1)]
            parts.append(block if head & 1 else self._inflated(block))
            at += 3 + (head >> 1)
        return b"".join(parts)

    def _inflated(self, block: bytes) -> bytes:
        if self.codec == "lzo":
            raise KeyError(self.codec)
        if self.codec not in ("snappy", "lz4"):
            return inflate(self.codec, block, _FOOTER_BYTES_MAX)
        size = parse_varint(block, 0)[0] if self.codec == "snappy" else lz4_size(block)
        if size > _FOOTER_BYTES_MAX:
            raise ValueError(f"a block claims to hold {size} bytes")
        codec = "snappy" if self.codec == "snappy" else "lz4_raw"
        data: bytes = pa.Codec(codec).decompress(block, size, asbytes=True)
        return data

    def packed(self, data: bytes) -> bytes:
        """Bytes as uncompressed blocks."""
        if self.codec == "null":
            return data
        blocks = (data[at : at + self.block_bytes] for at in range(0, len(data), self.block_bytes))
        return b"".join(((len(block) << 1) | 1).to_bytes(3, "little") + block for block in blocks)

    def file_of(self, stripe: _Sizes, data: bytes, *, kinds: Sequence[int]) -> bytes:
        """A file of one stripe: its bytes with its footer, and types of these kinds."""
        sizes = [len(_MAGIC), stripe.index_bytes, stripe.data_bytes, stripe.footer_bytes, stripe.rows]
        info = b"".join(varint_field(key, value) for key, value in enumerate(sizes, 1))
        parts = [varint_field(1, len(_MAGIC)), varint_field(2, len(data)), bytes_field(3, info)]
        types = [field[2] for field in self._footer if field[0] == 4]
        parts += [bytes_field(4, _with_kind(one, kind)) for one, kind in zip(types, kinds, strict=True)]
        parts.append(varint_field(6, stripe.rows))
        footer = self.packed(b"".join(parts))
        changed = {1: varint_field(1, len(footer)), 5: varint_field(5, 0)}
        post = b"".join(changed.get(field[0]) or encode_field(field) for field in self._post)
        return b"".join((_MAGIC, data, footer, post, bytes([len(post)])))


class _Sizes:
    """The sizes of a stripe's parts."""

    def __init__(self, index_bytes: int, data_bytes: int, footer_bytes: int, rows: int) -> None:
        self.index_bytes, self.data_bytes = index_bytes, data_bytes
        self.footer_bytes, self.rows = footer_bytes, rows


class _Stripe:
    """One stripe, and the two files that are built from it."""

    def __init__(self, tail: _Tail, data: bytes, index_bytes: int, footer: list[Field], rows: int) -> None:
        self._tail, self._data, self._index_bytes, self._rows = tail, data, index_bytes, rows
        self.zone = _zone_of(footer)
        # Arrow does not know every zone of Java, and needs no zone for numbers.
        self._footer = [field for field in footer if field[0] != _ZONE] + [(_ZONE, 2, b"UTC", 0)]

    def as_seconds(self) -> bytes:
        """The file whose timestamps are LONG."""
        kinds = [_LONG if kind in (_TIMESTAMP, _INSTANT) else kind for kind in self._tail.kinds]
        return self._file(self._footer, b"", kinds)

    def as_nanos(self, count: int) -> bytes:
        """The file whose timestamps have zero seconds, in columns of at most `count` values.

        The position of a stream is the length of those before it, so the seconds stay as a stream of a kind that Arrow
        ignores, and the zeros come after all other streams.
        """
        timestamps = {at for at, kind in enumerate(self._tail.kinds) if kind in (_TIMESTAMP, _INSTANT)}
        encodings = [number_in(parse_message(field[2]), 1) for field in self._footer if field[0] == 2]
        streams: list[Field] = []
        made: list[Field] = []
        zeros: list[bytes] = []
        for field in (field for field in self._footer if field[0] == 1):
            kind, column, size = (number_in(parse_message(field[2]), key) for key in (1, 2, 3))
            if column not in timestamps or kind != _DATA:
                streams.append(field)
                continue
            values, run = _ZEROS_V2 if encodings[column] >= _SECOND_VERSION else _ZEROS_V1
            zeros.append(self._tail.packed(run * (count // values + 1)))
            streams.append(_stream(_BLOOM_FILTER, column, size))
            made.append(_stream(_DATA, column, len(zeros[-1])))
        others = [field for field in self._footer if field[0] != 1]
        return self._file([*streams, *made, *others], b"".join(zeros), self._tail.kinds)

    def _file(self, footer: Sequence[Field], more: bytes, kinds: Sequence[int]) -> bytes:
        packed = self._tail.packed(b"".join(encode_field(field) for field in footer))
        data_bytes = len(self._data) - self._index_bytes + len(more)
        sizes = _Sizes(self._index_bytes, data_bytes, len(packed), self._rows)
        return self._tail.file_of(sizes, b"".join((self._data, more, packed)), kinds=kinds)


def _stream(kind: int, column: int, size: int) -> Field:
    data = b"".join(varint_field(key, value) for key, value in enumerate((kind, column, size), 1))
    return 1, 2, data, 0


def _with_kind(type_data: bytes, kind: int) -> bytes:
    """A type with another kind, which is its first field."""
    fields = parse_message(type_data)
    return b"".join(varint_field(1, kind) if field[0] == 1 else encode_field(field) for field in fields)
