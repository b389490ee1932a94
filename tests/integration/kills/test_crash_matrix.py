"""SIGKILL at every named step, on a real broker and real Spark; after each, the promises are checked.

The gate runs a handful; `scripts/test --full` runs all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.steps import Step
from tests.support.kills.crash import CrashPlan, Victim
from tests.support.logs.changes import (
    TABLE_SCHEMA,
    ChangeHistory,
    make_additions,
    make_history,
    make_sums,
    write_files,
)
from tests.support.logs.promises import (
    check_log_equals_files,
    fold_read_batches,
    read_headers,
    snapshot_rows,
    snapshot_states,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

FILES = 6
FIRST_FILES = 2
CRASH_AT = 3
JOB_SECONDS_MAX = 280

WORKER_STEPS = (Step.FENCE, Step.LOOK, Step.PREPARE, Step.BEGIN, Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT)
DRIVER_STEPS = (Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT, Step.BETWEEN_APPEND_AND_COMPACT)


def all_cases() -> list[tuple[Step, Victim]]:
    """Every step with each victim."""
    cases = [(step, victim) for step in WORKER_STEPS for victim in (Victim.DRIVER, Victim.WORKER, Victim.ZOMBIE)]
    return cases + [(step, Victim.DRIVER) for step in DRIVER_STEPS]


def matrix() -> Iterator[object]:
    """Every step with each victim."""
    for step, victim in all_cases():
        yield pytest.param(step, victim, id=f"{victim.value} at {step.value}", marks=pytest.mark.full)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table, and histories for it."""

    primary_keys: Sequence[str] = ("id",)
    options: Mapping[str, str] = field(default_factory=dict)
    make_history: Callable[..., ChangeHistory] = make_history


KEYED = Kind()
KINDS = {
    "value-count": Kind((), {"write-mode": "change-log"}),
    "append-only": Kind((), {}, make_additions),
    "merged": Kind(
        options={"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}, make_history=make_sums
    ),
}


BY_INTERVAL = Kind(options={"snapshot.interval": "5 min", "snapshot.pending.max-batches": "2"})
IN_GATE = (Step.AFTER_COMMIT, Victim.DRIVER)


def interval_matrix() -> Iterator[object]:
    """Every step with each victim, where a snapshot takes in two batches."""
    for step, victim in all_cases():
        is_long = (step, victim) != IN_GATE
        yield pytest.param(
            step, victim, id=f"{victim.value} at {step.value}", marks=(pytest.mark.full,) if is_long else ()
        )


def kinds_matrix() -> Iterator[object]:
    """A few steps and victims for each kind of table."""
    steps = ((Step.COMMIT, Victim.WORKER), (Step.AFTER_COMMIT, Victim.DRIVER), (Step.AFTER_COMMIT, Victim.ZOMBIE))
    for name in KINDS:
        for step, victim in steps:
            yield pytest.param(name, step, victim, id=f"{name}: {victim.value} at {step.value}", marks=pytest.mark.full)


@dataclass(slots=True)
class Pipeline:
    """The folder of one case, its table and what must be in it."""

    folder: Path
    catalog: Catalog
    kind: Kind = KEYED
    histories: dict[str, ChangeHistory] = field(default_factory=dict)

    @classmethod
    def create(cls, folder: Path, bootstrap_servers: str, kind: Kind = KEYED) -> Pipeline:
        """A table of this kind."""
        catalog = Catalog(str(folder / "lake"), bootstrap_servers=bootstrap_servers)
        options = {
            "bucket": "2",
            "log.system": "kafka",
            "log.changelog-mode": "all",
            "log.kafka.bootstrap.servers": bootstrap_servers,
            "num-sorted-run.compaction-trigger": "2",
        }
        options |= kind.options
        catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=kind.primary_keys, options=options)
        return cls(folder, catalog, kind)

    def feed(self, name: str, *, seed: int, first_key: int = 0) -> None:
        """Give the job `name` a source: the first files there, the others staged."""
        history = self.kind.make_history(seed, files=FILES, changes_per_file=150, keys=120, first_key=first_key)
        write_files(history, self.folder / f"{name}-source")
        staged = self.folder / f"{name}-staged"
        staged.mkdir()
        for file in sorted((self.folder / f"{name}-source").glob("*.parquet"))[FIRST_FILES:]:
            file.rename(staged / file.name)
        self.histories[name] = history

    def start(self, name: str = "job", env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.jobs.crash_job", str(self.folder), name]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, env={**os.environ, **(env or {})}, stdout=log, stderr=log, start_new_session=True
            )

    def finish(self, name: str = "job") -> None:
        """Run the job to its end."""
        job = self.start(name)
        assert job.wait(JOB_SECONDS_MAX) == 0, self.tail_of_log(name)

    def plan(self, step: Step, victim: Victim, name: str = "job", identifier: int = CRASH_AT) -> CrashPlan:
        return CrashPlan(
            step=step,
            identifier=identifier,
            victim=victim,
            marker=self.folder / f"{name}.marker",
            release=self.folder / f"{name}.release",
        )

    def tail_of_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-6000:]

    @property
    def table(self) -> Table:
        return self.catalog.load_table("db.t")

    def check(self, names: Sequence[str] = ("job",)) -> None:
        """Promises 1 to 4 after everything has run to its end."""
        table = self.table
        headers = read_headers(table)
        assert_logged_once(headers, batches_per_user=FILES, users=len(names))
        check_log_equals_files(table)
        truth = frozenset(row for name in names for row in self.histories[name].truths[-1])
        assert snapshot_rows(table) == truth
        if len(names) == 1:
            self.check_whole_batches(names[0])
            assert fold_read_batches(self.folder / f"{names[0]}-read") == Counter(truth)

    def check_whole_batches(self, name: str) -> None:
        """Each snapshot under an empty ledger holds exactly the batches up to its identifier."""
        seen = set()
        for snapshot, state in snapshot_states(self.table):
            if state.logged.is_whole():
                (entry,) = state.users.values()
                rows = snapshot_rows(self.table, snapshot.id)
                assert rows == self.histories[name].truths[entry.identifier]
                seen.add(entry.identifier)
        if "snapshot.interval" in self.kind.options:
            assert max(seen) == FILES - 1  # at the end of the query
            assert len(seen) < FILES, "each batch has made a snapshot"
        else:
            assert seen == set(range(FILES))


