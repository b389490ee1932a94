"""Plans: which files a read looks at, and the live files behind them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables import small_tables
from tests.support.tables.small_tables import (
    UNSYNCED,
    altered_by_others,
    append_anyhow,
    commit_batch,
    content,
    content_after,
    in_new_process,
    make_table,
)

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string()), pa.field("v", pa.int32())])


@pytest.fixture
def partitioned(tmp_path: Path) -> FileStoreTable:
    """Two days of 100 ids each, in three buckets."""
    schema = build_schema(
        SCHEMA, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": "3", "write-only": "true"}
    )
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for day in ("mon", "tue"):
        table.write(pa.table([range(100), [day] * 100, range(100)], schema=SCHEMA))
    return table


def planned_files(table: FileStoreTable, where: str) -> int:
    planned = plan_splits(table, table.snapshots.latest(), where=parse_where(where))
    return sum(len(split.files) for split in planned.splits)


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("v = 7", 6),
        ("day = 'mon'", 3),
        ("day > 'mon' and day <= 'wed'", 3),
        ("day in ('sun', 'sat')", 0),
        ("id = 7", 2),
        ("id = 7 and day = 'tue'", 1),
        ("id in (7) or day = 'mon'", 6),
        ("id > 1000", 0),
        ("id < 0 or v = 1", 4),  # the ids of a bucket of three begin at 2, and v with them
        ("v > 1000", 0),
        ("v is null", 0),
        ("false", 0),
    ],
)
def test_a_filter_skips_partitions_buckets_and_key_ranges(partitioned: FileStoreTable, where: str, files: int) -> None:
    assert planned_files(partitioned, where) == files


def test_a_filter_gives_the_rows_that_pass_and_only_the_columns_asked_for(partitioned: FileStoreTable) -> None:
    found = partitioned.to_arrow(where="id between 3 and 5 and day = 'mon' and v <> 4", columns=["day", "id"])
    assert found.column_names == ["day", "id"]
    assert sorted(found["id"].to_pylist()) == [3, 5]
    assert set(found["day"].to_pylist()) == {"mon"}


def test_the_buckets_of_a_plan_can_be_chosen(partitioned: FileStoreTable) -> None:
    planned = plan_splits(partitioned, partitioned.snapshots.latest(), buckets={0, 2})
    assert {split.bucket_id.number for split in planned.splits} == {0, 2}


def test_a_plan_of_no_snapshot_has_no_splits(tmp_path: Path) -> None:
    assert plan_splits(make_table(tmp_path), None).splits == ()
    assert make_table(tmp_path / "u").to_arrow().num_rows == 0


def test_files_that_share_keys_are_in_one_split_and_the_others_are_raw(tmp_path: Path) -> None:
    options = {"bucket": "1", "target-file-size": "1 b", "write-only": "true"}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for start in (0, 100, 200):
        table.write(pa.table([range(start, start + 10), ["mon"] * 10, range(10)], schema=SCHEMA))
        table.compact(full=True)
    table.write(pa.table([[105], ["tue"], [0]], schema=SCHEMA))
    splits = plan_splits(table, table.snapshots.latest()).splits
    assert [(split.raw_convertible, len(split.files)) for split in splits] == [(True, 2), (False, 2)]
    assert sum(split.row_count for split in splits) == 31
    assert table.to_arrow().num_rows == 30


@pytest.mark.parametrize("where", ["nothing = 1", "id = 'x'"])
def test_a_filter_that_does_not_fit_is_refused_before_reading(partitioned: FileStoreTable, where: str) -> None:
    with pytest.raises(InvalidRequestError):
        partitioned.planned(where=where).batches()
    with pytest.raises(InvalidRequestError, match="column 'w' does not exist"):
        partitioned.planned(columns=["w"]).batches()


def test_live_files_made_step_by_step_are_those_read_anew(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"manifest.merge-min-count": "3"})
    follower = FileStoreTable.open(table.path, UNSYNCED)
    for batch in range(12):
        commit_batch(table, batch)
        if batch % 4 == 3:
            table.compact(full=True)
        if batch % 3 == 0:
            latest = follower.snapshots.latest()
            assert follower.live_files.of(latest) == in_new_process(table.path).live_files.of(latest)


def test_a_known_state_is_brought_up_to_date_from_the_deltas_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    counting = FaultyFileIO(UNSYNCED)
    follower = FileStoreTable.open(table.path, counting)
    for batch in range(3):
        commit_batch(table, batch)
    follower.live_files.of(follower.snapshots.latest())
    commit_batch(table, 3)
    latest = follower.snapshots.latest()
    counting.calls.clear()
    assert follower.live_files.of(latest) == table.live_files.of(latest)
    assert len(counting.calls) <= 3  # the state's own snapshot, the delta list, its manifest


@pytest.mark.parametrize("batches", [(12, 13), (12, 13, 14)], ids=str)
def test_a_history_written_anew_after_a_rollback_is_seen(tmp_path: Path, batches: tuple[int, ...]) -> None:
    table = make_table(tmp_path)
    for batch in range(4):
        commit_batch(table, batch)
    follower = FileStoreTable.open(table.path, UNSYNCED)
    assert content(follower) == content_after(4)
    for snapshot_id in (4, 3):
        UNSYNCED.delete(table.paths.snapshot(snapshot_id))
    table.snapshots.write_latest_hint(2)
    rewriter = in_new_process(table.path)
    for batch in batches:
        commit_batch(rewriter, batch, user="other")
    found = content(rewriter)
    assert set(found.values()) == {0, 1, *batches}
    assert content(follower) == found


def test_a_state_that_contradicts_itself_is_corrupt(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    live = table.live_files.of(table.snapshots.latest())
    entry = next(live.entries())
    with pytest.raises(CorruptDataError, match="added twice"):
        live.apply([entry])
    gone = [type(entry)(**{**{name: getattr(entry, name) for name in entry.__slots__}, "kind": FileKind.DELETE})]
    with pytest.raises(CorruptDataError, match="never added"):
        live.apply(gone * 2)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_are_ordered_by_sequence_numbers_where_files_mix_them(tmp_path: Path, is_compacted: bool) -> None:
    table = make_table(tmp_path, options={"write-only": "true", "bucket": "1"})
    long = pa.table([[*range(100), 200], [1] * 101], schema=small_tables.SCHEMA)  # id 0 has number 0, id 200 has 100
    short = pa.table([[0, 200], [2, 2]], schema=small_tables.SCHEMA)  # numbers 50 and 51
    for rows, first in ((short, 50), (long, 0)):
        entries = write_rows(table, rows, first_sequence={BucketId(bytes(12), 0): first}).entries
        append_anyhow(table, entries)
    if is_compacted:
        table.compact(full=True)
    found = content(table)
    assert (found[0], found[200], len(found)) == (2, 1, 101)


def test_a_missing_file_is_named(partitioned: FileStoreTable) -> None:
    split = plan_splits(partitioned, partitioned.snapshots.latest()).splits[0]
    path = partitioned.data_path(split.bucket_id, split.files[0])
    UNSYNCED.delete(path)
    with pytest.raises(NotFoundError, match="expired meanwhile"):
        list(read_splits(partitioned, [split]))


def test_a_damaged_file_is_an_error_and_never_wrong_rows(partitioned: FileStoreTable) -> None:
    split = plan_splits(partitioned, partitioned.snapshots.latest()).splits[0]
    path = Path(partitioned.data_path(split.bucket_id, split.files[0]))
    whole = path.read_bytes()
    right = sorted(map(str, pa.Table.from_batches(read_splits(partitioned, [split])).to_pylist()))
    for at in range(4, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            rows = pa.Table.from_batches(read_splits(partitioned, [split]), partitioned.schema.arrow_schema)
        except CorruptDataError:
            continue
        assert sorted(map(str, rows.to_pylist())) == right


def test_a_file_with_fewer_rows_than_the_table_says_is_corrupt(partitioned: FileStoreTable) -> None:
    first, second = plan_splits(partitioned, partitioned.snapshots.latest()).splits[:2]
    paths = [partitioned.data_path(split.bucket_id, split.files[0]) for split in (first, second)]
    UNSYNCED.write_bytes(paths[0], UNSYNCED.read_bytes(paths[1]))
    with pytest.raises(CorruptDataError, match="expected"):
        list(read_splits(partitioned, [first]))


def test_tables_whose_rows_cannot_be_read_correctly_are_refused(partitioned: FileStoreTable) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "theta_sketch"}
    text = altered_by_others(partitioned.schema, **options)
    UNSYNCED.write_bytes(partitioned.paths.schema(0), text.encode())
    with pytest.raises(UnsupportedError, match="aggregate function 'theta_sketch'"):
        FileStoreTable.open(partitioned.path).to_arrow()
