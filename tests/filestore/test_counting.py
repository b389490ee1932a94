"""`Table.count` and `Table.system.files`: what they say of tables of each kind, and what they read for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore import FileStoreTable, build_schema
from lakelog.filestore.metadata.tables import files_of_table
from lakelog.filestore.verbs import count_rows
from tests.support.tables.paimon_tables import unpack

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
DELETE = 3


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "n": [0 for _ in ids]}, schema=SCHEMA)


def made(folder: Path, *options: str, has_key: bool = True) -> FileStoreTable:
    """An empty table with options such as `write-only=true`."""
    given = dict(option.split("=") for option in ("bucket=1", *options))
    schema = build_schema(SCHEMA, primary_keys=["id"] if has_key else (), options=given)
    return FileStoreTable.create(folder / "t", schema)


def without_data(table: FileStoreTable) -> None:
    """Delete every data file of the newest snapshot: what is counted then is known without them."""
    for file in files_of_table(*table.travelled()):
        Path(file.path).unlink()


def test_rows_that_replace_each_other_count_once(tmp_path: Path) -> None:
    table = made(tmp_path, "write-only=true")
    table.write(rows(1, 2, 3))
    table.write(rows(3, 4))
    table.write(rows(1), kinds=pa.array([DELETE], pa.int8()))
    assert count_rows(table) == 3
    assert count_rows(table, where="id > 2") == 2
    assert count_rows(table, snapshot_id=1) == 3
    with pytest.raises(NotFoundError):
        count_rows(table, snapshot_id=9)
    with pytest.raises(InvalidRequestError):
        count_rows(table, where="nothing = 1")


def test_merged_rows_are_counted_without_their_files(tmp_path: Path) -> None:
    table = made(tmp_path, "write-only=true")
    table.write(rows(1, 2, 3))
    table.write(rows(3, 4))
    table.compact(full=True)
    without_data(table)
    assert count_rows(table) == 4


def test_appended_rows_are_counted_without_their_files(tmp_path: Path) -> None:
    table = made(tmp_path, "write-only=true", "write-mode=append-only", has_key=False)
    table.write(rows(1, 1))
    table.write(rows(1))
    without_data(table)
    assert count_rows(table) == 3


def test_a_value_count_table_counts_rows_as_often_as_they_are_there(tmp_path: Path) -> None:
    table = made(tmp_path, "write-mode=change-log", has_key=False)
    table.write(rows(1, 1, 2))
    table.write(rows(1), kinds=pa.array([DELETE], pa.int8()))
    table.compact(full=True)
    assert count_rows(table) == table.to_arrow().num_rows == 2


def test_rows_that_deletion_vectors_mark_are_not_counted(tmp_path: Path) -> None:
    table = made(tmp_path, "deletion-vectors.enabled=true")
    table.write(rows(1, 2, 3))
    table.compact(full=True)
    table.write(rows(3, 4))
    table.compact()
    assert count_rows(table) == table.to_arrow().num_rows == 4


def test_files_have_their_keys_levels_and_places(tmp_path: Path) -> None:
    table = made(tmp_path, "write-only=true")
    assert files_of_table(*table.travelled()) == []
    table.write(rows(5, 2))
    table.compact(full=True)
    table.write(rows(7))
    low, high = files_of_table(*table.travelled())
    assert (low.level, low.min_key, low.max_key, low.row_count) == (0, (7,), (7,), 1)
    assert (high.level, high.min_key, high.max_key, high.row_count) == (5, (2,), (5,), 2)
    assert [Path(file.path).stat().st_size for file in (low, high)] == [low.size_bytes, high.size_bytes]
    assert [file.row_count for file in files_of_table(*table.travelled(snapshot_id=1))] == [2]


def test_a_branch_is_counted_as_it_is(tmp_path: Path) -> None:
    path = unpack("tags_branches", tmp_path) / "db.db" / "forwarded"
    table = FileStoreTable.open(path)
    assert count_rows(table, branch="dev") == table.to_arrow(branch="dev").num_rows
    assert all(Path(file.path).exists() for file in files_of_table(*table.travelled(branch="dev")))
    assert count_rows(table, tag="base") == table.to_arrow(tag="base").num_rows


def test_files_without_a_primary_key_have_no_key_range(tmp_path: Path) -> None:
    table = made(tmp_path, has_key=False)
    table.write(rows(1))
    (file,) = files_of_table(*table.travelled())
    assert (file.min_key, file.max_key, file.partition) == (None, None, {})
