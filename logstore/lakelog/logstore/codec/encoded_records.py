"""Records that are ready for the topic, and the changes that records have, whatever the format of their values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BINARY = pa.large_binary()


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows, their kinds, and for each row the number of its record."""

    rows: pa.Table
    kinds: npt.NDArray[np.int8]
    records: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedRecords:
    """Records ready for the topic, as columns of `BINARY`: same length, log order.

    Without `key_column` all keys are null. `row_count` counts the rows they hold, `size_bytes` the bytes of all keys
    and values; `largest` is the index of the largest record. With `has_header_record` a header record, whose key and
    value are null, goes before them and carries the header of the transaction, which otherwise the first of them
    carries. Without other records there is always a header record.
    """

    key_column: pa.ChunkedArray | None
    value_column: pa.ChunkedArray
    row_count: int
    size_bytes: int
    largest: int
    has_header_record: bool = False

    @property
    def sent_count(self) -> int:
        """The number of records of a transaction with these, its header record included."""
        return len(self) + (self.has_header_record or not len(self))

    @property
    def keys(self) -> list[bytes | None]:
        """The keys as Python objects, made anew with each call."""
        return [None] * len(self) if self.key_column is None else self.key_column.to_pylist()

    @property
    def values(self) -> list[bytes]:
        """The values as Python objects, made anew with each call."""
        found: list[bytes] = self.value_column.to_pylist()
        return found

    @classmethod
    def of(cls, keys: pa.ChunkedArray | None, values: pa.ChunkedArray, *, row_count: int) -> EncodedRecords:
        """The records of these strings or binaries; None for keys makes all of them null."""
        sizes = _sizes(values)
        if keys is not None:
            keys = keys.cast(BINARY)
            sizes = sizes + _sizes(keys)
        return cls(
            key_column=keys,
            value_column=values.cast(BINARY),
            row_count=row_count,
            size_bytes=int(sizes.sum()),
            largest=int(sizes.argmax()) if len(sizes) else 0,
        )

    def key(self, number: int) -> bytes | None:
        """The key of one record."""
        found: bytes | None = None if self.key_column is None else self.key_column[number].as_py()
        return found

    def value(self, number: int) -> bytes:
        """The value of one record."""
        found: bytes = self.value_column[number].as_py()
        return found

    def __len__(self) -> int:
        return len(self.value_column)


def _sizes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The bytes of each value, 0 for a null."""
    found: npt.NDArray[np.int64] = np.asarray(pc.binary_length(column).fill_null(0))
    return found


NO_RECORDS = EncodedRecords(
    key_column=None, value_column=pa.chunked_array([], BINARY), row_count=0, size_bytes=0, largest=0
)
