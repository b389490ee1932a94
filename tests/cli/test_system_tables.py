"""`lakelog table show`, `diff` and `log` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.cli.conftest import Run

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    made.write(pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=SCHEMA))
    made.tags.create("first")
    made.branches.create("dev", tag="first")
    made.delete("id = 1")
    made.branch("dev").write(pa.table({"id": [2], "v": ["dev"]}, schema=SCHEMA))
    return made


def test_a_system_table_is_shown_by_its_full_name_and_by_two_words(run: Run, table: Table) -> None:
    columns = ["--columns", "snapshot_id,commit_kind"]
    one = run("table", "show", "db.t$snapshots", *columns)
    two = run("table", "show", "db.t", "snapshots", *columns)
    assert one == two
    assert one[1].split() == ["snapshot_id", "commit_kind", "1", "APPEND", "2", "APPEND"]
    rows = run("table", "show", f"{table.path}$tags", "--json", "--where", "tag_name = 'first'")[1].splitlines()
    assert [json.loads(row)["snapshot_id"] for row in rows] == [1]


def test_the_changes_of_a_range_are_shown_with_their_deletes(run: Run, table: Table) -> None:
    shown = run("table", "show", f"{table.name}$audit_log", "--after", "1", "--json")[1]
    assert json.loads(shown) == {"rowkind": "-D", "id": 1, "v": "a"}


def test_the_tables_of_the_warehouse_are_shown(run: Run, table: Table) -> None:
    assert run("table", "show", "sys.tables", "--columns", "table_name")[1].split() == ["table_name", table.name[-1]]


def test_a_table_is_not_a_system_table(run: Run, table: Table) -> None:
    code, _, error = run("table", "show", table.name)
    assert (code, "expected a name such as 'db.t$files'" in error) == (1, True)


def test_a_diff_prints_counts_columns_and_rows(run: Run, table: Table) -> None:
    printed = run("table", "diff", table.name, "--from", "first", "--to", "dev")[1]
    assert "  changed  1   by column: v 1\n" in printed
    assert [line.split() for line in printed.splitlines()[-2:]] == [["-U", "2", "b"], ["+U", "2", "dev"]]


def test_a_diff_is_one_line_of_json(run: Run, table: Table) -> None:
    found = json.loads(run("table", "diff", table.name, "--from", "1", "--json")[1])
    assert found == {
        "from": {"snapshot_id": 1, "branch": "main"},
        "to": {"snapshot_id": 2, "branch": "main"},
        "added": 0,
        "changed": 0,
        "removed": 1,
        "changed_columns": {},
        "sample": [{"_row_kind": "-D", "id": 1, "v": "a"}],
    }


def test_the_log_is_a_tree_of_branches_and_tags(run: Run, table: Table) -> None:
    lines = run("table", "history", table.name)[1].splitlines()
    marks = [line.lstrip("│├└─ ").split()[0] for line in lines]
    assert marks == ["db.t", "main", "2", "1", "branch", "2"]
    assert "tag first" in lines[3]
    assert lines[4].startswith("        └── branch dev, from snapshot 1")


def test_the_log_as_json_is_a_line_a_snapshot(run: Run, table: Table) -> None:
    found = [json.loads(line) for line in run("table", "history", table.name, "--json")[1].splitlines()]
    assert [(one["branch"], one["snapshot_id"], one["tags"]) for one in found] == [
        ("main", 2, []),
        ("main", 1, ["first"]),
        ("dev", 2, []),
    ]
