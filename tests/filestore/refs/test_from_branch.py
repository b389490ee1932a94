"""A branch takes the place of what its table has since: the old line or the new one, and no commit is lost."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.alter.schema_changes import AddColumn, SetOption
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.users import CommitUser, read_users
from lakelog.filestore.refs import branch_list, create_branch, delete_branch, expire_branches
from lakelog.filestore.refs.tags.tags import drop_tag, write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.altered import altered as altered_table
from tests.support.tables.paimon_tables import expected, unpack
from tests.support.tables.small_tables import (
    SCHEMA,
    UNSYNCED,
    commit_batch,
    content,
    content_after,
    in_new_process,
    make_table,
)
from tests.support.tables.taken_over import fast_forward, merge_branch, replace_main, take_over

DAY = 24 * 3_600_000
KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
ACTIONS = ("fast_forward", "merge_branch", "replace_main")


def put(table: FileStoreTable, *ids: int, batch: int = 9) -> None:
    table.write(pa.table({"id": list(ids), "batch": [batch] * len(ids)}, schema=SCHEMA))


def clean(table: FileStoreTable) -> None:
    remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True)


def lines(folder: Path, *, ours: int = 0, theirs: int = 2) -> FileStoreTable:
    """Two batches, then a branch `b`, in which and in the table so many commits are since."""
    table = make_table(folder, options={"write-only": "true"})
    for batch in range(2):
        commit_batch(table, batch)
    create_branch(table, "b")
    branch = table.on_branch("b")
    for number in range(theirs):
        put(branch, 100 + number)
    for number in range(ours):
        put(table, 200 + number)
    return table


def of_branch(theirs: int = 2) -> dict[int, int]:
    return content_after(2) | {100 + number: 9 for number in range(theirs)}


def of_table(ours: int) -> dict[int, int]:
    return content_after(2) | {200 + number: 9 for number in range(ours)}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_table_gets_what_its_branch_has_since(tmp_path: Path, action: str) -> None:
    table = lines(tmp_path)
    branch = table.on_branch("b")
    commits = [table.snapshots.get(1).uuid, *(branch.snapshots.get(number).uuid for number in (2, 3, 4))]
    newest = take_over(table, action, "b")
    table = in_new_process(table.path)
    assert newest == table.snapshots.latest()
    assert content(table) == of_branch()
    assert [table.snapshots.get(number).uuid for number in table.snapshots.ids()] == commits
    assert [branch.name for branch in branch_list(table)] == ([] if action == "replace_main" else ["b"])
    put(table, 7)
    assert content(table) == of_branch() | {7: 9}
    assert not (Path(table.path) / "lakelog" / "main-change").exists()


@pytest.mark.parametrize(("ours", "theirs"), [(1, 3), (2, 2), (4, 1)])
@pytest.mark.parametrize("action", ACTIONS[1:])
def test_what_the_table_has_since_gives_way(tmp_path: Path, action: str, ours: int, theirs: int) -> None:
    table = lines(tmp_path, ours=ours, theirs=theirs)
    write_tag(table, "old", table.snapshots.get(1))
    write_tag(table, "gives-way", table.snapshots.get(3))
    write_tag(table.on_branch("b"), "new", table.on_branch("b").snapshots.get(3))
    take_over(table, action, "b")
    table = in_new_process(table.path)
    assert content(table) == of_branch(theirs)
    assert table.snapshots.ids() == list(range(1, 3 + theirs))
    assert {tag for tag in table.snapshots.tags() if not tag.startswith("lakelog-")} == {"old", "new"}
    clean(table)
    assert content(in_new_process(table.path)) == of_branch(theirs)
    assert {row["batch"] for row in table.to_arrow(tag="new").to_pylist()} == {0, 1, 9}


def test_a_fast_forward_keeps_what_the_table_has_since(tmp_path: Path) -> None:
    table = lines(tmp_path, ours=2)
    with pytest.raises(ConflictError, match="snapshots 3, 4"):
        fast_forward(table, table.on_branch("b"))
    assert content(table) == of_table(2)


def test_a_compaction_of_the_table_is_no_change_that_a_fast_forward_loses(tmp_path: Path) -> None:
    table = lines(tmp_path)
    table.compact(full=True)
    fast_forward(table, table.on_branch("b"))
    assert content(in_new_process(table.path)) == of_branch()


def test_a_branch_is_fast_forwarded_again(tmp_path: Path) -> None:
    table = lines(tmp_path)
    fast_forward(table, table.on_branch("b"))
    put(table.on_branch("b"), 300)
    fast_forward(table, table.on_branch("b"))
    assert content(in_new_process(table.path)) == of_branch() | {300: 9}
    put(table, 301)
    with pytest.raises(ConflictError):
        fast_forward(table, table.on_branch("b"))
    for line in (in_new_process(table.path), table.on_branch("b")):
        line.compact(full=True)
        expire_snapshots(line, retention=KEEP_ONE)
        clean(line)
    assert content(in_new_process(table.path)) == of_branch() | {300: 9, 301: 9}
    assert content(table.on_branch("b")) == of_branch() | {300: 9}
    delete_branch(table, "b")
    assert table.snapshots.tags() == []


def test_users_of_both_lines_go_on_with_their_next_batches(tmp_path: Path) -> None:
    table = lines(tmp_path)
    branch = table.on_branch("b")
    for batch in (2, 3):
        commit_batch(table, batch)
    commit_batch(branch, 2)
    commit_batch(branch, 0, user="other")
    merge_branch(table, table.on_branch("b"))
    table = in_new_process(table.path)
    users = read_users(table.snapshots.latest(), table.snapshots)
    assert {user: last.identifier for user, last in users.items()} == {"job": 3, "other": 0}
    assert all(isinstance(last, CommitUser) for last in users.values())
    assert commit_batch(table, 3) is None  # it gave way, and does not come again
    assert commit_batch(table, 4) is not None


def test_a_branch_that_has_expired_its_beginning_takes_the_whole_place(tmp_path: Path) -> None:
    table = lines(tmp_path, ours=1, theirs=3)
    expire_snapshots(table.on_branch("b"), retention=KEEP_ONE)
    merge_branch(table, table.on_branch("b"))
    table = in_new_process(table.path)
    assert table.snapshots.ids() == [5]
    assert content(table) == of_branch(3)
    put(table, 1)
    assert table.snapshots.ids() == [5, 6]


def test_the_columns_of_the_branch_are_the_tables_then(tmp_path: Path) -> None:
    table = lines(tmp_path)
    altered_table(table.on_branch("b"), AddColumn("note", "STRING"))
    fast_forward(table, table.on_branch("b"))
    assert in_new_process(table.path).schema.field_names == ("id", "batch", "note")
    put(table, 5)  # opened with the older columns, as after any added column
    assert content(in_new_process(table.path))[5] == 9


def test_a_writer_with_columns_that_gave_way_is_refused(tmp_path: Path) -> None:
    table = lines(tmp_path)
    altered = altered_table(table, AddColumn("mine", "STRING"))
    altered.write(pa.table({"id": [1], "batch": pa.array([1], pa.int32()), "mine": ["x"]}))
    branch = altered_table(table.on_branch("b"), AddColumn("theirs", "BIGINT"))
    branch.write(pa.table({"id": [5], "batch": pa.array([1], pa.int32()), "theirs": [7]}))
    with pytest.raises(ConflictError):
        fast_forward(table, table.on_branch("b"))
    merge_branch(table, table.on_branch("b"))
    with pytest.raises(ConflictError, match="open the table again"):
        altered.write(pa.table({"id": [2], "batch": pa.array([1], pa.int32()), "mine": ["y"]}))
    table = in_new_process(table.path)
    assert table.schema.field_names == ("id", "batch", "theirs")
    assert table.to_arrow(where="id = 5").to_pylist() == [{"id": 5, "batch": 1, "theirs": 7}]
    assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "batch": 0, "theirs": None}]
    altered_table(table, SetOption("num-sorted-run.compaction-trigger", "4")).write(pa.table({"id": [6], "batch": [2]}))
    assert content(in_new_process(table.path))[6] == 2


def test_a_branch_of_another_engine_is_merged_from_the_snapshot_that_both_have(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged")
    rows = {row["id"]: row["v"] for row in expected("tags_branches", "tagged", "branch-b1")}
    with pytest.raises(ConflictError):
        fast_forward(table, table.on_branch("b1"))
    merge_branch(table, table.on_branch("b1"))
    found = FileStoreTable.open(table.path)
    assert {row["id"]: row["v"] for row in found.to_arrow().to_pylist()} == rows
    assert found.snapshots.ids() == [1, 2, 3, 4, 5]
    assert found.snapshots.tags() == ["bt", "t1"]


def test_a_fast_forward_leaves_the_snapshots_that_paimon_leaves(tmp_path: Path) -> None:
    """Of the fixture: main had snapshots 2 and 3 since, and Flink's fast-forward let them give way, as our merge."""
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "forwarded")
    merge_branch(table, table.on_branch("dev"))
    for number in (1, 2):
        ours, theirs = (
            json.loads(Path(paths.snapshot(number)).read_text("utf-8"))
            for paths in (table.paths, table.on_branch("dev").paths)
        )
        ours.pop("properties", None)
        assert ours == theirs


