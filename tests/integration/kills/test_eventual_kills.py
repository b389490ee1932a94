"""SIGKILL of processes that write an eventual log: in the end the log, its readers and the files have the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakelog.common.types import RowKind
from lakelog.protocol.state.steps import Step
from tests.integration.kills.test_crash_matrix import (
    FILES,
    JOB_SECONDS_MAX,
    Kind,
    Pipeline,
    hash_of,
    wait_for,
    wait_until_gone,
)
from tests.support.kills.crash import Victim
from tests.support.logs.changes import Row
from tests.support.logs.promises import log_changes, snapshot_rows, snapshot_states

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

EVENTUAL = Kind(options={"log.consistency": "eventual", "log.changelog-mode": "upsert"})
CASES = [
    pytest.param(Step.BEFORE_SNAPSHOT, Victim.DRIVER, id="driver with records and no snapshot"),
    pytest.param(Step.AFTER_COMMIT, Victim.WORKER, id="worker behind its records"),
    pytest.param(Step.PRODUCE, Victim.ZOMBIE, id="zombie before its records"),
    pytest.param(Step.PREPARE, Victim.WORKER, id="worker without files"),
    pytest.param(Step.AFTER_SNAPSHOT, Victim.DRIVER, id="driver behind its snapshot"),
]


@pytest.mark.parametrize(("step", "victim"), CASES)
def test_a_kill_leaves_the_same_rows_in_log_files_and_readers(
    step: Step, victim: Victim, tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers, EVENTUAL)
    pipeline.feed("job", seed=hash_of(step, victim))
    plan = pipeline.plan(step, victim)
    job = pipeline.start(env=plan.to_env())
    hit = wait_for(plan.marker, job, pipeline)
    assert job.wait(JOB_SECONDS_MAX) != 0

    pipeline.finish()
    if victim is Victim.ZOMBIE:
        plan.release.touch()
        wait_until_gone(int(str(hit["pid"])))
    check(pipeline)


def check(pipeline: Pipeline) -> None:
    truths = pipeline.histories["job"].truths
    changes = [log_changes(pipeline.table, bucket) for bucket in range(2)]
    seen = set()
    for snapshot, state in snapshot_states(pipeline.table):
        (entry,) = state.users.values()
        rows: dict[int, Row] = {}
        for bucket, found in enumerate(changes):
            end = state.logged.position(bucket).offset
            for _, offset, kind, row in found:
                if offset < end:
                    put(rows, row.to_pylist()[0], is_add=RowKind(kind).is_add)
        assert snapshot_rows(pipeline.table, snapshot.id) == truths[entry.identifier]
        assert frozenset(rows.values()) == truths[entry.identifier], f"log and files differ at {snapshot.id}"
        seen.add(entry.identifier)
    assert seen == set(range(FILES))
    assert frozenset(read_by_key(pipeline.folder / "job-read").values()) == truths[-1]


def read_by_key(folder: Path) -> dict[int, Row]:
    """The last change of each key among all that a hybrid stream delivered."""
    rows: dict[int, Row] = {}
    for file in sorted(folder.glob("batch-*.parquet")):
        for row in pq.read_table(file).to_pylist():
            put(rows, row, is_add=row["_row_kind"] in ("+I", "+U"))
    return rows


def put(rows: dict[int, Row], row: dict[str, object], *, is_add: bool) -> None:
    key, name, amount = row["id"], row["name"], row["amount"]
    assert isinstance(key, int)
    assert isinstance(name, str)
    assert amount is None or isinstance(amount, int)
    rows.pop(key, None)
    if is_add:
        rows[key] = (key, name, amount)
