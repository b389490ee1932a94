"""Footers of Parquet files, checked before Arrow describes their columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.filestore.formats.parquet.parquet_check import TAIL_BYTES, check_footer, read_footer
from lakelog.filestore.formats.parquet.thrift import ThriftCursor
from tests.support.attacks.parquet_attacks import ROWS, damaged_footers, foreign_files, read_typed

FILES = dict(foreign_files())
DAMAGED = dict(damaged_footers())


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_others_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(FILES[name])
    assert read_typed(str(path)) == ROWS.num_rows


@pytest.mark.parametrize("name", DAMAGED)
def test_a_footer_that_ends_the_process_is_refused(name: str) -> None:
    """The same files are read in a child in tests/attacks: here, what the check itself says."""
    with pytest.raises(UnsupportedError if "encrypted" in name else ValueError, match=r"column [01]"):
        check_footer(footer_of(DAMAGED[name]), "data.parquet")


@pytest.mark.parametrize("name", FILES)
def test_a_part_of_a_footer_is_refused(name: str) -> None:
    footer = footer_of(FILES[name])
    for end in range(0, len(footer), 7):
        with pytest.raises(ValueError, match=r"its footer ends|row group|schema"):
            check_footer(footer[:end], "data.parquet")


def test_a_footer_beyond_the_first_read_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    wide = pa.table({f"column_{number}": [number] for number in range(600)})
    pq.write_table(wide, path)
    assert pq.read_metadata(path).serialized_size > TAIL_BYTES
    with pa.OSFile(str(path)) as source:
        assert read_footer(source, str(path)).num_columns == 600


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100, b"PAR1" + b"\xff\xff\xff\x7fPAR1"])
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"data.parquet is damaged: it is not readable as Parquet"):
        read_typed(str(path))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (1, b""),
        (3, b"\x07"),
        (6, b"\x80\x01"),
        (7, bytes(8)),
        (8, b"\x02ab"),
        (9, b"\x21\x01\x02"),  # two truth values
        (10, b"\xf5\x02\x02\x04"),  # a set of two numbers, whose count stands behind
        (11, b"\x01\x86\x01a\x02"),  # a map of a text to a number
        (11, b"\x00"),
        (12, b"\x11\x08\x64\x01z\x00"),  # a truth value, and a text whose number stands behind
        (13, bytes(16)),
    ],
)
def test_every_value_of_thrift_is_passed_over(kind: int, data: bytes) -> None:
    cursor = ThriftCursor(data + b"\x0e")
    cursor.skip(kind)
    assert cursor.integer() == 7


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x1c" * 100 + bytes(101), "nested deeper than 64"),
        (b"\x19" * 100, "nested deeper than 64"),
        (b"\x16" + b"\xff" * 20, "more than 10 bytes"),
        (b"\x1f\x00", "15 is not a type"),
        (b"\x15\x02\x05\x02\x02\x00", "field 1 of a struct is there twice"),
    ],
    ids=["structs", "lists", "number", "type", "twice"],
)
def test_what_no_thrift_writer_gives_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_footer(data, "data.parquet")
