"""Level-0 files: what is in them and what the table knows of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.encoding.binary_row import deserialize_row, serialize_row
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import starting_at, write_rows
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.small_tables import UNSYNCED

NO_PARTITION = bytes(12)
TYPES = {"name": "STRING NOT NULL", "ratio": "DOUBLE NOT NULL", "amount": "DECIMAL(20, 2)"}


def make(folder: Path, options: dict[str, str] | None = None, **more: object) -> FileStoreTable:
    fields = [DataField(id=0, name=name, type=parse_type(text)) for name, text in TYPES.items()]
    keys = {"primary_keys": ["name", "ratio"], "partition_keys": [], **more}
    schema = build_schema(fields, options={"bucket": "1", **(options or {})}, **keys)  # type: ignore[arg-type]  # mixed
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def rows(*values: tuple[str, float, str | None]) -> pa.Table:
    names, ratios, amounts = zip(*values, strict=True)
    decimals = pa.array([None if text is None else Decimal(text) for text in amounts], pa.decimal128(20, 2))
    return pa.table([pa.array(names, pa.string()), pa.array(ratios, pa.float64()), decimals], names=list(TYPES))


FOUR = rows(("b", 1.0, "1"), ("a", float("nan"), "2"), ("b", 1.0, "3"), ("a", -0.0, None))
KINDS = pa.array([0, 0, 3, 2], pa.int8())


def write_files(
    table: FileStoreTable, given: pa.Table, kinds: pa.Array | None, first_sequence: int = 0
) -> tuple[DataFileMeta, ...]:
    written = write_rows(table, given, kinds, first_sequence=starting_at(first_sequence))
    return tuple(entry.file for entry in written.entries)


def test_the_table_knows_exact_keys_counts_and_sequence_numbers(tmp_path: Path) -> None:
    table = make(tmp_path)
    (file,) = write_files(table, FOUR, KINDS, first_sequence=100)
    kinds = table.key_types
    assert deserialize_row(kinds, file.min_key) == ("a", -0.0)
    assert deserialize_row(kinds, file.max_key) == ("b", 1.0)
    assert file.key_stats.min_values == serialize_row(kinds, ["a", -0.0])
    assert str(deserialize_row(kinds, file.key_stats.max_values)) == "('b', nan)"
    assert file.key_stats.null_counts == (0, 0)
    assert (file.row_count, file.delete_row_count, file.level, file.schema_id) == (3, 1, 0, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (101, 103)
    assert (file.file_source, file.value_stats_cols) == (FileSource.APPEND, None)
    assert file.file_size_bytes == table.file_io.size(table.data_path(BucketId(NO_PARTITION, 0), file))


def test_no_rows_give_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert write_files(table, FOUR.slice(0, 0), None) == ()
    assert write_rows(table, FOUR.slice(0, 0), first_sequence={}).entries == []
    assert not (tmp_path / "t" / "bucket-0").exists()


def test_rows_beyond_the_target_size_roll_into_files_of_rising_keys(tmp_path: Path) -> None:
    table = make(tmp_path, {"target-file-size": "1 kb", "file.block-size": "1 kb"})
    many = rows(*((f"key {number:05}", 0.5, "1") for number in range(500)))
    files = write_files(table, many, None)
    assert len(files) > 3
    assert sum(file.row_count for file in files) == 500
    bounds = [deserialize_row(table.key_types, key) for file in files for key in (file.min_key, file.max_key)]
    assert bounds == sorted(bounds, key=str)
    assert (files[0].min_sequence_number, files[-1].max_sequence_number) == (0, 499)


def test_thin_files_leave_the_key_columns_out_and_are_read_all_the_same(tmp_path: Path) -> None:
    table = make(tmp_path, {"data-file.thin-mode": "true"})
    table.write(FOUR)
    (entry, *_) = table.live_files.of(table.snapshots.latest()).entries()
    path = table.data_path(entry.bucket_id, entry.file)
    assert pq.read_schema(path).names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", *TYPES]
    assert table.to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (pa.array([0, 1, 2], pa.int8()), "4 values of int8"),
        (pa.array([0, 1, 2, 3], pa.int32()), "int8"),
        (pa.array([0, 1, None, 3], pa.int8()), "1 of them null"),
        (pa.array([0, 1, 2, 9], pa.int8()), "found 9"),
    ],
)
def test_odd_row_kinds_are_refused(tmp_path: Path, kinds: pa.Array, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        write_files(make(tmp_path), FOUR, kinds)


def test_row_kinds_may_come_in_chunks(tmp_path: Path) -> None:
    chunked = pa.chunked_array([[0, 0], [3, 2]], pa.int8())
    (file,) = write_files(make(tmp_path), FOUR, chunked)
    assert file.delete_row_count == 1


@pytest.mark.parametrize("fails_at", [1, 3])
def test_a_failed_write_leaves_no_file_behind(tmp_path: Path, fails_at: int) -> None:
    synced: list[str] = []

    class DiskFull(LocalFileIO):
        def sync(self, path: str) -> None:
            synced.append(path)
            if len(synced) == fails_at:
                raise UnavailableError(f"{path}: disk full")

    options = {"target-file-size": "1 kb", "file.block-size": "1 kb"}
    table = FileStoreTable.open(make(tmp_path, options).path, DiskFull())
    many = rows(*((f"key {number:05}", 0.5, "1") for number in range(500)))
    with pytest.raises(UnavailableError, match="disk full"):
        write_files(table, many, None)
    assert len(synced) == fails_at
    assert list((tmp_path / "t" / "bucket-0").iterdir()) == []


def test_a_prepared_file_is_durable_before_its_name_is_given(tmp_path: Path) -> None:
    counting = FaultyFileIO(UNSYNCED)
    table = FileStoreTable.open(make(tmp_path).path, counting)
    write_files(table, FOUR, KINDS)
    assert counting.calls[-2:] == ["open_output", "sync"]
