"""What lineage knows of snapshots that were rolled back, where edges name them as sources alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import downstream, feed, tainted, upstream
from tests.support.lineage.lineage_jobs import commit_rows, read_of
from tests.support.lineage.three_tables import copy, fed_catalog, reached, readers, rows, three_tables
from tests.support.tables.foreign_engine import fast_forward_as_others_do, roll_back_as_others_do


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return fed_catalog(tmp_path)


@pytest.fixture
def tables(catalog: Catalog) -> tuple[Table, Table, Table]:
    return three_tables(catalog)


def roll_back(catalog: Catalog, table: Table, snapshot_id: int) -> None:
    table.upkeep.rollback(snapshot_id=snapshot_id, force=True)


def roll_back_by_others(catalog: Catalog, table: Table, snapshot_id: int) -> None:
    feed(catalog)
    roll_back_as_others_do(table.store, snapshot_id)


BACK = pytest.mark.parametrize("back", [roll_back, roll_back_by_others])


@BACK
def test_a_restore_that_was_rolled_back_may_have_brought_wrong_rows_back(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    """Edges name it as a source alone, and do not say which state it brought back."""
    a, b, c = tables
    a.truncate()
    a.restore(snapshot_id=1)
    copy(a, b)
    copy(b, c)
    back(catalog, a, 2)

    assert reached(catalog, "db.a", 1) == {"db.b", "db.c"}


def test_a_snapshot_that_was_read_and_expired_is_no_restore(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """A table that is loaded anew each night, and added to: none of it gave way."""
    a, b, _ = tables
    for number in (7, 8):
        a.write(rows(number), mode="overwrite")
        a.write(rows(number + 10))
        commit_rows(b, rows(number), read_of(a, end=a.store.snapshots.latest_id()), user=f"night-{number}")
    feed(catalog)
    wrong = a.store.snapshots.get(2).uuid
    a.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    found = tainted(catalog, "db.a", 2, commit=wrong).snapshots.to_pylist()

    assert {row["snapshot_id"] for row in found if row["table"] == "db.b"} == {2}


@BACK
def test_what_came_behind_a_snapshot_that_was_read_late_is_not_lost(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    """Its first read is the only time that is known of it: the branch began later, but behind what came after it."""
    a, b, c = tables
    b.write(rows(7))
    copy(a, b)
    b.write(rows(8))
    commit_rows(c, rows(9), read_of(b, end=2), user="late")
    copy(c, b)
    b.branches.create("trial")
    back(catalog, b, 1)
    b.write(rows(6), mode="overwrite")

    assert "db.b$branch_trial" in reached(catalog, "db.a", 1)


@BACK
def test_a_snapshot_that_a_branch_alone_has_comes_before_what_was_read_behind_it(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    a, b, _ = tables
    a.write(rows(7), mode="overwrite")
    a.update({"v": 8})
    copy(a, b)
    a.branches.create("old", snapshot_id=2)
    a.branches.create("trial", snapshot_id=1)
    a.branch("trial").write(rows(9), mode="overwrite")
    back(catalog, a, 1)
    fast_forward_as_others_do(a.store, "trial")

    assert "db.b" in reached(catalog, "db.a$branch_old", 2)
    assert readers(catalog, "db.a$branch_old", 2) == {"db.a", "db.b"}  # itself is the beginning of the branch


@BACK
def test_a_merge_of_a_branch_that_was_rolled_back_behind_its_base_has_read_all_that_came_instead(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(b, trial)
    copy(b, trial)
    b.branches.fast_forward("trial")
    back(catalog, trial, 1)
    copy(a, trial)
    trial.write(rows(11))
    trial.write(rows(12))
    b.branches.merge("trial")

    merged = b.store.snapshots.latest_id()
    assert merged is not None
    assert ("db.b", merged) in {
        (row["sink_table"], row["sink_snapshot"]) for row in downstream(catalog, "db.a", 1).to_pylist()
    }
    assert "db.b" in reached(catalog, "db.a", 1)


@BACK
def test_a_restore_that_nobody_has_read_may_stand_between_two_that_were_rolled_back(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    """A stream has read over it: its rows are known from no edge, but its number is missing."""
    a, b, c = tables
    a.truncate()
    copy(c, a)
    a.restore(snapshot_id=1)
    copy(c, a)
    commit_rows(b, rows(7), read_of(a, start=3, end=5), user="stream")
    back(catalog, a, 2)

    assert "db.b" in reached(catalog, "db.a", 1)


@BACK
def test_what_a_branch_alone_has_came_before_a_later_snapshot_that_has_its_own_edges(
    catalog: Catalog, tables: tuple[Table, Table, Table], back: Callable[[Catalog, Table, int], None]
) -> None:
    a, b, c = tables
    a.write(rows(7))
    copy(c, a)
    a.branches.create("old", snapshot_id=2)
    copy(a, b)
    a.branches.create("trial", snapshot_id=1)
    a.branch("trial").write(rows(9), mode="overwrite")
    back(catalog, a, 1)
    fast_forward_as_others_do(a.store, "trial")

    assert "db.b" in reached(catalog, "db.a$branch_old", 2)


def test_a_table_has_the_snapshots_of_a_branch_that_replaced_it_since_then(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """The branch is not there any more, and its snapshot is older than the first read of one that gave way."""
    a, b, c = tables
    b.branches.create("trial")
    copy(a, b)
    b.branch("trial").write(rows(9))
    b.write(rows(7))
    commit_rows(c, rows(8), read_of(b, start=1, end=3), user="before")
    b.branches.replace_main("trial", force=True)
    b = catalog.load_table("db.b")
    commit_rows(c, rows(6), read_of(b, start=1, end=2), user="behind")

    assert {row["job"] for row in downstream(catalog, "db.a", 1).to_pylist()} == {"copy", "before"}
    assert {row["job"] for row in downstream(catalog, "db.b", 2).to_pylist()} == {"behind", None}  # and the branch


def test_a_snapshot_from_before_a_branch_is_asked_for_by_the_name_of_the_branch(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """The branch has no copy of it, and no edge names it: it lives in the table."""
    a, _, _ = tables
    a.write(rows(7))
    a.branches.create("trial")

    assert upstream(catalog, "db.a$branch_trial", 1).num_rows == 0
    assert readers(catalog, "db.a$branch_trial", 1) == {"db.a"}  # the beginning of the branch
