"""Paimon's rollback: what is younger is deleted, users stay, and each step is safe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import read_users
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files, restore, rollback
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import (
    NO_WAIT,
    SCHEMA,
    UNSYNCED,
    commit_batch,
    in_new_process,
    make_table,
    prepare_batch,
    rows_of,
)

KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


def rows(table: FileStoreTable) -> dict[int, int]:
    found = table.to_arrow().to_pydict()
    return dict(zip(found["id"], found["batch"], strict=True))


def newest(table: FileStoreTable) -> Snapshot:
    found = table.snapshots.latest()
    assert found is not None
    return found


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Five batches of a job, tags of the second and the fourth."""
    made = make_table(tmp_path)
    for batch in range(5):
        commit_batch(made, batch)
        if batch in (1, 3):
            write_tag(made, f"batch {batch}", newest(made))
    return made


def test_younger_snapshots_and_tags_are_deleted(table: FileStoreTable) -> None:
    expected = table.to_arrow(snapshot_id=3).sort_by("id")
    found = rollback(table, snapshot_id=3)
    opened = in_new_process(table.path)
    assert opened.snapshots.ids() == [1, 2, 3]
    assert opened.snapshots.tags() == ["batch 1"]
    assert opened.to_arrow().sort_by("id") == expected
    assert (found.snapshot_ids, found.tags) == ((4, 5), ("batch 3",))
    remove_orphan_files(opened, older_than_millis=0, allow_young=True, dry_run=False, now_millis=2**42)
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_users_are_saved_so_that_a_stream_goes_on(table: FileStoreTable) -> None:
    rollback(table, snapshot_id=2)
    before = rows(table)
    assert commit_batch(table, 4) is None
    assert rows(table) == before
    after = commit_batch(table, 5)
    assert after is not None
    assert after.id == 3


def test_rewound_writers_write_again(table: FileStoreTable) -> None:
    expected = rows(table)
    rollback(table, snapshot_id=2, rewind_writers=True)
    for batch in (2, 3, 4):
        assert commit_batch(table, batch) is not None
    assert rows(table) == expected


def test_a_tag_whose_snapshot_has_expired_is_gone_back_to(table: FileStoreTable) -> None:
    expected = table.to_arrow(tag="batch 1").sort_by("id")
    expire_snapshots(table, retention=KEEP_ONE)
    rollback(table, tag="batch 1")
    opened = in_new_process(table.path)
    assert opened.snapshots.ids() == [2]
    assert opened.to_arrow().sort_by("id") == expected
    assert opened.snapshots.earliest_id() == opened.snapshots.latest_id() == 2
    assert read_users(newest(opened), opened.snapshots)["job"].identifier == 4


def test_a_dry_run_deletes_nothing(table: FileStoreTable) -> None:
    before = sorted(Path(table.path).rglob("*"))
    found = rollback(table, snapshot_id=4, dry_run=True)
    assert (found.rows_added, found.rows_removed, found.rows_changed) == (0, 3, 3)
    assert [(one.user, one.identifier, one.at_target) for one in found.writers] == [("job", 4, 3)]
    assert sorted(Path(table.path).rglob("*")) == before


def test_a_table_with_a_log_is_refused(table: FileStoreTable) -> None:
    logged = replace(table, schema=replace(table.schema, options={**table.schema.options, "log.system": "kafka"}))
    with pytest.raises(InvalidRequestError, match=r"has a log.*use restore"):
        rollback(logged, snapshot_id=1)


