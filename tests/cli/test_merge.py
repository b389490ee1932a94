"""`lakelog table merge` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.cli.conftest import Run

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table and its branch `b`, which have changed row 1 in different ways."""
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    table.write(pa.table({"id": [1, 2], "v": [1, 2]}, schema=SCHEMA))
    table.branches.create("b")
    table.branch("b").write(pa.table({"id": [1, 3], "v": [10, 3]}, schema=SCHEMA))
    table.write(pa.table({"id": [1], "v": [5]}, schema=SCHEMA))
    return table


def test_a_dry_run_shows_conflicts_and_a_merge_with_a_rule_decides_them(run: Run, table: Table) -> None:
    code, out, _ = run("table", "merge", table.path, "b", "--dry-run")
    assert code == 3
    *values, empty, title, headings, row = out.splitlines()
    found = dict(line.split() for line in values)
    assert (found["upserted"], found["open_conflicts"], found["snapshot_id"]) == ("1", "1", "-")
    assert (found["branch"], found["branch_id"], found["base_id"]) == ("b", "2", "1")
    assert (empty, title) == ("", "conflicts")
    assert headings.split() == ["id", "base", "main", "branch", "decision"]
    assert row.split() == ["1", "id=1,", "v=1", "id=1,", "v=5", "id=1,", "v=10", "fail"]

    code, _, error = run("table", "merge", table.path, "b", "--json")
    assert (code, json.loads(error)["error"]) == (1, "BranchConflictError")

    code, out, _ = run("table", "merge", table.path, "b", "--on-conflict", "v=sum", "--json")
    found = json.loads(out)
    assert (code, found["snapshot_id"], found["upserted"], found["conflict_count"]) == (0, 3, 2, 1)
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == {1: 14, 2: 2, 3: 3}

    code, out, _ = run("table", "merge", table.path, "b", "--json")
    found = json.loads(out)
    assert (code, found["snapshot_id"], found["upserted"], found["base_id"]) == (0, None, 0, 2)


def test_one_rule_for_all_and_a_base_are_taken(run: Run, table: Table) -> None:
    code, out, _ = run("table", "merge", table.path, "b", "--base", "1", "--on-conflict", "branch", "--json")
    found = json.loads(out)
    assert (code, found["upserted"], found["snapshot_id"]) == (0, 2, 3)
    assert (found["open_conflicts"], found["conflict_count"]) == (0, 1)
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == {1: 10, 2: 2, 3: 3}
