"""Hive's hash of a column, for `bucket-function.type=hive`. Source: Paimon, `HiveBucketFunction`."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import MAX_COMPACT_PRECISION
from lakelog.filestore.encoding.buffers import ByteValues, byte_values, decimal_words, fixed_values, null_mask
from lakelog.filestore.encoding.hashed_words import BYTES_ROOTS, U32, double_bits, float_bits, time_millis


def hive_hash(column: pa.Array, kind: DataType) -> U32:
    """The hash of each value of a column. Raises UnsupportedError for a type that Hive's buckets do not know."""
    root = kind.root
    if root in BYTES_ROOTS:
        return _hive_bytes(byte_values(column))
    if root is TypeRoot.DECIMAL:
        return _hive_decimal(column, kind)
    if root is TypeRoot.FLOAT:
        return float_bits(column, one_zero=True)
    if root is TypeRoot.DOUBLE:
        return _folded(double_bits(column, one_zero=True))
    if root is TypeRoot.BIGINT:
        return _folded(fixed_values(column, np.int64).view(np.uint64))
    if root is TypeRoot.TIME:
        return time_millis(column).astype(np.uint32)
    if root in (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE):
        return fixed_values(column, np.int32).view(np.uint32)
    raise UnsupportedError(f"type {kind} cannot be part of a bucket key with bucket-function.type=hive")


def _folded(words: npt.NDArray[np.uint64]) -> U32:
    return (words ^ (words >> np.uint64(32))).astype(np.uint32)


def _hive_bytes(values: ByteValues) -> U32:
    hashes: U32 = np.zeros(len(values.lengths), np.uint32)
    rows = np.arange(len(hashes))
    for index in range(int(values.lengths.max(initial=0))):
        rows = rows[values.lengths[rows] > index]
        signed = values.byte(index, rows).view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = hashes[rows] * np.uint32(31) + signed
    return hashes


def _hive_decimal(column: pa.Array, kind: DataType) -> U32:
    """Java's hash of the decimal without trailing zeros behind the point."""
    if (kind.precision or 0) > MAX_COMPACT_PRECISION:
        hashes = [0 if value is None else _java_decimal_hash(value) for value in column.to_pylist()]
        return np.array(hashes, np.int64).astype(np.uint32)
    unscaled = decimal_words(column)[0].view(np.int64).copy()
    scales = np.full(len(unscaled), kind.scale or 0, np.int64)
    scales[unscaled == 0] = 0
    for _ in range(kind.scale or 0):
        shorter = (scales > 0) & (unscaled % 10 == 0)
        unscaled[shorter] //= 10
        scales[shorter] -= 1
    magnitude = np.abs(unscaled).view(np.uint64)
    folded = (magnitude >> np.uint64(32)).astype(np.uint32) * np.uint32(31) + magnitude.astype(np.uint32)
    signed = np.where(unscaled < 0, np.uint32(0) - folded, folded)
    hashes32: U32 = signed * np.uint32(31) + scales.astype(np.uint32)
    is_null = null_mask(column)
    return hashes32 if is_null is None else np.where(is_null, np.uint32(0), hashes32)


def _java_decimal_hash(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled, scale = int("".join(map(str, digits))), -exponent
    if unscaled == 0:
        scale = 0
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    folded = 0
    for shift in range(max(unscaled.bit_length() - 1, 0) // 32 * 32, -1, -32):
        folded = folded * 31 + (unscaled >> shift & 0xFFFF_FFFF)
    return (31 * (-folded if sign else folded) + scale) & 0xFFFF_FFFF
