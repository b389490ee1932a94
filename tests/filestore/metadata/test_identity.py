"""A handle of a table that was dropped, and created again by the same name, writes and reads nothing of the new."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.common.errors import ConflictError
from lakelog.filestore.alter.schema_changes import SetOption
from lakelog.filestore.commit import outcomes
from lakelog.filestore.commit.commit import BEFORE_CREATE, TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables import identity
from lakelog.filestore.metadata.tables.identity import carried_by
from lakelog.filestore.refs import create_branch, delete_branch
from lakelog.filestore.schema.schema import DIGEST_KEY, TableSchema
from lakelog.filestore.table import FileStoreTable
from tests.support.files.faulty_file_io import FaultyFileIO
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import NO_WAIT, UNSYNCED, altered_by_others, commit_batch, make_table, rows_of
from tests.support.tables.taken_over import replace_main


def made_anew(table: FileStoreTable, folder: Path) -> FileStoreTable:
    shutil.rmtree(table.path)
    return make_table(folder)


def as_others_make_it(table: FileStoreTable, *, time_millis: int) -> FileStoreTable:
    """The table with a schema that has no uuid, as other engines write it."""
    fields = {key: value for key, value in table.schema.options.items() if key != PropertyKey.UUID}
    schema = TableSchema(
        id=0,
        fields=table.schema.fields,
        highest_field_id=table.schema.highest_field_id,
        primary_keys=table.schema.primary_keys,
        options=fields,
        time_millis=time_millis,
    )
    Path(table.paths.schema(0)).write_text(altered_by_others(schema))
    assert DIGEST_KEY not in Path(table.paths.schema(0)).read_text()
    return FileStoreTable.open(table.path, UNSYNCED)


@pytest.mark.parametrize("new_snapshots", [0, 1, 3])
def test_a_table_that_was_made_anew_refuses_an_older_handle(tmp_path: Path, new_snapshots: int) -> None:
    stale = make_table(tmp_path)
    commit_batch(stale, 0)
    anew = made_anew(stale, tmp_path)
    for batch in range(new_snapshots):
        commit_batch(anew, batch)
    with pytest.raises(ConflictError, match="was dropped, renamed, or created again, since it was opened"):
        commit_batch(stale, 1)
    with pytest.raises(ConflictError, match="created again"):
        stale.write(rows_of(5))
    assert anew.snapshots.ids() == [*range(1, new_snapshots + 1)]


@pytest.mark.parametrize("end", [delete_branch, lambda table, name: replace_main(table, table.on_branch(name))])
def test_a_branch_that_went_refuses_an_older_handle_and_is_named(
    tmp_path: Path, end: Callable[[FileStoreTable, str], object]
) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    create_branch(table, "trial")
    trial = table.on_branch("trial")
    trial.write(rows_of(1))
    end(table, "trial")
    with pytest.raises(ConflictError, match=r"branch 'trial' of table .* was deleted, or replaced the table, since it"):
        trial.write(rows_of(5))
    assert table.branch_names() == ["main"]


def test_a_dropped_table_is_not_brought_back_by_a_commit(tmp_path: Path) -> None:
    stale = make_table(tmp_path)
    commit_batch(stale, 0)
    shutil.rmtree(stale.path)
    with pytest.raises(ConflictError, match="was dropped"):
        stale.write(rows_of(5))


def test_a_table_of_other_engines_is_distinguished_from_its_successor_by_its_schema(tmp_path: Path) -> None:
    stale = as_others_make_it(make_table(tmp_path), time_millis=1)
    commit_batch(stale, 0)
    as_others_make_it(made_anew(stale, tmp_path), time_millis=2)
    with pytest.raises(ConflictError, match="created again"):
        commit_batch(stale, 1)


def test_an_altered_table_is_the_same_table(tmp_path: Path) -> None:
    older = make_table(tmp_path)
    altered(older, SetOption("snapshot.num-retained.max", "20"))
    commit_batch(older, 0)
    commit_batch(older, 1)
    assert older.snapshots.ids() == [1, 2]


def test_an_older_handle_does_not_read_or_alter_the_new_table(tmp_path: Path) -> None:
    stale = make_table(tmp_path)
    commit_batch(stale, 0)
    commit_batch(made_anew(stale, tmp_path), 0)
    with pytest.raises(ConflictError, match="created again"):
        stale.to_arrow()
    with pytest.raises(ConflictError, match="created again"):
        altered(stale, SetOption("snapshot.num-retained.max", "20"))


@pytest.mark.parametrize("new_snapshots", [0, 2])
def test_a_table_that_is_made_anew_while_a_commit_is_under_way_gets_nothing_of_it(
    tmp_path: Path, new_snapshots: int
) -> None:
    stale = make_table(tmp_path)
    for batch in range(4):
        commit_batch(stale, batch)
    made: list[FileStoreTable] = []

    def drop(step: str) -> None:
        if step == BEFORE_CREATE and not made:
            made.append(made_anew(stale, tmp_path))
            for batch in range(new_snapshots):
                commit_batch(made[0], batch)

    request = CommitRequest(commit_user="late", commit_identifier=1, kind=CommitKind.APPEND)
    with pytest.raises(ConflictError, match="created again"):
        TableCommit(stale, clock=NO_WAIT).commit(lambda _: request, on_step=drop)
    assert made[0].snapshots.ids() == [*range(1, new_snapshots + 1)]


def test_without_the_check_the_new_table_is_written_by_the_older_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "is_same_table", lambda _table: True)
    monkeypatch.setattr(outcomes, "is_same_table", lambda _table: True)
    stale = make_table(tmp_path)
    anew = made_anew(stale, tmp_path)
    commit_batch(stale, 0)
    assert anew.snapshots.ids() == [1]


def test_a_commit_behind_one_of_ours_reads_no_schema_for_the_check(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    counting = FaultyFileIO(UNSYNCED)
    again = FileStoreTable.open(table.path, counting)
    latest = again.snapshots.latest()
    counting.calls.clear()
    carried_by(again, latest)
    assert not counting.calls
