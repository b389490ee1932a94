"""A table whose snapshots are of two lines, as other engines leave it: each state is read as it was committed.

Another engine's fast-forward deletes the table's snapshots from the oldest living one of the branch on. Where the
branch has expired those at its beginning, the table's own snapshots before stay: the number before is of another line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.refs import create_branch, delete_branch
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.system import diff_states
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, delete, expire_snapshots, remove_orphan_files, rollback
from tests.support.tables.foreign_engine import fast_forward_as_others_do
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import SCHEMA, content, in_new_process, make_table

DAY = 24 * 3_600_000
KEEP_ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
COMMON = {0: 0, 1: 0}
OLD = COMMON | {500: 5}  # the table's snapshot 3
NEW = {0: 6, 1: 0, 100: 6, 101: 6}  # the branch's snapshot 4, and the table's then


def put(table: FileStoreTable, rows: dict[int, int]) -> None:
    table.write(pa.table({"id": list(rows), "batch": list(rows.values())}, schema=SCHEMA))


def expire_but(table: FileStoreTable, count: int) -> None:
    expire_snapshots(table, retention=replace(KEEP_ONE, count_min=count, count_max=count))


def two_lines(folder: Path, *, manifest_min: int = 30) -> tuple[FileStoreTable, str]:
    """The table, opened and read at its snapshot 3, which stays before the branch's snapshot 4."""
    options = {"write-only": "true", "manifest.merge-min-count": str(manifest_min)}
    table = make_table(folder, options=options)
    put(table, {0: 0})
    put(table, {1: 0})
    create_branch(table, "b")
    put(table, {500: 5})
    branch = table.on_branch("b")
    put(branch, {100: 6})
    put(branch, {0: 6, 101: 6})
    expire_snapshots(branch, retention=KEEP_ONE)
    opened = in_new_process(table.path)
    assert content(opened) == OLD
    fast_forward_as_others_do(in_new_process(table.path), "b")
    return opened, table.path


VERBS: dict[str, Callable[[FileStoreTable], object]] = {
    "read": lambda _: None,
    "compact": lambda table: table.compact(full=True),
    "write": lambda table: put(table, {7: 7}),
    "overwrite": lambda table: table.write(pa.table({"id": [3], "batch": [3]}, schema=SCHEMA), mode="overwrite"),
    "delete": lambda table: delete(table, "id = 101"),
}
AFTER = {
    "read": NEW,
    "compact": NEW,
    "write": NEW | {7: 7},
    "overwrite": {3: 3},
    "delete": {key: batch for key, batch in NEW.items() if key != 101},
}


@pytest.mark.parametrize("manifest_min", [2, 30])
@pytest.mark.parametrize("verb", VERBS)
def test_a_handle_from_before_reads_and_changes_the_line_that_is_there(
    tmp_path: Path, verb: str, manifest_min: int
) -> None:
    opened, path = two_lines(tmp_path, manifest_min=manifest_min)
    VERBS[verb](opened)
    assert content(opened) == AFTER[verb]
    assert content(in_new_process(path)) == AFTER[verb]


def behind_a_gap(folder: Path) -> tuple[FileStoreTable, str]:
    """The table, opened and read at its snapshot 1, behind which the branch's snapshots 4 and 5 come."""
    table = make_table(folder, options={"write-only": "true"})
    for number in range(3):
        put(table, {number: 0})
    create_branch(table, "b")
    branch = table.on_branch("b")
    put(branch, {100: 6})
    expire_snapshots(branch, retention=KEEP_ONE)
    put(branch, {0: 6, 101: 6})
    rollback(table, snapshot_id=1)
    opened = in_new_process(table.path)
    assert content(opened) == {0: 0}
    fast_forward_as_others_do(in_new_process(table.path), "b")
    assert opened.snapshots.ids() == [1, 4, 5]
    return opened, table.path


@pytest.mark.parametrize("verb", VERBS)
def test_a_handle_from_before_looks_behind_a_gap(tmp_path: Path, verb: str) -> None:
    opened, path = behind_a_gap(tmp_path)
    rows = {"overwrite": {3: 3}}.get(verb, AFTER[verb] | {2: 0})
    VERBS[verb](opened)
    assert content(opened) == rows
    assert content(in_new_process(path)) == rows


def test_a_handle_that_starts_where_it_was_stays_before_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard taken out: the hint counts only where the last snapshot that was seen is missing."""
    opened, _ = behind_a_gap(tmp_path)
    found = SnapshotManager._hint
    monkeypatch.setattr(SnapshotManager, "_hint", lambda manager, path: manager._seen or found(manager, path))
    assert content(opened) == {0: 0}


def test_changes_over_a_gap_are_refused(tmp_path: Path) -> None:
    opened, _ = behind_a_gap(tmp_path)
    with pytest.raises(NotFoundError, match="the changes of snapshot 2 of table t do not exist"):
        list(changes(opened, after=1, up_to=5))
    assert sum(batch.num_rows for batch in changes(opened, after=4, up_to=5)) == 2


def test_the_snapshots_before_a_gap_expire_once_orphans_were_searched_for(tmp_path: Path) -> None:
    """The branch's hint of its oldest snapshot, which came with it, hides them."""
    _, path = behind_a_gap(tmp_path)
    delete_branch(in_new_process(path), "b")
    remove_orphan_files(in_new_process(path), older_than_millis=-DAY, dry_run=False, allow_young=True)
    assert {row["id"]: row["batch"] for row in in_new_process(path).to_arrow(snapshot_id=1).to_pylist()} == {0: 0}
    expire_snapshots(in_new_process(path), retention=KEEP_ONE)
    table = in_new_process(path)
    assert table.snapshots.ids() == [5]
    assert content(table) == NEW | {2: 0}
    remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True)
    assert files_on_disk(path) == referenced_files(path)


