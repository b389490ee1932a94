"""The bucket of a row. Pure, and columnar: no Python per row.

`default`: Murmur3 (x86, 32 bits, seed 42) over the BinaryRow of the bucket key, without field count; the bucket is the
absolute value of the hash's remainder (truncated, as in Java). `mod`: the floor remainder of one INT or BIGINT.
`hive`: 31 * hash so far + hash of the column, column by column; the bucket is the remainder of its lower 31 bits.

A null in a DECIMAL of more than 18 digits or a TIMESTAMP of more than 3 keeps its room in the row's variable part,
since Paimon's Java writers hash it like this. Source: Paimon spec, "Bucket"; Paimon, `BinaryRow.hashCode`,
`HiveBucketFunction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import MAX_COMPACT_PRECISION, null_bits_width
from lakelog.filestore.encoding.buffers import (
    ByteValues,
    byte_values,
    decimal_words,
    fixed_values,
    millis_and_nanos,
    minimal_big_endian,
    null_mask,
)
from lakelog.filestore.encoding.hashed_words import BYTES_ROOTS, I64, U32, double_bits, float_bits, time_millis
from lakelog.filestore.encoding.hive_hash import hive_hash
from lakelog.filestore.options.layout import BucketFunction

_SEED = 42
_BLOCK_ROWS = 1 << 16  # so that a block's arrays stay in the processor's cache
_TIMESTAMPS = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_NEVER = np.zeros(1, np.bool_)
_UNSIGNED = {TypeRoot.BOOLEAN: np.uint8, TypeRoot.TINYINT: np.uint8, TypeRoot.SMALLINT: np.uint16}


def bucket_of(
    table: pa.Table,
    key_fields: Sequence[DataField],
    bucket_count: int,
    function: BucketFunction | str = BucketFunction.DEFAULT,
) -> npt.NDArray[np.int32]:
    """The bucket of every row. `key_fields` are the bucket key columns in hash order; other columns are ignored."""
    if bucket_count < 1 or not key_fields:
        raise InvalidRequestError(
            f"a bucket needs a positive number of buckets and a bucket key, found bucket={bucket_count} and "
            f"the key ({listed(field.name for field in key_fields)})"
        )
    if bucket_count == 1:
        return np.zeros(table.num_rows, np.int32)
    kinds = [field.type for field in key_fields]
    chosen = BucketFunction(function)
    buckets = [_bucket_block(columns, kinds, bucket_count, chosen) for columns in _blocks(table, key_fields)]
    return np.concatenate(buckets) if buckets else np.zeros(0, np.int32)


def hashes_of(table: pa.Table, key_fields: Sequence[DataField]) -> npt.NDArray[np.int32]:
    """The default function's hash of every row, by the columns of a key: that of the HASH index of dynamic buckets."""
    kinds = [field.type for field in key_fields]
    hashes = [hash_of(columns, kinds) for columns in _blocks(table, key_fields)]
    return np.concatenate(hashes) if hashes else np.zeros(0, np.int32)


def _blocks(table: pa.Table, key_fields: Sequence[DataField]) -> Iterator[Sequence[pa.Array]]:
    """The key columns, a block of rows at a time."""
    columns = [_as_type(table.column(field.name), field) for field in key_fields]
    one_chunk = pa.table(columns, names=[str(index) for index in range(len(columns))]).combine_chunks()
    return (batch.columns for batch in one_chunk.to_batches(max_chunksize=_BLOCK_ROWS))


