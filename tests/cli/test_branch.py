"""`lakelog table branch`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two snapshots."""
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for number in (1, 2):
        put(made, number)
    return made


def put(table: Table, number: int) -> None:
    table.write(pa.table({"id": [number], "name": ["x"]}, schema=SCHEMA))


def run(table: Table, *arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["table", "branch", arguments[0], table.path, *arguments[1:]])
    assert ended.value.code == 0


def test_branches_are_made_listed_renamed_and_deleted(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    run(table, "create", "dev", "--snapshot-id", "1", "--time-retained", "30 d")
    run(table, "create", "none", "--empty")
    run(table, "rename", "none", "other")
    capsys.readouterr()
    run(table, "list", "--json")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["branch"], row["snapshot_id"], bool(row["expires_at"])) for row in rows] == [
        ("dev", 1, True),
        ("other", None, False),
    ]
    run(table, "list")
    assert "dev" in capsys.readouterr().out
    run(table, "delete", "dev")
    run(table, "delete", "dev", "--if-exists")
    run(table, "expire", "--older-than", "1 d")
    assert [branch.name for branch in table.branches.list()] == ["other"]


@pytest.mark.parametrize("words", [["fast-forward"], ["replace-newer", "--yes"], ["replace-main", "--yes"]])
def test_a_table_gets_what_its_branch_has(table: Table, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    run(table, "create", "dev")
    put(table.branch("dev"), 3)
    capsys.readouterr()
    run(table, words[0], "dev", *words[1:], "--json")
    assert json.loads(capsys.readouterr().out) == {"snapshot_id": 3}
    assert sorted(Catalog(table.warehouse).load_table("db.t").to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_fast_forward_that_would_lose_something_is_an_error(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    run(table, "create", "dev")
    for line in (table, table.branch("dev")):
        put(line, 3)
    with pytest.raises(SystemExit) as ended:
        main(["table", "branch", "fast-forward", table.path, "dev"])
    assert ended.value.code == 1
    assert "branches.replace_newer" in capsys.readouterr().err
