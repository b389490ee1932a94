"""A branch lacks the changelog of its first snapshot: the table keeps its own when the branch replaces it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import open_table
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.branches.lost_changelogs import lost_changelogs
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes, delete, rollback
from tests.support.tables.small_tables import SCHEMA, in_new_process, make_table
from tests.support.tables.taken_over import fast_forward, merge_branch, replace_main, take_over

ACTIONS = ("fast_forward", "merge_branch", "replace_main")
PRODUCERS = ("input", "lookup", "full-compaction")


def put(table: FileStoreTable, number: int) -> None:
    """Replace rows, and merge them, so that the newest snapshot has a changelog with every producer."""
    table.write(pa.table({"id": [1, 2], "batch": [number, number]}, schema=SCHEMA))
    if table.schema.options["changelog-producer"] != "input":
        table.compact(full=True)


def with_producer(folder: Path, producer: str) -> FileStoreTable:
    table = make_table(folder, options={"changelog-producer": producer, "write-only": "true"})
    for number in range(2):
        put(table, number)
    return table


def changelog(table: FileStoreTable) -> list[list[dict[str, object]]]:
    """The changes of each snapshot after the oldest one."""
    oldest, *younger = table.snapshots.ids()
    ranges = zip([oldest, *younger], younger, strict=False)
    return [
        [row for batch in changes(table, after=after, up_to=up_to) for row in batch.to_pylist()]
        for after, up_to in ranges
    ]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_branch_without_commits_leaves_the_changelog_of_the_newest_snapshot(
    tmp_path: Path, producer: str, action: str
) -> None:
    table = with_producer(tmp_path, producer)
    expected = changelog(table)
    assert expected[-1]
    create_branch(table, "b")
    take_over(table, action, "b")
    assert changelog(in_new_process(table.path)) == expected


def test_a_whole_line_that_takes_the_place_leaves_the_changelogs_of_common_snapshots(tmp_path: Path) -> None:
    """The table was rolled back behind the head that it had from its branch, so its line does not lead to the base."""
    table = with_producer(tmp_path, "input")
    put(table, 2)
    create_branch(table, "b")
    put(table.on_branch("b"), 3)
    fast_forward(table, table.on_branch("b"))
    expected = changelog(in_new_process(table.path))
    rollback(table, snapshot_id=3)
    merge_branch(table, table.on_branch("b"))
    found = in_new_process(table.path)
    assert found.snapshots.ids() == [3, 4]
    assert found.snapshots.get(3).changelog_manifest_list is not None
    assert changelog(found) == expected[-1:]


def test_what_lakelog_does_not_know_of_a_snapshot_stays_in_its_file(tmp_path: Path) -> None:
    table = with_producer(tmp_path, "input")
    path = Path(table.paths.snapshot(2))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"keyOfAnotherEngine": 7}))
    table = in_new_process(table.path)
    create_branch(table, "b")
    replace_main(table, table.on_branch("b"))
    assert json.loads(path.read_text())["keyOfAnotherEngine"] == 7


def test_a_rollback_leaves_the_changelog_of_the_snapshot_that_becomes_the_newest(tmp_path: Path) -> None:
    table = with_producer(tmp_path, "input")
    expected = changelog(table)
    write_tag(table, "kept", table.snapshots.get(2))
    put(table, 2)
    rollback(table, snapshot_id=2)
    assert changelog(in_new_process(table.path)) == expected


def lose_changelog(table: FileStoreTable, number: int) -> FileStoreTable:
    """Write a snapshot's file without its changelog, as earlier releases did."""
    snapshot = table.snapshots.get(number)
    lost = replace(snapshot, changelog_manifest_list=None, changelog_record_count=None)
    Path(table.paths.snapshot(number)).write_text(lost.to_json())
    return in_new_process(table.path)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_each_snapshot_that_has_lost_its_changelog_is_found(tmp_path: Path, producer: str) -> None:
    table = with_producer(tmp_path, producer)
    put(table, 2)
    delete(table, "id = 1")
    assert list(lost_changelogs(table)) == []
    newest = table.snapshots.latest_id() or 0
    given = [number for number in range(1, newest + 1) if table.snapshots.get(number).changelog_manifest_list]
    for number in given:
        table = lose_changelog(table, number)
    assert [one.snapshot_id for one in lost_changelogs(table)] == given


def test_a_tag_tells_of_a_changelog_that_its_snapshot_has_lost(tmp_path: Path) -> None:
    table = with_producer(tmp_path, "lookup")
    write_tag(table, "before", table.snapshots.get(4))
    table = lose_changelog(table, 4)
    assert [(one.snapshot_id, "before" in one.why) for one in lost_changelogs(table)] == [(4, True)]


def test_the_doctor_names_a_lost_changelog_and_the_call_that_still_finds_its_changes(tmp_path: Path) -> None:
    table = with_producer(tmp_path, "lookup")
    expected = changelog(table)[-1]
    lose_changelog(table, 4)
    opened = open_table(table.path)
    found = opened.upkeep.doctor().problems
    assert [one.found.partition(" (")[0] for one in found] == ["snapshot 4 has lost its changelog"]
    assert 'changes(after=2, up_to=4, compare="states")' in (found[0].advice or "")
    assert list(opened.changes(after=3, up_to=4)) == []
    states = [row for batch in opened.changes(after=2, up_to=4, compare="states") for row in batch.to_pylist()]
    assert sorted(map(repr, states)) == sorted(map(repr, expected))