def test_a_writer_whose_base_is_rolled_back_commits_again(table: FileStoreTable) -> None:
    """It has created its snapshot when the one before is deleted: it finds a gap, and starts again on the target."""

    def roll_back_first(step: str) -> None:
        if step == "before snapshot create" and 5 in table.snapshots.ids():
            rollback(in_new_process(table.path), snapshot_id=2)

    entries = prepare_batch(table, 5)
    done = append_commit(
        table, user="job", identifier=5, digest="5", entries=entries, clock=NO_WAIT, on_step=roll_back_first
    )
    assert done is not None
    assert table.snapshots.ids() == [1, 2, 3]
    expected = dict.fromkeys(range(3), 0) | dict.fromkeys(range(3, 9), 1) | dict.fromkeys(range(15, 21), 5)
    assert rows(in_new_process(table.path)) == expected


def died_at(
    table: FileStoreTable, folder: Path, call: int, act: Callable[..., object], **which: object
) -> tuple[FileStoreTable, bool]:
    """A copy of the table whose process died at its call of that number; and whether it came so far."""
    copy = folder / str(call)
    shutil.copytree(table.path, copy)
    faulty = FaultyFileIO(UNSYNCED, fails_at=call, after_effect=call % 2 == 0)
    try:
        act(FileStoreTable.open(copy, faulty), **which)
    except InjectedCrash:
        return in_new_process(str(copy)), True
    return in_new_process(str(copy)), False


@pytest.mark.parametrize("expires_first", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_rollback_that_dies_at_any_call_keeps_users_and_is_finished_by_the_next(
    table: FileStoreTable, tmp_path: Path, expires_first: bool
) -> None:
    target = table.to_arrow(tag="batch 1").sort_by("id")
    states = [table.to_arrow(snapshot_id=number).sort_by("id") for number in (2, 3, 4, 5)]
    if expires_first:
        expire_snapshots(table, retention=KEEP_ONE)
    call, has_died = 0, True
    while has_died:
        call += 1
        opened, has_died = died_at(table, tmp_path / "dead", call, rollback, tag="batch 1")
        assert opened.to_arrow().sort_by("id") in states
        assert commit_batch(opened, 4) is None
        rollback(opened, tag="batch 1")
        opened = in_new_process(opened.path)
        assert opened.to_arrow().sort_by("id") == target
        assert max(opened.snapshots.ids()) == 2
        assert opened.snapshots.tags() == ["batch 1"]
        assert commit_batch(opened, 4) is None
        assert commit_batch(opened, 5) is not None
    assert call > 20


def test_a_restore_that_dies_at_any_call_leaves_old_or_new_rows(table: FileStoreTable, tmp_path: Path) -> None:
    table.compact(full=True)
    old, new = (one.sort_by("id") for one in (table.to_arrow(), table.to_arrow(snapshot_id=2)))
    call, has_died = 0, True
    while has_died:
        call += 1
        opened, has_died = died_at(table, tmp_path / "dead", call, restore, snapshot_id=2)
        assert opened.to_arrow().sort_by("id") in (old, new)
        assert commit_batch(opened, 4) is None
        restore(opened, snapshot_id=2)
        expire_snapshots(opened, retention=KEEP_ONE, now_millis=2**42)
        remove_orphan_files(opened, older_than_millis=0, allow_young=True, dry_run=False, now_millis=2**42)
        opened = in_new_process(opened.path)
        assert opened.to_arrow().sort_by("id") == new
        assert opened.snapshots.tags() == ["batch 1", "batch 3"]
        assert files_on_disk(opened.path) == referenced_files(opened.path)
        assert commit_batch(opened, 5) is not None
    assert call > 40


def test_rows_of_reused_ids_are_those_of_the_new_snapshots(table: FileStoreTable) -> None:
    held = table.live_files.of(newest(table))
    assert held.buckets
    rollback(in_new_process(table.path), snapshot_id=3)
    table.write(pa.table({"id": [100], "batch": [9]}, schema=SCHEMA))
    table.write(pa.table({"id": [101], "batch": [9]}, schema=SCHEMA))
    assert newest(table).id == 5
    expected = rows(in_new_process(table.path))
    assert rows(table) == expected
    assert rows_of(4).num_rows
    assert {100, 101} <= expected.keys()