@pytest.mark.parametrize("action", ACTIONS)
def test_what_cannot_be_is_refused(tmp_path: Path, action: str) -> None:
    table = lines(tmp_path)
    create_branch(table, "empty", empty=True)
    with pytest.raises(InvalidRequestError, match="no snapshot"):
        take_over(table, action, "empty")
    with pytest.raises(NotFoundError):
        take_over(table, action, "nope")
    with pytest.raises(InvalidRequestError):
        take_over(table.on_branch("b"), action, "b")


# Each change of a file may be the last of a process, and writers commit meanwhile


def changing_calls(path: str, act: Callable[[FileStoreTable], object]) -> list[int]:
    counted = FaultyFileIO(UNSYNCED)
    act(in_new_process(path, counted))
    names = enumerate(counted.calls, 1)
    return [number for number, name in names if name in ("create_new", "write_bytes", "delete", "delete_tree")]


@pytest.mark.parametrize(("ours", "theirs"), [(1, 2), (3, 1)])
def test_a_crash_before_any_change_of_a_file_is_finished_by_the_next_writer(
    tmp_path: Path, ours: int, theirs: int
) -> None:
    calls = changing_calls(
        lines(tmp_path / "count", ours=ours, theirs=theirs).path, lambda one: replace_main(one, one.on_branch("b"))
    )
    old, new = of_table(ours), of_branch(theirs)
    ends = set()
    for dies_at in calls:
        path = lines(tmp_path / str(dies_at), ours=ours, theirs=theirs).path
        with pytest.raises(InjectedCrash):
            take_over(in_new_process(path, FaultyFileIO(UNSYNCED, fails_at=dies_at)), "replace_main", "b")
        with contextlib.suppress(ConflictError):
            put(in_new_process(path), 700)
        table = in_new_process(path)
        found = content(table)
        is_new = found.items() >= new.items()
        put(table, 800)
        assert found in ((new, new | {700: 9}) if is_new else (old, old | {700: 9}))
        ends.add(is_new)
        assert content(in_new_process(path)) == found | {800: 9}
        if not is_new:
            replace_main(table, table.on_branch("b"))
            assert content(in_new_process(path)) == new
        assert branch_list(table) == []
        clean(in_new_process(path))
        assert len(in_new_process(path).snapshots.ids()) >= 2 + theirs
    assert ends == {False, True}


