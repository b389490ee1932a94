"""Files that have columns of the same rows are read together."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.data.row_ids import groups_by_row_id
from lakelog.filestore.formats.blob import ELSEWHERE, NULL, BlobFile
from lakelog.filestore.metadata.manifests.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from lakelog.filestore.schema.new_schema import build_schema
from tests.support.files.local_files import local_file


def file(name: str, first: int | None, count: int, sequence: int = 1) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size_bytes=1,
        row_count=count,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        schema_id=0,
        level=0,
        first_row_id=first,
    )


def grouped(*files: DataFileMeta) -> list[list[str]]:
    return [[one.file_name for one in group] for group in groups_by_row_id(files)]


def test_files_of_the_same_rows_are_a_group_the_newest_first() -> None:
    files = [
        file("b.parquet", 10, 5),
        file("x.blob", 12, 3, 9),
        file("a.parquet", 0, 10),
        file("new.parquet", 10, 5, 7),
        file("y.blob", 10, 2, 2),
        file("unnumbered.parquet", None, 4),
    ]
    assert grouped(*files) == [
        ["unnumbered.parquet"],
        ["a.parquet"],
        ["new.parquet", "b.parquet", "x.blob", "y.blob"],
    ]


@pytest.mark.parametrize(
    "files",
    [
        [file("a.parquet", 0, 10), file("b.parquet", 5, 10)],
        [file("a.parquet", 0, 10), file("b.parquet", 0, 5)],
        [file("a.parquet", 0, 10), file("x.blob", 8, 5)],
        [file("x.blob", 8, 5)],
    ],
    ids=str,
)
def test_files_that_share_rows_in_part_are_corrupt(files: list[DataFileMeta]) -> None:
    with pytest.raises(CorruptDataError, match="share rows, but do not all have the rows"):
        groups_by_row_id(files)


def blob_file(values: list[bytes | int | None]) -> bytes:
    """A blob file of values, written as the format says, and apart from the reader. `ELSEWHERE` is a number."""
    data, lengths = io.BytesIO(), []
    for value in values:
        if not isinstance(value, bytes):
            lengths.append(NULL if value is None else value)
            continue
        body = (1_481_511_375).to_bytes(4, "little") + value + (len(value) + 16).to_bytes(8, "little")
        data.write(body + zlib.crc32(body).to_bytes(4, "little"))
        lengths.append(len(value) + 16)
    index = bytearray()
    before = 0
    for length in lengths:
        number = (length - before) << 1 ^ (length - before) >> 63
        before = length
        while number >= 0x80:
            index.append(number & 0x7F | 0x80)
            number >>= 7
        index.append(number)
    return data.getvalue() + bytes(index) + len(index).to_bytes(4, "little") + b"\x01"


@given(values=st.lists(st.one_of(st.none(), st.just(ELSEWHERE), st.binary(max_size=300)), max_size=30))
def test_a_blob_file_gives_every_value_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes | int | None]
) -> None:
    path = tmp_path_factory.mktemp("blob") / "x.blob"
    path.write_bytes(blob_file(values))
    with BlobFile(local_file(path)) as opened:
        assert opened.row_count == len(values)
        found = [ELSEWHERE if opened.lengths[row] == ELSEWHERE else opened.read(row) for row in range(len(values))]
    assert found == values


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "too few for a blob file"),
        (b"\x00\x00\x00\x00\x02", "version 2"),
        (b"\xff\xff\xff\x7f\x01", "an index of 2147483647 bytes"),
        (b"\xff\x01\x00\x00\x00\x01", "its index is not readable: it is cut off"),
        (b"\x05\x01\x00\x00\x00\x01", "its index names"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0a\x00\x00\x00\x01", "its index names"),
    ],
)
def test_what_is_no_blob_file_is_corrupt(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "x.blob"
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=what):
        BlobFile(local_file(path))


def test_no_table_is_made_with_a_blob() -> None:
    columns = [DataField(id=0, name="x", type=parse_type("BLOB"))]
    with pytest.raises(UnsupportedError, match="column 'x' has BLOB, which is read and not written"):
        build_schema(columns, options={"bucket": "-1"})
    assert str(parse_type("BLOB NOT NULL")) == "BLOB NOT NULL"
