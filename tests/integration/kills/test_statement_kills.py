"""SIGKILL of a statement's process at every step: it is in the table whole, or not at all, and others go on."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.state.steps import Step
from tests.filestore.processes.zygote import zygote
from tests.support.jobs.statement_process import KEYS, SCHEMA
from tests.support.logs.promises import read_headers
from tests.support.logs.statements import check_folds, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

NOT_DECIDED = (
    Step.PREPARED_COMMIT,
    Step.AFTER_PREPARED_COMMIT,
    Step.FENCE,
    Step.LOOK,
    Step.PREPARE,
    Step.BEGIN,
    Step.PRODUCE,
    Step.COMMIT,
)
DECIDED = (Step.AFTER_COMMIT, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT, Step.DELETE_PREPARED)
NOT_LOGGED = {Step.PREPARED_COMMIT, Step.AFTER_PREPARED_COMMIT}
IN_GATE = (Step.AFTER_PREPARED_COMMIT, Step.AFTER_COMMIT)


@pytest.mark.parametrize(
    ("mode", "finder", "steps"),
    [
        pytest.param("upsert", "write", IN_GATE, id="some steps"),
        *(
            pytest.param(mode, finder, (*NOT_DECIDED, *DECIDED), id=f"{finder}-{mode}", marks=pytest.mark.full)
            for mode in ("upsert", "all")
            for finder in ("write", "batch")
        ),
    ],
)
def test_a_kill_at_any_step_leaves_a_statement_whole_or_out(
    mode: str, finder: str, steps: Sequence[Step], tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {
        "bucket": "2",
        "log.system": "kafka",
        "log.changelog-mode": mode,
        "log.kafka.bootstrap.servers": bootstrap_servers,
    }
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    done: dict[int, bool] = {}
    with zygote("tests.support.jobs.statement_process") as forks:

        def run(what: str, number: int, step: str) -> int:
            return forks.wait(forks.fork(tmp_path, bootstrap_servers, what, number, step))

        assert run("fill", 0, "-") == 0
        for number, step in enumerate(steps, 1):
            assert run("update", number, step.name) == signal.SIGKILL
            assert run(finder, number, "-") == 0  # whoever comes next finishes it
            values = {row[1] for row in rows_in(table) if row[0] < KEYS}
            assert len(values) == 1, f"killed at {step.value}: a part of the statement is in the table"
            done[number] = values == {number}
    assert all(done[number] for number, step in enumerate(steps, 1) if step in DECIDED)
    assert not any(done[number] for number, step in enumerate(steps, 1) if step in NOT_LOGGED)
    for snapshot in table.snapshots():
        rows = rows_in(table, snapshot.id)
        assert len({value for key, value in rows if key < KEYS}) == 1
    assert len(table.to_arrow()) == KEYS + len(done)
    check_folds(table, has_key=True)
    logged = [(bucket, header.statement) for bucket, header in read_headers(table) if header.statement is not None]
    assert len(set(logged)) == len(logged)
    was_prepared = [number for number, step in enumerate(steps, 1) if step is not Step.PREPARED_COMMIT]
    assert len(PreparedCommits(table.store).names()) == sum(not done[number] for number in was_prepared)
    catalog.drop_table("db.t")
