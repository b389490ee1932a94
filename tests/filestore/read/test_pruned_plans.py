"""Plans that read few manifests, cut buckets into splits by size, and row groups that are left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.data.row_groups import RowFilter, groups_left
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.metadata.manifests.manifest import ENTRY_CACHE
from lakelog.filestore.metadata.snapshots import live_files
from lakelog.filestore.predicate import bind, parse_where
from lakelog.filestore.read.scan import Plan, plan_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.files.local_files import local_file
from tests.support.tables.small_tables import UNSYNCED, in_new_process

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.int32()), pa.field("x", pa.float64())])
DAYS = 6


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Six days, one commit and so one manifest each; the third was compacted, which deletes a file of its manifest."""
    options = {"bucket": "2", "write-only": "true"}
    schema = build_schema(SCHEMA, primary_keys=["id", "day"], partition_keys=["day"], options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for day in range(DAYS):
        table.write(rows_of(day))
    table.write(rows_of(2))
    table.compact(full=True)
    return table


def rows_of(day: int) -> pa.Table:
    return pa.table([range(10), [day] * 10, [float(day)] * 10], schema=SCHEMA)


def names_of(planned: Plan) -> set[str]:
    return {file.file_name for split in planned.splits for file in split.files}


@pytest.mark.parametrize("where", ["day = 2", "day > 3 and id = 4", "day in (0, 5)", "day = 9", "day = 2 or id = 3"])
def test_a_plan_from_few_manifests_is_that_from_all(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    whole = names_of(plan_splits(table, table.snapshots.latest(), where=parse_where(where)))
    monkeypatch.setattr(live_files, "_WHOLE_MAX", 0)
    stranger = in_new_process(table.path)
    assert names_of(plan_splits(stranger, stranger.snapshots.latest(), where=parse_where(where))) == whole


def test_the_buckets_that_are_asked_for_are_planned_from_few_manifests_too(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = names_of(plan_splits(table, table.snapshots.latest(), buckets={1}))
    monkeypatch.setattr(live_files, "_WHOLE_MAX", 0)
    stranger = in_new_process(table.path)
    assert names_of(plan_splits(stranger, stranger.snapshots.latest(), buckets={1})) == whole


def test_manifests_without_a_wanted_partition_are_not_read(table: FileStoreTable) -> None:
    in_new_process(table.path)
    counting = FaultyFileIO(UNSYNCED)
    stranger = FileStoreTable.open(table.path, counting)
    snapshot = stranger.snapshots.latest()
    assert snapshot is not None
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    count = sum(len(stranger.manifests.read_list(name)) for name in lists)
    counting.calls.clear()
    plan_splits(stranger, snapshot, where=parse_where("day = 5"))
    assert counting.calls.count("read_bytes") <= 2 < count
    counting.calls.clear()
    plan_splits(stranger, snapshot, where=parse_where("day = 5"))
    assert counting.calls == []  # remembered, though the rest of the table is not known


def test_another_table_object_reads_no_manifest_again(table: FileStoreTable) -> None:
    plan_splits(table, table.snapshots.latest())
    counting = FaultyFileIO(UNSYNCED)
    other = FileStoreTable.open(table.path, counting)
    snapshot = other.snapshots.latest()
    counting.calls.clear()
    plan_splits(other, snapshot)
    assert counting.calls == []
    assert ENTRY_CACHE.size_bytes > 0


@pytest.mark.parametrize(
    ("options", "splits"),
    [({}, 1), ({"source.split.target-size": "1 b"}, 5), ({"source.split.open-file-cost": "64 mb"}, 3)],
)
def test_a_bucket_is_cut_into_splits_by_size(tmp_path: Path, options: dict[str, str], splits: int) -> None:
    fixed = {"bucket": "1", "write-only": "true", **options}
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=fixed), UNSYNCED)
    for start in range(0, 50, 10):  # level 0: each section is one file
        table.write(pa.table([range(start, start + 10), [0] * 10, [0.0] * 10], schema=SCHEMA))
    planned = plan_splits(table, table.snapshots.latest())
    assert len(planned.splits) == splits
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(50))
    table.write(pa.table([[5, 15], [1, 1], [0.0, 0.0]], schema=SCHEMA))  # these two sections are one now
    together = [split for split in plan_splits(table, table.snapshots.latest()).splits if len(split.files) >= 3]
    assert together
    assert table.to_arrow().num_rows == 50


@pytest.mark.parametrize(
    ("where", "names", "left"),
    [
        ("id = 25", None, [2]),
        ("id >= 15 and id < 25", None, [1, 2]),
        ("id = 25 or x = 0", {"id"}, [0, 1, 2, 3]),
        ("id = 25 and x = 0", {"id"}, [2]),
        ("x < 0", None, []),
        ("x > 1000", None, [0, 1, 2, 3]),  # NaN is more than any number, and files of others do not tell where it is
        ("day is null", None, [3]),
    ],
)
def test_row_groups_are_left_out_by_their_statistics(
    tmp_path: Path, where: str, names: set[str] | None, left: list[int]
) -> None:
    options = {"bucket": "1", "write-only": "true", "file.block-size": "200 b"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=options), UNSYNCED)
    x = [float(key) for key in range(40)]
    table.write(pa.table([range(40), [None if key >= 30 else 1 for key in range(40)], x], schema=SCHEMA))
    (split,) = plan_splits(table, table.snapshots.latest()).splits
    fields = table.schema.fields
    with ParquetFile(local_file(table.data_path(split.bucket_id, split.files[0]))) as file:
        counts = [rows for rows, _ in file.row_groups]
        rows = RowFilter(bound=bind(parse_where(where), fields), names=names)
        found = groups_left(file, rows, fields, fields)
    starts = [sum(counts[:group]) for group in found]
    assert {start // 10 for start in starts} | {(start + counts[0] - 1) // 10 for start in starts} >= set(left)
    assert len(found) <= len(counts) * (len(left) + 1) // 4


def test_deleted_positions_are_right_where_row_groups_are_left_out(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "file.block-size": "200 b", "deletion-vectors.enabled": "true"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=options), UNSYNCED)
    table.write(pa.table([range(100), [1] * 100, [0.0] * 100], schema=SCHEMA))
    table.compact(full=True)
    gone = pa.table([[3, 55, 71], [1] * 3, [0.0] * 3], schema=SCHEMA)
    table.write(gone, kinds=pa.array([3] * 3, pa.int8()))
    table.compact(full=False)
    for low, high in ((0, 10), (50, 60), (70, 100)):
        found = table.to_arrow(where=f"id >= {low} and id < {high}")["id"].to_pylist()
        assert sorted(found) == sorted(
            table.to_arrow().filter(pa.compute.field("id").isin(range(low, high)))["id"].to_pylist()
        )
