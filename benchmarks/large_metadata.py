"""Milliseconds of plans, commits, expiries and others with 1,000,000 files and 100,000 snapshots, beside a hundredth.

The large table has 1,000,000 files in 10,000 partitions and 1,000 buckets, 100,000 snapshots, 1,000 branches and 10,000
tags, the other one a hundredth of each. The work that is asked for is the same in both: a plan of one partition, a
commit of 4 files, an expiry of 50 snapshots, the choice of compactions for a batch, the newest 20 snapshots of the
history. Each step runs in a new process, `first` once, then again: medians. `describe` sums up all files, so the work
is not the same; it has a budget. `mb` is the peak memory of such a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

from benchmarks.command import run_command
from benchmarks.metadata_made import (
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
from lakelog.catalog import Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.table import FileStoreTable

PARTITION = 7
EXPIRED = 50  # as many as an expiry of a writer, by the default of snapshot.expire.limit
SHOWN = 20
ADDED = 4
REPEATS = {"commit": 30, "plan": 10, "choose": 10, "open": 30, "history": 5, "expiry": 5, "describe": 2}
COMPARED = ("open", "plan", "commit", "expiry", "choose", "history")  # in `describe` the work is not the same
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


def expire(table: FileStoreTable) -> None:
    """Let the oldest snapshots expire."""
    latest, earliest = table.snapshots.latest_id(), table.snapshots.earliest_id()
    assert latest is not None
    assert earliest is not None
    kept = Retention(count_min=1, count_max=latest - earliest + 1 - EXPIRED, age_millis=1 << 50, limit=EXPIRED)
    _check("expired snapshots", len(table.expire_snapshots(retention=kept).snapshot_ids), EXPIRED)


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


def _check(what: str, found: int | None, expected: int | None) -> None:
    if found != expected:
        sys.exit(f"{what}: {found}, expected {expected}")


def run_child(name: str, path: Path, size: Size) -> None:
    """The child: one step, first and again."""
    steps: Mapping[str, Step] = {
        "open": lambda _: opened(path).snapshots.latest(),
        "plan": plan,
        "commit": commits(size),
        "expiry": expire,
        "choose": choose(size),
        "describe": describe,
        "history": history,
    }
    table = opened(path)
    seconds = []
    for _ in range(1 + REPEATS[name]):
        started = time.perf_counter()
        steps[name](table)
        seconds.append(time.perf_counter() - started)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    millis = {"first_ms": seconds[0] * 1_000, "ms": median(seconds[1:]) * 1_000}
    print(json.dumps({**millis, "mb": int(status["VmHWM"].split()[0]) >> 10}))


def measure(path: Path, sizes: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of each step."""
    for name in REPEATS:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.large_metadata", "--child", name, str(path), sizes],
            stdout=subprocess.PIPE,
            check=True,
        )
        yield name, json.loads(done.stdout)


SIZES = {"full": FULL, "hundredth": HUNDREDTH, "small": SMALL, "small_hundredth": SMALL_HUNDREDTH}


def run(folder: Path, large: str, little: str) -> dict[str, object]:
    """The figures."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    summary: dict[str, object] = {"benchmark": "large-metadata", "files": SIZES[large].files}
    for name in (little, large):
        started = time.perf_counter()
        make_metadata(folder / name, SIZES[name])
        summary[f"made_{'large' if name == large else 'little'}_s"] = round(time.perf_counter() - started, 1)
        found[name] = dict(measure(folder / name, name))
    for step in REPEATS:
        of_large, of_little = found[large][step], found[little][step]
        for key in ("first_ms", "ms"):
            summary[f"{step}_{key}"] = round(of_large[key], 2)
            summary[f"{step}_{key}_of_a_hundredth"] = round(of_little[key], 2)
        summary[f"{step}_mb"] = of_large["mb"]
        if step in COMPARED:
            summary[f"ratio_{step}"] = round(of_large["ms"] / of_little["ms"], 3)
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
