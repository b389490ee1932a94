"""Branches from a catalog: opened by name and from their table, written like tables, apart from their table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import AddColumn, Catalog, SetOption, Table, open_table
from lakelog.common.errors import InvalidRequestError, NotFoundError, OptionError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Two snapshots."""
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    put(made, {1: "a", 2: "b"})
    put(made, {2: "c"})
    return made


def put(table: Table, rows: dict[int, str]) -> None:
    table.write(pa.table({"id": list(rows), "name": list(rows.values())}, schema=SCHEMA))


def rows_of(table: Table) -> dict[int, str]:
    return {row["id"]: row["name"] for row in table.to_arrow().to_pylist()}


def test_a_branch_is_opened_by_its_name_and_from_its_table(catalog: Catalog, table: Table) -> None:
    table.branches.create("dev", snapshot_id=1)
    named = "db.t$branch_dev"
    opened = [
        table.branch("dev"),
        catalog.load_table(named),
        open_table(named, catalog.warehouse),
        open_table("db.t", catalog.warehouse, branch="dev"),
        open_table(table.path, branch="dev"),
        open_table(f"{table.path}$branch_dev"),
    ]
    assert [rows_of(branch) for branch in opened] == [{1: "a", 2: "b"}] * 6
    assert opened[0].name == opened[1].name == named
    assert rows_of(table.branch("main")) == rows_of(table.branch("dev").branch("main")) == {1: "a", 2: "c"}
    for wrong in ("db.t$branch_no", "db.t$branch_"):
        with pytest.raises((NotFoundError, InvalidRequestError)):
            catalog.load_table(wrong)


def test_a_table_is_not_dropped_renamed_or_created_by_the_name_of_a_branch(catalog: Catalog, table: Table) -> None:
    table.branches.create("dev")
    with pytest.raises(InvalidRequestError, match="branch"):
        catalog.drop_table("db.t$branch_dev", if_exists=True)
    with pytest.raises(InvalidRequestError, match="branch"):
        catalog.rename_table("db.t$branch_dev", "db.u")
    with pytest.raises(InvalidRequestError, match="branch"):
        catalog.create_table("db.t$branch_x", schema=SCHEMA)
    assert rows_of(table) == {1: "a", 2: "c"}


def test_every_verb_in_a_branch_leaves_the_table_as_it_is(table: Table) -> None:
    table.branches.create("dev")
    before = {str(path) for path in Path(table.path).rglob("*") if path.is_file() and "branch" not in path.parts}
    branch = table.branch("dev").alter(AddColumn("note", "STRING"), SetOption("num-sorted-run.compaction-trigger", "2"))
    rows = pa.table({"id": [3, 4, 5], "name": ["d", "e", "f"]})
    branch.write(rows)
    branch.delete("id = 1")
    branch.update({"note": "new"}, where="id = 3")
    branch.merge(pa.table({"id": [4], "name": ["merged"], "note": ["m"]})).when_matched_update_all().execute()
    branch.compact(full=True)
    branch.tags.create("kept")
    branch.write(pa.table({"id": [9], "name": ["last"]}))
    branch.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    shown = {row["id"]: (row["name"], row["note"]) for row in branch.to_arrow().to_pylist()}
    assert shown == {2: ("c", None), 3: ("d", "new"), 4: ("merged", "m"), 5: ("f", None), 9: ("last", None)}
    assert 9 not in branch.to_arrow(tag="kept")["id"].to_pylist()
    branch.truncate()
    assert branch.count() == 0
    assert rows_of(table) == {1: "a", 2: "c"}
    assert table.schema.field_names == Catalog(table.warehouse).load_table("db.t").schema.field_names == ("id", "name")
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert before <= {str(path) for path in Path(table.path).rglob("*")}
    assert "kept" not in [tag.name for tag in table.tags.list()]


def test_a_branch_is_rescaled_alone(table: Table) -> None:
    table.branches.create("dev")
    rescaled = table.branch("dev").upkeep.rescale(3)
    assert rows_of(rescaled) == rows_of(table)
    put(table, {7: "main"})
    put(rescaled, {8: "branch"})
    assert rows_of(table) == {1: "a", 2: "c", 7: "main"}
    assert rows_of(rescaled) == {1: "a", 2: "c", 8: "branch"}


def test_a_branch_is_retained_for_a_time(table: Table) -> None:
    table.branches.create("short", time_retained="1 ms")
    table.branches.create("long", time_retained=timedelta(days=3))
    assert [branch.name for branch in table.branches.list()] == ["long", "short"]
    while table.branches.expire() == []:
        pass
    assert [branch.name for branch in table.branches.list()] == ["long"]


def test_only_arguments_that_name_one_state_make_a_branch(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        table.branches.create("b", empty=True, snapshot_id=1)
    with pytest.raises(InvalidRequestError):
        table.branches.create("b", snapshot_id=1, tag="t")
    with pytest.raises(InvalidRequestError, match="another branch"):
        table.branches.create("b", branch="c")
    with pytest.raises(NotFoundError):
        table.branches.create("b", snapshot_id=7)
    assert table.branches.list() == []


def test_the_options_of_a_branch_log_are_not_given_by_users(catalog: Catalog) -> None:
    with pytest.raises(OptionError, match=r"lakelog\.log-branch"):
        catalog.create_table("db.u", schema=SCHEMA, options={"lakelog.log-branch": "x"})


def test_a_branch_has_no_branches_and_the_error_says_why(table: Table) -> None:
    table.branches.create("dev")
    with pytest.raises(InvalidRequestError, match=r"a branch has no branches: .* side by side.* 'again' of the table"):
        table.branch("dev").branches.create("again")
    assert [branch.name for branch in table.branches.list()] == ["dev"]
