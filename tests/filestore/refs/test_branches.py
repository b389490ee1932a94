"""Branches: made as Paimon lays them out, renamed, deleted and listed; each step may be the last of a process."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError, UnsupportedError
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey, read_users
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX, Fork, read_fork
from lakelog.filestore.refs import branch_list, create_branch, delete_branch, expire_branches, rename_branch
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete, expire_snapshots, remove_orphan_files
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.altered import altered
from tests.support.tables.hand_made_branches import fork
from tests.support.tables.paimon_tables import expected, unpack
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

DAY = 24 * 3_600_000
KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Three batches of a job."""
    made = make_table(tmp_path)
    for batch in range(3):
        commit_batch(made, batch)
    return made


def tag(table: FileStoreTable, name: str, snapshot_id: int) -> None:
    write_tag(table, name, table.snapshots.get(snapshot_id))


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def clean(table: FileStoreTable) -> None:
    remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True)


def put(table: FileStoreTable, *ids: int, batch: int = 9) -> Snapshot:
    return table.write(pa.table({"id": list(ids), "batch": [batch] * len(ids)}, schema=SCHEMA))


@pytest.mark.parametrize("name", ["main", "7", "a.b", "", " ", " a", "../x", "a/b", "a\\b", "a$b", "x" * 300, "a\n"])
def test_a_name_that_cannot_be_is_refused(table: FileStoreTable, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        create_branch(table, name)
    create_branch(table, "good")
    with pytest.raises(InvalidRequestError):
        rename_branch(table, "good", name)
    assert [branch.name for branch in branch_list(table)] == ["good"]


def test_names_of_letters_of_any_language_and_of_dates_are_good() -> None:
    for name in ("fix-2026", "été", "1a", "a_b", "a b"):
        assert check_branch_name(name) == name


def test_a_branch_from_a_tag_has_the_files_that_paimon_gives_it(tmp_path: Path) -> None:
    root = unpack("tags_branches", tmp_path) / "db.db" / "tagged"
    table = FileStoreTable.open(root)
    create_branch(table, "ours", tag="t1")
    theirs, ours = root / "branch" / "branch-b1", root / "branch" / "branch-ours"
    fork = read_fork(table, "ours")
    assert fork is not None
    for name in ("schema/schema-0", "tag/tag-t1", "snapshot/snapshot-1"):
        copied = json.loads((ours / name).read_text("utf-8"))
        assert copied.pop("properties", None) == ({"lakelog.digest": ANY} if name == "snapshot/snapshot-1" else None)
        assert copied == json.loads((theirs / name).read_text("utf-8"))
    assert names_below(ours) == {
        "schema/schema-0",
        "tag/tag-t1",
        f"tag/tag-{fork.protecting_tag}",
        "snapshot/snapshot-1",
        "snapshot/LATEST",
        "snapshot/EARLIEST",
        "lakelog/fork",
    }


def test_an_empty_branch_has_the_files_that_paimon_gives_it(tmp_path: Path) -> None:
    root = unpack("tags_branches", tmp_path) / "db.db" / "tagged"
    create_branch(FileStoreTable.open(root), "none", empty=True)
    theirs = names_below(root / "branch" / "branch-b0")
    assert names_below(root / "branch" / "branch-none") == theirs | {"lakelog/fork"}


def test_branches_of_another_engine_are_listed_with_the_tag_that_they_began_at(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged")
    found = {branch.name: (branch.snapshot_id, branch.tag, branch.is_own) for branch in branch_list(table)}
    assert found == {"b0": (None, None, False), "b1": (1, "t1", False)}
    assert set(found) == {row["branch_name"] for row in expected("tags_branches", "tagged", "branches")}


def test_branches_of_another_engine_are_written_renamed_and_deleted(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged")
    branch = table.on_branch("b1")
    before = {row["id"]: row["v"] for row in expected("tags_branches", "tagged", "branch-b1")}
    branch.write(pa.table({"id": pa.array([11], pa.int32()), "v": ["ours"]}))
    rename_branch(table, "b1", "b2")
    rows = table.to_arrow(branch="b2").to_pylist()
    assert {row["id"]: row["v"] for row in rows} == before | {11: "ours"}
    delete_branch(table, "b2")
    assert [branch.name for branch in branch_list(table)] == ["b0"]


@pytest.mark.parametrize("which", [{}, {"snapshot_id": 2}, {"tag": "t"}], ids=["now", "snapshot", "tag"])
def test_a_branch_begins_with_the_rows_that_it_is_made_from(table: FileStoreTable, which: Any) -> None:
    tag(table, "t", 1)
    made = create_branch(table, "b", **which)
    assert made.snapshot_id == {"snapshot_id": 2, "tag": 1}.get(next(iter(which), ""), 3)
    assert content(table.on_branch("b")) == content_after(made.snapshot_id or 0)
    assert made.tag == which.get("tag")


def test_what_is_written_in_one_line_is_not_in_the_other(table: FileStoreTable) -> None:
    create_branch(table, "b")
    branch = table.on_branch("b")
    put(branch, 100)
    put(table, 200)
    commit_batch(table, 3)
    delete(branch, "id = 0")
    assert content(table) == content_after(4) | {200: 9}
    assert content(branch) == {key: batch for key, batch in content_after(3).items() if key != 0} | {100: 9}


def test_a_column_added_in_a_branch_is_not_in_the_table(table: FileStoreTable) -> None:
    create_branch(table, "b")
    branch = altered(table.on_branch("b"), AddColumn("note", "STRING"))
    branch.write(pa.table({"id": [500], "batch": pa.array([1], pa.int32()), "note": ["x"]}))
    assert table.schemas.list_ids() == [0]
    assert content(in_new_process(table.path)) == content_after(3)
    assert branch.to_arrow(where="id = 500").to_pylist() == [{"id": 500, "batch": 1, "note": "x"}]
    assert content(branch) == content_after(3) | {500: 1}


def test_a_branch_from_an_old_snapshot_has_the_columns_of_that_time(table: FileStoreTable) -> None:
    changed = altered(table, AddColumn("note", "STRING"))
    create_branch(changed, "old", snapshot_id=2)
    assert changed.on_branch("old").schema.field_names == ("id", "batch")
    create_branch(changed, "new")
    assert changed.on_branch("new").schema.field_names == ("id", "batch", "note")


def test_a_taken_name_is_refused(table: FileStoreTable) -> None:
    create_branch(table, "b", snapshot_id=1)
    with pytest.raises(ConflictError, match="'b' already"):
        create_branch(table, "b")
    assert create_branch(table, "b", if_not_exists=True).snapshot_id == 1
    create_branch(table, "c")
    with pytest.raises(ConflictError, match="'c' already"):
        rename_branch(table, "b", "c")


def test_a_missing_branch_is_named_with_those_that_exist(table: FileStoreTable) -> None:
    create_branch(table, "dev")
    for call in (partial(delete_branch, table), lambda name: rename_branch(table, name, "x"), table.on_branch):
        with pytest.raises(NotFoundError, match="dev"):
            call("nope")
    delete_branch(table, "nope", if_exists=True)


def test_a_branch_that_fills_in_partitions_is_not_deleted(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"scan.fallback-branch": "b"})
    create_branch(table, "b", empty=True)
    with pytest.raises(InvalidRequestError, match=r"scan\.fallback-branch"):
        delete_branch(table, "b")
    with pytest.raises(InvalidRequestError, match=r"scan\.fallback-branch"):
        rename_branch(table, "b", "c")
    assert expire_branches(table, age_millis=-DAY) == []


def test_the_users_of_the_table_go_on_in_a_branch(table: FileStoreTable) -> None:
    create_branch(table, "b")
    branch = table.on_branch("b")
    assert commit_batch(branch, 2) is None  # a replay
    assert commit_batch(branch, 3) is not None
    assert read_users(table.snapshots.latest(), table.snapshots)["job"].identifier == 2


OF_A_SNAPSHOT = ("operation", "restores", "replaces", "base", "mended", "lineage", "cleared", "users")


def test_the_first_snapshot_of_a_branch_says_all_that_it_says_in_the_table(table: FileStoreTable) -> None:
    """The snapshot may live in the branch alone, later on. What its log says is not of the branch."""
    newest = table.snapshots.latest()
    assert newest is not None
    said = {f"lakelog.{name}": "{}" for name in OF_A_SNAPSHOT}
    stored = replace(newest, properties={**newest.properties, **said, PropertyKey.LOG_STATE: "{}"})
    table.file_io.delete(table.paths.snapshot(newest.id))
    table.file_io.create_new(table.paths.snapshot(newest.id), stored.to_json().encode())

    create_branch(table, "b")

    first = table.on_branch("b").snapshots.latest()
    assert first is not None
    assert {key: first.properties.get(key) for key in said} == said
    assert PropertyKey.LOG_STATE not in first.properties


def test_expiry_of_one_line_keeps_what_the_other_has_at_the_fork(table: FileStoreTable) -> None:
    create_branch(table, "b")
    branch = table.on_branch("b")
    for line in (table, branch):
        for batch in range(3, 6):
            commit_batch(line, batch)
        line.compact(full=True)
        expire_snapshots(line, retention=KEEP_ONE)
    for line in (table, branch):
        clean(line)
        assert content(in_new_process(table.path).on_branch(line.branch)) == content_after(6)
    fork = read_fork(table, "b")
    assert fork is not None
    assert fork.protecting_tag is not None
    for name in (None, "b"):  # what another engine, which knows the tags of one line alone, keeps too
        rows = table.to_arrow(tag=fork.protecting_tag, branch=name)
        assert dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True)) == content_after(3)


