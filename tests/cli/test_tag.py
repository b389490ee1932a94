"""`lakelog table tag`, and the states that commands show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakelog.catalog import AddColumn, open_table
from lakelog.cli.main import main
from tests.support.tables.small_tables import make_table, rows_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = make_table(tmp_path, options={"write-only": "true"})
    for batch in range(3):
        table.write(rows_of(batch))
    return table.path


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    """What a command prints with --json."""
    with pytest.raises(SystemExit) as end:
        main(["table", *arguments, "--json"])
    assert not end.value.code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_tags_are_created_replaced_renamed_deleted_and_listed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines(capsys, "tag", "create", path, "a", "--snapshot-id", "1")
    lines(capsys, "tag", "create", path, "b", "--time-retained", "30 d")
    lines(capsys, "tag", "replace", path, "a", "--snapshot-id", "2")
    lines(capsys, "tag", "rename", path, "a", "c")

    found = lines(capsys, "tag", "list", path)
    assert [(one["tag"], one["snapshot_id"], one["expires_at"] is None) for one in found] == [
        ("c", 2, True),
        ("b", 3, False),
    ]
    assert lines(capsys, "count", path, "--version", "c") == lines(capsys, "count", path, "--snapshot-id", "2")

    lines(capsys, "tag", "delete", path, "c")
    assert lines(capsys, "tag", "expire", path) == []
    assert [one["tag"] for one in lines(capsys, "tag", "list", path)] == ["b"]


def test_a_tag_of_a_number_is_refused(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["table", "tag", "create", path, "5"])

    assert end.value.code == 1
    assert "tag '5' is a number, as snapshots have; expected a name" in capsys.readouterr().err


def test_a_version_may_be_a_branch_with_columns_of_its_own(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = open_table(path)
    table.branches.create("wide")
    table.branch("wide").alter(AddColumn("more", "INT"))

    found = lines(capsys, "cat", path, "--version", "wide", "--limit", "1")

    assert [list(row) for row in found] == [["id", "batch", "more"]]
