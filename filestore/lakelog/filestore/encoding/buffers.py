"""Arrow columns as numpy arrays over their buffers: fixed values, bytes as 8-byte words, decimals, timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.arrow import time_unit
from lakelog.common.types import DataType

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


def null_mask(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """True where the column is null; None when it has no null."""
    if not column.null_count:
        return None
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def fixed_values(column: pa.Array, wanted: type[Number]) -> npt.NDArray[Number]:
    """The stored numbers of a boolean, integer, float, date, time or timestamp column; nulls are 0."""
    if pa.types.is_boolean(column.type):
        stored = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type):
        stored = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    else:
        stored = column
    values = np.frombuffer(stored.buffers()[1] or b"", dtype=stored.type.to_pandas_dtype())
    numbers: npt.NDArray[Number] = values[stored.offset : stored.offset + len(stored)].astype(wanted)
    is_null = null_mask(column)
    if is_null is not None:
        numbers[is_null] = np.zeros(1, wanted)
    return numbers


def millis_and_nanos(column: pa.Array, kind: DataType) -> tuple[I64, I64 | None]:
    """Epoch milliseconds of a timestamp column, and for more than 3 digits the additional nanoseconds; nulls are 0."""
    values = fixed_values(column, np.int64)
    precision = kind.precision or 0
    if precision <= 3:
        return values * (1 if time_unit(precision) == "ms" else 1_000), None
    per_milli = 1_000 if time_unit(precision) == "us" else 1_000_000
    millis = np.floor_divide(values, per_milli)
    return millis, (values - millis * per_milli) * (1_000_000 // per_milli)


def decimal_words(column: pa.Array) -> tuple[U64, U64]:
    """The low and high 8 bytes of a decimal128 column's unscaled values; nulls are 0."""
    words = np.frombuffer(column.buffers()[1] or b"", np.uint64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)].copy()
    is_null = null_mask(column)
    if is_null is not None:
        words[is_null] = 0
    return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])


def minimal_big_endian(low: U64, high: U64) -> tuple[I64, U64]:
    """The shortest two's complement form of 16-byte numbers: its length, and its bytes as two words, zero filled."""
    digits = np.empty((len(low), 16), np.uint8)
    digits[:, :8] = high.astype(">u8").view(np.uint8).reshape(-1, 8)
    digits[:, 8:] = low.astype(">u8").view(np.uint8).reshape(-1, 8)
    fill = np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    is_fill = np.logical_and.accumulate(digits == fill, axis=1)
    start = np.minimum(is_fill.sum(axis=1), 15)
    first = np.take_along_axis(digits, start[:, None], axis=1)
    start = np.where(((first >= 0x80) != (fill >= 0x80))[:, 0], start - 1, start)
    places = np.arange(16)[None, :] + start[:, None]
    shifted = np.where(places < 16, np.take_along_axis(digits, np.minimum(places, 15), axis=1), 0).astype(np.uint8)
    return (16 - start).astype(np.int64), np.ascontiguousarray(shifted).view("<u8").reshape(-1, 2).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class ByteValues:
    """Byte strings of a column, read 8 bytes at a time; bytes after a value's end are zeros."""

    data: npt.NDArray[np.uint8]  # 8 bytes longer than the last value
    starts: I64
    lengths: I64
    nulls: npt.NDArray[np.bool_] | None

    @classmethod
    def of_words(cls, words: U64) -> ByteValues:
        """Values of 8 bytes each, or 8 bytes times the second dimension."""
        width = 8 * (1 if words.ndim == 1 else words.shape[1])
        data = np.concatenate([words.astype("<u8").view(np.uint8).reshape(-1), np.zeros(8, np.uint8)])
        starts = np.arange(len(words), dtype=np.int64) * width
        return cls(data, starts, np.full(len(words), width, np.int64), None)

    def word(self, index: int, rows: I64 | None = None) -> U64:
        """Bytes 8 * index to 8 * index + 8 of every value, or of the values in `rows`, as a little-endian number."""
        starts, lengths = (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        left = np.clip(lengths - 8 * index, 0, 8)
        at = np.where(left > 0, starts + 8 * index, 0)
        unaligned: U64 = np.ndarray((len(self.data) - 7,), "<u8", self.data, strides=(1,))
        keep = np.where(left == 8, 0, (8 - left) * 8).astype(np.uint64)
        words = np.where(left > 0, (unaligned[at] << keep) >> keep, np.uint64(0))
        return words.astype(np.uint64)

    def byte(self, index: int, rows: I64) -> npt.NDArray[np.uint8]:
        """Byte `index` of the values in `rows`, which are all long enough."""
        return self.data[self.starts[rows] + index]


def byte_values(column: pa.Array) -> ByteValues:
    """The bytes of a string, binary or fixed-size binary column; nulls are empty."""
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    offsets = np.frombuffer(column.buffers()[1] or bytes(4), np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    data = np.zeros(last - first + 8, np.uint8)
    if last > first:
        data[:-8] = np.frombuffer(column.buffers()[2], np.uint8)[first:last]
    starts = offsets[:-1].astype(np.int64) - first
    lengths = np.diff(offsets).astype(np.int64)
    is_null = null_mask(column)
    if is_null is not None:
        lengths = np.where(is_null, 0, lengths)
    return ByteValues(data, starts, lengths, is_null)
