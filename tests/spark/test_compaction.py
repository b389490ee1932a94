"""Compaction beside a stream, without Spark: when it is due, and what the end of a stream leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakelog.filestore.compact.choosing import BucketWork
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.levels import runs_of
from lakelog.filestore.store import TableStore
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state import Batch
from lakelog.protocol.stores import DriverSnapshots
from lakelog.spark import compaction
from lakelog.spark.compaction import BackgroundCompaction
from tests.support.small_tables import commit_batch, content, content_after, make_table, prepare_batch

NO_PARTITION = bytes(12)
TRIGGERS = {"num-sorted-run.compaction-trigger": "3", "num-sorted-run.settling-trigger": "8"}


def table_of(beside: BackgroundCompaction) -> FileStoreTable:
    table = beside.snapshots.table
    assert isinstance(table, FileStoreTable)
    return table


def run_counts(beside: BackgroundCompaction) -> list[int]:
    table = table_of(beside)
    live = table.live_files.of(table.snapshots.latest())
    return [len(runs_of(live.files(*bucket), table.key_types)) for bucket in sorted(live.buckets)]


def write(beside: BackgroundCompaction, number: int, *, is_settled_later: bool) -> None:
    """A batch of a stream: its files, then the compaction beside it, waited for."""
    table = table_of(beside)
    files = Counter((entry.partition, entry.bucket) for entry in prepare_batch(table, number))
    snapshot = commit_batch(table, number)
    batch = Batch(user="job", identifier=number, source_digest=None)
    live = table.live_files.of(snapshot)
    beside.after_batch(batch, files.elements(), live, is_settled_later=is_settled_later)
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

    def note(of: TableStore, work: BucketWork) -> object:
        merged.append(work.bucket[1])
        return compact_bucket(of, work)

    def settle_first() -> None:
        beside._settling_count += 1  # the stream ends just now
        begin()

    monkeypatch.setattr("lakelog.spark.compaction.compact_bucket", note)
    monkeypatch.setattr(compaction, "_stand_back", settle_first)
    last = Batch(user="job", identifier=2, source_digest=None)
    beside.after_batch(last, [(NO_PARTITION, 0), (NO_PARTITION, 1)], live, is_settled_later=False)
    beside.wait()
    assert not merged
    beside._settling_count = 0
    beside.settle()
    assert sorted(merged) == [0, 1]
    assert run_counts(beside) == [1, 1]
    assert content(table_of(beside)) == content_after(3)


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
