"""Another engine changes the line of a table while lakelog writes it: rows that gave way do not come back.

Snapshot ids are given again by a rollback and by a fast-forward. Beside an id stands the uuid of its commit: a writer
whose base is another commit now commits again. A rollback, a fast-forward or a rollback of our own is made before each
call of a writer in turn; the last tests take the comparison out.

A writer may write its hint LATEST when its snapshot was rolled back already. Where the hint names the id after the
newest, reads are refused until it is deleted, as the error says: loud, and no row is wrong.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError, NotFoundError
from lakelog.filestore.commit import outcomes
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.refs import create_branch
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import rollback
from lakelog.filestore.write.write import write_rows
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.foreign_engine import fast_forward_as_others_do, foreign_snapshot, roll_back_as_others_do
from tests.support.tables.small_tables import NO_WAIT, SCHEMA, UNSYNCED, in_new_process, make_table

Result = TypeVar("Result")
TARGET = {0: 0, 1: 1}
GIVEN_WAY = {200, 201}
WRITTEN = 500


def put(table: FileStoreTable, key: int) -> None:
    table.write(rows(key))


def rows(key: int) -> pa.Table:
    return pa.table([pa.array([key], pa.int64()), pa.array([key], pa.int32())], schema=SCHEMA)


def content(path: str) -> dict[int, int]:
    try:
        found = in_new_process(path).to_arrow()
    except CorruptDataError as error:
        if "delete LATEST to continue" not in str(error):
            raise
        Path(in_new_process(path).paths.latest_hint).unlink()
        found = in_new_process(path).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True))


def history(folder: Path) -> str:
    """Two snapshots, a branch `b` from there with two more, and two of the table that will give way."""
    table = make_table(folder, options={"write-only": "true"})
    for key in TARGET:
        put(table, key)
    create_branch(table, "b")
    for line, first in ((table.on_branch("b"), 100), (table, 200)):
        for key in (first, first + 1):
            put(line, key)
    return table.path


def foreign_rows(table: FileStoreTable, key: int) -> None:
    """A commit of rows by another engine."""
    live = table.live_files.of(table.snapshots.latest())
    foreign_snapshot(
        table, CommitKind.APPEND, entries=write_rows(table, rows(key), first_sequence=live.next_sequence).entries
    )


def rolled_back(path: str, *, deletes_files: bool = False) -> None:
    """Another engine rolls back, and gives the ids to commits of its own."""
    table = in_new_process(path)
    roll_back_as_others_do(table, 2, deletes_files=deletes_files)
    for key in (300, 301):
        foreign_rows(in_new_process(path), key)


def rolled_back_by_us(path: str) -> None:
    rollback(in_new_process(path), snapshot_id=2)
    for key in (300, 301):
        put(in_new_process(path), key)


def fast_forwarded(path: str) -> None:
    fast_forward_as_others_do(in_new_process(path), "b")


CHANGES: dict[str, tuple[Callable[[str], None], set[int]]] = {
    "rollback": (rolled_back, {300, 301}),
    "rollback of an older release": (partial(rolled_back, deletes_files=True), {300, 301}),
    "own rollback": (rolled_back_by_us, {300, 301}),
    "fast-forward": (fast_forwarded, {100, 101}),
}


def batch(table: FileStoreTable) -> None:
    """A batch of a stream."""
    live = table.live_files.of(table.snapshots.latest())
    entries = write_rows(table, rows(WRITTEN), first_sequence=live.next_sequence).entries
    append_commit(table, user="job", identifier=7, digest="7", entries=entries, clock=NO_WAIT)


WRITERS: dict[str, tuple[Callable[[FileStoreTable], object], bool]] = {
    "batch": (batch, True),
    "write": (lambda table: put(table, WRITTEN), True),
    "compaction": (lambda table: table.compact(full=True, clock=NO_WAIT), False),
}


class Meanwhile(FaultyFileIO):
    """Another process acts before a call."""

    def __init__(self, at: int, other: Callable[[], None]) -> None:
        super().__init__(UNSYNCED)
        self._at, self._other, self.has_acted = at, other, False

    def _call(self, name: str, act: Callable[[], Result]) -> Result:
        if len(self.calls) + 1 == self._at:
            self.has_acted = True
            self._other()
        return super()._call(name, act)


def check(folder: Path, change: str, writer: str) -> tuple[int, int]:
    """Make the change before each call of the writer; gives how often the writer was told that it is done, and not."""
    act, newer = CHANGES[change]
    write, has_rows = WRITERS[writer]
    done = refused = at = 0
    began = history(folder / "began")
    while True:
        at += 1
        path = str(shutil.copytree(began, folder / str(at)))
        meanwhile = Meanwhile(at, lambda path=path: act(path))  # type: ignore[misc]  # bound early
        is_done = False
        with contextlib.suppress(ConflictError, NotFoundError):
            write(in_new_process(path, meanwhile))
            is_done = True
        if not meanwhile.has_acted:
            return done, refused
        found = content(path)
        is_there = found.pop(WRITTEN, None) is not None
        assert found.keys() == {*TARGET, *newer}, f"{change} before call {at}: {meanwhile.calls[at - 1 :]}"
        assert is_there <= has_rows
        done, refused = done + (is_done and is_there), refused + (not is_done)
        assert is_done or not is_there, f"{change} before call {at}: the writer was told that its rows are not there"


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_gave_way_do_not_come_back_with_a_batch(tmp_path: Path, change: str) -> None:
    done, _ = check(tmp_path, change, "batch")
    assert done >= 5


@pytest.mark.full
@pytest.mark.parametrize("writer", ["write", "compaction"])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_gave_way_do_not_come_back(tmp_path: Path, change: str, writer: str) -> None:
    done, refused = check(tmp_path, change, writer)
    assert done > 5 or not WRITERS[writer][1]
    assert done + refused > 0 or writer == "compaction"


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_that_compares_ids_alone_brings_rows_back(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "is_same_commit", lambda *_: True)
    with pytest.raises((AssertionError, LakelogError)):
        check(tmp_path, change, "batch")
