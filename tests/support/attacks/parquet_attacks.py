"""Parquet files of many column types; footers, also of ORC, that end a process which lets Arrow describe columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakelog.common.arrow import from_arrow_field
from lakelog.common.types import DataField
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from tests.support.files.local_files import local_file

_COUNT = 60
ROWS = pa.table(
    {
        "s": [f"text {number}" for number in range(_COUNT)],
        "i": pa.array(range(_COUNT), pa.int32()),
        "l": pa.array(range(_COUNT), pa.int64()),
        "x": pa.array([Decimal(number) for number in range(_COUNT)], pa.decimal128(30, 2)),
        "e": pa.array([Decimal(number) for number in range(_COUNT)], pa.decimal128(9, 2)),
        "b": [number % 2 == 0 for number in range(_COUNT)],
        "f": [number * 1.5 for number in range(_COUNT)],
        "g": pa.array([1.0] * _COUNT, pa.float32()),
        "y": [b"x%d" % number for number in range(_COUNT)],
        "t": pa.array([datetime(2024, 1, 1)] * _COUNT, pa.timestamp("us")),
        "d": [date(2024, 1, 1)] * _COUNT,
        "a": [[number, None] for number in range(_COUNT)],
        "r": [{"p": number, "q": None if number % 3 else "z"} for number in range(_COUNT)],
        "n": pa.nulls(_COUNT, pa.int32()),
    }
)
FIELDS: list[DataField] = [replace(from_arrow_field(one), id=number) for number, one in enumerate(ROWS.schema)]
WRITERS: Mapping[str, Mapping[str, object]] = {
    "zstd": {"compression": "zstd", "row_group_size": 25, "data_page_version": "2.0", "write_page_index": True},
    "none": {"compression": "none", "use_dictionary": False},
    "int96": {"compression": "snappy", "row_group_size": 25, "use_deprecated_int96_timestamps": True},
}


def foreign_files() -> Iterator[tuple[str, bytes]]:
    """Files as other engines may write them: without checksums of pages or blocks."""
    for name, options in WRITERS.items():
        sink = io.BytesIO()
        pq.write_table(ROWS, sink, **options)
        yield name, sink.getvalue()


def read_typed(path: str) -> object:
    """All rows of a file, and all that its footer says of its columns."""
    rows = 0
    with ParquetFile(local_file(path)) as file:
        for field in FIELDS:
            file.stored_bounds_of(field.name, field.type)
            file.bounds_of(field)
        for batch in file.iter_batches([field for field in FIELDS if field.name in file.names], batch_rows=1_000):
            rows += batch.num_rows
    return rows


_PLAIN = pa.table(
    {
        "i": pa.array([0x11223344, 0x55667788], pa.int32()),
        "y": pa.array([b"abcdefgh"] * 2, pa.binary(8)),
    }
)
_SIZES = b"\x3c\x29\x06\x19\x26"  # the histograms of a column: none of repetition levels, two definition levels
# What is replaced once in the footer of `_PLAIN`, and by what.
_CHANGES: Mapping[str, tuple[bytes, bytes]] = {
    "a number's bound of 3 bytes": (b'\x18\x04D3"\x11\x11', b'\x18\x03D3"\x11'),
    "bounds of fixed bytes that are empty": (b"\x28\x08abcdefgh\x18\x08abcdefgh", b"\x28\x00\x18\x00"),
    "a histogram of two levels": (_SIZES, b"\x3c\x29\x26\x02\x02\x19\x26"),
    "bytes of texts in a column of numbers": (_SIZES, b"\x3c\x16\x04\x19\x06\x19\x26"),
    "a column of another type": (b"\x1c\x15\x02\x19\x25", b"\x1c\x15\x06\x19\x25"),
    "an encrypted column": (
        b"\x26\x00\x04\x00\x00\x00",
        b"\x26\x00\x04\x00\x00\x5c\x2c\x19\x18\x01i\x00\x00\x00",
    ),
    "a column of no type": (b"\x1c\x15\x02\x19\x25", b"\x1c\x15\x40\x19\x25"),
}


def damaged_footers() -> Iterator[tuple[str, bytes]]:
    """Files with one thing in their footer changed, on each of which Arrow ends the process when asked."""
    sink = io.BytesIO()
    pq.write_table(_PLAIN, sink, compression="none", use_dictionary=False)
    data = sink.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for name, (old, new) in _CHANGES.items():
        assert old in data[start:], name
        footer = data[start:-8].replace(old, new, 1)
        yield name, data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def orc_of_too_many_digits() -> bytes:
    """An ORC file whose footer names a decimal of 124 digits, on which Arrow ends the process."""
    sink = io.BytesIO()
    rows = pa.table({"x": pa.array([Decimal("1.5")], pa.decimal128(30, 2))})
    orc.write_table(rows, sink, compression="uncompressed")
    data = sink.getvalue()
    precision = b"\x28\x1e\x30\x02"  # 30 digits, 2 of them behind the point
    assert data.count(precision) == 1
    return data.replace(precision, b"\x28\x7c\x30\x02")
