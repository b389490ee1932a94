"""System tables: their names, columns and the snapshot that they show."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.manifests.manifest import COLUMNS_CACHE, ENTRY_CACHE
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import open_system_table
from lakelog.filestore.system.live_columns import live_columns
from lakelog.filestore.system.system_columns import SYSTEM_COLUMNS
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import make_table, rows_of

COUNT = ["record_count", "file_count"]


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Three commits of six rows in two buckets; the second one is tagged."""
    made = make_table(tmp_path)
    for batch in range(3):
        made.write(rows_of(batch))
        if batch == 1:
            tagged = json.loads((tmp_path / "t/snapshot/snapshot-2").read_text())
            tag = tagged | {"lakelogTag": "second", "tagCreateTime": [2026, 1, 31, 12, 0], "tagTimeRetained": 86400.0}
            (tmp_path / "t/tag").mkdir()
            (tmp_path / "t/tag/tag-second").write_text(json.dumps(tag))
    return made


@pytest.mark.parametrize("name", SYSTEM_COLUMNS)
def test_a_system_table_has_its_columns_with_and_without_rows(tmp_path: Path, table: FileStoreTable, name: str) -> None:
    empty = make_table(tmp_path / "empty")
    for one in (table, empty):
        found = open_system_table(one, name)
        assert found.to_arrow().schema == found.schema
        assert found.schema.names == [field.name for field in SYSTEM_COLUMNS[name]]


def test_files_show_the_snapshot_that_is_named(table: FileStoreTable) -> None:
    by_snapshot = [open_system_table(table, "files", snapshot_id=number).to_arrow().num_rows for number in (1, 2, 3)]
    assert by_snapshot == [2, 4, 6]
    assert (
        open_system_table(table, "files", tag="second").to_arrow()
        == open_system_table(table, "files", snapshot_id=2).to_arrow()
    )


def test_columns_and_a_condition_choose_what_is_shown(table: FileStoreTable) -> None:
    found = open_system_table(table, "files").to_arrow(
        columns=["bucket"], where="bucket = 1 AND min_sequence_number > 0"
    )
    assert found.to_pylist() == [{"bucket": 1}] * 2


def test_buckets_and_partitions_sum_their_files(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
    schema = build_schema(
        columns, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "2", "write-only": "true"}
    )
    table = FileStoreTable.create(tmp_path / "t", schema)
    for _ in range(2):
        table.write(pa.table({"day": ["a", "a", "a", "b"], "id": [1, 2, 3, 1]}, schema=columns))
    frame = (
        open_system_table(table, "partitions")
        .to_polars()
        .select("partition", *COUNT, "total_buckets", "done")
        .collect()
    )
    files = open_system_table(table, "files").to_arrow()
    assert frame.to_dicts()[1] == {
        "partition": "day=b", "record_count": 2, "file_count": 2, "total_buckets": 2, "done": False,
    }  # fmt: skip
    assert frame["record_count"].sum() == 8
    assert frame["file_count"].sum() == files.num_rows
    buckets = open_system_table(table, "buckets").to_polars().collect()
    assert (
        buckets.group_by("partition").agg(pl.col(COUNT).sum()).sort("partition").to_dicts()
        == frame.select("partition", *COUNT).to_dicts()
    )


def test_a_tag_shows_when_it_was_made_and_how_long_it_is_kept(table: FileStoreTable) -> None:
    (row,) = open_system_table(table, "tags").to_arrow().to_pylist()
    assert (row["tag_name"], row["snapshot_id"], row["tagged_snapshot_id"]) == ("second", 2, 2)
    assert row["time_retained"] == "PT24H"
    assert row["create_time"] == datetime(2026, 1, 31, 12).astimezone(UTC).replace(tzinfo=None)


def test_an_unknown_system_table_names_the_nearest(table: FileStoreTable) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'snapshots'"):
        open_system_table(table, "snapshot")


def test_a_system_table_without_a_snapshot_takes_none(table: FileStoreTable) -> None:
    with pytest.raises(InvalidRequestError, match="shows no single snapshot: leave out snapshot_id"):
        open_system_table(table, "snapshots", snapshot_id=1)


def test_an_unknown_column_names_those_that_exist(table: FileStoreTable) -> None:
    with pytest.raises(InvalidRequestError, match="has no column size; its columns are partition"):
        open_system_table(table, "files").to_arrow(columns=["size"])


def test_manifests_that_delete_what_was_not_added_are_an_error(table: FileStoreTable) -> None:
    """Compact, so that files are deleted, and read the last delta alone."""
    compacted = table.compact(full=True)
    assert compacted is not None
    first = table.snapshots.get(1)
    alone = replace(
        compacted,
        base_manifest_list=first.base_manifest_list,
        base_manifest_list_size=first.base_manifest_list_size,
    )
    with pytest.raises(CorruptDataError, match="contradict each other"):
        live_columns(table, alone)


def test_columns_of_manifests_and_entries_one_by_one_are_the_same_files(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.compact(full=True)
    by_columns = open_system_table(table, "files").to_arrow()
    monkeypatch.setattr("lakelog.filestore.metadata.manifests.manifest.decode_columns", lambda data, path: None)
    COLUMNS_CACHE.clear()
    ENTRY_CACHE.clear()
    assert open_system_table(table, "files").to_arrow() == by_columns
