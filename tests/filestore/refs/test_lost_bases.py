"""A branch whose base is no longer in a line: its number is another commit's, or it has expired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.branches import lines as lines_module
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, expire_snapshots, merge_changes, remove_orphan_files, rollback
from lakelog.filestore.verbs.upkeep_verbs import merge_due
from tests.support.tables.altered import altered as altered_table
from tests.support.tables.foreign_engine import roll_back_as_others_do
from tests.support.tables.small_tables import SCHEMA, content, in_new_process, make_table
from tests.support.tables.taken_over import fast_forward, merge_branch, take_over

DAY = 24 * 3_600_000
KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
BASE = {1: 0, 2: 0, 3: 0}
OF_BRANCH = BASE | {4: 4, 5: 5}
TAKING = ("merge_branch", "replace_main")


def put(table: FileStoreTable, *ids: int, batch: int = 0) -> None:
    table.write(pa.table({"id": list(ids), "batch": [batch] * len(ids)}, schema=SCHEMA))


def ids_of_bucket(table: FileStoreTable, bucket: int) -> list[int]:
    found = plan_splits(table, table.snapshots.latest(), buckets={bucket})
    return [key for batch in read_splits(table, found.splits) for key in batch.column("id").to_pylist()]


def with_branch(folder: Path) -> FileStoreTable:
    """Snapshots 1 to 3; branch `b` of 3, with 4 and 5."""
    table = make_table(folder, options={"write-only": "true"})
    for key in BASE:
        put(table, key)
    create_branch(table, "b")
    put(table.on_branch("b"), 4, batch=4)
    put(table.on_branch("b"), 5, batch=5)
    return table


def rolled_back(table: FileStoreTable) -> None:
    """Snapshot 3 is of another commit then."""
    rollback(table, snapshot_id=1)
    put(table, 9, batch=9)
    put(table, 9, batch=10)


def rolled_back_by_others(table: FileStoreTable) -> None:
    roll_back_as_others_do(table, 1, deletes_files=True)
    rows = pa.table({"id": [9], "batch": [9]}, schema=SCHEMA)
    for batch in (9, 10):
        in_new_process(table.path).write(rows.set_column(1, SCHEMA.field("batch"), pa.array([batch], pa.int32())))


def rolled_back_and_left(table: FileStoreTable) -> None:
    """No snapshot has the number 3."""
    rollback(table, snapshot_id=1)
    put(table, 9, batch=10)


def replaced(table: FileStoreTable) -> None:
    """Another branch, of snapshot 1, takes the table's place."""
    create_branch(table, "other", snapshot_id=1)
    put(table.on_branch("other"), 9, batch=9)
    put(table.on_branch("other"), 9, batch=10)
    merge_branch(table, table.on_branch("other"))


MOVES: dict[str, Callable[[FileStoreTable], None]] = {
    "rollback": rolled_back,
    "rollback of another engine": rolled_back_by_others,
    "rollback, and the number is free": rolled_back_and_left,
    "another branch": replaced,
}
OF_OTHERS = "rollback of another engine"  # an older release, which deletes files that the branch needs too
OWN_MOVES = [move for move in MOVES if move != OF_OTHERS]
OF_TABLE = {1: 0, 9: 10}


def check_line(path: str, table: FileStoreTable) -> None:
    """Each snapshot reads, and the changes lead from each to the next."""
    ids = table.snapshots.ids()
    state = rows_at(in_new_process(path), ids[0])
    for number in ids[1:]:
        for row in changes(in_new_process(path), after=number - 1, up_to=number, source=ChangeSource.DELTA):
            state |= {one["id"]: one["batch"] for one in row.to_pylist()}
        assert rows_at(in_new_process(path), number) == state, number


def rows_at(table: FileStoreTable, number: int) -> dict[int, int]:
    return {row["id"]: row["batch"] for row in table.to_arrow(snapshot_id=number).to_pylist()}


def tags_of(table: FileStoreTable) -> list[str]:
    return [name for name in table.snapshots.tags() if not name.startswith("lakelog-")]


def clean(path: str) -> None:
    remove_orphan_files(in_new_process(path), older_than_millis=-DAY, dry_run=False, allow_young=True)


@pytest.mark.parametrize("move", MOVES)
def test_a_fast_forward_from_a_base_that_is_not_there_is_refused_with_both_commits(tmp_path: Path, move: str) -> None:
    table = with_branch(tmp_path)
    began = table.snapshots.get(3).uuid
    MOVES[move](table)
    table = in_new_process(table.path)
    living = table.snapshots.find(3)
    now = r"ends at snapshot 2 now" if living is None else f"of the commit {living.uuid} now"
    with pytest.raises(ConflictError, match=f"began at snapshot 3, of the commit {began}, and .*{now}"):
        fast_forward(table, table.on_branch("b"))
    assert content(in_new_process(table.path)) == OF_TABLE