def test_a_deleted_branch_leaves_nothing_after_a_clean(table: FileStoreTable, tmp_path: Path) -> None:
    clean(table)
    before = names_below(Path(table.path))
    create_branch(table, "b")
    put(table.on_branch("b"), 100)
    delete_branch(table, "b")
    assert branch_list(table) == []
    assert table.snapshots.tags() == []
    clean(table)
    assert names_below(Path(table.path)) == before
    with pytest.raises(NotFoundError):
        table.on_branch("b")


def test_a_writer_of_a_deleted_branch_gets_an_error_and_makes_none(table: FileStoreTable) -> None:
    create_branch(table, "b")
    branch = table.on_branch("b")
    put(branch, 100)
    delete_branch(table, "b")
    with pytest.raises(LakelogError):
        put(branch, 101)
    assert branch_list(table) == []
    create_branch(table, "b", snapshot_id=1)
    assert content(table.on_branch("b")) == content_after(1)


def test_branches_of_a_branch_are_refused(table: FileStoreTable) -> None:
    create_branch(table, "b")
    with pytest.raises(InvalidRequestError, match="is a branch"):
        create_branch(table.on_branch("b"), "c")


def test_branches_expire_by_their_own_time_and_by_age(table: FileStoreTable) -> None:
    create_branch(table, "short", time_retained_millis=1000)
    create_branch(table, "long")
    made = {branch.name: branch.created_millis for branch in branch_list(table)}
    assert expire_branches(table, now_millis=made["short"] + 900) == []
    assert expire_branches(table, now_millis=made["short"] + 1100) == ["short"]
    assert expire_branches(table, age_millis=DAY, now_millis=made["long"] + DAY // 2) == []
    put(table.on_branch("long"), 1)
    written = table.on_branch("long").snapshots.latest()
    assert written is not None
    assert expire_branches(table, age_millis=10, now_millis=written.time_millis + 5) == []
    assert expire_branches(table, age_millis=10, now_millis=written.time_millis + DAY) == ["long"]
    assert table.snapshots.tags() == []


def test_a_tag_of_a_branch_that_another_engine_has_deleted_is_removed(table: FileStoreTable) -> None:
    create_branch(table, "b")
    UNSYNCED.delete_tree(f"{table.path}/branch/branch-b")
    assert len(table.snapshots.tags()) == 1
    assert expire_branches(table) == []
    assert table.snapshots.tags() == []


def test_a_damaged_fork_point_is_named(table: FileStoreTable) -> None:
    create_branch(table, "b")
    path = Path(table.path) / "branch" / "branch-b" / "lakelog" / "fork"
    for text in ("", "[]", '{"branchId": "b", "timeMillis": 1, "protectingTag": "../../schema/schema-0"}'):
        path.write_text(text, "utf-8")
        with pytest.raises(LakelogError, match="fork"):
            branch_list(table)
    assert (Path(table.path) / "schema" / "schema-0").exists()


def test_a_fork_point_is_read_as_it_was_written() -> None:
    place: dict[str, Any] = {"snapshot_id": 3, "commit_uuid": "u", "protecting_tag": "t", "tag": "x"}
    fork = Fork(branch_id="b", created_millis=5, retained_millis=7, taken_millis=6, **place)
    assert Fork.of_fields(json.loads(fork.to_json())) == fork


# A branch of a table with a log


def logged(folder: Path, **options: str) -> FileStoreTable:
    """A table whose schema and snapshots are those of one with a log; no Kafka is there."""
    given = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "lakelog.place": str(folder)}
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})
    schema = replace(schema, options={**schema.options, **given})
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    commit_batch(table, 0)
    newest = table.snapshots.get(1)
    state = {
        **newest.properties,
        PropertyKey.LOG_STATE: '{"state": 1}',
        "lakelog.log-generations": "[]",
        "lakelog.place": "x",
    }
    UNSYNCED.write_bytes(table.paths.snapshot(1), replace(newest, properties=state).to_json().encode())
    return table