def age(path: str, *, days: int) -> None:
    """Let every file of a table look older."""
    for file in (one for one in Path(path).rglob("*") if one.is_file()):
        then = file.stat().st_mtime - days * 86_400
        os.utime(file, (then, then))


@pytest.mark.parametrize("finish", [clean, expire_branches, lambda table: put(table, 700)])
def test_a_change_that_was_cut_off_days_ago_is_finished_as_it_was_decided(
    tmp_path: Path, finish: Callable[[FileStoreTable], object]
) -> None:
    calls = changing_calls(
        lines(tmp_path / "count", ours=3, theirs=2).path, lambda one: replace_main(one, one.on_branch("b"))
    )
    old, new = of_table(3), of_branch(2)
    ends = set()
    for dies_at in calls:
        path = lines(tmp_path / str(dies_at), ours=3, theirs=2).path
        with pytest.raises(InjectedCrash):
            take_over(in_new_process(path, FaultyFileIO(UNSYNCED, fails_at=dies_at)), "replace_main", "b")
        is_decided = any(Path(path, "lakelog").glob("main-change-*"))
        age(path, days=2)
        with contextlib.suppress(ConflictError):
            finish(in_new_process(path))
        clean(in_new_process(path))
        found = {key: batch for key, batch in content(in_new_process(path)).items() if key != 700}
        assert found == (new if is_decided or found == new else old)
        table = in_new_process(path)
        assert all(table.to_arrow(snapshot_id=number).num_rows for number in table.snapshots.ids())
        assert not Path(path, "lakelog", "main-change").exists()
        ends.add(found == new)
    assert ends == {False, True}


class Meanwhile(FaultyFileIO):
    """Another process acts before a call."""

    def __init__(self, at: int, other: Callable[[], object]) -> None:
        super().__init__(UNSYNCED)
        self._at, self._other, self.is_committed = at, other, False

    def _call(self, name: str, act: Any) -> Any:
        if len(self.calls) + 1 == self._at:
            self._at = -1
            with contextlib.suppress(LakelogError):
                self._other()
                self.is_committed = True
        return super()._call(name, act)


