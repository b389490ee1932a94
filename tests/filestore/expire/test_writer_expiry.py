"""Writers expire what is due: by the options, cheaply, and never at the cost of a commit."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.common.clock import system_millis
from lakelog.common.errors import UnavailableError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.expire import writer_expiry
from lakelog.filestore.expire.writer_expiry import expire_after_commit
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import read_users
from lakelog.filestore.table import FileStoreTable
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import UNSYNCED, content, content_after, in_new_process, make_table, rows_of

THREE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
HOUR = 3_600_000


def newest(table: FileStoreTable) -> Snapshot:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def test_a_write_leaves_no_more_snapshots_than_the_options_say(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=THREE)
    for batch in range(8):
        table.write(rows_of(batch))
        assert len(table.snapshots.ids()) <= 4  # a compaction may come behind the append
    assert content(in_new_process(table.path)) == content_after(8)
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_age_counts_from_the_commit_behind(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for batch in range(15):
        table.write(rows_of(batch))
    last = newest(table)
    expire_after_commit(table, last.id, now_millis=last.time_millis + HOUR - 60_000)
    assert table.snapshots.ids()[0] == 1
    expire_after_commit(table, last.id, now_millis=last.time_millis + HOUR + 60_000)
    assert len(table.snapshots.ids()) == 10


def test_the_limit_of_one_expiry_holds_for_writers(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"write-only": "true", **THREE, "snapshot.expire.limit": "2"})
    for batch in range(9):
        table.write(rows_of(batch))
    assert len(table.snapshots.ids()) == 9  # left to somebody else
    expire_after_commit(table, newest(table).id)
    assert len(table.snapshots.ids()) == 9
    expire_after_commit(table, newest(table).id, is_upkeep=True)
    assert table.snapshots.ids()[0] == 3
    table.compact(full=True)
    assert table.snapshots.ids()[0] == 5


def test_nothing_due_costs_no_call(tmp_path: Path) -> None:
    file_io = FaultyFileIO(UNSYNCED)
    table = make_table(tmp_path, file_io, options={"snapshot.num-retained.min": "2"})
    for batch in range(4):
        table.write(rows_of(batch))
    last = newest(table).id
    file_io.calls.clear()
    expire_after_commit(table, last)
    assert file_io.calls == []

    writer_expiry._known.clear()  # a new process looks once: the hint, its snapshot, none before, their dates
    expire_after_commit(table, last)
    assert sorted(file_io.calls) == ["exists", "exists", "list_names", *["read_bytes"] * 4]


def test_what_a_consumer_holds_is_not_tried_at_every_commit(tmp_path: Path) -> None:
    file_io = FaultyFileIO(UNSYNCED)
    table = make_table(tmp_path, file_io, options=THREE)
    consumer = Path(table.paths.consumer("reader"))
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 1}))
    for batch in range(6):
        table.write(rows_of(batch))
    assert table.snapshots.ids()[0] == 1
    last = newest(table).id
    file_io.calls.clear()
    expire_after_commit(table, last)
    assert file_io.calls == []

    consumer.unlink()
    now = system_millis()
    expire_after_commit(table, last, now_millis=now + 61_000)
    assert len(table.snapshots.ids()) == 3


class FailingDeletes(FaultyFileIO):
    def delete(self, path: str) -> None:
        raise UnavailableError(f"{path}: the store does not answer")


def test_an_expiry_that_fails_is_a_warning_and_the_write_stands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_table(tmp_path, options=THREE)
    table = FileStoreTable.open(f"{tmp_path}/t", FailingDeletes(UNSYNCED))
    with caplog.at_level(logging.WARNING, "lakelog.filestore"):
        ids = [table.write(rows_of(batch)).id for batch in range(6)]
    assert "the expiry after snapshot" in caplog.text
    assert "the store does not answer" in caplog.text
    assert newest(table).id >= ids[-1]
    assert content(in_new_process(table.path)) == content_after(6)


def test_the_snapshot_that_remembers_writers_outlives_those_of_others_behind_it(tmp_path: Path) -> None:
    """Other engines carry no properties: who would delete ours would forget which batches are in."""
    table = make_table(tmp_path, options=THREE)
    append_commit(table, user="job", identifier=7, digest="d", entries=[])
    own = newest(table)
    for number in range(own.id + 1, own.id + 6):
        foreign = replace(own, id=number, uuid=str(number), properties={}, commit_user="flink")
        assert table.snapshots.create_new(foreign)
    expire_after_commit(table, own.id + 5)
    assert table.snapshots.ids()[0] == own.id
    assert read_users(newest(table), table.snapshots)["job"].identifier == 7


def test_a_table_that_others_write_expires_as_well(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=THREE)
    table.write(rows_of(0))
    first = newest(table)
    Path(table.paths.snapshot(1)).unlink()
    for number in range(1, 7):
        assert table.snapshots.create_new(replace(first, id=number, uuid=str(number), properties={}))
    expire_after_commit(table, 6)
    assert table.snapshots.ids() == [4, 5, 6]
