"""Milliseconds of plans, commits, expiries and others with 1,000,000 files and 100,000 snapshots, beside a hundredth.

The large table has 1,000,000 files in 10,000 partitions and 1,000 buckets, 100,000 snapshots, 1,000 branches and 10,000
tags, the other one a hundredth of each. The work that is asked for is the same in both: a plan of one partition, a
commit of 4 files, an expiry of 50 snapshots, the choice of compactions for a batch. Each step runs in a new process,
`first` once, then again: medians; `cpu` is processor time. `unknown` is the first expiry of a table whose snapshots no
expiry has compared yet. `describe` sums up all files, and `history` shows all tags and branches, so their work is not
the same. `mb` is the peak memory of such a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.command import run_command
from benchmarks.files.metadata_made import (
    FILES_A_PARTITION,
    FULL,
    HUNDREDTH,
    SMALL,
    SMALL_HUNDREDTH,
    Size,
    bucket_numbers,
    make_metadata,
    new_entry,
    opened,
    partition_row,
)
from benchmarks.measuring import Measure, median_cpu_s, median_wall_s
from lakelog.catalog import Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots

PARTITION = 7
SHOWN = 20
ADDED = 4
REPEATS = {"commit": 30, "plan": 20, "choose": 20, "open": 50, "history": 3, "unknown": 0, "expiry": 7, "describe": 2}
STEPS = ("open", "plan", "commit", "choose", "unknown", "expiry", "history", "describe")
COMPARED = ("open", "plan", "commit", "choose", "expiry")  # in the others the work is not the same
Step = Callable[[FileStoreTable], object]


def plan(table: FileStoreTable) -> None:
    """Plan one partition."""
    planned = plan_splits(table, table.snapshots.latest(), where=parse_where(f"day = {PARTITION}"))
    _check("files of the plan", sum(len(split.files) for split in planned.splits), FILES_A_PARTITION)


def commits(size: Size) -> Step:
    """Commits of some files each into one partition."""
    buckets = bucket_numbers(PARTITION + 1, size.buckets)
    count = 0

    def commit(table: FileStoreTable) -> None:
        nonlocal count
        count += 1
        number = 1_000 + count  # behind the files of the bucket
        entries = [
            new_entry(table, PARTITION + 1, bucket, f"data-late-{number}-{bucket}.parquet", number=number, level=0)
            for bucket in buckets[:ADDED]
        ]
        append_commit(table, user="bench", identifier=count, digest=None, entries=entries)

    return commit


def expire(size: Size) -> Step:
    """Let the oldest snapshots expire."""

    def run(table: FileStoreTable) -> None:
        latest, earliest = table.snapshots.latest_id(), table.snapshots.earliest_id()
        assert latest is not None
        assert earliest is not None
        count_max = latest - earliest + 1 - size.expired
        kept = Retention(count_min=1, count_max=count_max, age_millis=1 << 50, limit=size.expired)
        _check("expired snapshots", len(expire_snapshots(table, retention=kept).snapshot_ids), size.expired)

    return run


def choose(size: Size) -> Step:
    """Choose the compactions that are due in the buckets of a batch."""

    def run(table: FileStoreTable) -> None:
        row = partition_row(table, PARTITION)
        buckets = [BucketId(row, number) for number in bucket_numbers(PARTITION, size.buckets)]
        work = due_work(
            table, table.snapshots.latest(), buckets, lambda _, files, marked: pick_unit(table, files, marked=marked)
        )
        _check("due compactions", len(work), 0)

    return run


def describe(table: FileStoreTable) -> None:
    """Describe the table."""
    newest = table.snapshots.latest()
    assert newest is not None
    _check("files described", Table(table).describe().file_count, table.live_files.count(newest))


def history(table: FileStoreTable) -> None:
    """The newest snapshots of the main branch."""
    line = next(iter(Table(table).history(limit=SHOWN)))
    _check("newest snapshot shown", line.entries[0].snapshot.id, table.snapshots.latest_id())


def _measured(step: Step, table: FileStoreTable) -> Measure:
    """One run of a step, and the processor time of this process alone: ticks of the system are too long for it."""
    wall, cpu = time.perf_counter(), time.process_time()
    step(table)
    return Measure(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


def _check(what: str, found: int | None, expected: int | None) -> None:
    if found != expected:
        sys.exit(f"{what}: {found}, expected {expected}")


def run_child(name: str, path: Path, size: Size) -> None:
    """The child: one step, first and again."""
    steps: Mapping[str, Step] = {
        "open": lambda _: opened(path).snapshots.latest(),
        "plan": plan,
        "commit": commits(size),
        "unknown": expire(size),
        "expiry": expire(size),
        "choose": choose(size),
        "describe": describe,
        "history": history,
    }
    table = opened(path)
    measures = [_measured(steps[name], table) for _ in range(1 + REPEATS[name])]
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    found = {"first_ms": measures[0].wall_s * 1_000, "mb": int(status["VmHWM"].split()[0]) >> 10}
    if measures[1:]:
        found |= {"ms": median_wall_s(measures[1:]) * 1_000, "cpu_ms": median_cpu_s(measures[1:]) * 1_000}
    print(json.dumps(found))


def measure(name: str, path: Path, size: str) -> dict[str, float]:
    """The figures of a step, in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.files.large_metadata", "--child", name, str(path), size],
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


SIZES = {"full": FULL, "hundredth": HUNDREDTH, "small": SMALL, "small_hundredth": SMALL_HUNDREDTH}


def run(folder: Path, large: str, little: str) -> dict[str, object]:
    """The figures."""
    summary: dict[str, object] = {"benchmark": "large-metadata", "files": SIZES[large].files}
    started = time.perf_counter()
    for name in (little, large):
        make_metadata(folder / name, SIZES[name])
    summary["made_s"] = round(time.perf_counter() - started, 1)
    for step in STEPS:
        of_little, of_large = (measure(step, folder / name, name) for name in (little, large))
        for key, value in of_large.items():
            summary[f"{step}_{key}"] = round(value, 2)
            if key != "mb":
                summary[f"{step}_{key}_of_a_hundredth"] = round(of_little[key], 2)
        if step in COMPARED:
            summary[f"ratio_{step}"] = round(of_large["ms"] / of_little["ms"], 3)
            summary[f"ratio_cpu_{step}"] = round(of_large["cpu_ms"] / of_little["cpu_ms"], 3)
            summary[f"ratio_first_{step}"] = round(of_large["first_ms"] / of_little["first_ms"], 3)
    return summary


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--child"]:
        name, path, size = sys.argv[2:]
        run_child(name, Path(path), SIZES[size])
        return
    run_command(
        __doc__,
        lambda folder, is_small: run(folder, *(("small", "small_hundredth") if is_small else ("full", "hundredth"))),
    )


if __name__ == "__main__":
    main()