def test_each_snapshot_reads_as_it_was_committed(tmp_path: Path) -> None:
    _, path = two_lines(tmp_path)
    table = in_new_process(path)
    for number, rows in ((3, OLD), (4, NEW), (2, COMMON), (3, OLD)):
        found = table.to_arrow(snapshot_id=number).to_pylist()
        assert {row["id"]: row["batch"] for row in found} == rows, number


def test_a_difference_of_two_lines_has_what_the_older_one_loses(tmp_path: Path) -> None:
    _, path = two_lines(tmp_path)
    found = diff_states(in_new_process(path), 3, 4)
    assert (found.added, found.changed, found.removed) == (2, 1, 1)


def test_changes_that_do_not_lead_from_one_snapshot_to_the_next_are_refused(tmp_path: Path) -> None:
    _, path = two_lines(tmp_path)
    table = in_new_process(path)
    for source in (ChangeSource.AUTO, ChangeSource.DELTA):
        with pytest.raises(InvalidRequestError, match=r"snapshot 4 .* does not continue snapshot 3"):
            list(changes(table, after=3, up_to=4, source=source))
    rows = pa.Table.from_batches(list(changes(table, after=3, up_to=4, source=ChangeSource.DIFFERENCE))).to_pylist()
    kinds = {(row["_row_kind"], row["id"], row["batch"]) for row in rows}
    assert kinds == {("-D", 500, 5), ("-U", 0, 0), ("+U", 0, 6), ("+I", 100, 6), ("+I", 101, 6)}


def test_the_files_of_both_lines_stay_while_their_snapshots_live(tmp_path: Path) -> None:
    _, path = two_lines(tmp_path)
    remove_orphan_files(in_new_process(path), older_than_millis=-DAY, dry_run=False, allow_young=True)
    table = in_new_process(path)
    assert {row["id"]: row["batch"] for row in table.to_arrow(snapshot_id=3).to_pylist()} == OLD
    assert content(table) == NEW


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("is_warm", [False, True], ids=["", "after-an-expiry"])
def test_an_expiry_keeps_the_files_of_the_line_that_stays(tmp_path: Path, count: int, is_warm: bool) -> None:
    """The older line has compacted files away that the newer one still has, whichever of the two expires now."""
    table = make_table(tmp_path, options={"write-only": "true"})
    put(table, {9: 9})
    put(table, {0: 0})
    put(table, {1: 0})
    create_branch(table, "b")
    table.compact(full=True)
    branch = table.on_branch("b")
    put(branch, {100: 6})
    put(branch, {0: 6, 101: 6})
    if is_warm:  # neighbours that were compared are not compared again, unless they are others
        expire_but(in_new_process(table.path), 3)
    expire_snapshots(branch, retention=KEEP_ONE)
    fast_forward_as_others_do(in_new_process(table.path), "b")
    delete_branch(in_new_process(table.path), "b")
    expire_but(in_new_process(table.path), count)
    found = in_new_process(table.path)
    assert found.snapshots.ids() == list(range(6 - count, 6))
    assert content(found) == NEW | {9: 9}
    expire_but(in_new_process(table.path), 1)
    assert content(in_new_process(table.path)) == NEW | {9: 9}
    remove_orphan_files(in_new_process(table.path), older_than_millis=-DAY, dry_run=False, allow_young=True)
    assert content(in_new_process(table.path)) == NEW | {9: 9}
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_a_state_is_not_made_by_a_delta_of_another_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard taken out: whatever a snapshot has alone is its delta, as if the one before were its parent."""
    opened, _ = two_lines(tmp_path)
    monkeypatch.setattr(
        LiveFilesCache,
        "_net_change",
        lambda cache, step: list(cache._manifests.read_entries(step.added[-1:])),
    )
    assert content(opened) != NEW


def test_a_rollback_to_a_tag_of_another_line_is_refused(tmp_path: Path) -> None:
    """The number of the tagged snapshot is another commit's in the table now."""
    _, path = two_lines(tmp_path)
    table = in_new_process(path)
    other = table.snapshots.get(4)
    write_tag(table, "mine", other)
    rollback(table, snapshot_id=2)
    put(in_new_process(path), {8: 8})
    put(in_new_process(path), {9: 9})
    Path(table.paths.tag("mine")).write_text(Tag(name="mine", snapshot=other).to_json(), "utf-8")
    with pytest.raises(InvalidRequestError, match=r"snapshot 4 of table .* is of the commit .* now.*Use restore"):
        rollback(in_new_process(path), tag="mine")
    assert content(in_new_process(path)) == COMMON | {8: 8, 9: 9}


def test_a_rollback_to_an_expired_snapshot_names_no_changelog_that_has_expired(tmp_path: Path) -> None:
    """A tag keeps the rows of its snapshot, and no changelog."""
    table = make_table(tmp_path, options={"changelog-producer": "input"})
    put(table, {0: 0})
    write_tag(table, "first", table.snapshots.get(1))
    put(table, {1: 0})
    expire_snapshots(table, retention=KEEP_ONE)
    rollback(in_new_process(table.path), tag="first")
    remove_orphan_files(in_new_process(table.path), older_than_millis=-DAY, dry_run=False, allow_young=True)
    assert content(in_new_process(table.path)) == {0: 0}
