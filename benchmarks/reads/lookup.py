"""Milliseconds of finding one row and a thousandth of all by key: without Spark, and in Spark beside plain Parquet.

The table is compacted, with 20 buckets; every lookup is for another key. In Spark the same rows lie in plain Parquet
files beside it, as many, sorted by the key, which a query finds by the statistics of the files. Each query is planned
anew from the table's or the folder's name. `first` is the first lookup of a process, `cpu` the processor
time of lookups without Spark. Medians of the repeats.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.command import print_summary
from benchmarks.measuring import Measure, in_turns, measured, median_wall_s
from benchmarks.spark_runs import make_session
from lakelog.catalog import Catalog
from lakelog.filestore.table import FileStoreTable
from lakelog.spark import read

BUCKETS = 20
NAME = "bench.lookups"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("word", pa.string()),
    ]
)


def make_rows(count: int) -> pa.Table:
    """Narrow rows with the keys from 0 on."""
    rng = np.random.default_rng(5)
    words = pa.array([f"word {number}" for number in range(1_000)])
    columns = [np.arange(count), rng.integers(0, 1 << 40, count), words.take(pa.array(rng.integers(0, 1_000, count)))]
    return pa.table(columns, schema=SCHEMA)


def write_plain(rows: pa.Table, folder: Path) -> None:
    """The rows as plain Parquet files, sorted by the key."""
    folder.mkdir()
    step = -(-rows.num_rows // BUCKETS)
    for number in range(BUCKETS):
        part = pl.DataFrame(rows.slice(number * step, step))
        part.write_parquet(folder / f"part-{number:02}.parquet", compression="zstd")


class Keys:
    """Conditions on keys that were not asked for before."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._rng = np.random.default_rng(11)

    def one(self) -> tuple[str, int]:
        """One key, and the number of rows that have it."""
        return f"id = {self._rng.integers(0, self._rows)}", 1

    def thousandth(self) -> tuple[str, int]:
        """A range of keys, and the number of rows in it."""
        count = self._rows // 1_000
        first = int(self._rng.integers(0, self._rows - count))
        return f"id >= {first} AND id < {first + count}", count


def check(found: int, expected: int, where: str) -> None:
    """End the benchmark when a lookup did not find what is there."""
    if found != expected:
        sys.exit(f"the lookup {where} found {found} rows, expected {expected}")


def run(session: SparkSession, work: Path, rows: int, repeats: int) -> dict[str, object]:
    """The figures."""
    catalog = Catalog(work / "warehouse")
    options = {"bucket": str(BUCKETS), "write-only": "true"}
    made = catalog.create_table(NAME, schema=SCHEMA, primary_keys=["id"], options=options)
    data = make_rows(rows)
    made.write(data)
    made.compact(full=True)
    plain = work / "plain"
    write_plain(data, plain)
    del data
    table = FileStoreTable.open(made.path)

    cpu: dict[str, list[float]] = {"one": [], "range": []}

    def without_spark(what: str, choose: Callable[[], tuple[str, int]]) -> None:
        where, expected = choose()
        started = time.process_time()
        check(table.to_arrow(where=where).num_rows, expected, where)
        cpu[what].append(time.process_time() - started)

    def in_spark(choose: Callable[[], tuple[str, int]]) -> None:
        where, expected = choose()
        check(len(read(session, NAME, catalog=catalog, where=where).collect()), expected, where)

    def in_plain(choose: Callable[[], tuple[str, int]]) -> None:
        where, expected = choose()
        check(len(session.read.parquet(str(plain)).where(where).collect()), expected, where)

    keys = Keys(rows)
    first = measured(partial(without_spark, "one", keys.one))
    contenders: dict[str, Callable[[], Measure]] = {}
    for what, choose in (("one", keys.one), ("range", keys.thousandth)):
        contenders[f"lakelog_{what}"] = partial(measured, partial(without_spark, what, choose))
        contenders[f"spark_lakelog_{what}"] = partial(measured, partial(in_spark, choose))
        contenders[f"spark_plain_{what}"] = partial(measured, partial(in_plain, choose))
    in_turns(contenders, repeats=2)  # Spark compiles what it runs for the first time
    measures = in_turns(contenders, repeats=repeats)
    medians = {name: median_wall_s(ones) for name, ones in measures.items()}
    summary: dict[str, object] = {"benchmark": "lookup", "rows": rows, "lakelog_first_ms": _millis(first.wall_s)}
    summary |= {f"{name}_ms": _millis(wall) for name, wall in medians.items()}
    for what in ("one", "range"):
        summary[f"lakelog_{what}_cpu_ms"] = _millis(median(cpu[what]))
        summary[f"ratio_{what}"] = round(medians[f"spark_lakelog_{what}"] / medians[f"spark_plain_{what}"], 3)
    return summary


def _millis(seconds: float) -> float:
    return round(seconds * 1_000, 1)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        session = make_session()
        try:
            summary = run(session, Path(folder), *((20_000, 1) if arguments.small else (10_000_000, 15)))
        finally:
            session.stop()
    print_summary(summary, as_json=arguments.json)


if __name__ == "__main__":
    main()