@pytest.mark.parametrize(("ours", "theirs"), [(0, 2), (3, 1)])
@pytest.mark.parametrize("line", ["main", "b"])
def test_no_commit_of_a_writer_is_lost_that_was_reported(tmp_path: Path, ours: int, theirs: int, line: str) -> None:
    calls = changing_calls(
        lines(tmp_path / "count", ours=ours, theirs=theirs).path, lambda one: replace_main(one, one.on_branch("b"))
    )
    outcomes = set()
    for at in calls:
        path = lines(tmp_path / str(at), ours=ours, theirs=theirs).path
        writer = in_new_process(path).on_branch(line)
        meanwhile = Meanwhile(at, lambda writer=writer: put(writer, 500))  # type: ignore[misc]  # bound early
        outcome = "replaced"
        try:
            replace_main(in_new_process(path, meanwhile), in_new_process(path, meanwhile).on_branch("b"))
        except ConflictError:
            outcome = "refused"
        table = in_new_process(path)
        where = table if line == "main" or outcome == "replaced" else table.on_branch("b")
        assert (500 in content(where)) == meanwhile.is_committed, at
        expected_rows = of_branch(theirs) if outcome == "replaced" or line == "b" else of_table(ours)
        assert {key: batch for key, batch in content(where).items() if key != 500} == expected_rows
        outcomes.add((outcome, meanwhile.is_committed))
    assert outcomes == {("refused", True), ("replaced", False)}


def test_a_writer_that_slept_through_it_does_not_bring_the_older_line_back(tmp_path: Path) -> None:
    """It has read the newest snapshot of the older line, and creates its own when all is done."""
    for at in range(1, 200, 4):
        path = lines(tmp_path / str(at), ours=3, theirs=1).path
        act = lambda path=path: merge_branch(in_new_process(path), in_new_process(path).on_branch("b"))  # noqa: E731
        sleeper = Meanwhile(at, act)
        with contextlib.suppress(ConflictError):
            put(in_new_process(path, sleeper), 500)
        if not sleeper.is_committed and sleeper._at != -1:
            break
        found = content(in_new_process(path))
        assert {key for key in found if key >= 200} <= {500} or not sleeper.is_committed
        assert {100, *content_after(2)} <= found.keys() or not sleeper.is_committed


# Tags of both lines


@pytest.mark.parametrize("theirs", [0, 2])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_tag_of_the_branch_on_its_base_is_the_tables_then(tmp_path: Path, action: str, theirs: int) -> None:
    table = lines(tmp_path, theirs=theirs)
    branch = table.on_branch("b")
    write_tag(branch, "base", branch.snapshots.get(2))
    take_over(table, action, "b")
    table = in_new_process(table.path)
    assert [tag for tag in table.snapshots.tags() if not tag.startswith("lakelog-")] == ["base"]
    assert {row["batch"] for row in table.to_arrow(tag="base").to_pylist()} == {0, 1}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_tag_of_both_lines_on_one_commit_stays_as_the_table_has_it(tmp_path: Path, action: str) -> None:
    table = lines(tmp_path, theirs=1)
    for line in (table, table.on_branch("b")):
        write_tag(line, "base", line.snapshots.get(2))
    before = Path(table.paths.tag("base")).read_bytes()
    take_over(table, action, "b")
    assert Path(table.paths.tag("base")).read_bytes() == before


@pytest.mark.parametrize("ours", [1, 3])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_tag_of_both_lines_on_two_commits_is_refused_before_anything(tmp_path: Path, action: str, ours: int) -> None:
    table = lines(tmp_path, ours=0 if action == "fast_forward" else 1, theirs=2)
    branch = table.on_branch("b")
    ours = min(ours, max(table.snapshots.ids()))
    write_tag(table, "twice", table.snapshots.get(ours))
    write_tag(branch, "twice", branch.snapshots.get(4))
    files = sorted(str(path) for path in Path(table.path).rglob("*"))
    with pytest.raises(ConflictError, match=rf"tag 'twice'.*snapshot {ours} of .*snapshot 4 of .*Nothing was changed"):
        take_over(in_new_process(table.path), action, "b")
    assert sorted(str(path) for path in Path(table.path).rglob("*")) == files
    drop_tag(in_new_process(table.path), "twice")
    take_over(in_new_process(table.path), action, "b")
    assert in_new_process(table.path).snapshots.tagged("twice").id == 4