@pytest.mark.parametrize("move", OWN_MOVES)
@pytest.mark.parametrize("action", TAKING)
def test_the_whole_line_of_a_branch_takes_the_tables_place(tmp_path: Path, move: str, action: str) -> None:
    table = with_branch(tmp_path)
    commits = [table.on_branch("b").snapshots.get(number).uuid for number in (3, 4, 5)]
    MOVES[move](table)
    write_tag(table, "first", table.snapshots.get(1))
    take_over(in_new_process(table.path), action, "b")
    table = in_new_process(table.path)
    assert content(table) == OF_BRANCH
    assert table.snapshots.ids() == [3, 4, 5]
    assert [table.snapshots.get(number).uuid for number in (3, 4, 5)] == commits
    check_line(table.path, table)
    assert tags_of(table) == ["first"]
    clean(table.path)
    in_new_process(table.path).compact(full=True)
    expire_snapshots(in_new_process(table.path), retention=KEEP_ONE)
    assert content(in_new_process(table.path)) == OF_BRANCH
    assert {row["id"] for row in in_new_process(table.path).to_arrow(tag="first").to_pylist()} == {1}


@pytest.mark.parametrize("move", OWN_MOVES)
def test_a_three_way_merge_has_the_protected_base(tmp_path: Path, move: str) -> None:
    """The rollback took 2 and 3 out of the table, and the branch did not change them."""
    table = with_branch(tmp_path)
    MOVES[move](table)
    merge_changes(in_new_process(table.path), "b")
    assert content(in_new_process(table.path)) == OF_TABLE | {4: 4, 5: 5}