def assert_logged_once(headers: Sequence[tuple[int, CommitHeader]], *, batches_per_user: int, users: int) -> None:
    times = Counter((header.user, header.identifier, bucket) for bucket, header in headers)
    assert max(times.values()) == 1
    assert len({user for user, _, _ in times}) == users
    assert {identifier for _, identifier, _ in times} == set(range(batches_per_user))


def wait_for(path: Path, job: subprocess.Popen[bytes], pipeline: Pipeline, name: str = "job") -> dict[str, object]:
    """Wait until the plan has struck; what the marker says."""
    deadline = time.monotonic() + JOB_SECONDS_MAX
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().endswith(b"}"):
            hit = json.loads(path.read_bytes())
            assert isinstance(hit, dict)
            return hit
        if job.poll() is not None and not path.exists():
            break
        time.sleep(0.05)
    raise AssertionError(f"the step was not reached\n{pipeline.tail_of_log(name)}")


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"process {pid} did not end")


def check_kill(pipeline: Pipeline, step: Step, victim: Victim, identifier: int = CRASH_AT) -> None:
    """Let the plan strike at a step of a batch, run the job to its end, and check the promises."""
    pipeline.feed("job", seed=hash_of(step, victim))
    plan = pipeline.plan(step, victim, identifier=identifier)
    job = pipeline.start(env=plan.to_env())
    hit = wait_for(plan.marker, job, pipeline)
    assert job.wait(JOB_SECONDS_MAX) != 0

    pipeline.finish()
    if victim is Victim.ZOMBIE:
        plan.release.touch()
        wait_until_gone(int(str(hit["pid"])))
    pipeline.check()


def struck_batch(step: Step) -> int:
    """Later batches fence only where a bucket has moved to another Python worker, the first one always."""
    return 0 if step is Step.FENCE else CRASH_AT


@pytest.mark.parametrize(("step", "victim"), list(matrix()))
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    step: Step, victim: Victim, tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers)
    check_kill(pipeline, step, victim, struck_batch(step))


@pytest.mark.parametrize(("name", "step", "victim"), list(kinds_matrix()))
def test_a_kill_at_a_table_of_any_kind_loses_and_doubles_nothing(
    name: str, step: Step, victim: Victim, tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers, KINDS[name])
    check_kill(pipeline, step, victim)


@pytest.mark.parametrize(("step", "victim"), list(interval_matrix()))
def test_a_kill_with_snapshots_by_interval_loses_and_doubles_nothing(
    step: Step, victim: Victim, tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers, BY_INTERVAL)
    check_kill(pipeline, step, victim, struck_batch(step))


def hash_of(step: Step, victim: Victim) -> int:
    """A seed of its own for each case, the same in every run."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(f"{step}/{victim}"))


@pytest.mark.full
def test_another_stream_between_crash_and_restart_takes_in_what_was_logged(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers)
    pipeline.feed("job", seed=1)
    pipeline.feed("other", seed=2, first_key=1_000)
    plan = pipeline.plan(Step.AFTER_COMMIT, Victim.DRIVER)
    job = pipeline.start(env=plan.to_env())
    wait_for(plan.marker, job, pipeline)
    job.wait(JOB_SECONDS_MAX)

    pipeline.finish("other")
    pipeline.finish("job")
    pipeline.check(("job", "other"))


@pytest.mark.full
def test_two_streams_at_once_on_one_table_spoil_nothing(tmp_path: Path, bootstrap_servers: str) -> None:
    pipeline = Pipeline.create(tmp_path, bootstrap_servers)
    pipeline.feed("job", seed=1)
    pipeline.feed("other", seed=2, first_key=1_000)
    jobs = {name: pipeline.start(name) for name in ("job", "other")}
    for name, job in jobs.items():
        if job.wait(JOB_SECONDS_MAX) != 0:
            assert "fenced" in pipeline.tail_of_log(name)
    for name in jobs:
        pipeline.finish(name)
    pipeline.check(("job", "other"))


@pytest.mark.full
def test_a_broker_killed_in_mid_transaction_loses_and_doubles_nothing(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "broker")
    info = broker.start()
    try:
        pipeline = Pipeline.create(tmp_path, info.bootstrap_servers)
        pipeline.feed("job", seed=3)
        plan = pipeline.plan(Step.COMMIT, Victim.HELD)
        job = pipeline.start(env=plan.to_env())
        wait_for(plan.marker, job, pipeline)
        os.kill(info.pid, signal.SIGKILL)
        assert broker.start().bootstrap_servers == info.bootstrap_servers
        plan.release.touch()
        job.wait(JOB_SECONDS_MAX)  # it may end well or not: either is an answer to an unknown outcome

        pipeline.finish()
        pipeline.check()
    finally:
        broker.stop()
