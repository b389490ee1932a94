"""Rows a second of streaming upserts, without and with a log, beside Spark appending the same batches as plain Parquet.

The table has its base rows already; then each file of the source is one micro-batch, of which 80 % overwrite uniformly
random keys. Time counts from the start of the query to its end, compaction included; with `running` the stream goes on,
and time counts until the last batch is committed, with the compaction that ran beside it. `cpu` is the processor time
of Spark, its Python workers and the driver, without the broker's. `log_interval` is the running stream with a snapshot
every 30 s: its last batch is in the log then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks.command import print_summary
from benchmarks.measuring import Measure, in_turns, measured, median_cpu_s, median_wall_s
from benchmarks.spark_runs import LOGGED, LakelogRun, append_plain, make_session
from benchmarks.upsert_data import FREQUENT, FULL, SMALL, Size, UpsertData, make_data
from lakelog.logstore.broker.broker import EmbeddedBroker

REPEATS = 3
BY_INTERVAL = {"snapshot.interval": "30 s"}
RATIO_NAMES = {"no_log": "no_log_settled"}
WARM_UP = Size(base_rows=40_000, batch_count=6, batch_rows=40_000)


@contextmanager
def work_folder() -> Iterator[Path]:
    """A temporary folder, deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        yield Path(folder)


def run_floor(session: SparkSession, data: UpsertData, work: Path) -> Measure:
    """Append the batches as plain Parquet."""
    shutil.rmtree(work, ignore_errors=True)
    return measured(lambda: append_plain(session, data.batches, work))


def run_lakelog(
    session: SparkSession,
    data: UpsertData,
    work: Path,
    *,
    options: Mapping[str, str],
    expected: pl.DataFrame,
    goes_on: bool = False,
) -> Measure:
    """Load the base, then measure the batches, then check every row."""
    run = LakelogRun(session=session, work=work, options=options)
    if (work / "warehouse").exists():
        run.catalog.drop_table("bench.rows", if_exists=True)
    for checkpoint in work.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    run.create()
    run.upsert(data.base)
    measure = run.upsert_in_running_stream(data.batches) if goes_on else measured(lambda: run.upsert(data.batches))
    check_rows(run, expected)
    return measure


def check_rows(run: LakelogRun, expected: pl.DataFrame) -> None:
    """Stop the benchmark when the table does not hold what it must."""
    found = run.table.to_polars().collect().sort("id").select(expected.columns)
    if not found.equals(expected):
        sys.exit(f"the table holds {found.height} rows that are not the {expected.height} expected ones")


def run_command(description: str | None, run: Callable[[SparkSession, Size, Path], dict[str, object]]) -> None:
    """A benchmark's command line: run it in a Spark and a folder of its own, and print its figures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--frequent", action="store_true", help="60 batches of 2,000 rows, where the commit is a share")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with work_folder() as work:
        session = make_session()
        try:
            summary = run(session, SMALL if arguments.small else FREQUENT if arguments.frequent else FULL, work)
        finally:
            EmbeddedBroker(work / "log" / "warehouse").stop()
            session.stop()
    print_summary(summary, as_json=arguments.json)


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Every contender in turns; in the full size each is warmed up and measured several times."""
    data = make_data(work / "data", size)
    if size == SMALL:
        return _summary(size, _measure_all(session, data, work, repeats=1))
    _measure_all(session, make_data(work / "warm-up", WARM_UP), work, repeats=1)
    return _summary(size, _measure_all(session, data, work, repeats=REPEATS))


def _measure_all(session: SparkSession, data: UpsertData, work: Path, *, repeats: int) -> dict[str, list[Measure]]:
    expected = data.merged().sort("id")
    contenders: dict[str, Callable[[], Measure]] = {
        "floor": lambda: run_floor(session, data, work / "floor"),
        "no_log": lambda: run_lakelog(session, data, work / "no-log", options={}, expected=expected),
        "no_log_running": lambda: run_lakelog(
            session, data, work / "running", options={}, expected=expected, goes_on=True
        ),
        "log": lambda: run_lakelog(session, data, work / "log", options=LOGGED, expected=expected),
        "log_running": lambda: run_lakelog(
            session, data, work / "log", options=LOGGED, expected=expected, goes_on=True
        ),
        "log_interval": lambda: run_lakelog(
            session, data, work / "log", options=LOGGED | BY_INTERVAL, expected=expected, goes_on=True
        ),
    }
    return in_turns(contenders, repeats=repeats)


def _summary(size: Size, measures: dict[str, list[Measure]]) -> dict[str, object]:
    rows = size.upserted_rows
    floor_s, floor_cpu_s = median_wall_s(measures["floor"]), median_cpu_s(measures["floor"])
    summary: dict[str, object] = {"benchmark": "upsert", "rows": rows, "batch_rows": size.batch_rows}
    for name, ones in measures.items():
        wall_s = median_wall_s(ones)
        summary[f"{name}_rows_per_s"] = round(rows / wall_s)
        summary[f"{name}_batch_ms"] = round(wall_s * 1000 / size.batch_count)
        summary[f"{name}_cpu_ms_per_batch"] = round(median_cpu_s(ones) * 1000 / size.batch_count)
        if name != "floor":
            summary[f"ratio_{RATIO_NAMES.get(name, name)}"] = round(floor_s / wall_s, 3)
            summary[f"cpu_ratio_{RATIO_NAMES.get(name, name)}"] = round(median_cpu_s(ones) / floor_cpu_s, 3)
    return summary


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