def hash_of(columns: Sequence[pa.Array], kinds: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """The default function's hash of rows, given as Arrow columns of the types `to_arrow_type(kind)`."""
    rows = len(columns[0])
    width = null_bits_width(len(kinds))
    slots = [_slot(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    hashes: U32 = np.full(1, _SEED, np.uint32)
    for word in _null_words(columns, width):
        hashes = _mix(hashes, word)
    tail_at: I64 = np.full(1, width + 8 * len(kinds), np.int64)
    for slot in slots:
        low, high = slot.low, slot.high
        if slot.tail_lengths is not None:
            in_slot = slot.is_in_slot if slot.is_in_slot is not None else _NEVER
            high = np.where(in_slot, high, tail_at.astype(np.uint32)).astype(np.uint32)
            tail_at = tail_at + slot.tail_lengths
        hashes = _mix(_mix(hashes, low), high)
    hashes = np.ascontiguousarray(np.broadcast_to(hashes, (rows,)))
    for slot in slots:
        if slot.tail_words is not None and slot.tail_lengths is not None:
            hashes = _mix_tail(hashes, np.broadcast_to(slot.tail_lengths, (rows,)), slot.tail_words)
    return _finish(hashes, tail_at.astype(np.uint32)).view(np.int32)


class _Slot:
    """The 8 bytes of a column in every row, as two words, and what it adds to the variable part.

    `tail_lengths` (bytes, multiples of 8) and `tail_words` are None for types without a variable part. Where
    `is_in_slot` is False, `high` is the place of the offset.
    """

    def __init__(
        self,
        low: U32,
        high: U32,
        is_in_slot: npt.NDArray[np.bool_] | None = None,
        tail_lengths: I64 | None = None,
        tail_words: ByteValues | None = None,
    ) -> None:
        self.low, self.high, self.is_in_slot = low, high, is_in_slot
        self.tail_lengths, self.tail_words = tail_lengths, tail_words


def _as_type(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    wanted = to_arrow_type(field.type)
    if column.type == wanted:
        return column
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(
            f"bucket key column {field.name!r} has the Arrow type {column.type}, expected {wanted}: {error}"
        ) from error


def _bucket_block(
    columns: Sequence[pa.Array], kinds: Sequence[DataType], bucket_count: int, function: BucketFunction
) -> npt.NDArray[np.int32]:
    match function:
        case BucketFunction.DEFAULT:
            return shares_of(hash_of(columns, kinds), bucket_count)
        case BucketFunction.MOD:
            return np.mod(fixed_values(columns[0], np.int64), bucket_count).astype(np.int32)
        case BucketFunction.HIVE:
            hashes: U32 = np.zeros(len(columns[0]), np.uint32)
            for column, kind in zip(columns, kinds, strict=True):
                hashes = hashes * np.uint32(31) + hive_hash(column, kind)
            return ((hashes & np.uint32(0x7FFF_FFFF)) % np.uint32(bucket_count)).astype(np.int32)


def shares_of(hashes: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int32]:
    """Which of `count` shares each hash belongs to, as Java's `Math.abs(hash % count)`."""
    shares: npt.NDArray[np.int32] = np.abs(np.fmod(hashes, np.int32(count)))
    return shares


def _null_words(columns: Sequence[pa.Array], width: int) -> list[U32]:
    """The words of the null bits; byte 0 is the row kind, +I."""
    words: list[U32] = [np.zeros(1, np.uint32) for _ in range(width // 4)]
    for index, column in enumerate(columns):
        is_null = null_mask(column)
        if is_null is not None:
            bit = index + 8
            words[bit // 32] = words[bit // 32] | (is_null.astype(np.uint32) << np.uint32(bit % 32))
    return words


def _slot(column: pa.Array, kind: DataType) -> _Slot:
    root = kind.root
    if root in BYTES_ROOTS:
        return _bytes_slot(byte_values(column))
    if root in _TIMESTAMPS:
        millis, nanos = millis_and_nanos(column, kind)
        return _long_slot(millis) if nanos is None else _split_slot(nanos.astype(np.uint32), millis)
    if root is TypeRoot.DECIMAL:
        low, high = decimal_words(column)
        if (kind.precision or 0) <= MAX_COMPACT_PRECISION:
            return _long_slot(low.view(np.int64))
        return _wide_decimal_slot(low, high, null_mask(column))
    if root is TypeRoot.BIGINT:
        return _long_slot(fixed_values(column, np.int64))
    if root is TypeRoot.DOUBLE:
        return _long_slot(double_bits(column).view(np.int64))
    if root is TypeRoot.FLOAT:
        return _int_slot(float_bits(column))
    if root in _UNSIGNED:
        return _int_slot(fixed_values(column, np.int64).astype(_UNSIGNED[root]).astype(np.uint32))
    if root in (TypeRoot.INT, TypeRoot.DATE):
        return _int_slot(fixed_values(column, np.int32).view(np.uint32))
    if root is TypeRoot.TIME:
        return _int_slot(time_millis(column).astype(np.uint32))
    raise UnsupportedError(f"type {kind} cannot be part of a bucket key")


def _int_slot(low: U32) -> _Slot:
    return _Slot(low, np.zeros(1, np.uint32))


def _long_slot(values: I64) -> _Slot:
    words = values.view(np.uint64)
    return _Slot(words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32))


def _split_slot(low: U32, tail: I64) -> _Slot:
    """A value with 8 bytes in the variable part; nulls are zeros there, their offset is kept."""
    return _Slot(
        low, np.zeros(1, np.uint32), _NEVER, np.full(1, 8, np.int64), ByteValues.of_words(tail.view(np.uint64))
    )


def _wide_decimal_slot(low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64], nulls: object) -> _Slot:
    """16 bytes in the variable part: the shortest big-endian form, then zeros."""
    lengths, words = minimal_big_endian(low, high)
    if isinstance(nulls, np.ndarray):
        lengths = np.where(nulls, 0, lengths)
        words[nulls] = 0
    zeros = np.zeros(1, np.uint32)
    return _Slot(lengths.astype(np.uint32), zeros, _NEVER, np.full(1, 16, np.int64), ByteValues.of_words(words))


def _bytes_slot(values: ByteValues) -> _Slot:
    """Values of up to 7 bytes are in the slot with their length, longer ones in the variable part."""
    lengths = values.lengths
    is_in_slot = lengths <= 7
    first = values.word(0)
    marked = first | ((lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56))
    if values.nulls is not None:
        marked = np.where(values.nulls, np.uint64(0), marked)
    low = np.where(is_in_slot, marked.astype(np.uint32), lengths.astype(np.uint32))
    high = (marked >> np.uint64(32)).astype(np.uint32)
    tail_lengths = np.where(is_in_slot, 0, (lengths + 7) // 8 * 8)
    return _Slot(low.astype(np.uint32), high, is_in_slot, tail_lengths, values)


def _mix(hashes: U32, word: U32) -> U32:
    word = word * np.uint32(0xCC9E2D51)
    word = (word << np.uint32(15)) | (word >> np.uint32(17))
    hashes = hashes ^ (word * np.uint32(0x1B873593))
    hashes = (hashes << np.uint32(13)) | (hashes >> np.uint32(19))
    return hashes * np.uint32(5) + np.uint32(0xE6546B64)


def _mix_tail(hashes: U32, lengths: I64, values: ByteValues) -> U32:
    """Mix in the variable part of one column, 8 bytes at a time, over the rows that are long enough."""
    hashes = hashes.copy()
    counts = lengths // 8
    rows = np.flatnonzero(counts)
    for index in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > index]
        words = values.word(index, rows)
        low, high = words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)
        hashes[rows] = _mix(_mix(hashes[rows], low), high)
    return hashes


def _finish(hashes: U32, length: U32) -> U32:
    hashes = hashes ^ length
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))
