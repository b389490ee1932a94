"""Expiry beside branches: what a tag of a user or a branch names stays, whatever lines the table has had."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from tests.support.tables.foreign_engine import fast_forward_as_others_do

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": ["x"] * len(ids)}, schema=SCHEMA)


def new_table(folder: Path) -> Table:
    return Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})


def ids(table: Table, **which: str) -> list[int]:
    return sorted(table.to_arrow(**which)["id"].to_pylist())  # type: ignore[arg-type]  # the keys of a choice


def expire_to_the_newest(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)


def test_a_tag_of_lakelog_from_another_line_does_not_hide_a_users_tag(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.write(rows(1))
    table.write(rows(2))
    table.tags.create("kept")
    table.branches.create("taken", tag="kept")
    table.write(rows(9), mode="overwrite")  # snapshot 3 of a line that gives way, without the files of the tag
    table.branches.create("other")
    taken = table.branch("taken")
    taken.write(rows(3))
    taken.write(rows(4), mode="overwrite")  # snapshot 4 of the line that stays removes them
    table.branches.replace_main("taken", force=True)
    table.write(rows(5))
    table.upkeep.expire_snapshots(retain_max=3, retain_min=3)  # the snapshot of the tag expires
    expire_to_the_newest(table)
    assert ids(table) == [4, 5]
    assert ids(table, tag="kept") == [1, 2]
    assert ids(table.branch("other")) == [9]


def test_a_branch_reads_what_it_read_when_its_tag_is_deleted_after_an_expiry(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.write(rows(1))
    table.tags.create("begin")
    table.branches.create("b", tag="begin")
    for number in range(2, 6):
        table.write(rows(number), mode="overwrite")
        expire_to_the_newest(table)
    table.tags.delete("begin")
    table.write(rows(7), mode="overwrite")
    expire_to_the_newest(table)
    assert ids(table.branch("b")) == [1]
    assert ids(table) == [7]


def test_a_branch_with_commits_of_its_own_keeps_the_files_that_it_began_with(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.write(rows(1))
    table.tags.create("begin")
    table.branches.create("b", tag="begin")
    table.branch("b").write(rows(2))
    table.write(rows(3), mode="overwrite")
    table.tags.delete("begin")
    table.write(rows(4), mode="overwrite")
    expire_to_the_newest(table)
    assert ids(table.branch("b")) == [1, 2]


def table_with_a_gap(folder: Path, *, writes: int) -> Table:
    """Snapshot 1, then two of a branch that another engine has put behind it; the hint names the first of these."""
    table = Catalog(folder).create_table(
        "db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", "snapshot.expire.limit": "1"}
    )
    for number in range(1, writes + 1):
        table.write(rows(number))
    table.tags.create("last")
    table.branches.create("b", tag="last")
    line = table.branch("b")
    line.write(rows(98))
    line.write(rows(99), mode="overwrite")  # takes out a file that snapshot 1 has, too
    line.upkeep.expire_snapshots(retain_max=2, retain_min=2)
    table.upkeep.rollback(snapshot_id=1, force=True)
    fast_forward_as_others_do(table.store, "b")
    table = Catalog(folder).load_table("db.t")
    table.branches.delete("b")
    return table


def read_each_snapshot(table: Table) -> dict[int, list[int]]:
    found = table.store.snapshots.ids()
    return {number: sorted(table.to_arrow(snapshot_id=number)["id"].to_pylist()) for number in found}


def test_snapshots_before_a_gap_keep_their_files_and_expire_first(tmp_path: Path) -> None:
    table = table_with_a_gap(tmp_path, writes=3)
    found = [read_each_snapshot(table)]
    for _ in range(2):
        expire_to_the_newest(table)
        found.append(read_each_snapshot(table))
    whole = {1: [1], 4: [1, 2, 3, 98], 5: [99]}
    assert found == [whole, {4: whole[4], 5: whole[5]}, {5: whole[5]}]


def test_a_gap_of_more_snapshots_than_expire_at_a_time_holds_no_expiry(tmp_path: Path) -> None:
    table = table_with_a_gap(tmp_path, writes=60)
    before = list(read_each_snapshot(table))
    assert before[0] == 1
    assert before[1] > 60
    expire_to_the_newest(table)
    assert list(read_each_snapshot(table)) == before[1:]