def test_a_branch_of_a_logged_table_has_no_log_and_is_written(tmp_path: Path) -> None:
    table = logged(tmp_path)
    tag(table, "t", 1)
    create_branch(table, "b", tag="t")
    branch = table.on_branch("b")
    assert not [key for key in branch.schema.options if key.startswith("log.") or key == "lakelog.place"]
    put(branch, 100)
    for found in (branch.snapshots.get(1), branch.snapshots.get(2), branch.snapshots.tagged("t")):
        assert not {PropertyKey.LOG_STATE, "lakelog.log-generations", "lakelog.place"} & found.properties.keys()
    assert read_users(branch.snapshots.latest(), branch.snapshots)["job"].identifier == 0
    assert content(branch) == content_after(1) | {100: 9}
    assert PropertyKey.LOG_STATE in table.snapshots.get(1).properties
    assert table.schemas.list_ids() == [0]


def test_a_branch_that_another_engine_made_of_a_logged_table_is_not_written(tmp_path: Path) -> None:
    table = logged(tmp_path)
    create_branch(table, "b")
    (Path(table.path) / "branch" / "branch-b" / "schema" / "schema-1").unlink()
    with pytest.raises(InvalidRequestError):
        put(table.on_branch("b"), 1)
    with pytest.raises(InvalidRequestError):
        table.on_branch("b").compact(full=True)


