"""Checks the footer of a Parquet file without checksums of lakelog before Arrow describes its columns.

Arrow describes a column of a row group without catching its own errors: statistics that do not fit the column's type, a
histogram of another length or an encrypted column abort the process. Files with checksums of lakelog are unchanged
since they were written, and need no check.

A footer is a struct `FileMetaData`. Source: parquet-format, `parquet.thrift`. A field of another type than the format's
is skipped, as in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.formats.parquet.thrift import DEPTH_MAX, INTEGERS, ThriftCursor, Wire

MAGIC = b"PAR1"
TAIL_BYTES = 64 << 10  # as much as Arrow reads at first
FOOT_BYTES = 8  # the length of the footer, and the magic bytes

_BYTE_ARRAY, _FIXED_BYTES = 6, 7
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # of BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE
_BOUNDS = {1: "max", 2: "min", 5: "max_value", 6: "min_value"}
_OPTIONAL, _REPEATED = 1, 2


@dataclass(slots=True)
class _Element:
    """An element of the schema, with how many elements that follow are its members."""

    physical: int | None = None
    width: int = 0
    repetition: int = 0
    children: int = 0


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the file: its physical type, the bytes of a value if they are fixed, and its highest levels."""

    physical: int
    width: int
    repetition_level: int
    definition_level: int


@dataclass(slots=True)
class _Chunk:
    """A column in a row group: the lengths of its bounds by their names, and of its histograms."""

    physical: int | None = None
    bounds: dict[str, int] = field(default_factory=dict)
    repetition_levels: int = 0
    definition_levels: int = 0
    has_array_bytes: bool = False
    is_encrypted: bool = False


def read_footer(source: pa.NativeFile, path: str) -> pq.FileMetaData:
    """The footer of an open file, checked. Raises ValueError and Arrow's errors, UnsupportedError naming `path`."""
    size = source.size()
    tail = _read_end(source, size, min(size, TAIL_BYTES))
    if len(tail) < FOOT_BYTES or tail[-4:] != MAGIC:
        raise ValueError(f"its last bytes are {tail[-4:]!r}, expected {MAGIC!r}")
    length = int.from_bytes(tail[-FOOT_BYTES:-4], "little") + FOOT_BYTES
    if length + len(MAGIC) > size:
        raise ValueError(f"it has {size} bytes, and would have a footer of {length - FOOT_BYTES}")
    if length > len(tail):
        tail = _read_end(source, size, length)
    footer = tail[len(tail) - length :]
    check_footer(footer[:-FOOT_BYTES], path)
    return pq.ParquetFile(pa.BufferReader(MAGIC + footer)).metadata


def _read_end(source: pa.NativeFile, size: int, length: int) -> bytes:
    source.seek(size - length)
    data: bytes = source.read(length)
    if len(data) != length:
        raise ValueError(f"of its last {length} bytes, {len(data)} were read")
    return data


def check_footer(data: bytes, path: str) -> None:
    """Raise ValueError for a footer on which Arrow aborts, UnsupportedError for encrypted columns."""
    cursor = ThriftCursor(data)
    elements: list[_Element] = []
    groups: list[list[_Chunk]] = []
    try:
        for number, kind in cursor.fields():
            if number == 2 and kind == Wire.LIST:
                elements = [_element(cursor) for _ in cursor.items((Wire.STRUCT,))]
            elif number == 4 and kind == Wire.LIST:
                groups = [_row_group(cursor) for _ in cursor.items((Wire.STRUCT,))]
            else:
                cursor.skip(kind)
    except IndexError as error:
        raise ValueError("its footer ends inside of a value") from error
    leaves = list(_leaves(elements))
    for at, chunks in enumerate(groups):
        if len(chunks) != len(leaves):
            raise ValueError(f"row group {at} has {len(chunks)} columns, the schema has {len(leaves)}")
        for column, (chunk, leaf) in enumerate(zip(chunks, leaves, strict=True)):
            if chunk.is_encrypted:
                raise UnsupportedError(f"column {column} of Parquet file {path} is encrypted, which is not read yet")
            why = _misfit(chunk, leaf)
            if why is not None:
                raise ValueError(f"column {column} of row group {at} {why}")


