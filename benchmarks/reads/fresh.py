"""Milliseconds of a look-up by key and of a count, of the newest snapshot and with the log behind it.

A stream of 60 batches of 2,000 rows into 4 buckets goes on while it is read, and all its batches wait for their
snapshot. `plain` reads the newest snapshot, `fresh` what waits too; `warm` is a table handle that has read before,
`cold` a new one. `more` is the difference of their medians. `settled` are the plain reads once a snapshot has it all.

`ratio_waiting` is the time of the last ten of these batches in relation to that of the sixth to the fifteenth. `many`
are plain reads after one snapshot of 375 batches, 1,500 files, and `each` after a snapshot for each of these batches,
both with the compaction that their streams do.

`stale` is how long after Spark's acknowledgement of a batch (the file in the checkpoint's `commits`) a process that
looks a key of each batch up, again and again, had its row; 0 where it had the row before, since the log shows it first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.measuring import Measure, in_turns, measured
from benchmarks.spark_runs import LOGGED, LakelogRun, file_stream
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import FREQUENT, SMALL, Size, UpsertData, make_data
from lakelog.catalog import Table
from lakelog.spark import write_stream

ROOT = Path(__file__).resolve().parents[2]
REPEATS = 15
QUIET_SECONDS = 5.0
MANY = Size(base_rows=400_000, batch_count=375, batch_rows=500)
KEY = 0  # of each batch, for `stale`
WAITS = {"snapshot.interval": "10 min"}


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """The figures."""
    size = SMALL if size == SMALL else FREQUENT
    data = make_data(work / "data", size)
    run = LakelogRun(session=session, work=work / "log", options=LOGGED | WAITS)
    run.create()
    run.upsert(data.base)
    query = write_stream(
        file_stream(session, data.batches), run.name, catalog=run.catalog, checkpoint_location=work / "waiting"
    )
    repeats = 1 if size == SMALL else REPEATS
    try:
        query.processAllAvailable()
        times = [one.batchDuration for one in query.recentProgress if one.numInputRows]
        waiting = _medians(run, size, repeats=repeats, ways={"plain": False, "fresh": True})
    finally:
        query.stop()
    settled = _medians(run, size, repeats=repeats, ways={"settled": False})
    summary: dict[str, object] = {"benchmark": "fresh", "batches": size.batch_count, "batch_rows": size.batch_rows}
    summary |= {f"{name}_ms": round(1000 * seconds, 1) for name, seconds in (waiting | settled).items()}
    for what in ("warm_lookup", "cold_lookup", "warm_count", "cold_count"):
        summary[f"more_{what}_ms"] = round(1000 * (waiting[f"fresh_{what}"] - waiting[f"plain_{what}"]), 1)
    summary["ratio_waiting"] = round(median(times[-10:]) / median(times[5:15]), 3)
    summary |= _after_many(session, work / "many", size, repeats=repeats)
    return summary | _staleness(session, data, work / "stale")


def _after_many(session: SparkSession, work: Path, size: Size, *, repeats: int) -> dict[str, object]:
    """Plain reads after one snapshot of many batches, beside those after a snapshot for each."""
    data = make_data(work / "data", size if size == SMALL else MANY)
    runs = {
        name: LakelogRun(
            session=session,
            work=work / name,
            options=LOGGED | options,
            name=f"bench.{name}",
            warehouse=work.parent / "log" / "warehouse",
        )
        for name, options in (("many", WAITS), ("each", {}))
    }
    for run in runs.values():
        run.create()
        run.upsert(data.base)
        run.upsert_in_running_stream(data.batches)
        _await_compaction(run)
    ways = {"read": lambda run: run.table.to_arrow(), "count": lambda run: run.table.count()}
    contenders = {
        f"{name}_{way}": partial(measured, partial(read, run))
        for name, run in runs.items()
        for way, read in ways.items()
    }
    in_turns(contenders, repeats=1)
    taken = {name: median(one.wall_s for one in ones) for name, ones in in_turns(contenders, repeats=repeats).items()}
    found: dict[str, object] = {f"{name}_ms": round(1000 * seconds, 1) for name, seconds in taken.items()}
    return found | {f"ratio_many_{way}": round(taken[f"many_{way}"] / taken[f"each_{way}"], 3) for way in ways}


def _await_compaction(run: LakelogRun) -> None:
    """Until the stream's compaction, which goes on in this process behind its end, makes no more snapshots."""
    newest = None
    while newest != (newest := run.table.store.snapshots.latest_id()):
        time.sleep(QUIET_SECONDS)


def _medians(run: LakelogRun, size: Size, *, repeats: int, ways: dict[str, bool]) -> dict[str, float]:
    """The median seconds of each read."""
    rng, kept = np.random.default_rng(11), run.table

    def look_up(opened: Callable[[], Table], *, fresh: bool) -> Measure:
        key = {"id": int(rng.integers(0, size.base_rows))}
        return measured(lambda: opened().lookup(key, fresh=fresh))

    def count(opened: Callable[[], Table], *, fresh: bool) -> Measure:
        return measured(lambda: opened().count(fresh=fresh))

    contenders: dict[str, Callable[[], Measure]] = {}
    for name, fresh in ways.items():
        for state, opened in (("warm", lambda: kept), ("cold", lambda: run.table)):
            contenders[f"{name}_{state}_lookup"] = partial(look_up, opened, fresh=fresh)
            contenders[f"{name}_{state}_count"] = partial(count, opened, fresh=fresh)
    in_turns(contenders, repeats=1)
    measures = in_turns(contenders, repeats=repeats)
    return {name: median(one.wall_s for one in ones) for name, ones in measures.items()}


def _staleness(session: SparkSession, data: UpsertData, work: Path) -> dict[str, object]:
    """How long after its acknowledgement another process has the row of a batch."""
    files = sorted(data.batches.glob("*.parquet"))
    for file in files:
        rows = pq.read_table(file)
        keys = pa.array([KEY, *rows["id"].to_pylist()[1:]], rows.schema.field("id").type)
        _copy_times(file, work / "batches" / file.name, rows.set_column(0, rows.schema.field(0), keys))
    run = LakelogRun(session=session, work=work, options=LOGGED | WAITS)
    run.create()
    run.upsert(data.base)
    command = [sys.executable, "-m", "benchmarks.reads.fresh_reader", str(work / "warehouse"), run.name, str(KEY)]
    with subprocess.Popen([*command, str(len(files))], cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        query = write_stream(
            file_stream(session, work / "batches"), run.name, catalog=run.catalog, checkpoint_location=work / "going"
        )
        query.processAllAvailable()
        seen = [json.loads(line) for line in reader.stdout]
        query.stop()
    assert reader.returncode == 0
    commits = work / "going" / "commits"
    acknowledged = {number: (commits / str(number - 1)).stat().st_mtime for number, _ in seen if number}
    stale = [max(0.0, 1000 * (at - acknowledged[number])) for number, at in seen if number]
    return {"stale_p50_ms": round(median(stale), 1), "stale_max_ms": round(max(stale), 1), "stale_seen": len(stale)}


def _copy_times(source: Path, target: Path, rows: pa.Table) -> None:
    """Write rows to a file that Spark takes at the place of another one: by its modification time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target, compression="snappy")
    os.utime(target, (source.stat().st_mtime,) * 2)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
