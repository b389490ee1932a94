"""The file of a prepared commit that is damaged: writers name it, the doctor sees it, and there is a way on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.write.changing import write_plan
from lakelog.filestore.write.row_input import row_source
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.state.steps import Step
from lakelog.protocol.upkeep.health import Status
from lakelog.protocol.upkeep.log_check import check_log
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.log_records import log_of_table
from tests.support.logs.statements import StatementRunner
from tests.support.streams.planned_reader import rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

OPTIONS = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}


def left_over(folder: Path, servers: str, *, begun: bool) -> tuple[Table, Path]:
    """A table with batch 0, and the file of a statement of batch 1 whose driver died, before or behind its log."""
    catalog = Catalog(folder, bootstrap_servers=servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    write(table, 0)
    runner = StatementRunner(table)
    plan = write_plan(table.store, row_source(rows_of(1)), None)
    for dies_after in range(1, 40):
        runner = StatementRunner(table, dies_after=dies_after)
        with pytest.raises(InjectedCrash):
            runner.run("INSERT", plan)
        if runner.is_begun == begun and runner.steps[-1] is not Step.PREPARED_COMMIT:
            break
        PreparedCommits(table.store).delete(*PreparedCommits(table.store).names())
    commits = PreparedCommits(table.store)
    [name] = commits.names()
    return table, Path(commits.folder) / name


def batches_of(table: Table) -> set[int]:
    return set(open_table(table.path).to_arrow()["batch"].to_pylist())


DAMAGES = {"damaged": lambda file: file.write_bytes(file.read_bytes()[:-1]), "missing": Path.unlink}


@pytest.mark.parametrize("begun", [False, True])
def test_a_damaged_prepared_commit_is_named_by_writers_and_by_the_doctor(
    tmp_path: Path, bootstrap_servers: str, *, begun: bool
) -> None:
    table, file = left_over(tmp_path, bootstrap_servers, begun=begun)
    DAMAGES["damaged"](file)

    with pytest.raises(CorruptDataError, match=r"is damaged: .*or delete it") as refused:
        write(table, 2)

    assert str(file) in str(refused.value)
    found = [one for one in open_table(table.path).upkeep.doctor().findings if one.status is Status.PROBLEM]
    assert [one.check for one in found] == ["log", "statements"][0 if begun else 1 :]
    assert str(file) in found[-1].found


def test_a_statement_whose_prepared_commit_is_deleted_before_it_is_logged_is_cancelled(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table, file = left_over(tmp_path, bootstrap_servers, begun=False)
    file.unlink()

    write(table, 2)

    assert batches_of(table) == {0, 2}
    assert open_table(table.path).log_store.verify().is_equal


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_statement_that_is_in_the_log_and_cannot_be_finished_is_left_out_when_asked_to(
    tmp_path: Path, bootstrap_servers: str, damage: str
) -> None:
    table, file = left_over(tmp_path, bootstrap_servers, begun=True)
    DAMAGES[damage](file)
    with pytest.raises(CorruptDataError):
        write(table, 2)
    checked = check_log(table.store, log_of_table(table))
    assert [f"statements/{file.name}" in (one.problem or "") for one in checked.buckets if one.problem] == [True]

    renewed = open_table(table.path).log_store.renew(skip_unreadable=True, force=True)

    file.unlink(missing_ok=True)
    write(renewed, 2)
    assert batches_of(table) == {0, 2}
    assert open_table(table.path).log_store.verify().is_equal
    assert check_log(renewed.store, log_of_table(renewed)).is_sound
