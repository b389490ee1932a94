"""Rows that polars decodes itself are those that Arrow reads, verified by the same checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.alter.schema_changes import AddColumn, SetOption
from lakelog.filestore.data import frame_reader
from lakelog.filestore.data.frame_reader import _runs
from lakelog.filestore.formats import file_writing
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_polars
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import UNSYNCED
from tests.support.tables.typed_rows import SCHEMA, rows_of

ROWS = 250
PLAIN = [name for name in SCHEMA.names if name not in ("timestamp_ns", "blob", "time")]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what polars decoded, of however few rows: 0 for the table's own files, which need no memory."""
    found: list[int] = []
    scan = pl.scan_parquet

    def counted(source: bytes | BinaryIO, **options: bool) -> pl.LazyFrame:
        found.append(len(source) if isinstance(source, bytes) else 0)
        return scan(source, **options)  # type: ignore[arg-type]  # options of several types

    monkeypatch.setattr(frame_reader, "_ROWS_MIN", 1)
    monkeypatch.setattr(pl, "scan_parquet", counted)
    return found


def table_with(
    folder: Path, columns: Sequence[str], file_io: FileIO = UNSYNCED, options: Mapping[str, str] | None = None
) -> FileStoreTable:
    """A table of one file."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    table = FileStoreTable.create(
        folder / "t", build_schema(schema, options={"write-only": "true", **(options or {})}), file_io
    )
    table.write(rows_of(range(ROWS)).select(columns))
    return table


def check_rows(table: FileStoreTable) -> None:
    expected = pl.from_arrow(table.to_arrow().sort_by("id"))
    assert isinstance(expected, pl.DataFrame)
    found = to_polars(table).collect().sort("id")
    assert found.schema == expected.schema
    assert found.equals(expected)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_polars_decodes_what_arrow_reads(tmp_path: Path, decoded: list[int], codec: str) -> None:
    table = table_with(tmp_path, PLAIN, options={"file.compression": codec})
    check_rows(table)
    assert decoded == [0]


def test_polars_decodes_a_copy_of_a_file_that_is_not_local(tmp_path: Path, decoded: list[int]) -> None:
    table = table_with(tmp_path, PLAIN, CountingFileIO())
    (path,) = (tmp_path / "t").rglob("data-*")
    check_rows(table)
    assert decoded == [path.stat().st_size]


@pytest.mark.parametrize(("file_io", "is_decoded"), [(UNSYNCED, True), (CountingFileIO(), False)])
def test_a_local_file_larger_than_the_budget_allows_is_decoded_in_pieces(
    tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, file_io: FileIO, is_decoded: bool
) -> None:
    """Of its row groups of 32 rows some fit; a copy of it in memory would be of the whole file."""
    monkeypatch.setattr(file_writing, "ROW_GROUP_ROWS", 32)
    table = table_with(tmp_path, PLAIN, file_io)
    altered(table, SetOption("read.memory-budget", "48 kb"))
    check_rows(FileStoreTable.open(tmp_path / "t", file_io))
    assert len(decoded) > 1 if is_decoded else decoded == []


def test_columns_that_polars_sees_differently_are_left_to_arrow(tmp_path: Path, decoded: list[int]) -> None:
    table = table_with(tmp_path, SCHEMA.names)
    check_rows(table)
    assert to_polars(table).select("id", "timestamp").collect().height == ROWS  # INT96 beside nanoseconds
    assert decoded == []


def test_files_of_older_schemas_are_left_to_arrow(tmp_path: Path, decoded: list[int]) -> None:
    table = table_with(tmp_path, PLAIN)
    altered(table, AddColumn("more", "INT"))
    check_rows(FileStoreTable.open(tmp_path / "t", UNSYNCED))
    assert decoded == []


def test_row_groups_larger_than_the_budget_allows_are_left_to_arrow(tmp_path: Path, decoded: list[int]) -> None:
    altered(table_with(tmp_path, PLAIN), SetOption("read.memory-budget", "10 kb"))
    check_rows(FileStoreTable.open(tmp_path / "t", UNSYNCED))
    assert decoded == []


def test_a_limit_reads_no_whole_file(tmp_path: Path, decoded: list[int]) -> None:
    assert to_polars(table_with(tmp_path, PLAIN)).head(3).collect().height == 3
    assert decoded == []


@pytest.mark.parametrize("file_io", [UNSYNCED, CountingFileIO()])
def test_a_damaged_file_is_named(tmp_path: Path, decoded: list[int], file_io: FileIO) -> None:
    table = table_with(tmp_path, PLAIN, file_io)
    (path,) = (tmp_path / "t").rglob("data-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match="have the checksum"):
        to_polars(table).collect()
    assert decoded == []


def test_row_groups_that_a_filter_needs_are_decoded_in_pieces(tmp_path: Path, decoded: list[int]) -> None:
    """Of 13 row groups on the highest level, the first two and the last."""
    count = 200_000
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
    table = FileStoreTable.create(tmp_path / "t", build_schema(schema, primary_keys=["id"]), UNSYNCED)
    table.write(pa.table([range(count), [f"text {number}" for number in range(count)]], schema=schema))
    table.compact(full=True)
    wanted = (pl.col("id") < 20_000) | (pl.col("id") >= count - 10)
    found = to_polars(table).filter(wanted).collect().sort("id")
    ids = [*range(20_000), *range(count - 10, count)]
    assert found.equals(pl.DataFrame({"id": ids, "s": [f"text {number}" for number in ids]}))
    assert len(decoded) == 2


@given(groups=st.sets(st.integers(0, 11)), rows_max=st.integers(1, 60))
def test_runs_are_neighbours_within_bounds(groups: set[int], rows_max: int) -> None:
    starts = list(range(0, 130, 10))
    runs = list(_runs(sorted(groups), starts, rows_max))
    assert [group for first, last in runs for group in range(first, last)] == sorted(groups)
    assert all(last - first == 1 or starts[last] - starts[first] <= rows_max for first, last in runs)
