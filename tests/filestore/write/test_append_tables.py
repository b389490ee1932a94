"""Tables without primary key: every row stays, in the order in which it came."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.compact.picking import pick_small_files
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from tests.support.files.data_files import plain_file

UNSYNCED = LocalFileIO(sync_data=False)
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string()), pa.field("v", pa.float64())])
MODES: dict[str, tuple[dict[str, str], list[str]]] = {
    "no buckets": ({"bucket": "-1"}, []),
    "buckets": ({"bucket": "3", "bucket-key": "id"}, []),
    "partitions": ({"bucket": "-1"}, ["day"]),
    "both": ({"bucket": "2", "bucket-key": "id"}, ["day"]),
    "both, whole rows": ({"bucket": "2"}, ["day"]),
}


def make(folder: Path, mode: str, **options: str) -> FileStoreTable:
    given_options, partitions = MODES[mode]
    schema = build_schema(SCHEMA, partition_keys=partitions, options={**given_options, **options})
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def rows_of(batch: int, *, count: int = 20) -> pa.Table:
    """Rows of which some are equal to each other, with null keys and null partitions."""
    numbers = [batch * count + index for index in range(count)]
    ids = [None if number % 7 == 0 else number % 5 for number in numbers]
    days = [None if number % 6 == 0 else f"d{number % 3}" for number in numbers]
    return pa.table([ids, days, [float(number // 2) for number in numbers]], schema=SCHEMA)


def multiset(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def live(table: FileStoreTable) -> list[DataFileMeta]:
    return [entry.file for entry in table.live_files.of(table.snapshots.latest()).entries()]


@pytest.mark.parametrize("mode", MODES)
def test_every_row_stays_also_equal_ones(tmp_path: Path, mode: str) -> None:
    table = make(tmp_path, mode, **{"write-only": "true"})
    batches = [rows_of(batch) for batch in (0, 1, 1)]
    for rows in batches:
        table.write(rows)
    assert multiset(table.to_arrow()) == multiset(pa.concat_tables(batches))
    found = table.to_arrow(where="id = 3 and day = 'd1'")
    assert multiset(found) == {row: n for row, n in multiset(table.to_arrow()).items() if row[:2] == (3, "d1")}
    for file in live(table):
        assert (file.level, file.min_key, file.max_key, file.key_stats) == (0, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)


@pytest.mark.parametrize("mode", MODES)
def test_a_compaction_keeps_rows_and_their_order(tmp_path: Path, mode: str) -> None:
    table = make(tmp_path, mode, **{"write-only": "true"})
    for batch in range(4):
        table.write(rows_of(batch))
    before = {bucket: in_order(table, bucket) for bucket in buckets(table)}
    files = len(live(table))
    assert table.compact(full=True) is not None
    assert len(live(table)) == len(before) < files
    assert {bucket: in_order(table, bucket) for bucket in buckets(table)} == before
    assert table.compact(full=True) is None
    table.write(rows_of(4))
    assert table.to_arrow().num_rows == 100


def buckets(table: FileStoreTable) -> list[BucketId]:
    return sorted(table.live_files.of(table.snapshots.latest()).buckets)


def in_order(table: FileStoreTable, bucket: BucketId) -> list[dict[str, object]]:
    """The rows of a bucket as its files hold them, by their sequence numbers."""
    files = table.live_files.of(table.snapshots.latest()).files(bucket)
    ordered = sorted(files, key=lambda file: file.min_sequence_number)
    tables = [pq.read_table(table.data_path(bucket, file)) for file in ordered]
    assert all(one.column_names == SCHEMA.names for one in tables)
    return [row for one in tables for row in one.to_pylist()]


def test_writes_join_small_files_when_there_are_enough(tmp_path: Path) -> None:
    table = make(tmp_path, "no buckets")
    for batch in range(12):
        table.write(rows_of(batch))
        assert len(live(table)) < 5
    assert multiset(table.to_arrow()) == multiset(pa.concat_tables([rows_of(batch) for batch in range(12)]))


def test_an_overwrite_replaces_all_rows(tmp_path: Path) -> None:
    table = make(tmp_path, "both")
    table.write(rows_of(0))
    table.write(rows_of(1), mode="overwrite")
    assert multiset(table.to_arrow()) == multiset(rows_of(1))
    assert multiset(table.to_arrow(snapshot_id=1)) == multiset(rows_of(0))


def test_changes_are_inserts(tmp_path: Path) -> None:
    table = make(tmp_path, "no buckets")
    for batch in range(2):
        table.write(rows_of(batch))
    changes = pa.Table.from_batches(changes_of(table, after=1))
    assert changes.column("_row_kind").to_pylist() == ["+I"] * 20
    assert changes.drop_columns(["_row_kind"]).to_pylist() == rows_of(1).to_pylist()


def test_a_delete_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = make(tmp_path, "no buckets")
    with pytest.raises(InvalidRequestError, match=r"has no primary key and takes inserts only, found a -D"):
        table.write(rows_of(0, count=3), kinds=pa.array([0, 3, 0], pa.int8()))
    assert table.snapshots.latest() is None
    assert not list(Path(table.path).glob("bucket-*"))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.booleans(), max_size=12), st.integers(2, 4))
def test_only_small_neighbours_are_joined(are_small: list[bool], count_min: int) -> None:
    files = [
        replace(
            plain_file(f"f{number}"),
            min_sequence_number=number,
            max_sequence_number=number,
            file_size_bytes=10 if is_small else 100,
        )
        for number, is_small in enumerate(are_small)
    ]
    unit = pick_small_files(list(reversed(files)), small_bytes=50, count_min=count_min)
    texts = "".join("s" if is_small else "L" for is_small in are_small)
    if unit is None:
        assert "s" * count_min not in texts
        return
    taken = [int(file.file_name[1:]) for run in unit.inputs for file in run.files]
    assert len(taken) >= count_min
    assert taken == list(range(taken[0], taken[-1] + 1))
    assert set(texts[taken[0] : taken[-1] + 1]) == {"s"}
