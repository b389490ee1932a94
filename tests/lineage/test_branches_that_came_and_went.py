"""Lineage of tables whose branches took their place, were rolled back, deleted, and made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import downstream, feed, known_edges, tainted, upstream
from lakelog.lineage.lines.line_graph import FoundLines, load_lines
from lakelog.lineage.tables.found_tables import line_key
from tests.support.lineage.lineage_jobs import commit_rows, read_of
from tests.support.lineage.three_tables import copy, fed_catalog, reached, readers, rows, three_tables
from tests.support.tables.foreign_engine import fast_forward_as_others_do, roll_back_as_others_do


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return fed_catalog(tmp_path)


@pytest.fixture
def tables(catalog: Catalog) -> tuple[Table, Table, Table]:
    return three_tables(catalog)


def merge(table: Table, branch: str) -> None:
    table.branches.replace_newer(branch, force=True)


def fast_forward_by_others(table: Table, branch: str) -> None:
    fast_forward_as_others_do(table.store, branch)


def test_a_restore_that_a_branch_alone_has_still_is_tainted(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    a, b, _ = tables
    copy(a, b)
    b.truncate()
    b.restore(snapshot_id=2)
    b.branches.create("trial")
    b.upkeep.rollback(snapshot_id=3, force=True)

    found = tainted(catalog, "db.a", 1).snapshots.to_pylist()

    assert {row["snapshot_id"] for row in found if row["table"].startswith("db.b")} == {2, 4}


@pytest.mark.parametrize("take", [merge, fast_forward_by_others])
def test_readers_of_snapshots_that_gave_way_to_a_branch_are_known(
    catalog: Catalog, tables: tuple[Table, Table, Table], take: Callable[[Table, str], object]
) -> None:
    """The snapshot of the branch is older than the read, and no lineage was written to it."""
    a, b, c = tables
    b.branches.create("trial")
    copy(a, b)
    b.branch("trial").write(rows(7))
    b.write(rows(8))
    commit_rows(c, rows(9), read_of(b, start=1, end=3), user="stream")
    feed(catalog)
    take(b, "trial")

    assert "db.c" in readers(catalog, "db.a", 1)


def test_a_branch_that_was_rolled_back_behind_what_its_table_took_holds_none_of_it(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    trial.write(rows(7))
    copy(a, trial)
    b.branches.fast_forward("trial")
    trial.upkeep.rollback(snapshot_id=2, force=True)

    assert reached(catalog, "db.a", 1) == {"db.a", "db.b"}


def test_what_is_written_to_a_branch_that_was_rolled_back_is_known(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Its snapshots have numbers below that of the fork file."""
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    for number in (7, 8, 9):
        trial.write(rows(number))
    b.branches.fast_forward("trial")
    trial.upkeep.rollback(snapshot_id=2, force=True)
    copy(a, trial)

    edges = known_edges(catalog).to_pylist()

    assert [(edge["sink_branch"], edge["sink_snapshot"]) for edge in edges] == [("trial", 3)]
    assert reached(catalog, "db.a", 1) == {"db.a", "db.b$branch_trial"}


@pytest.mark.parametrize("verb", ["replace_newer", "replace_main"])
def test_a_snapshot_that_gave_way_did_not_come_after_those_of_the_branch(
    catalog: Catalog, tables: tuple[Table, Table, Table], verb: str
) -> None:
    """The branch has truncated its rows before the table wrote the snapshot that gave way."""
    _, b, c = tables
    b.branches.create("trial")
    b.branch("trial").truncate()
    b.branch("trial").write(rows(7))
    for number in (8, 9):
        b.write(rows(number))
    copy(b, c)
    getattr(b.branches, verb)("trial", force=True)

    assert reached(catalog, "db.b", 1) == {"db.c"}


