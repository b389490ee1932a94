"""Values of columns as the words from which hashes of a bucket key are computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.types import TypeRoot
from lakelog.filestore.encoding.buffers import fixed_values

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
BYTES_ROOTS = {TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}


def float_bits(column: pa.Array, *, one_zero: bool = False) -> U32:
    """The bits of a FLOAT column, every NaN as Java's one NaN; -0.0 as 0.0 for `one_zero`."""
    bits = fixed_values(column, np.float32).view(np.uint32)
    bits = np.where(bits & np.uint32(0x7FFF_FFFF) > 0x7F80_0000, np.uint32(0x7FC0_0000), bits)
    return np.where(bits == 0x8000_0000, np.uint32(0), bits) if one_zero else bits


def double_bits(column: pa.Array, *, one_zero: bool = False) -> npt.NDArray[np.uint64]:
    """`float_bits` of a DOUBLE column."""
    bits = fixed_values(column, np.float64).view(np.uint64)
    is_nan = bits & np.uint64((1 << 63) - 1) > np.uint64(0x7FF << 52)
    bits = np.where(is_nan, np.uint64(0x7FF8 << 48), bits)
    return np.where(bits == np.uint64(1 << 63), np.uint64(0), bits) if one_zero else bits


def time_millis(column: pa.Array) -> I64:
    """The milliseconds of the day of a TIME column."""
    per_milli = {"ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    return fixed_values(column, np.int64) // per_milli
