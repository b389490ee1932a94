"""Queries of polars, DuckDB and Spark on a compacted table, beside the same queries on plain Parquet files.

4,000,000 rows of 7 columns in 4 buckets, compacted; the same rows lie in 4 plain Parquet files that polars wrote,
sorted by the key. Three queries: an aggregate of two columns, one key, and all rows; in Spark a count and an aggregate
of two columns, by `lakelog.spark.read`, by `load()`, and by `load()` with the option `columns`. A ratio is lakelog's
processor time divided by that of plain Parquet, medians of rounds in turns: wall time says little on a machine with
other work. Each query opens the table anew and must find the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.command import run_command
from benchmarks.measuring import in_turns
from benchmarks.peers.python_peer import timed
from benchmarks.reads.spark_reads import run_queries
from benchmarks.upsert_data import KEY, SCHEMA
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import to_duckdb, to_polars

ROWS, ROWS_SMALL = 4_000_000, 100_000
BUCKETS = 4
REPEATS, REPEATS_SMALL = 9, 1
Query = Callable[[], object]


def make_rows(count: int) -> pa.Table:
    """Rows with the keys from 0 on."""
    rng = np.random.default_rng(5)
    cities = pa.array([f"city {number}" for number in range(1_000)])
    columns = [
        np.arange(count),
        rng.integers(0, 1 << 40, count),
        rng.random(count),
        np.arange(count) // 1_000,
        cities.take(pa.array(rng.integers(0, 1_000, count))),
        pa.array([f"note {number} of the row" for number in rng.integers(0, 1 << 30, count)]),
        pa.array(np.arange(count) * 60_000_000 + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
    ]
    return pa.table(columns, schema=SCHEMA)


def write_both(rows: pa.Table, folder: Path) -> None:
    """The rows as a compacted table `t`, and as plain Parquet files in `plain`."""
    options = {"bucket": str(BUCKETS)}
    table = FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys=[KEY], options=options))
    table.write(rows)
    table.compact(full=True)
    (folder / "plain").mkdir()
    step = -(-rows.num_rows // BUCKETS)
    for number in range(BUCKETS):
        part = pl.DataFrame(rows.slice(number * step, step))
        part.write_parquet(folder / "plain" / f"part-{number}.parquet", compression="zstd")


def queries(folder: Path, key: int) -> dict[str, tuple[Query, Query]]:
    """For each question lakelog's query and that of plain Parquet; both give the same."""
    plain = str(folder / "plain" / "*.parquet")
    connection = duckdb.connect()

    def lazy() -> pl.LazyFrame:
        return to_polars(FileStoreTable.open(folder / "t"))

    def relation() -> duckdb.DuckDBPyRelation:
        return to_duckdb(FileStoreTable.open(folder / "t"), connection=connection)

    def by_polars(frame: Callable[[], pl.LazyFrame]) -> dict[str, Query]:
        total = pl.col("amount").sum()
        return {
            "polars_aggregate": lambda: frame().group_by("city").agg(total).sort("city").collect().rows(),
            "polars_lookup": lambda: frame().filter(pl.col(KEY) == key).collect().rows(),
            "polars_scan": lambda: frame().collect().height,
        }

    def by_duckdb(rows: Callable[[], duckdb.DuckDBPyRelation]) -> dict[str, Query]:
        return {
            "duckdb_aggregate": lambda: rows().aggregate("city, sum(amount)", "city").order("city").fetchall(),
            "duckdb_lookup": lambda: rows().filter(f"{KEY} = {key}").fetchall(),
        }

    ours = by_polars(lazy) | by_duckdb(relation)
    theirs = by_polars(lambda: pl.scan_parquet(plain)) | by_duckdb(lambda: connection.read_parquet(plain))
    return {name: (ours[name], theirs[name]) for name in ours}


def compare(ours: Query, theirs: Query, repeats: int) -> tuple[float, float]:
    """Median milliseconds of processor time of both, in turns, after a first run of each whose results are compared."""
    if ours() != theirs():
        raise SystemExit("lakelog and plain Parquet have other rows: a figure would mean nothing")
    found = in_turns({"ours": partial(timed, ours), "theirs": partial(timed, theirs)}, repeats=repeats)
    here, plain = (median(cpu_s * 1_000 for _, cpu_s in found[name]) for name in ("ours", "theirs"))
    return here, plain


def run(folder: Path, *, is_small: bool) -> dict[str, object]:
    """The figures: milliseconds of processor time, medians of the repeats, and their ratios."""
    count = ROWS_SMALL if is_small else ROWS
    write_both(make_rows(count), folder)
    summary: dict[str, object] = {"benchmark": "read", "rows": count}
    for name, (ours, theirs) in queries(folder, count // 3).items():
        here, plain = compare(ours, theirs, REPEATS_SMALL if is_small else REPEATS)
        summary |= {f"{name}_cpu_ms": round(here, 1), f"plain_{name}_cpu_ms": round(plain, 1)}
        summary[f"ratio_{name}"] = round(here / plain, 2)
    return summary | run_queries(folder, is_small=is_small)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, lambda folder, is_small: run(folder, is_small=is_small))


if __name__ == "__main__":
    main()
