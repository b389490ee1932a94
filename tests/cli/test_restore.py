"""`lakelog table restore|rollback`: what they print, and that a dry run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from tests.support.tables.small_tables import SCHEMA


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for batch, ids in enumerate(([1, 2], [2, 3], [4])):
        made.write(pa.table([pa.array(ids), pa.array([batch] * len(ids), pa.int32())], schema=SCHEMA))
    return made


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_a_dry_run_of_a_restore_prints_rows_and_changes_nothing(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, "table", "restore", table.path, "--snapshot-id", "1", "--dry-run")
    assert dict(line.split() for line in shown.splitlines() if line) == {
        "snapshot_id": "-",
        "rows_added": "0",
        "rows_removed": "2",
        "rows_changed": "1",
        "target_id": "1",
        "base_id": "3",
        "files_added": "0",
        "files_removed": "2",
        "rewinds_writers": "false",
        "renews_log": "false",
        "columns_missing": "-",
    }
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]


def test_a_restore_prints_its_snapshot_as_json(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(run(capsys, "table", "restore", table.path, "--snapshot-id", "1", "--json"))
    assert (shown["snapshot_id"], shown["base_id"], shown["target_id"], shown["rows_removed"]) == (4, 3, 1, 2)
    assert table.count() == 2


def test_a_rollback_prints_what_it_deletes(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.tags.create("late")
    shown = run(capsys, "table", "rollback", table.path, "--snapshot-id", "1", "--dry-run")
    assert [line.split(maxsplit=1) for line in shown.splitlines()[:4]] == [
        ["snapshot_id", "1"],
        ["deleted_snapshots", "2, 3"],
        ["deleted_changelogs", "-"],
        ["deleted_tags", "late"],
    ]
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]
    shown = json.loads(run(capsys, "table", "rollback", table.path, "--snapshot-id", "1", "--yes", "--json"))
    assert (shown["deleted_snapshots"], shown["deleted_tags"]) == ([2, 3], ["late"])
    assert [snapshot.id for snapshot in table.snapshots()] == [1]


def test_a_batch_write_has_no_batch_number_for_people(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "table", "snapshots", table.path).splitlines()
    assert [line.split()[-1] for line in lines] == ["batch", "-", "-", "-"]
    assert [snapshot.batch for snapshot in table.snapshots()] == [None] * 3
    assert all("9223372036854775807" not in snapshot._repr_html_() for snapshot in table.snapshots())
    (row, *_) = run(capsys, "table", "snapshots", table.path, "--json").splitlines()
    assert json.loads(row)["identifier"] == 9223372036854775807