def test_tags_of_another_line_that_the_branch_contradicts_give_way(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    rolled_back(table)
    for number in (1, 2, 3):
        write_tag(table, f"t{number}", table.snapshots.get(number))
    merge_branch(table, table.on_branch("b"))
    table = in_new_process(table.path)
    assert tags_of(table) == ["t1", "t2"]
    in_new_process(table.path).compact(full=True)
    expire_snapshots(in_new_process(table.path), retention=KEEP_ONE)
    rows = {
        tag: {row["id"] for row in in_new_process(table.path).to_arrow(tag=tag).to_pylist()} for tag in ("t1", "t2")
    }
    assert rows == {"t1": {1}, "t2": {1, 9}}


@pytest.mark.parametrize("action", TAKING)
def test_columns_of_both_lines_damage_no_snapshot(tmp_path: Path, action: str) -> None:
    table = with_branch(tmp_path)
    altered_table(table.on_branch("b"), AddColumn("theirs", "BIGINT"))
    in_new_process(table.path).on_branch("b").write(
        pa.table({"id": [6], "batch": pa.array([6], pa.int32()), "theirs": [6]})
    )
    rolled_back(table)
    altered = altered_table(table, AddColumn("mine", "STRING"))
    altered.write(pa.table({"id": [8], "batch": pa.array([8], pa.int32()), "mine": ["x"]}))
    write_tag(altered, "first", altered.snapshots.get(1))
    write_tag(altered, "altered", altered.snapshots.get(4))
    with pytest.raises(ConflictError):
        fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    take_over(in_new_process(table.path), action, "b")
    table = in_new_process(table.path)
    assert table.schema.field_names == ("id", "batch", "theirs")
    assert content(table) == OF_BRANCH | {6: 6}
    for number in table.snapshots.ids():
        assert rows_at(in_new_process(table.path), number).keys() >= BASE.keys()
    assert tags_of(table) == ["first"]
    assert in_new_process(table.path).to_arrow(tag="first").num_rows == 1


def test_a_fast_forward_of_a_table_whose_newer_rows_have_expired_with_their_snapshots_is_refused(
    tmp_path: Path,
) -> None:
    """The table has a compaction alone since the base, of rows whose own snapshot has expired."""
    table = with_branch(tmp_path)
    put(table, 9, batch=9)
    table.compact(full=True)
    expire_snapshots(table, retention=KEEP_ONE)
    with pytest.raises(ConflictError, match="have expired"):
        fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    assert content(in_new_process(table.path)) == BASE | {9: 9}


@pytest.mark.parametrize("options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}])
def test_a_fast_forward_of_a_table_whose_newer_rows_wait_for_a_compaction_is_refused(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """Since the base the table has a compaction alone, of a bucket whose rows are the same, and rows in the other."""
    table = make_table(tmp_path, options={"write-only": "true", "bucket": "2", **options})
    scratch = make_table(tmp_path / "scratch", options={"bucket": "2"})
    put(scratch, *range(20))
    one, other = (ids_of_bucket(scratch, number) for number in (0, 1))
    put(table, one[0], other[0])
    table.compact(full=True)
    create_branch(table, "b")
    put(table.on_branch("b"), 50, batch=5)
    put(table, one[0])  # the same row again
    put(table, other[1], batch=9)
    (bucket,) = (bucket for bucket in table.live_files.of(table.snapshots.latest()).buckets if bucket.number == 0)
    assert merge_due(table, [bucket], is_full=True, clock=None) is not None
    expire_snapshots(table, retention=KEEP_ONE)
    with pytest.raises(ConflictError, match="have expired"):
        fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))


def test_a_fast_forward_of_a_table_with_the_rows_of_an_expired_base_goes_on(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    table.compact(full=True)
    table.compact(full=True)
    expire_snapshots(table, retention=KEEP_ONE)
    assert table.snapshots.ids() == [4]
    fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    assert content(in_new_process(table.path)) == OF_BRANCH


def test_a_branch_that_was_rolled_back_behind_its_base_takes_no_rows_away(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    fast_forward(table, table.on_branch("b"))
    rollback(in_new_process(table.path).on_branch("b"), snapshot_id=4)
    with pytest.raises(ConflictError, match=r"\$branch_b ends at snapshot 4 now"):
        fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    put(in_new_process(table.path).on_branch("b"), 6, batch=6)
    put(in_new_process(table.path).on_branch("b"), 7, batch=7)
    with pytest.raises(ConflictError, match=r"snapshot 5 of .*\$branch_b is of the commit"):
        fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    assert content(in_new_process(table.path)) == OF_BRANCH
    merge_branch(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    table = in_new_process(table.path)
    assert content(table) == BASE | {4: 4, 6: 6, 7: 7}
    check_line(table.path, table)


@pytest.mark.parametrize("action", TAKING)
def test_a_branch_without_snapshots_of_its_own_since_its_base_gives_that(tmp_path: Path, action: str) -> None:
    table = with_branch(tmp_path)
    create_branch(table, "still", snapshot_id=2)
    rolled_back(table)
    take_over(in_new_process(table.path), action, "still")
    table = in_new_process(table.path)
    assert content(table) == {1: 0, 2: 0}
    put(table, 7)
    assert content(in_new_process(table.path)) == {1: 0, 2: 0, 7: 0}


def test_a_base_that_is_found_by_its_number_loses_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard taken out: what has the base's number is the base."""
    table = with_branch(tmp_path)
    rolled_back(table)
    monkeypatch.setattr(lines_module, "is_fork_commit", lambda *_, **__: True)
    fast_forward(in_new_process(table.path), in_new_process(table.path).on_branch("b"))
    assert content(in_new_process(table.path)).keys() == OF_BRANCH.keys()


@pytest.mark.parametrize("changes_of_branch", [0, 3], ids=["the branch's columns stay", "the numbers meet"])
def test_a_branch_is_taken_again_after_both_lines_have_changed_columns(tmp_path: Path, changes_of_branch: int) -> None:
    """The first time its newest snapshot gets a number of a schema in the table that the branch may give as well."""
    table = with_branch(tmp_path)
    table = altered_table(table, AddColumn("of_table", "INT"))
    merge_branch(table, table.on_branch("b"))
    table = in_new_process(table.path)
    write_tag(table, "taken", table.snapshots.get(5))
    branch = table.on_branch("b")
    for number in range(changes_of_branch):
        branch = altered_table(branch, AddColumn(f"of_branch_{number}", "INT"))
    put_all = pa.table({"id": [6], "batch": [6]})
    for number in range(changes_of_branch):
        put_all = put_all.append_column(f"of_branch_{number}", pa.array([None], pa.int32()))
    branch.write(put_all.cast(branch.schema.arrow_schema))
    merge_branch(table, table.on_branch("b"))
    table = in_new_process(table.path)
    assert content(table) == OF_BRANCH | {6: 6}
    states = [table.to_arrow(**at) for at in ({"snapshot_id": 5}, {"tag": "taken"}, {"snapshot_id": 4})]
    found = [dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True)) for rows in states]
    assert found == [OF_BRANCH, OF_BRANCH, BASE | {4: 4}]
