"""Batches of a writer beside others: committed once, and only while their rows are the youngest."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.conflicts import OvertakenError
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows
from tests.support.tables.small_tables import NO_WAIT, commit_batch, committed_batches, content, make_table, rows_of


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path)


def entries_of(table: FileStoreTable, row: int) -> list[ManifestEntry]:
    """The file of one row of batch 7, written on the newest snapshot."""
    live = table.live_files.of(table.snapshots.latest())
    return write_rows(table, rows_of(7).slice(row, 1), first_sequence=live.next_sequence).entries


def append(table: FileStoreTable, entries: list[ManifestEntry]) -> None:
    append_commit(table, user="job", identifier=0, digest=None, entries=entries, clock=NO_WAIT)


def test_rows_that_others_overtook_in_their_bucket_are_not_committed(table: FileStoreTable) -> None:
    entries = entries_of(table, 0)
    table.write(rows_of(7).slice(0, 1))
    with pytest.raises(OvertakenError, match=r"snapshot 1 of table t appeared .* younger rows, .* write again"):
        append(table, entries)
    assert committed_batches(table) == []
    append(table, entries_of(table, 0))
    assert committed_batches(table) == [0]


def test_rows_of_other_buckets_overtake_nothing(table: FileStoreTable) -> None:
    rows = [entries_of(table, row) for row in range(rows_of(7).num_rows)]
    mine = rows[0]
    other = next(row for row, entries in enumerate(rows) if entries[0].bucket != mine[0].bucket)
    table.write(rows_of(7).slice(other, 1))
    append(table, mine)
    assert len(content(table)) == 2


def test_a_replay_is_known_although_others_have_written_since(table: FileStoreTable) -> None:
    commit_batch(table, 0)
    entries = entries_of(table, 0)
    table.write(rows_of(7))
    assert append_commit(table, user="job", identifier=0, digest="0", entries=entries, clock=NO_WAIT) is None
