"""Rows a second of streaming upserts into a table that looks up old values, beside Spark appending plain Parquet.

The upserts of the benchmark `upsert`, without a log, into a table with `changelog-producer=lookup`: every change is in
the changelog with its old values. Time counts to the end of the query, compaction and changelog included. Rows and
changes are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.measuring import Measure, in_turns, median_wall_s
from benchmarks.spark_runs import LakelogRun
from benchmarks.streams.upsert import WARM_UP, run_command, run_floor, run_lakelog
from benchmarks.upsert_data import SMALL, Size, UpsertData, make_data
from lakelog.common.types import ROW_KIND_COLUMN

REPEATS = 3
OPTIONS = {"changelog-producer": "lookup"}


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Both contenders in turns; in the full size each is warmed up and measured several times."""
    data = make_data(work / "data", size)
    if size != SMALL:
        _measure_all(session, make_data(work / "warm-up", WARM_UP), work, repeats=1)
    measures = _measure_all(session, data, work, repeats=1 if size == SMALL else REPEATS)
    seconds = {name: median_wall_s(ones) for name, ones in measures.items()}
    return {
        "benchmark": "changelog",
        "rows": size.upserted_rows,
        "floor_rows_per_s": round(size.upserted_rows / seconds["floor"]),
        "lookup_rows_per_s": round(size.upserted_rows / seconds["lookup"]),
        "ratio_lookup": round(seconds["floor"] / seconds["lookup"], 3),
    }


def _measure_all(session: SparkSession, data: UpsertData, work: Path, *, repeats: int) -> dict[str, list[Measure]]:
    expected = data.merged().sort("id")
    contenders: dict[str, Callable[[], Measure]] = {
        "floor": lambda: run_floor(session, data, work / "floor"),
        "lookup": lambda: _run_lookup(session, data, work / "lookup", expected),
    }
    return in_turns(contenders, repeats=repeats)


def _run_lookup(session: SparkSession, data: UpsertData, work: Path, expected: pl.DataFrame) -> Measure:
    measure = run_lakelog(session, data, work, options=OPTIONS, expected=expected)
    check_changes(LakelogRun(session=session, work=work), expected.height)
    return measure


def check_changes(run: LakelogRun, row_count: int) -> None:
    """Stop the benchmark when the changes do not lead to as many rows as there are."""
    batches = list(run.table.changes(columns=["id"]))
    kinds = pl.from_arrow(pa.Table.from_batches(batches).column(ROW_KIND_COLUMN))
    assert isinstance(kinds, pl.Series)
    counts = dict(kinds.value_counts().iter_rows())
    row_sum = counts.get("+I", 0) - counts.get("-D", 0)
    if row_sum != row_count or counts.get("-U", 0) != counts.get("+U", 0):
        sys.exit(f"the changes {counts} lead to {row_sum} rows, the table has {row_count}")


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
