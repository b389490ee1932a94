"""Compaction as a Spark job: due or full, beside writers, against another compactor."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import UnavailableError
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs.upkeep_verbs import merge_due
from lakelog.spark import compact
from lakelog.spark.compaction import unit_runs
from lakelog.spark.compaction.compaction_job import CompactionSummary

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int64())])
ROWS = 2_000


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "3", "write-only": "true"}
    return Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def write(table: Table, batch: int) -> None:
    ids = pa.array(range(batch * 100, batch * 100 + ROWS), pa.int64())
    rows = pa.table([ids, pa.repeat(pa.scalar(batch, pa.int64()), ROWS)], schema=SCHEMA)
    FileStoreTable.open(table.path).write(rows)


def content(table: Table) -> dict[int, int]:
    rows = FileStoreTable.open(table.path).to_arrow().to_pydict()
    return dict(zip(rows["id"], rows["batch"], strict=True))


def expected(batches: int) -> dict[int, int]:
    return {key: batch for batch in range(batches) for key in range(batch * 100, batch * 100 + ROWS)}


def test_what_is_due_is_merged_and_nothing_more(spark: SparkSession, table: Table) -> None:
    for batch in range(6):
        write(table, batch)
    before = content(table)
    summary = compact(spark, table)
    assert summary.bucket_count == 3
    assert summary.files_before == 18
    assert summary.bytes_after < summary.bytes_before
    assert content(table) == before == expected(6)
    assert compact(spark, table) == CompactionSummary()
    write(table, 6)
    assert compact(spark, table) == CompactionSummary()
    assert compact(spark, table, full=True).files_after == 3
    assert content(table) == expected(7)


@pytest.mark.full
def test_writers_and_a_compactor_at_once_lose_nothing(spark: SparkSession, table: Table) -> None:
    written: list[int] = []
    compacted = threading.Event()

    def write_all() -> None:
        for batch in range(500):
            if batch >= 25 and compacted.is_set():
                break
            write(table, batch)
            written.append(batch)

    writer = threading.Thread(target=write_all)
    writer.start()
    rounds = 0
    while writer.is_alive():
        rounds += compact(spark, table, full=True).bucket_count > 0
        if rounds >= 3:
            compacted.set()
    writer.join()
    assert rounds >= 3
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert kinds.count(CommitKind.APPEND) == len(written)
    assert content(table) == expected(len(written))


def test_of_two_compactors_one_gives_way_and_leaves_no_files(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        write(table, batch)
    with rival_before_commit(table, monkeypatch):
        summary = compact(spark, table, full=True)
    assert (summary.bucket_count, summary.conflict_count) == (2, 1)
    assert content(table) == expected(3)
    live = {entry.file.file_name for entry in live_of(table)}
    old = {entry.file.file_name for entry in live_of(table, snapshot_id=3)}
    on_disk = {path.name for path in Path(table.path).rglob("data-*")}
    assert on_disk == live | old


def live_of(table: Table, *, snapshot_id: int | None = None) -> list[ManifestEntry]:
    store = FileStoreTable.open(table.path)
    return list(store.live_files.of(store.snapshot(snapshot_id=snapshot_id)).entries())


@contextmanager
def rival_before_commit(table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let another process compact bucket 1 after the tasks have merged, and before the driver commits."""
    from lakelog.spark.compaction import compaction_job  # noqa: PLC0415  # to be patched

    commit = compaction_job._commit
    done: list[bool] = []

    def late(store: object, results: object, lasted: object) -> object:
        if not done:
            done.append(True)
            rival = FileStoreTable.open(table.path)
            merge_due(rival, [BucketId(bytes(12), 1)], is_full=True, clock=None)
        return commit(store, results, lasted)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(compaction_job, "_commit", late)
    yield


def test_a_task_whose_store_does_not_answer_fails_but_for_its_last_attempt(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("the store")

    monkeypatch.setattr(unit_runs, "compact_bucket", away)
    task = unit_runs._CompactTask(FileStoreTable.open(table.path), [None], attempts_max=3)  # type: ignore[list-item]  # no work is looked at
    numbers = [pa.record_batch({"id": [0]})]
    for attempt in range(2):
        monkeypatch.setattr(unit_runs, "attempt_number", lambda attempt=attempt: attempt)
        with pytest.raises(UnavailableError, match="the store"):
            list(task(iter(numbers)))

    monkeypatch.setattr(unit_runs, "attempt_number", lambda: 2)
    (answer,) = task(iter(numbers))
    assert isinstance(pickle.loads(answer.column(0)[0].as_py()), UnavailableError)
