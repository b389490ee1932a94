"""Rows a second of streaming upserts of real changes, beside Spark appending the same batches as plain Parquet.

Three streams into tables without a log, each beside its own floor: `git`, the changes of files in the commits of many
repositories, with deletes and with files that change in every other commit; `skew`, the updates of an order system as
TPC-C makes them, with a few rows that every order updates; `uniform`, keys that are all as likely. Time counts from the
start of the query to its end, compaction included; every key is checked. See `changed_rows.py`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.command import print_summary
from benchmarks.measuring import Measure, in_turns, measured, median_cpu_s, median_wall_s
from benchmarks.spark_runs import LakelogRun, append_plain, make_session
from benchmarks.streams.changed_rows import (
    KEY,
    KIND,
    SCHEMA,
    SPARK_SCHEMA,
    ChangeFiles,
    Changes,
    git_changes,
    skewed_changes,
    uniform_changes,
    write_changes,
)
from benchmarks.streams.upsert import work_folder

REPEATS = 3
SHAPE = f"{SPARK_SCHEMA}, {KIND} STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many changes there are: copies of the git history, and as many changes of the others."""

    copies: int
    batch_rows: int
    warehouses: int
    uniform_keys: int


FULL = Size(copies=30, batch_rows=200_000, warehouses=10, uniform_keys=1_000_000)
SMALL = Size(copies=1, batch_rows=10_000, warehouses=1, uniform_keys=20_000)


def run_floor(session: SparkSession, files: ChangeFiles, work: Path) -> Measure:
    """Append the batches as plain Parquet."""
    shutil.rmtree(work, ignore_errors=True)
    return measured(lambda: append_plain(session, files.folder, work, shape=SHAPE))


def run_lakelog(session: SparkSession, files: ChangeFiles, work: Path) -> Measure:
    """Apply the batches to a new table, then check every key."""
    shutil.rmtree(work, ignore_errors=True)
    run = LakelogRun(session=session, work=work, schema=SCHEMA, keys=(KEY,), shape=SHAPE)
    run.create()
    measure = measured(lambda: run.upsert(files.folder))
    rows = run.table.to_arrow(columns=[KEY, "change"])
    found = dict(zip(rows[KEY].to_pylist(), rows["change"].to_pylist(), strict=True))
    if found != files.expected:
        sys.exit(f"the table holds {len(found)} keys that are not the {len(files.expected)} expected ones")
    return measure


def run_all(session: SparkSession, size: Size, work: Path, repeats: int) -> dict[str, object]:
    """Every stream and its floor, in turns."""
    git = git_changes(size.copies)
    streams: dict[str, Changes] = {
        "git": git,
        "skew": skewed_changes(len(git), size.warehouses),
        "uniform": uniform_changes(len(git), size.uniform_keys),
    }
    files = {name: write_changes(work / "data" / name, one, size.batch_rows) for name, one in streams.items()}
    contenders: dict[str, Callable[[], Measure]] = {}
    for name, one in files.items():
        contenders[f"{name}_floor"] = partial(run_floor, session, one, work / f"{name}-floor")
        contenders[name] = partial(run_lakelog, session, one, work / name)
    measures = in_turns(contenders, repeats=repeats)
    summary: dict[str, object] = {"benchmark": "real-changes", "changes": len(git), "batch_rows": size.batch_rows}
    for name, one in files.items():
        floor, own = measures[f"{name}_floor"], measures[name]
        wall_s, floor_s = median_wall_s(own), median_wall_s(floor)
        summary[f"{name}_keys"] = len(one.expected)
        summary[f"{name}_deletes"] = int(streams[name].is_delete.sum())
        summary[f"{name}_rows_per_s"] = round(one.row_count / wall_s)
        summary[f"{name}_floor_rows_per_s"] = round(one.row_count / floor_s)
        summary[f"{name}_cpu_ms_per_batch"] = round(median_cpu_s(own) * 1_000 / one.batch_count)
        summary[f"{name}_floor_cpu_ms_per_batch"] = round(median_cpu_s(floor) * 1_000 / one.batch_count)
        summary[f"ratio_{name}"] = round(floor_s / wall_s, 3)
        summary[f"ratio_cpu_{name}"] = round(median_cpu_s(floor) / median_cpu_s(own), 3)
    return summary


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with work_folder() as work:
        session = make_session()
        try:
            if not arguments.small:
                run_all(session, SMALL, work / "warm-up", repeats=1)
            size, repeats = (SMALL, 1) if arguments.small else (FULL, REPEATS)
            summary = run_all(session, size, work / "run", repeats)
        finally:
            session.stop()
    print_summary(summary, as_json=arguments.json)


if __name__ == "__main__":
    main()
