"""`lakelog lineage` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from tests.cli.conftest import Run
from tests.support.lineage.lineage_records import commit_job, make_sink, table_source


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_sink(Catalog(tmp_path))
    commit_job(made, 0, table_source("db.a", end=5))
    return made


def test_lineage_is_fed_by_options_that_are_kept(run: Run, table: Table) -> None:
    code, _, error = run("lineage", "feed")
    assert (code, "both table-lineage and data-lineage are false" in error) == (1, True)

    assert run("lineage", "feed", "--data-lineage", "--table-lineage")[1] == "1 batches of 1 tables, 1 edges\n"
    commit_job(table, 1, table_source("db.a", end=6))
    assert json.loads(run("lineage", "feed", "--json")[1]) == {"tables": 1, "batches": 1, "edges": 1}

    assert "sys.source_job_lineage" in run("table", "list")[1].split()
    shown = run("table", "show", "sys.source_snapshot_lineage", "--columns", "barrier_id,snapshot_id")[1]
    assert sorted(shown.split()[2:]) == ["0", "1", "5", "6"]


def test_a_rebuild_says_what_it_kept(run: Run, table: Table) -> None:
    run("lineage", "feed", "--data-lineage")
    commit_job(table, 1, table_source("db.a", end=6))
    run("lineage", "feed")
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    assert run("lineage", "rebuild")[1].splitlines() == [
        "1 batches of 1 tables, 1 edges",
        "db.t: 1 batches kept whose snapshots are deleted",
    ]


def test_jobs_are_listed_ended_and_deleted(run: Run, table: Table) -> None:
    run("lineage", "feed", "--data-lineage")

    (job,) = map(json.loads, run("lineage", "jobs", "--json")[1].splitlines())
    assert (job["job"], job["sources"], job["sinks"], job["has_ended"]) == ("job", ["db.a"], ["db.t"], False)

    assert run("lineage", "end", "job")[0] == 0
    assert run("lineage", "jobs")[1].splitlines()[1].split()[-1] == "true"

    assert run("lineage", "delete", "job", "--yes")[0] == 0
    assert run("lineage", "jobs", "--json")[1] == ""
    code, _, error = run("lineage", "end", "job")
    assert (code, "job 'job' has written no table of" in error) == (1, True)


@pytest.mark.parametrize("command", ["upstream", "downstream", "show", "tainted", "jobs"])
def test_a_table_that_cannot_be_read_is_named_behind_the_answer_and_the_code_is_3(
    run: Run, tmp_path: Path, table: Table, command: str
) -> None:
    broken = make_sink(Catalog(tmp_path), "db.broken")
    commit_job(broken, 0, table_source("db.a", end=5))
    Path(broken.path, "snapshot", "snapshot-1").write_text("{", encoding="utf-8")
    asked = {"jobs": [], "tainted": ["db.t", "--snapshot-id", "1"]}.get(command, ["db.t"])
    code, out, error = run("lineage", command, *asked, "--json")

    assert code == 3
    assert "db.t" in out or command == "downstream"
    (line,) = map(json.loads, error.splitlines())
    assert line["error"] == "CorruptDataError"
    assert line["message"].startswith("the lineage of db.broken is missing, since the table cannot be read: ")