def test_a_table_that_its_log_merges_gets_no_branch(tmp_path: Path) -> None:
    table = logged(tmp_path, **{"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"})
    with pytest.raises(UnsupportedError, match="without a log"):
        create_branch(table, "b")
    assert branch_list(table) == []


# Each step may be the last of a process


def act(table: FileStoreTable, action: str) -> None:
    if action == "create":
        create_branch(table, "new", tag="t")
    elif action == "rename":
        rename_branch(table, "old", "new")
    else:
        delete_branch(table, "old")


def shown(table: FileStoreTable) -> dict[str, dict[int, int]]:
    found = {branch.name: content(table.on_branch(branch.name)) for branch in branch_list(table)}
    return {"main": content(table), **found}


def prepared(folder: Path) -> FileStoreTable:
    table = make_table(folder)
    for batch in range(3):
        commit_batch(table, batch)
    tag(table, "t", 2)
    create_branch(table, "old", snapshot_id=2)
    put(table.on_branch("old"), 100)
    return table


def changing_calls(folder: Path, action: str) -> list[int]:
    """The calls of an action that change a file, counted from 1; the first call too."""
    counted = FaultyFileIO(UNSYNCED)
    act(in_new_process(prepared(folder).path, counted), action)
    names = enumerate(counted.calls, 1)
    return [1, *(number for number, name in names if name in ("create_new", "write_bytes", "delete", "delete_tree"))]


