"""The Spark queries of the benchmark `read`: a count of rows, and an aggregate of two columns, in each way to read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.measuring import in_turns, measured
from benchmarks.spark_runs import make_session
from benchmarks.upsert_data import KEY
from lakelog.spark import read

REPEATS, REPEATS_SMALL = 5, 1
PLAIN = "plain"
ADVISED = "read"
Rows = Callable[[], DataFrame]


def count(rows: DataFrame) -> object:
    """How many rows there are."""
    return rows.count()


def two_columns(rows: DataFrame) -> object:
    """The sum of one column and the largest value of another: no sum of floating-point numbers, whose order counts."""
    return rows.agg(sf.sum("amount"), sf.max("price")).first()


QUERIES: dict[str, tuple[Callable[[DataFrame], object], str]] = {
    "spark_count": (count, KEY),
    "spark_two_columns": (two_columns, "amount,price"),
}


def ways(session: SparkSession, folder: Path, columns: str) -> dict[str, Rows]:
    """The ways to the rows of the table `t`, and to those of the Parquet files in `plain`."""
    table, plain = str(folder / "t"), str(folder / "plain")
    return {
        PLAIN: lambda: session.read.parquet(plain),
        ADVISED: lambda: read(session, table),
        "load": lambda: session.read.format("lakelog").load(table),
        "load_columns": lambda: session.read.format("lakelog").option("columns", columns).load(table),
    }


def run_queries(folder: Path, *, is_small: bool) -> dict[str, object]:
    """Milliseconds of processor time of each query in each way, and their ratios to plain Parquet's.

    The name of a query alone is that of `lakelog.spark.read`. Spark, its Python workers and this process count.
    """
    session = make_session()
    summary: dict[str, object] = {}
    for name, (query, columns) in QUERIES.items():
        found = _cpu_ms(query, ways(session, folder, columns), REPEATS_SMALL if is_small else REPEATS)
        plain = found.pop(PLAIN)
        summary[f"plain_{name}_cpu_ms"] = round(plain, 1)
        for way, cpu_ms in found.items():
            key = name if way == ADVISED else f"{name}_{way}"
            summary |= {f"{key}_cpu_ms": round(cpu_ms, 1), f"ratio_{key}": round(cpu_ms / plain, 2)}
    session.stop()
    return summary


def _cpu_ms(query: Callable[[DataFrame], object], rows: dict[str, Rows], repeats: int) -> dict[str, float]:
    """Medians of rounds in turns, after a first run of each way whose results are compared."""
    results = {way: query(give()) for way, give in rows.items()}
    others = [way for way, result in results.items() if result != results[PLAIN]]
    if others:
        raise SystemExit(f"{', '.join(others)} and plain Parquet have other rows: a figure would mean nothing")

    def run(give: Rows) -> float:
        return measured(lambda: query(give())).cpu_s * 1_000

    turns = {way: partial(run, give) for way, give in rows.items()}
    return {way: median(found) for way, found in in_turns(turns, repeats=repeats).items()}
