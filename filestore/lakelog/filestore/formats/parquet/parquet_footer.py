"""The footers of Parquet files, cached with what was derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue
from lakelog.filestore.formats.parquet.parquet_bounds import bounds_in_footer, leaves_of, null_count_in_footer, roots_of

I64 = npt.NDArray[np.int64]
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_FOOTER_FACTOR = 8  # memory of a footer and of what was derived from it, in multiples of its bytes in the file


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """For each row group: a column's smallest and largest value, without NaN, and its nulls. None is unknown.

    `integers` are smallest and largest values as arrays, if all known values are integers; an unknown smallest value is
    the lowest number, an unknown largest value the highest.
    """

    least: Sequence[StoredValue]
    most: Sequence[StoredValue]
    nulls: Sequence[int | None]
    integers: tuple[I64, I64] | None


class ParquetFooter:
    """The footer of one file. Answers are cached: Arrow takes microseconds for each."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.metadata = metadata
        self._bounds: dict[tuple[DataType, int], GroupBounds] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return self.metadata.schema.to_arrow_schema()

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The position of each column in the footer. A name that a member of a nested column has too is left out."""
        return leaves_of(self.metadata)

    @cached_property
    def int96_columns(self) -> frozenset[str]:
        """The columns with values in INT96."""
        leaves = self.metadata.schema
        return frozenset(
            root for at, root in enumerate(roots_of(self.schema)) if leaves.column(at).physical_type == "INT96"
        )

    @cached_property
    def row_groups(self) -> list[tuple[int, int]]:
        """Rows and bytes before compression of each row group."""
        groups = (self.metadata.row_group(index) for index in range(self.metadata.num_row_groups))
        return [(group.num_rows, group.total_byte_size) for group in groups]

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row before compression."""
        return sum(size for _, size in self.row_groups) // max(1, int(self.metadata.num_rows))

    def bounds(self, kind: DataType, leaf: int) -> GroupBounds:
        """The bounds of the column at `leaf`, which has the type `kind`."""
        found = self._bounds.get((kind, leaf))
        if found is None:
            found = self._bounds[(kind, leaf)] = self._read_bounds(kind, leaf)
        return found

    def _read_bounds(self, kind: DataType, leaf: int) -> GroupBounds:
        groups = range(self.metadata.num_row_groups)
        bounds = [bounds_in_footer(kind, self.metadata, leaf, [group]) or (None, None) for group in groups]
        least, most = [low for low, _ in bounds], [high for _, high in bounds]
        known = [value for value in (*least, *most) if value is not None]
        integers = None
        if kind.root not in _FLOATS and all(type(value) is int for value in known):
            integers = _array(least, _LOWEST), _array(most, _HIGHEST)
        nulls = [null_count_in_footer(self.metadata, leaf, group) for group in groups]
        return GroupBounds(least=least, most=most, nulls=nulls, integers=integers)


FOOTER_CACHE: BoundedCache[str, tuple[bytes, ParquetFooter]] = BoundedCache(bytes_max=64 << 20)  # with the checksums


def cached_footer(path: str, checksums: bytes | None) -> ParquetFooter | None:
    """The cached footer of a file with these checksums. Footers of files without checksums are not cached."""
    held = FOOTER_CACHE.get(path)
    return held[1] if held is not None and checksums is not None and held[0] == checksums else None


def cache_footer(path: str, checksums: bytes, footer: ParquetFooter) -> None:
    """Cache the footer of a file."""
    FOOTER_CACHE.put(path, (checksums, footer), _FOOTER_FACTOR * footer.metadata.serialized_size)


def _array(values: Sequence[StoredValue], unknown: int) -> I64:
    return np.array([unknown if value is None else value for value in values], np.int64)
