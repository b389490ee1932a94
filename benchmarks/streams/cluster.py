"""Streaming upserts on two workers of one core, beside `local[2]`: the same cores, object store and Kafka, in turns.

The batches of the benchmark `upsert`, fewer of them, go into tables in an S3 server (moto, one Python process) without
and with a log. Both drivers, and the executors, run an environment into which the wheel was installed. `ratio_local` is
the time on the cluster divided by that of `local[2]`; the aim is at most 1.3. Every row is checked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import IO, Any  # Any: what JSON gives

from benchmarks.command import run_command
from benchmarks.measuring import in_turns
from benchmarks.upsert_data import Size, UpsertData, make_data
from tests.support.servers.cluster_world import ClusterWorld, running_world
from tests.support.servers.spark_cluster import installed_wheel

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("cluster_driver.py")
REPEATS = 3
FULL = Size(base_rows=400_000, batch_count=10, batch_rows=50_000)
WARM_UP = Size(base_rows=40_000, batch_count=4, batch_rows=20_000)
SMALL = Size(base_rows=20_000, batch_count=3, batch_rows=4_000)
DDL = (
    "id BIGINT NOT NULL, amount BIGINT, price DOUBLE, batch BIGINT, city STRING, note STRING,"
    " at TIMESTAMP(6) WITH LOCAL TIME ZONE"
)
KINDS: Mapping[str, Mapping[str, str]] = {"no_log": {"bucket": "4"}, "log": {"bucket": "4", "log.system": "kafka"}}


@dataclass(slots=True)
class BenchDriver:
    """A driver that runs what it is told."""

    world: ClusterWorld
    name: str
    process: subprocess.Popen[str]
    runs: int = 0

    def measure(self, kind: str, data: UpsertData) -> dict[str, Any]:
        """Write the data into a new table, and check every row of it."""
        self.runs += 1
        table = f"bench.{self.name}_{kind}"
        checkpoints = self.world.cluster.drivers / self.name / "checkpoints" / str(self.runs)
        given = {"name": table, "schema": DDL, "options": KINDS[kind], "checkpoints": str(checkpoints)}
        self._say({**given, "base": str(data.base), "batches": str(data.batches)})
        answer: dict[str, Any] = json.loads(self.answer())
        expected = data.merged().sort("id")
        found = self.world.catalog.load_table(table).to_polars().collect().sort("id").select(expected.columns)
        if not found.equals(expected):
            sys.exit(f"{table} holds {found.height} rows that are not the {expected.height} expected ones")
        shutil.rmtree(checkpoints)
        return answer

    def _say(self, given: Mapping[str, object]) -> None:
        pipe: IO[str] | None = self.process.stdin
        assert pipe is not None
        pipe.write(json.dumps(given) + "\n")
        pipe.flush()

    def answer(self) -> str:
        """The next answer."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                return line.removeprefix("answer ")
        sys.exit(f"the driver {self.name} has ended")


@contextmanager
def running_driver(world: ClusterWorld, name: str, master: str) -> Iterator[BenchDriver]:
    """A driver in a process of its own; two cores work for it, here or in executors."""
    given = {**world.settings(), "master": master}
    given["conf"] = {**given["conf"], "spark.driver.memory": "2g", "spark.executor.memory": "1g"}
    command = world.cluster.driver_command(DRIVER, [json.dumps(given)], name=name)
    with subprocess.Popen(
        command.arguments,
        cwd=command.folder,
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        driver = BenchDriver(world, name, process)
        driver.answer()
        yield driver
        assert process.stdin is not None
        process.stdin.close()


def run(folder: Path, is_small: bool) -> dict[str, object]:
    """Both masters in turns, warmed up; the median of the repeats."""
    size = SMALL if is_small else FULL
    (folder / "installed").mkdir()
    python = installed_wheel(folder / "installed")
    moto = ROOT / ".venvs" / "moto" / "bin" / "python"
    with running_world(folder, python, moto, memory_mib=2048) as world:
        masters = {"cluster": world.cluster.master, "local": "local[2]"}
        with (
            running_driver(world, "cluster", masters["cluster"]) as cluster,
            running_driver(world, "local", masters["local"]) as local,
        ):
            contenders = {
                f"{driver.name}_{kind}": partial(driver.measure, kind) for kind in KINDS for driver in (cluster, local)
            }
            if not is_small:
                _measure(contenders, make_data(folder / "warm-up", WARM_UP), repeats=1)
            found = _measure(contenders, make_data(folder / "data", size), repeats=1 if is_small else REPEATS)
    return _summary(size, found)


def _measure(
    contenders: Mapping[str, Callable[[UpsertData], dict[str, Any]]], data: UpsertData, *, repeats: int
) -> dict[str, list[dict[str, Any]]]:
    return in_turns({name: partial(run_one, data) for name, run_one in contenders.items()}, repeats=repeats)


def _summary(size: Size, found: Mapping[str, list[dict[str, Any]]]) -> dict[str, object]:
    summary: dict[str, object] = {"benchmark": "cluster", "rows": size.upserted_rows, "batch_rows": size.batch_rows}
    wall = {name: median(one["wall_s"] for one in answers) for name, answers in found.items()}
    for name, seconds in wall.items():
        summary[f"{name}_rows_per_s"] = round(size.upserted_rows / seconds)
        summary[f"{name}_batch_ms"] = round(seconds * 1000 / size.batch_count)
        summary[f"{name}_median_batch_ms"] = median(ms for one in found[name] for ms in one["batch_ms"])
    for kind in KINDS:
        summary[f"ratio_local_{kind}"] = round(wall[f"cluster_{kind}"] / wall[f"local_{kind}"], 3)
    return summary


if __name__ == "__main__":
    run_command(__doc__, run)
