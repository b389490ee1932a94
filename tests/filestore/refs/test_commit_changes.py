"""What the commits between two snapshots say of the rows that changed, and where they do not say it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.merges import sides
from lakelog.filestore.refs.states import commit_changes
from lakelog.filestore.refs.states.commit_changes import added_since, only_rewrites
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, merge_changes, restore
from lakelog.filestore.write.write import write_rows
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64())])
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)


def table_of(folder: Path, options: dict[str, str] | None = None) -> FileStoreTable:
    """A table with 100 keys, all 0."""
    all_options = {"bucket": "1", "write-only": "true"} | (options or {})
    schema = build_schema(SCHEMA, primary_keys=["id"], options=all_options)
    table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
    put(table, *((number, 0) for number in range(100)))
    return table


def put(table: FileStoreTable, *rows: tuple[int, int]) -> None:
    table.write(pa.table({"id": [key for key, _ in rows], "amount": [value for _, value in rows]}, schema=SCHEMA))


def newest(table: FileStoreTable) -> TableState:
    return TableState(table=table, snapshot=table.snapshots.latest())


def rows(table: FileStoreTable) -> dict[int, int]:
    return {row["id"]: row["amount"] for row in table.to_arrow().to_pylist()}


def added_rows(old: TableState, new: TableState) -> int | None:
    found = added_since(old, new)
    return None if found is None else sum(file.row_count for files in found.values() for file, _ in files)


def test_a_compaction_adds_nothing_to_what_was_written_before_it(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    old = newest(table)
    put(table, (1, 1), (2, 2))
    table.compact(full=True)
    put(table, (3, 3))

    assert added_rows(old, newest(table)) == 3


def test_an_overwrite_is_not_told_by_commits(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    old = newest(table)
    table.write(SCHEMA.empty_table(), mode="overwrite")

    assert added_since(old, newest(table)) is None


def test_a_restore_is_not_told_by_commits(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(table, (1, 1))
    old = newest(table)
    restore(table, snapshot_id=1)

    assert added_since(old, newest(table)) is None


def test_commits_that_have_expired_tell_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    old = newest(table)
    put(table, (1, 1))
    put(table, (2, 2))
    expire_snapshots(table, retention=ONE)

    assert added_since(old, newest(table)) is None


def test_a_state_of_another_history_is_no_ancestor(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(table, (1, 1))
    old = newest(table)
    create_branch(table, "b", snapshot_id=1)
    branch = table.on_branch("b")
    put(branch, (2, 2))
    put(branch, (3, 3))

    assert added_since(old, newest(branch)) is None


def test_a_table_that_shows_compacted_rows_alone_is_not_told_by_commits(tmp_path: Path) -> None:
    """A compaction of such a table changes what reads show."""
    table = table_of(tmp_path, {"deletion-vectors.enabled": "true"})
    table.compact(full=True)
    old = newest(table)
    put(table, (1, 1))
    table.compact()

    assert added_since(old, newest(table)) is None


def entries_of(table: FileStoreTable, snapshot: Snapshot | None) -> list[ManifestEntry]:
    return list(table.live_files.of(snapshot).entries())


def test_a_compaction_that_brings_rows_of_its_own_is_none_of_files_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(table, (1, 1), (2, 2))
    first, second = entries_of(table, table.snapshots.latest())
    removed = replace(first, kind=FileKind.DELETE)
    grown = replace(first, file=replace(first.file, row_count=first.file.row_count + 1))

    assert only_rewrites([removed, first])
    assert not only_rewrites([removed, grown])
    assert not only_rewrites([removed, second])
    assert not only_rewrites([second])


def test_a_commit_named_compaction_that_adds_rows_is_not_passed_over(tmp_path: Path) -> None:
    """As when another engine moves the rows of a postponed bucket."""
    table = table_of(tmp_path)
    old = newest(table)
    brought = pa.table({"id": [1], "amount": [1]}, schema=SCHEMA)
    written = write_rows(table, brought, None, first_sequence=lambda _: 1_000)
    request = CommitRequest(
        commit_user="other",
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        kind=CommitKind.COMPACT,
        entries=written.entries,
    )
    TableCommit(table).commit(lambda _: request)

    assert added_since(old, newest(table)) is None


def test_after_a_full_compaction_of_the_table_a_merge_reads_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "LOOKUP_ROWS_MIN", 10)
    table = table_of(tmp_path)
    create_branch(table, "b")
    put(table.on_branch("b"), (1, 10), (2, 20))
    put(table, (2, 2), (3, 30))
    table.compact(full=True)

    merged = merge_changes(table, "b", on_conflict="branch")

    assert (merged.rows_read, merged.upserted, merged.conflict_count) == (4, 2, 1)
    assert {key: value for key, value in rows(table).items() if value} == {1: 10, 2: 20, 3: 30}


def test_a_merge_after_another_reads_what_both_lines_wrote_since_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "LOOKUP_ROWS_MIN", 10)
    table = table_of(tmp_path)
    create_branch(table, "b")
    branch = table.on_branch("b")
    put(branch, (1, 10), (4, 40))
    put(table, (4, 4))
    merge_changes(table, "b", on_conflict="main")
    put(branch, (2, 20), (4, 41))
    put(table, (3, 30))
    table.compact(full=True)

    merged = merge_changes(table, "b", on_conflict="fail", dry_run=True)
    assert merged.rows_read < 20
    assert [row["id"] for row in merged.conflicts.to_pylist()] == [4]

    merge_changes(table, "b", on_conflict="main")
    assert {key: value for key, value in rows(table).items() if value} == {1: 10, 2: 20, 3: 30, 4: 4}


def test_commits_that_expire_while_a_merge_reads_them_are_compared_by_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "LOOKUP_ROWS_MIN", 10)
    table = table_of(tmp_path)
    create_branch(table, "b")
    put(table.on_branch("b"), (1, 10))
    put(table, (2, 20))
    table.compact(full=True)
    found = added_since

    def then_expired(ancestor: TableState, state: TableState) -> object:
        names = found(ancestor, state)
        if state.table.branch == "main" and state.snapshot != ancestor.snapshot:
            expire_snapshots(table, retention=ONE)
        return names

    monkeypatch.setattr(commit_changes, "added_since", then_expired)
    merge_changes(table, "b")

    assert {key: value for key, value in rows(table).items() if value} == {1: 10, 2: 20}


def test_a_restored_branch_brings_the_older_rows_back(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(table, (1, 1))
    create_branch(table, "b")
    branch = table.on_branch("b")
    put(branch, (2, 2))
    table.write(pa.table({"id": [3], "amount": [3]}, schema=SCHEMA))
    first = min(branch.snapshots.ids())
    put(branch, (1, 7))
    restore(branch, snapshot_id=first)

    merge_changes(table, "b")

    assert {key: value for key, value in rows(table).items() if value} == {1: 1, 3: 3}


def test_a_table_that_was_restored_behind_the_fork_keeps_its_older_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(table, (1, 1))
    create_branch(table, "b")
    restore(table, snapshot_id=1)
    put(table.on_branch("b"), (1, 5))

    merged = merge_changes(table, "b", on_conflict="fail", dry_run=True)

    assert [(row["id"], row["main"]["amount"]) for row in merged.conflicts.to_pylist()] == [(1, 0)]
