"""The table by itself: create, open, write, overwrite, compact, time travel, other libraries."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.compact import buckets
from lakelog.filestore.compact.bucket_work import BucketWork
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_duckdb, to_polars
from tests.support.tables.small_tables import (
    SCHEMA,
    UNSYNCED,
    commit_batch,
    content,
    content_after,
    in_new_process,
    make_table,
    rows_of,
)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path, options={"write-only": "true"})


def data_files(table: FileStoreTable) -> set[str]:
    """Every data file on disk."""
    return {path.name for path in Path(table.path).glob("bucket-*/*")}


def live_names(table: FileStoreTable) -> set[str]:
    return {entry.file.file_name for entry in table.live_files.of(table.snapshots.latest()).entries()}


def test_a_table_is_opened_by_its_path_and_named_after_it(tmp_path: Path) -> None:
    made = FileStoreTable.create(tmp_path / "db.db" / "t", build_schema(SCHEMA, primary_keys=["id"]))
    found = FileStoreTable.open(f"{tmp_path}/db.db/t/")
    assert found == made
    assert found.name == "db.t"
    assert len(found.uuid) == 36
    assert found.bucket_count == 1


def test_a_folder_without_a_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="holds no table"):
        FileStoreTable.open(tmp_path)


def test_a_table_is_not_made_over_another(table: FileStoreTable) -> None:
    with pytest.raises(ConflictError, match="exists already"):
        FileStoreTable.create(table.path, table.schema)


def test_a_table_pickles_small_and_works_afterwards(table: FileStoreTable) -> None:
    for batch in range(5):
        table.write(rows_of(batch))
    content(table)
    pickled = pickle.dumps(table)
    assert len(pickled) < 2_000
    assert content(pickle.loads(pickled)) == content_after(5)


def test_written_rows_are_read_as_arrow_batches_polars_and_duckdb(table: FileStoreTable) -> None:
    table.write(rows_of(0))
    table.write(rows_of(1))
    arrow = table.to_arrow().sort_by("id")
    assert content(table) == content_after(2)
    assert pa.Table.from_batches(table.planned().batches()).sort_by("id").equals(arrow)
    assert to_polars(table).sort("id").collect().to_dicts() == arrow.to_pylist()
    relation = to_duckdb(table, where="id > 3")
    assert sorted(relation.fetchall()) == [(key, batch) for key, batch in content_after(2).items() if key > 3]
    assert table.to_arrow(columns=[]).num_rows == 9


def test_row_kinds_delete_and_update(table: FileStoreTable) -> None:
    table.write(rows_of(0, count=3))
    changes = pa.table([[0, 1, 1, 2], [9, 0, 9, 0]], schema=SCHEMA)
    table.write(changes, kinds=pa.array([2, 1, 2, 3], pa.int8()))
    assert content(table) == {0: 9, 1: 9}


def test_an_overwrite_replaces_all_rows(table: FileStoreTable) -> None:
    table.write(rows_of(0))
    snapshot = table.write(rows_of(5), mode="overwrite")
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert set(content(table).values()) == {5}
    assert snapshot.total_record_count == 6
    table.write(rows_of(0).slice(0, 0), mode="overwrite")
    assert content(table) == {}


def test_an_unknown_mode_is_refused(table: FileStoreTable) -> None:
    with pytest.raises(InvalidRequestError, match="'upsert' is not known"):
        table.write(rows_of(0), mode="upsert")  # type: ignore[arg-type]  # what the test is about


def test_snapshots_are_read_by_id_and_by_time(table: FileStoreTable) -> None:
    times = iter(range(1_000, 100_000, 1_000))
    clock = CommitClock(now_millis=lambda: next(times))
    snapshots = [table.write(rows_of(batch), clock=clock) for batch in range(3)]
    for count, snapshot in enumerate(snapshots, 1):
        for found in (
            table.to_arrow(snapshot_id=snapshot.id),
            table.to_arrow(timestamp=snapshot.time_millis + 1),
        ):
            assert dict(zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True)) == content_after(count)
    with pytest.raises(NotFoundError, match="1 to 3"):
        table.to_arrow(snapshot_id=4)
    with pytest.raises(NotFoundError, match="at or before 5"):
        table.to_arrow(timestamp=5)
    with pytest.raises(InvalidRequestError, match="each name a state of the table"):
        table.to_arrow(snapshot_id=1, timestamp=5)


def test_a_table_with_a_log_is_not_written_behind_its_back(tmp_path: Path) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"log.system": "kafka"}, also_prefixes=["log."])
    table = FileStoreTable.create(tmp_path / "t", schema)
    with pytest.raises(InvalidRequestError, match=r"log\.system=kafka"):
        table.write(rows_of(0))
    assert table.snapshots.latest() is None


def test_a_full_compaction_leaves_one_run_without_deletes(table: FileStoreTable) -> None:
    for batch in range(4):
        table.write(rows_of(batch))
    table.write(rows_of(0), kinds=pa.array([3] * 6, pa.int8()))
    before = content(table)
    snapshot = table.compact(full=True)
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert content(table) == before
    files = [entry.file for entry in table.live_files.of(snapshot).entries()]
    assert {(file.level, file.delete_row_count) for file in files} == {(5, 0)}
    assert snapshot.total_record_count == len(before)
    assert table.compact(full=True) is None


def test_a_compaction_keeps_sequence_numbers(table: FileStoreTable) -> None:
    for batch in range(3):
        table.write(rows_of(batch))
    live = table.live_files.of(table.snapshots.latest())
    expected = {bucket: live.next_sequence(BucketId(bytes(12), bucket)) for bucket in (0, 1)}
    compacted = table.live_files.of(table.compact(full=True))
    assert {bucket: compacted.next_sequence(BucketId(bytes(12), bucket)) for bucket in (0, 1)} == expected


def test_deletes_are_kept_while_older_rows_are_not_part_of_the_compaction(tmp_path: Path) -> None:
    options = {"write-only": "true", "bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(rows_of(0, count=400_000))
    table.compact(full=True)
    for batch in range(3):
        deletes = rows_of(batch, count=4)
        table.write(deletes, kinds=pa.array([3] * 4, pa.int8()))
    before = content(table)
    table.compact(full=False)
    files = [entry.file for entry in table.live_files.of(table.snapshots.latest()).entries()]
    assert sorted((file.level, file.delete_row_count) for file in files) == [(1, 8), (2, 0)]
    assert content(table) == before


def test_a_large_file_that_overlaps_nothing_only_changes_its_level(tmp_path: Path) -> None:
    options = {"write-only": "true", "bucket": "1", "target-file-size": "1 b"}
    schema = build_schema(SCHEMA, primary_keys=["id"], options=options)
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    table.write(rows_of(0))
    table.compact(full=True)
    lifted = live_names(table)
    for batch in range(10, 14):
        table.write(rows_of(batch))
    table.compact(full=False)
    table.compact(full=True)
    assert lifted < live_names(table)


def test_writes_compact_what_is_due_unless_the_table_is_write_only(tmp_path: Path) -> None:
    eager = make_table(tmp_path / "eager")
    lazy = make_table(tmp_path / "lazy", options={"write-only": "true"})
    for batch in range(12):
        eager.write(rows_of(batch))
        lazy.write(rows_of(batch))
    assert content(eager) == content(lazy) == content_after(12)
    assert len(live_names(lazy)) > 12
    runs = [entry for entry in eager.live_files.of(eager.snapshots.latest()).entries() if entry.bucket == 0]
    assert len(runs) <= 5


def test_a_compaction_that_fails_after_a_write_does_not_fail_the_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class NoReads(LocalFileIO):
        def open_input(self, path: str) -> pa.NativeFile:
            raise UnavailableError(f"{path}: no answer")

    path = make_table(tmp_path).path
    table = FileStoreTable.open(path, NoReads(sync_data=False))
    for batch in range(6):
        table.write(rows_of(batch))
    assert "the compaction after a write did not happen" in caplog.text
    assert content(in_new_process(path)) == content_after(6)


def test_the_rows_of_the_later_snapshot_win_whoever_prepared_first(table: FileStoreTable) -> None:
    rival = FileStoreTable.open(table.path, UNSYNCED)
    interrupted: list[bool] = []

    def write_rival_first() -> int:
        if not interrupted:
            interrupted.append(True)
            rival.write(pa.table([[1, 2], [100, 100]], schema=SCHEMA))
        return 1_000

    table.write(pa.table([[2, 3], [200, 200]], schema=SCHEMA), clock=CommitClock(now_millis=write_rival_first))
    assert content(table) == {1: 100, 2: 200, 3: 200}
    assert data_files(table) == live_names(table)


def test_an_overwrite_of_a_table_that_changed_meanwhile_is_a_conflict(table: FileStoreTable) -> None:
    table.write(rows_of(0))
    rival = FileStoreTable.open(table.path, UNSYNCED)
    interrupted: list[bool] = []

    def write_rival_first() -> int:
        if not interrupted:
            interrupted.append(True)
            rival.write(rows_of(1))
        return 1_000

    with pytest.raises(ConflictError, match="overwrite again"):
        table.write(rows_of(5), mode="overwrite", clock=CommitClock(now_millis=write_rival_first, sleep=lambda _: None))
    assert content(table) == content_after(2)
    assert data_files(table) == live_names(table)


def test_a_compaction_that_came_too_late_leaves_no_files(table: FileStoreTable) -> None:
    for batch in range(3):
        commit_batch(table, batch)
    rival = FileStoreTable.open(table.path, UNSYNCED)
    interrupted: list[bool] = []

    def compact_rival_first() -> int:
        if not interrupted:
            interrupted.append(True)
            rival.compact(full=True)
        return 1_000

    with pytest.raises(ConflictError, match="no longer live"):
        table.compact(full=True, clock=CommitClock(now_millis=compact_rival_first, sleep=lambda _: None))
    assert content(table) == content_after(3)
    assert live_names(rival) <= data_files(table)
    assert len(data_files(table)) == 6 + 2  # six of the batches, two of the winner


def test_files_that_an_unknown_commit_may_name_are_kept(tmp_path: Path) -> None:
    class Silent(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            if "/snapshot/" in path:
                raise UnavailableError(f"{path}: no answer")
            return super().create_new(path, data)

    table = FileStoreTable.open(make_table(tmp_path).path, Silent(sync_data=False))
    with pytest.raises(UnknownOutcomeError, match="11 attempts got no answer"):
        table.write(rows_of(0), clock=CommitClock(sleep=lambda _: None))
    assert len(data_files(table)) == 2


def test_a_local_file_elsewhere_is_found_by_the_path_that_java_writes(tmp_path: Path) -> None:
    table = FileStoreTable.create(tmp_path / "t", build_schema(pa.schema({"v": pa.int64()})))
    table.write(pa.table({"v": pa.array([1], pa.int64())}))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    (entry,) = table.live_files.of(snapshot).entries()
    for path in ("file:/other folder/x.parquet", "file:///other folder/x.parquet"):
        elsewhere = replace(entry.file, external_path=path)
        assert table.data_path(entry.bucket_id, elsewhere) == "/other folder/x.parquet"


def test_buckets_with_much_to_merge_are_compacted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "THREADED_BYTES_MIN", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    threads: set[str] = set()
    budgets: set[int | None] = set()

    def watched(table: TableStore, work: BucketWork, *, memory_budget_bytes: int | None = None) -> CompactResult | None:
        threads.add(threading.current_thread().name)
        budgets.add(memory_budget_bytes)
        return compact_bucket(table, work, memory_budget_bytes=memory_budget_bytes)

    monkeypatch.setattr(buckets, "compact_bucket", watched)
    options = {"bucket": "4", "write-only": "true", "read.memory-budget": "64 mb"}
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA, primary_keys=["id"], options=options))
    for batch in range(6):
        table.write(rows_of(batch, count=100))
    before = table.to_arrow().sort_by("id")
    assert before["id"].to_pylist() == list(range(350))
    assert table.compact(full=True) is not None
    assert table.to_arrow().sort_by("id").equals(before)
    live = table.live_files.of(table.snapshots.latest()).entries()
    assert sorted(entry.bucket for entry in live) == [0, 1, 2, 3]
    assert all(name.startswith("lakelog-compact") for name in threads)
    assert budgets == {16 << 20}
