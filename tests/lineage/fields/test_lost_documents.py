"""`lakelog doctor` names the lineage of columns that commits name and that the table no longer has."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from lakelog.protocol.upkeep import Finding, Status

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with two programs: one wrote snapshots 1 and 3, the other one snapshot 2."""
    catalog = Catalog(tmp_path / "lake", options={"data-lineage": "true"})
    for name in ("db.source", "db.t"):
        made = catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
    connection = lakelog.sql.connect(catalog)
    for statement in (
        "INSERT INTO db.t SELECT id, a FROM db.source",
        "INSERT INTO db.t SELECT id, max(a) FROM db.source GROUP BY id",
        "INSERT INTO db.t SELECT id, a FROM db.source",
    ):
        connection.sql(statement)
    return made


def documents(table: Table) -> list[Path]:
    return sorted(Path(table.path, "lakelog", "fields").iterdir())


def problems(table: Table) -> list[Finding]:
    findings = table.upkeep.doctor().findings
    assert [one.check for one in findings][-1] == "lineage"
    return [one for one in findings if one.status is not Status.OK]


def test_a_table_with_all_its_lineage_is_sound(table: Table) -> None:
    assert len(documents(table)) == 2
    assert table.upkeep.doctor().is_sound
    assert problems(table) == []


def test_each_lost_document_is_named_with_what_names_it(table: Table) -> None:
    table.tags.create("kept", snapshot_id=1)
    table.branches.create("b", tag="kept")
    for path in documents(table):
        path.unlink()
    found = problems(table)
    assert [(one.check, one.status) for one in found] == [("lineage", Status.PROBLEM)] * 2
    named = {one.found for one in found}
    assert len(named) == 2
    said = ("snapshot 1, snapshot 3, tag 'kept'", "which snapshot 2 names, is lost: it is missing")
    for text in said:
        assert len([one for one in named if text in one]) == 1, named
    assert any("snapshot 1 of branch 'b'" in one for one in named)
    assert all("run its job again" in str(one.advice) for one in found)


def test_a_changed_document_is_lost(table: Table) -> None:
    changed, other = documents(table)
    changed.write_text(other.read_text())
    (found,) = problems(table)
    assert changed.name in found.found
    assert "was changed" in found.found


def test_the_next_run_of_the_job_mends_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in documents(table):
        path.unlink()
    monkeypatch.setattr("lakelog.lineage.columns.field_store.REPEAT_MILLIS", -1)  # as another process
    warehouse = Path(table.path).parents[1]
    lakelog.sql.connect(Catalog(warehouse, options={"data-lineage": "true"})).sql(
        "INSERT INTO db.t SELECT id, a FROM db.source"
    )
    (found,) = problems(table)
    assert "snapshot 2" in found.found


def test_the_command_reports_a_problem(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    documents(table)[0].unlink()
    with pytest.raises(SystemExit) as ended:
        main(["doctor", table.path, "--json"])
    assert ended.value.code == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["check"], one["status"]) for one in lines] == [("table", "ok"), ("lineage", "problem")]
