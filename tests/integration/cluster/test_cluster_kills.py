"""Executors, workers, drivers and Kafka are ended by SIGKILL in mid-batch: nothing is lost, and nothing comes twice.

LAKELOG_TEST_CLUSTER_KILLS is the number of kills, 50 by default. The history is printed: `pytest -s` shows it.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.cluster.test_cluster_jobs import SPECULATION, rows_of
from tests.support.examples import in_full
from tests.support.logs.numbered_changes import rows_after
from tests.support.logs.promises import check_log_equals_files
from tests.support.servers.cluster_world import LOGGED, ClusterWorld
from tests.support.servers.spark_cluster import Driver, kill

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("LAKELOG_TEST_CLUSTER_KILLS", in_full(60)))
ROWS, KEYS = 200, 150
VICTIMS = ("executor", "executor", "python worker", "worker", "driver", "kafka")
POLL_SECONDS = 0.1
PATIENCE_POLLS = 3000  # not seconds: the time in which this process does not run is not counted


class Killing:
    """A pipeline on a cluster, and what was killed of it."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._rng = random.Random(4)
        self.kills = Counter[str]()
        self.restarts = 0
        self.driver = self._start()

    @property
    def commits(self) -> Path:
        """The folder of the checkpoint with a file for each batch that has ended."""
        return self.folder / "checkpoints" / "pipeline" / "commits"

    @property
    def folder(self) -> Path:
        return self._world.cluster.drivers / "killed"

    def _start(self) -> Driver:
        return self._world.start([("pipeline", {"rows": ROWS, "keys": KEYS})], name="killed", conf=SPECULATION)

    def batch(self) -> int:
        """The last batch that has ended, -1 for none."""
        return max((int(file.name) for file in self.commits.glob("[0-9]*")), default=-1)

    def await_batch(self, after: int) -> float:
        """Wait for a batch after this one, starting a driver that has ended again; the seconds that it took."""
        began = time.monotonic()
        for _ in range(PATIENCE_POLLS):
            if self.batch() > after:
                return time.monotonic() - began
            self.revive()
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"no batch after {after}:\n{self.driver.tail()}")

    def revive(self) -> None:
        """Start the driver again if its query has ended with an error, as a supervisor does."""
        if self.driver.process.poll() is not None:
            self.restarts += 1
            print(f"the driver ended by itself:\n{self.driver.tail()[-1500:]}")
            self.driver = self._start()

    def strike(self) -> None:
        """Kill something at a random moment of the next batches, and wait for a batch."""
        time.sleep(self._rng.uniform(0.0, 3.0))  # the moment of the kill
        victim = self._rng.choice(VICTIMS)
        before = self.batch()
        if not self._kill(victim):
            return
        self.kills[victim] += 1
        seconds = self.await_batch(before + 1)  # the batch that was under way, and one that began afterwards
        print(f"kill {self.kills.total()}: {victim} in batch {before + 1}, the next one ended after {seconds:.1f} s")

    def _kill(self, victim: str) -> bool:
        """Kill a victim; False if there is none now."""
        cluster = self._world.cluster
        if victim in ("executor", "python worker"):
            found = sorted(cluster.executors() if victim == "executor" else cluster.python_daemons())
            return bool(found) and kill(self._rng.choice(found))
        if victim == "worker":
            number = self._rng.choice(sorted(cluster.workers))
            cluster.kill_worker(number)
            cluster.start_worker(number)
        elif victim == "driver":
            self.driver.kill()
            self.driver = self._start()
        else:
            self._world.restart_kafka()
        return True

    def finish(self) -> int:
        """Let the pipeline end; returns the number of batches that it wrote."""
        (self.folder / "stop").touch()
        for _ in range(PATIENCE_POLLS):
            if self.driver.process.poll() == 0:
                return int((self.folder / "last").read_text())
            self.revive()
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"the pipeline does not end:\n{self.driver.tail()}")


def test_kills_in_mid_batch_lose_nothing_and_repeat_nothing(world: ClusterWorld) -> None:
    world.make_table("db.changes", LOGGED)
    world.make_table("db.events", {"bucket": "2", "bucket-key": "id", "log.system": "kafka"}, has_key=False)
    world.make_table("db.copy", {"bucket": "2"})
    killing = Killing(world)
    try:
        killing.await_batch(0)
        while killing.kills.total() < KILLS:
            killing.strike()
        batches = killing.finish()
    finally:
        killing.driver.kill()
    print(f"{dict(killing.kills)}, {killing.restarts} drivers ended by themselves, {batches} batches")

    total = ROWS * batches
    assert rows_of(world, "db.changes") == rows_after(total, KEYS)
    assert rows_of(world, "db.copy") == rows_after(total, KEYS)
    events = world.catalog.load_table("db.events")
    assert sorted(events.to_arrow()["amount"].to_pylist()) == list(range(total))
    check_log_equals_files(events)
    check_log_equals_files(world.catalog.load_table("db.changes"))
