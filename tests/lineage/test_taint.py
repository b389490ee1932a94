"""What a wrong snapshot has reached, and the commands that bring the tables back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import make_app
from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.origins.record import ReadMode
from lakelog.lineage import Tainted, tainted
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, overwrite_rows, read_of


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def make(catalog: Catalog, name: str) -> Table:
    options = {"bucket": "1", "write-only": "true"}
    return catalog.create_table(f"db.{name}", schema=pa.schema({"id": pa.int64()}), options=options)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def written(found: Tainted) -> list[tuple[str, int]]:
    return [(row["table"], row["snapshot_id"]) for row in found.snapshots.to_pylist()]


def tables(found: Tainted) -> dict[str, tuple[int, int | None, bool]]:
    return {
        row["table"]: (row["first_tainted"], row["last_clean"], row["holds_tainted_rows"])
        for row in found.tables.to_pylist()
    }


def chain(catalog: Catalog, snapshots: int = 4) -> tuple[Table, Table, Table]:
    """A table from a source, and one from that; each snapshot of the source is one of both. The second one is bad."""
    source, middle, last = (make(catalog, name) for name in ("s", "m", "l"))
    jobs = StreamJob(middle, [source], user="first"), StreamJob(last, [middle], user="second")
    for number in range(snapshots):
        source.write(rows(666 if number == 1 else number))
        for job in jobs:
            job.run()
    return source, middle, last


def test_what_read_a_wrong_snapshot_is_tainted_and_what_came_before_is_clean(catalog: Catalog) -> None:
    chain(catalog)

    found = tainted(catalog, "db.s", 2)

    assert written(found) == [("db.s", 2), ("db.m", 2), ("db.l", 2)]
    assert tables(found) == {"db.s": (2, 1, True), "db.m": (2, 1, True), "db.l": (2, 1, True)}
    assert found.snapshots["jobs"].to_pylist() == [[], ["first"], ["second"]]


def test_the_commands_run_and_leave_no_tainted_rows(catalog: Catalog) -> None:
    source, middle, last = chain(catalog)

    for command in tainted(catalog, "db.s", 2).commands:
        name, *arguments = shlex.split(command)
        assert name == "lakelog"
        result = CliRunner().invoke(make_app(), arguments)
        assert result.exit_code == 0, result.output

    assert [table.to_arrow()["id"].to_pylist() for table in (source, middle, last)] == [[0], [0], [0]]
    assert tainted(catalog, "db.s", 2).commands == []


def test_a_state_that_holds_wrong_rows_taints_what_reads_it_later(catalog: Catalog) -> None:
    _, middle, _ = chain(catalog)
    report, clean = make(catalog, "report"), make(catalog, "clean")
    later = read_of(middle, end=4, mode=ReadMode.BATCH)
    commit_rows(report, rows(1), later, user="statement", batch=None)
    commit_rows(clean, rows(1), read_of(middle, end=1, mode=ReadMode.BATCH), user="statement", batch=None)
    commit_rows(clean, rows(2), read_of(middle, start=2, end=4), user="changes", batch=0)  # from behind the wrong one

    assert set(tables(tainted(catalog, "db.s", 2))) == {"db.s", "db.m", "db.l", "db.report"}


def test_a_table_that_was_overwritten_or_restored_needs_no_command(catalog: Catalog) -> None:
    source, middle, last = chain(catalog)
    overwrite_rows(middle, rows(1), read_of(source, end=1, mode=ReadMode.BATCH))
    last.restore(snapshot_id=1)

    found = tainted(catalog, "db.s", 2)

    assert [shlex.split(command)[3] for command in found.commands] == ["db.s"]
    assert {row["table"]: row["why"] for row in found.tables.to_pylist()} == {
        "db.s": None,
        "db.m": "it holds no tainted rows any more",
        "db.l": "it holds no tainted rows any more",
    }


def test_a_table_without_a_clean_snapshot_says_so(catalog: Catalog) -> None:
    _, _, last = chain(catalog)
    last.upkeep.expire_snapshots(retain_min=2, retain_max=2)

    found = tainted(catalog, "db.s", 2)

    (row,) = [row for row in found.tables.to_pylist() if row["table"] == "db.l"]
    assert (row["last_clean"], row["command"]) == (None, None)
    assert "no living snapshot before the first tainted one is clean" in row["why"]


def test_an_inexact_batch_may_have_read_on(catalog: Catalog) -> None:
    source, _, _ = chain(catalog)
    loose = make(catalog, "loose")
    commit_rows(loose, rows(1), read_of(source, end=1), batch=0)
    commit_rows(loose, rows(1), read_of(source, start=1, end=1, is_exact=False), batch=1)

    assert ("db.loose", 2) in written(tainted(catalog, "db.s", 2))


def test_a_branch_is_brought_back_too(catalog: Catalog) -> None:
    source, middle, _ = chain(catalog, snapshots=1)
    middle.branches.create("trial")
    source.write(rows(666))
    trial = StreamJob(middle.branch("trial"), [source], user="first")
    trial.batch, trial.read = 1, {"db.s": 1}
    trial.run()

    found = tainted(catalog, "db.s", 2)
    (command,) = [one for one in found.commands if "trial" in one]
    result = CliRunner().invoke(make_app(), shlex.split(command)[1:])

    assert result.exit_code == 0, result.output
    assert middle.branch("trial").to_arrow()["id"].to_pylist() == [0]
    assert tables(found) == {"db.s": (2, 1, True), "db.m$branch_trial": (2, 1, True)}


def test_an_unknown_snapshot_is_an_error(catalog: Catalog) -> None:
    chain(catalog)

    with pytest.raises(NotFoundError, match=r"snapshot 99 of db\.s does not exist"):
        tainted(catalog, "db.s", 99)