def _misfit(chunk: _Chunk, leaf: _Leaf) -> str | None:
    """How a row group contradicts the schema about a column; None if it does not."""
    if chunk.physical != leaf.physical:
        return f"has the physical type {chunk.physical}, the schema says {leaf.physical}"
    for name, length in chunk.bounds.items():
        # Arrow ignores an empty bound, but for bytes of a fixed length it would copy from a null pointer.
        if length < leaf.width and (length or leaf.physical == _FIXED_BYTES):
            return f"has a {name} of {length} bytes, expected {leaf.width}"
    for name, count, highest in (
        ("repetition", chunk.repetition_levels, leaf.repetition_level),
        ("definition", chunk.definition_levels, leaf.definition_level),
    ):
        if count and count != highest + 1:
            return f"has a histogram of {count} {name} levels, expected {highest + 1}"
    if chunk.has_array_bytes and leaf.physical != _BYTE_ARRAY:
        return f"has a number of bytes for strings, and the physical type {leaf.physical}"
    return None


def _leaves(elements: list[_Element]) -> Iterator[_Leaf]:
    """The columns of a schema, whose elements are in depth-first order after the root."""
    ends: list[list[int]] = []  # for each open group: the members still to come, repetition level and definition level
    for at, element in enumerate(elements):
        _, repetition, definition = ends[-1] if ends else (0, 0, 0)
        if at:
            if not ends:
                raise ValueError("its schema has more elements than its groups have members")
            ends[-1][0] -= 1
            repetition += element.repetition == _REPEATED
            definition += element.repetition in (_OPTIONAL, _REPEATED)
        if element.children > 0 or not at:
            ends.append([element.children, repetition, definition])
        elif element.physical is None:
            raise ValueError(f"element {at} of its schema has neither a type nor members")
        else:
            width = element.width if element.physical == _FIXED_BYTES else _WIDTHS.get(element.physical, 0)
            yield _Leaf(element.physical, width, repetition, definition)
        if len(ends) > DEPTH_MAX:
            raise ValueError(f"its columns are nested deeper than {DEPTH_MAX}")
        while ends and ends[-1][0] <= 0:
            ends.pop()


def _element(cursor: ThriftCursor) -> _Element:
    found = _Element()
    for number, kind in cursor.fields():
        if number == 1 and kind in INTEGERS:
            found.physical = cursor.integer()
        elif number == 2 and kind in INTEGERS:
            found.width = cursor.integer()
        elif number == 3 and kind in INTEGERS:
            found.repetition = cursor.integer()
        elif number == 5 and kind in INTEGERS:
            found.children = cursor.integer()
        else:
            cursor.skip(kind)
    return found


def _row_group(cursor: ThriftCursor) -> list[_Chunk]:
    chunks: list[_Chunk] = []
    for number, kind in cursor.fields():
        if number == 1 and kind == Wire.LIST:
            chunks = [_chunk(cursor) for _ in cursor.items((Wire.STRUCT,))]
        else:
            cursor.skip(kind)
    return chunks


def _chunk(cursor: ThriftCursor) -> _Chunk:
    found = _Chunk()
    for number, kind in cursor.fields():
        if number == 3 and kind == Wire.STRUCT:
            _read_column(cursor, found)
        else:
            found.is_encrypted |= number == 8
            cursor.skip(kind)
    return found


def _read_column(cursor: ThriftCursor, found: _Chunk) -> None:
    """Read a `ColumnMetaData`."""
    for number, kind in cursor.fields():
        if number == 1 and kind in INTEGERS:
            found.physical = cursor.integer()
        elif number == 12 and kind == Wire.STRUCT:
            for bound, kind_of_bound in cursor.fields():
                if bound in _BOUNDS and kind_of_bound == Wire.BINARY:
                    found.bounds[_BOUNDS[bound]] = cursor.binary_length()
                else:
                    cursor.skip(kind_of_bound)
        elif number == 16 and kind == Wire.STRUCT:
            _read_sizes(cursor, found)
        else:
            cursor.skip(kind)


def _read_sizes(cursor: ThriftCursor, found: _Chunk) -> None:
    """Read a `SizeStatistics`."""
    for number, kind in cursor.fields():
        if number == 2 and kind == Wire.LIST:
            found.repetition_levels = _count(cursor)
        elif number == 3 and kind == Wire.LIST:
            found.definition_levels = _count(cursor)
        else:
            found.has_array_bytes |= number == 1 and kind in INTEGERS
            cursor.skip(kind)


def _count(cursor: ThriftCursor) -> int:
    numbers = cursor.items(INTEGERS)
    for _ in numbers:
        cursor.integer()
    return len(numbers)
