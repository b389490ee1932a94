"""Milliseconds of a look-up by key and of a count, of the newest snapshot and with the log behind it.

A stream of 60 batches of 2,000 rows into 4 buckets goes on while it is read, and all its batches wait for their
snapshot. `plain` reads the newest snapshot, `fresh` what waits too; `warm` is a table handle that has read before,
`cold` a new one. `more` is the difference of their medians. `settled` are the plain reads once a snapshot has it all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.measuring import Measure, in_turns, measured
from benchmarks.spark_runs import LOGGED, LakelogRun, file_stream
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import FREQUENT, SMALL, Size, make_data
from lakelog.catalog import Table
from lakelog.spark import write_stream

REPEATS = 15
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
        waiting = _medians(run, size, repeats=repeats, ways={"plain": False, "fresh": True})
    finally:
        query.stop()
    settled = _medians(run, size, repeats=repeats, ways={"settled": False})
    summary: dict[str, object] = {"benchmark": "fresh", "batches": size.batch_count, "batch_rows": size.batch_rows}
    summary |= {f"{name}_ms": round(1000 * seconds, 1) for name, seconds in (waiting | settled).items()}
    for what in ("warm_lookup", "cold_lookup", "warm_count", "cold_count"):
        summary[f"more_{what}_ms"] = round(1000 * (waiting[f"fresh_{what}"] - waiting[f"plain_{what}"]), 1)
    return summary


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


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
