"""Compaction beside a stream, without Spark: when it is due, and what the end of a stream leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.filestore.compact.bucket_work import BucketWork
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from lakelog.protocol.state.state import Batch
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.spark.compaction import compaction, unit_runs
from lakelog.spark.compaction.compaction import BackgroundCompaction
from tests.support.tables.small_tables import (
    append_rows,
    commit_batch,
    content,
    content_after,
    make_table,
    prepare_batch,
    rows_of,
)

NO_PARTITION = bytes(12)
LITTLE_TO_SETTLE = {"compaction.settling-size-amplification-percent": "1000"}  # the end of a stream merges nothing
BASE_ROWS = 20_000
TRIGGERS = {"num-sorted-run.compaction-trigger": "3", "num-sorted-run.settling-trigger": "8"}


def table_of(beside: BackgroundCompaction) -> FileStoreTable:
    table = beside.snapshots.table
    assert isinstance(table, FileStoreTable)
    return table


def run_counts(beside: BackgroundCompaction) -> list[int]:
    table = table_of(beside)
    live = table.live_files.of(table.snapshots.latest())
    return [len(runs_of(live.files(bucket), table.key_types)) for bucket in sorted(live.buckets)]


def write(beside: BackgroundCompaction, number: int, *, is_settled_later: bool) -> None:
    """A batch of a stream: its files, then the compaction beside it, waited for."""
    table = table_of(beside)
    files = Counter(entry.bucket_id for entry in prepare_batch(table, number))
    snapshot = commit_batch(table, number)
    batch = Batch(user="job", identifier=number, source_digest=None)
    live = table.live_files.of(snapshot)
    beside.after_batch(batch, files, live, is_settled_later=is_settled_later)
    beside.wait()


@pytest.fixture
def beside(tmp_path: Path) -> BackgroundCompaction:
    return BackgroundCompaction(DriverSnapshots(make_table(tmp_path, options=TRIGGERS), None))


def test_a_stream_without_end_is_compacted_at_the_trigger(beside: BackgroundCompaction) -> None:
    for number in range(9):
        write(beside, number, is_settled_later=False)
        assert max(run_counts(beside)) <= 3
    assert content(table_of(beside)) == content_after(9)


def test_runs_of_a_stream_that_ends_by_itself_pile_up_and_are_merged_at_its_end(beside: BackgroundCompaction) -> None:
    for number in range(7):
        write(beside, number, is_settled_later=True)
        assert max(run_counts(beside)) == number + 1
    beside.settle()
    assert run_counts(beside) == [1, 1]
    assert content(table_of(beside)) == content_after(7)


def test_runs_pile_up_to_the_settling_trigger_at_most(beside: BackgroundCompaction) -> None:
    for number in range(12):
        write(beside, number, is_settled_later=True)
        assert max(run_counts(beside)) <= 8
    assert content(table_of(beside)) == content_after(12)


def test_the_end_of_a_stream_leaves_out_what_is_due_and_merges_once(
    beside: BackgroundCompaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        write(beside, number, is_settled_later=False)
    table = table_of(beside)
    commit_batch(table, 2)
    live = table.live_files.of(table.snapshots.latest())
    merged: list[int] = []
    begin = compaction._stand_back

    def note(of: TableStore, work: BucketWork, *, memory_budget_bytes: int) -> object:
        merged.append(work.bucket.number)
        return compact_bucket(of, work, memory_budget_bytes=memory_budget_bytes)

    def settle_first() -> None:
        beside._settling_count += 1  # the stream ends just now
        begin()

    monkeypatch.setattr("lakelog.spark.compaction.unit_runs.compact_bucket", note)
    monkeypatch.setattr(compaction, "_stand_back", settle_first)
    last = Batch(user="job", identifier=2, source_digest=None)
    files = Counter(BucketId(NO_PARTITION, bucket) for bucket in range(2))
    beside.after_batch(last, files, live, is_settled_later=False)
    beside.wait()
    assert not merged
    beside._settling_count = 0
    beside.settle()
    assert sorted(merged) == [0, 1]
    assert run_counts(beside) == [1, 1]
    assert content(table_of(beside)) == content_after(3)


def test_buckets_that_are_merged_at_once_share_the_memory_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    table = make_table(tmp_path, options={"read.memory-budget": "64 mb", **TRIGGERS})
    budgets: list[int] = []

    def note(of: TableStore, work: BucketWork, *, memory_budget_bytes: int) -> object:
        budgets.append(memory_budget_bytes)
        return compact_bucket(of, work, memory_budget_bytes=memory_budget_bytes)

    monkeypatch.setattr("lakelog.spark.compaction.unit_runs.compact_bucket", note)
    beside = BackgroundCompaction(DriverSnapshots(table, None))
    for number in range(7):
        write(beside, number, is_settled_later=True)
    beside.settle()
    assert run_counts(beside) == [1, 1]
    assert budgets == [32 << 20, 32 << 20]


def end_before_compaction(beside: BackgroundCompaction, number: int) -> None:
    """A batch of a stream that ends before the compaction beside it has begun."""
    beside._settling_count += 1
    write(beside, number, is_settled_later=True)
    beside._settling_count -= 1
    beside.settle()


@pytest.mark.parametrize("options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}])
def test_the_end_of_a_stream_shows_rows_that_only_a_compaction_shows(tmp_path: Path, options: dict[str, str]) -> None:
    table = make_table(tmp_path, options={**LITTLE_TO_SETTLE, **options})
    table.write(rows_of(1))
    beside = BackgroundCompaction(DriverSnapshots(table, None))
    end_before_compaction(beside, 0)
    assert {row["id"] for row in table.to_arrow().to_pylist()} >= set(range(6))


@pytest.mark.parametrize("is_replay", [True, False])
@pytest.mark.parametrize(
    "options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {"changelog-producer": "lookup"}]
)
def test_what_a_killed_process_has_not_compacted_is_taken_up_by_the_next(
    tmp_path: Path, options: dict[str, str], is_replay: bool
) -> None:
    """Which runs its last batch again, or finds no batch."""
    table = make_table(tmp_path, options={**LITTLE_TO_SETTLE, **options})
    commit_batch(table, 0)
    beside = BackgroundCompaction(DriverSnapshots(FileStoreTable.open(table.path), None))
    if is_replay:
        live = table.live_files.of(table.snapshots.latest())
        beside.after_batch(Batch(user="job", identifier=0, source_digest=None), Counter(), live, is_settled_later=False)
        beside.wait()
    else:
        beside.settle()
    assert {entry.file.level for entry in table.live_files.of(table.snapshots.latest()).entries()} == {5}
    assert content(table) == content_after(1)


def test_a_compaction_that_failed_is_made_up_for_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, options={"deletion-vectors.enabled": "true"})
    beside = BackgroundCompaction(DriverSnapshots(table, None))

    def fail(*_: object, **__: object) -> None:
        raise UnavailableError("the store is away")

    with monkeypatch.context() as failing:
        failing.setattr(unit_runs, "compact_bucket", fail)
        write(beside, 0, is_settled_later=False)
    assert content(table) == {}
    live = table.live_files.of(table.snapshots.latest())
    beside.after_batch(Batch(user="job", identifier=1, source_digest=None), Counter(), live, is_settled_later=False)
    beside.wait()
    assert content(table) == content_after(1)


def test_a_bucket_that_cannot_be_merged_leaves_the_others_merged(
    beside: BackgroundCompaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    def but_one(of: TableStore, work: BucketWork, *, memory_budget_bytes: int) -> object:
        if work.bucket.number == 0:
            raise UnavailableError("the store is away")
        return compact_bucket(of, work, memory_budget_bytes=memory_budget_bytes)

    monkeypatch.setattr(unit_runs, "compact_bucket", but_one)
    for number in range(5):
        write(beside, number, is_settled_later=True)
    beside.settle()
    assert run_counts(beside) == [5, 1]
    assert content(table_of(beside)) == content_after(5)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_end_of_a_stream_writes_the_changes_of_its_last_batch(tmp_path: Path, producer: str) -> None:
    table = make_table(tmp_path, options={**LITTLE_TO_SETTLE, "changelog-producer": producer})
    table.write(rows_of(1))
    beside = BackgroundCompaction(DriverSnapshots(table, None))
    end_before_compaction(beside, 0)
    told = {row["id"] for batch in changes(table) for row in batch.to_pylist()}
    assert told >= set(range(6))


def test_the_end_of_a_stream_marks_rows_of_the_base_where_reads_need_not_merge(tmp_path: Path) -> None:
    """A table with deletion vectors: the base is not written anew, as it is in other tables."""
    kept: dict[str, bool] = {}
    for enabled in ("true", "false"):
        table = make_table(tmp_path / enabled, options={"deletion-vectors.enabled": enabled})
        table.write(rows_of(0, count=BASE_ROWS))
        table.compact(full=True)
        before = live_files(table)
        beside = BackgroundCompaction(DriverSnapshots(table, None))
        append_rows(table, rows_of(0, count=BASE_ROWS // 4))  # of the base too much to leave it to reads
        end_before_compaction(beside, 1)
        kept[enabled] = before <= live_files(table)
        assert content(table) == dict.fromkeys(range(BASE_ROWS), 0) | dict.fromkeys(range(3, 9), 1)
    assert kept == {"true": True, "false": False}


def live_files(table: FileStoreTable) -> set[str]:
    return {entry.file.file_name for entry in table.live_files.of(table.snapshots.latest()).entries()}


def test_snapshots_expire_beside_a_stream(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", **TRIGGERS}
    beside = BackgroundCompaction(DriverSnapshots(make_table(tmp_path, options=options), None))
    for number in range(8):
        write(beside, number, is_settled_later=False)
        assert len(table_of(beside).snapshots.ids()) <= 3
    assert content(table_of(beside)) == content_after(8)


def test_snapshots_of_a_write_only_table_are_left_to_others(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "write-only": "true"}
    beside = BackgroundCompaction(DriverSnapshots(make_table(tmp_path, options=options), None))
    for number in range(5):
        write(beside, number, is_settled_later=False)
    assert len(table_of(beside).snapshots.ids()) == 5