@pytest.mark.parametrize("action", ["create", "rename", "delete"])
def test_a_crash_before_any_change_of_a_file_leaves_the_old_state_or_the_new_one(tmp_path: Path, action: str) -> None:
    old = shown(prepared(tmp_path / "start"))
    new = {
        "create": {**old, "new": content_after(2)},
        "rename": {"main": old["main"], "new": old["old"]},
        "delete": {"main": old["main"]},
    }[action]
    calls = changing_calls(tmp_path / "count", action)
    assert len(calls) > 4
    for dies_at in calls:
        path = prepared(tmp_path / str(dies_at)).path
        with pytest.raises(InjectedCrash):
            act(in_new_process(path, FaultyFileIO(UNSYNCED, fails_at=dies_at)), action)
        table = in_new_process(path)
        seen = shown(table)
        assert seen["main"] == old["main"]
        assert seen.items() <= {**old, **new}.items()
        delete_branch(table, "other", if_exists=True)  # finishes the step
        finished = shown(table)
        assert finished in (old, new)
        if finished == old:
            act(table, action)
        assert no_step_is_left(table)
        clean(table)
        assert shown(in_new_process(path)) == new


def names_of(table: FileStoreTable) -> set[str]:
    return {branch.name for branch in branch_list(table)}


def no_step_is_left(table: FileStoreTable) -> bool:
    hidden = [path.name for path in (Path(table.path) / "branch").iterdir() if path.name.startswith(".")]
    forks = [tag for tag in table.snapshots.tags() if tag.startswith(PROTECTING_PREFIX)]
    return hidden == [] and len(forks) == len(branch_list(table))


def test_a_clean_finishes_a_step(tmp_path: Path) -> None:
    path = prepared(tmp_path).path
    crashing = FaultyFileIO(UNSYNCED, fails_at=changing_calls(tmp_path / "count", "create")[-3])
    with pytest.raises(InjectedCrash):
        act(in_new_process(path, crashing), "create")
    table = in_new_process(path)
    assert "new" not in names_of(table)
    clean(table)
    assert names_of(table) == {"new", "old"}
    assert no_step_is_left(table)


def test_a_rename_that_a_writer_overtakes_renames_nothing_and_loses_nothing(tmp_path: Path) -> None:
    outcomes = set()
    for at in changing_calls(tmp_path / "count", "rename"):
        path = prepared(tmp_path / str(at)).path
        writer = in_new_process(path).on_branch("old")
        meanwhile = Meanwhile(UNSYNCED, at, lambda writer=writer: put(writer, 200))
        try:
            act(in_new_process(path, meanwhile), "rename")
            outcome = "renamed"
        except ConflictError:
            outcome = "refused"
        table = in_new_process(path)
        rows = content(table.on_branch("new" if outcome == "renamed" else "old"))
        assert (200 in rows) == meanwhile.is_committed
        assert names_of(table) == {"new" if outcome == "renamed" else "old"}
        outcomes.add((outcome, meanwhile.is_committed))
    assert {("renamed", True), ("refused", True)} <= outcomes


class Meanwhile(FaultyFileIO):
    """Another process acts before a call."""

    def __init__(self, inner: FileIO, at: int, other: Any) -> None:
        super().__init__(inner)
        self._at, self._other, self.is_committed = at, other, False

    def _call(self, name: str, act: Any) -> Any:
        if len(self.calls) + 1 == self._at and not self.is_committed:
            self._at = -1
            with contextlib.suppress(LakelogError):
                self._other()
                self.is_committed = True
        return super()._call(name, act)


def test_the_tags_of_a_table_are_listed_once_for_a_branch_of_another_engine(tmp_path: Path) -> None:
    """Each tag cost a listing of all."""
    counted: list[int] = []
    for count in (2, 12):
        table = make_table(tmp_path / str(count))
        snapshot = table.write(rows_of(0))
        branch = fork(table, "foreign", is_known=False)
        for line in (table, branch):
            write_tag(line, "t0", snapshot)
        for number in range(count):
            write_tag(branch, f"own{number}", snapshot)
        calls = FaultyFileIO(UNSYNCED)
        (found,) = branch_list(in_new_process(table.path, calls))
        assert (found.tag, found.snapshot_id) == ("t0", 1)
        counted.append(len(calls.calls))
    assert counted[0] == counted[1]