def test_what_gave_way_does_not_hold_what_the_branch_has_read(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """The branch has read it before the table wrote what gave way."""
    a, b, c = tables
    b.branches.create("trial")
    copy(a, b.branch("trial"))
    for number in (8, 9):
        b.write(rows(number))
    copy(b, c)
    b.branches.replace_newer("trial", force=True)

    assert reached(catalog, "db.a", 1) == {"db.a", "db.b", "db.b$branch_trial"}


def test_a_snapshot_came_after_those_of_a_branch_that_the_table_had_taken(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """What gave way then is not in it."""
    a, b, c = tables
    b.branches.create("trial")
    copy(a, b)
    b.branch("trial").write(rows(7))
    b.branches.replace_newer("trial", force=True)
    commit_rows(b, rows(8), read_of(c, end=1), user="stream")
    copy(b, c)
    b.upkeep.rollback(snapshot_id=2, force=True)

    assert "db.c" not in reached(catalog, "db.a", 1)


def test_each_of_two_branches_with_one_name_has_a_beginning(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """They began at two commits with one number."""
    a, b, c = tables
    copy(a, b)
    b.branches.create("trial")
    copy(b.branch("trial"), c)
    feed(catalog)
    b.branches.delete("trial")
    b.upkeep.rollback(snapshot_id=1, force=True)
    b.write(rows(7))
    b.branches.create("trial")

    assert "db.c" in readers(catalog, "db.a", 1)


def test_the_steps_of_a_branch_begin_at_what_its_table_has_taken(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Lineage was written to older snapshots of the branch, and younger ones have expired."""
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(a, trial)
    trial.write(rows(7))
    b.branches.fast_forward("trial")
    copy(a, trial)
    trial.write(rows(8))
    trial.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    graph = load_lines([trial.store], FoundLines([catalog]))

    steps = graph.lines[line_key(trial.store)].steps
    assert [step.version.snapshot_id for step in steps] == [3, 4, 5]


def test_readers_of_a_branch_that_another_engine_put_in_place_read_snapshots_of_the_table(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """The snapshots that both have had expire in the branch, and no lineage was written to them."""
    a, b, c = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    trial.write(rows(7))
    fast_forward_as_others_do(b.store, "trial")
    copy(a, trial)
    copy(trial, c)
    trial.write(rows(9))
    trial.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert "db.c" in readers(catalog, "db.b", 2)


def test_the_oldest_snapshot_that_a_branch_has_came_after_what_its_table_has_lineage_of(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(a, trial)
    for number in (7, 8):
        trial.write(rows(number))
    trial.upkeep.expire_snapshots(retain_min=1, retain_max=2)
    b.branches.fast_forward("trial")
    b.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert reached(catalog, "db.a", 1) == {"db.a", "db.b", "db.b$branch_trial"}


def test_what_one_branch_alone_has_came_after_what_another_one_alone_has(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """They are snapshots of the table, in which they have expired without lineage."""
    _, b, c = tables
    b.branches.create("first")
    b.write(rows(7))
    b.branches.create("second")
    copy(b.branch("second"), c)
    b.write(rows(8))
    b.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert "db.b$branch_second" in reached(catalog, "db.b$branch_first", 1)


def test_a_snapshot_that_was_read_after_a_rollback_was_there_before_it(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """No lineage was written to it, and the first read of it is younger than the snapshots that gave way."""
    a, b, c = tables
    b.write(rows(7))
    copy(a, b)
    commit_rows(c, rows(8), read_of(b, start=1, end=3), user="early")
    copy(a, b)
    b.upkeep.rollback(snapshot_id=3, force=True)
    copy(a, b)
    commit_rows(c, rows(9), read_of(b, end=2), user="late")

    jobs = {row["job"] for row in downstream(catalog, "db.b", 2).to_pylist()}

    assert jobs == {"early", "late"}


def test_a_branch_without_snapshots_of_its_own_brings_none(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Its table is rolled back to where the branch began, in effect."""
    a, b, c = tables
    copy(a, b)
    commit_rows(c, rows(8), read_of(b, end=2), user="early")
    b.branches.create("trial")
    copy(a, b)
    b.branches.replace_newer("trial", force=True)
    copy(a, b)

    assert "db.c" in readers(catalog, "db.a", 1)


@pytest.mark.parametrize("take", [merge, fast_forward_by_others])
def test_what_a_branch_brings_came_after_what_has_expired_in_it(
    catalog: Catalog, tables: tuple[Table, Table, Table], take: Callable[[Table, str], object]
) -> None:
    a, b, _ = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    feed(catalog)
    copy(a, trial)
    for number in (7, 8):
        trial.write(rows(number))
    trial.upkeep.expire_snapshots(retain_min=1, retain_max=2)
    take(b, "trial")

    assert "db.b" in reached(catalog, "db.a", 1)


def test_an_expiry_feeds_what_came_in_the_place_of_fed_snapshots(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Another engine has rolled the table back, and the consumer of lineage stays where it was."""
    a, b, _ = tables
    copy(a, b)
    feed(catalog)
    roll_back_as_others_do(b.store, 1)
    for _ in range(2):
        copy(a, b)
    b.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    found = known_edges(catalog).to_pylist()

    assert sorted(edge["sink_snapshot"] for edge in found) == [2, 2, 3]


def test_a_snapshot_without_lineage_was_there_before_the_first_read_of_it(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Another engine has rolled back a younger snapshot, which was read before."""
    _, b, c = tables
    b.write(rows(7))
    commit_rows(c, rows(1), read_of(b, end=2), user="before")
    b.upkeep.rollback(snapshot_id=1, force=True)
    for number in (8, 9):
        b.write(rows(number))
    commit_rows(c, rows(2), read_of(b, end=3), user="early")
    roll_back_as_others_do(b.store, 2)
    commit_rows(c, rows(3), read_of(b, end=2), user="late")

    assert {row["job"] for row in downstream(catalog, "db.b", 2).to_pylist()} == {"early", "late"}


@pytest.mark.parametrize("take", [merge, fast_forward_by_others])
def test_a_snapshot_of_a_branch_was_not_in_its_table_before_the_table_took_it(
    catalog: Catalog, tables: tuple[Table, Table, Table], take: Callable[[Table, str], object]
) -> None:
    """No lineage was written to it, and what gave way was read before and after it was committed."""
    _, b, c = tables
    b.branches.create("trial")
    b.write(rows(7))
    commit = b.store.snapshots.get(2).uuid
    commit_rows(c, rows(1), read_of(b, end=2), user="first")
    for number in (8, 9):
        b.branch("trial").write(rows(number))
    b.write(rows(9))
    commit_rows(c, rows(2), read_of(b, end=3), user="second")
    take(b, "trial")
    commit_rows(c, rows(3), read_of(b, end=2), user="late")

    found = downstream(catalog, "db.b", 2, commit=commit).to_pylist()

    assert {row["job"] for row in found} == {"first", "second"}


def test_a_branch_had_no_snapshot_of_its_table_before_it_was_made(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """It has the name of a deleted branch, which was read after the table wrote the snapshot."""
    a, b, c = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(a, trial)
    b.write(rows(7))
    trial.write(rows(8))
    commit_rows(c, rows(9), read_of(trial, end=3))
    b.branches.delete("trial")
    b.branches.create("trial")

    assert "db.c" in readers(catalog, "db.a", 1)


def test_a_snapshot_that_a_branch_has_still_was_in_its_table_before_the_branch(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """The table has rolled it back, and wrote a snapshot with lineage behind it before."""
    a, b, c = tables
    b.write(rows(7))
    copy(a, b)
    commit_rows(c, rows(8), read_of(b, end=3))
    b.branches.create("trial", snapshot_id=2)
    feed(catalog)
    roll_back_as_others_do(b.store, 1)

    assert "db.c" in reached(catalog, "db.b", 2)


def test_a_snapshot_of_a_deleted_branch_is_known_where_its_name_was_given_again(
    catalog: Catalog, tables: tuple[Table, Table, Table]
) -> None:
    """Its number is below the beginning of the later branch, which has it of the table."""
    a, b, c = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(a, trial)
    commit = trial.store.snapshots.get(2).uuid
    commit_rows(c, rows(9), read_of(trial, end=2), user="before")
    b.branches.delete("trial")
    for number in (7, 8):
        b.write(rows(number))
    b.branches.create("trial")

    name = "db.b$branch_trial"
    assert {row["job"] for row in downstream(catalog, name, 2, commit=commit).to_pylist()} == {"before"}
    assert {row["source_table"] for row in upstream(catalog, name, 2, commit=commit).to_pylist()} == {"db.a"}
    assert "db.c" in {row["table"] for row in tainted(catalog, name, 2, commit=commit).tables.to_pylist()}
