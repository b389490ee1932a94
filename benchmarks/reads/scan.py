"""Seconds of scans in Spark right after streaming upserts, beside Spark on the same rows as compacted plain Parquet.

The table is what `upsert` leaves; it is not compacted by hand. Two queries: count, sum and max of two columns, and max
of all columns. Each is planned anew every time, from the table's or the folder's name. `first` is the first read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from benchmarks.measuring import Measure, in_turns, measured, median_wall_s
from benchmarks.spark_runs import BUCKETS, TABLE, LakelogRun
from benchmarks.streams.upsert import WARM_UP, check_rows, run_command
from benchmarks.upsert_data import SCHEMA, SMALL, Size, make_data
from lakelog.spark import read

REPEATS = 5
TWO_COLUMNS = (sf.count, "amount"), (sf.sum, "amount"), (sf.max, "amount"), (sf.sum, "price"), (sf.max, "price")


def two_columns(rows: DataFrame) -> Row | None:
    """Count, sum and max of two columns."""
    return rows.agg(*(function(name) for function, name in TWO_COLUMNS)).first()


def all_columns(rows: DataFrame) -> Row | None:
    """The largest value of every column."""
    columns: list[Column] = [sf.max(name) for name in SCHEMA.names]
    return rows.agg(*columns).first()


Query = Callable[[DataFrame], Row | None]
QUERIES: dict[str, Query] = {"2col": two_columns, "all": all_columns}


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """The scans of a freshly written table; in the full size Spark is warmed up on another one."""
    if size != SMALL:
        _scan(session, WARM_UP, work / "warm-up", repeats=2)
    return _scan(session, size, work / "scan", repeats=1 if size == SMALL else REPEATS)


def _scan(session: SparkSession, size: Size, work: Path, *, repeats: int) -> dict[str, object]:
    data = make_data(work / "data", size)
    expected = data.merged()
    (work / "merged").mkdir()
    expected.write_parquet(work / "merged" / "rows.parquet", row_group_size=100_000)
    plain = str(work / "plain")
    session.read.parquet(str(work / "merged")).repartition(BUCKETS).write.parquet(plain)
    run = LakelogRun(session=session, work=work)
    run.create()
    run.upsert(data.base)
    run.upsert(data.batches)

    def plain_rows() -> DataFrame:
        return session.read.parquet(plain)

    def lakelog_rows() -> DataFrame:
        return read(session, TABLE, catalog=run.catalog)

    def measure(query: Query, rows: Callable[[], DataFrame]) -> Measure:
        return measured(lambda: query(rows()))

    first = {name: measure(query, lakelog_rows) for name, query in QUERIES.items()}
    contenders: dict[str, Callable[[], Measure]] = {}
    for name, query in QUERIES.items():
        contenders[f"plain_{name}"] = partial(measure, query, plain_rows)
        contenders[f"lakelog_{name}"] = partial(measure, query, lakelog_rows)
    measures = in_turns(contenders, repeats=repeats)
    for name, query in QUERIES.items():
        if not are_alike(query(plain_rows()), query(lakelog_rows())):
            sys.exit(f"the query {name} gives other results than on plain Parquet")
    check_rows(run, expected.sort("id"))
    return _summary(size, first, measures)


def are_alike(row: Row | None, other: Row | None) -> bool:
    """Whether two results are equal, but for the order in which floating point numbers were added."""
    assert row is not None
    assert other is not None
    pairs = zip(row, other, strict=True)
    return all(
        abs(left - right) <= 1e-9 * abs(left) if isinstance(left, float) else left == right for left, right in pairs
    )


def _summary(size: Size, first: dict[str, Measure], measures: dict[str, list[Measure]]) -> dict[str, object]:
    summary: dict[str, object] = {"benchmark": "scan", "upserted_rows": size.upserted_rows}
    for name in QUERIES:
        plain, lakelog = (median_wall_s(measures[f"{who}_{name}"]) for who in ("plain", "lakelog"))
        summary[f"plain_{name}_ms"] = round(plain * 1000)
        summary[f"lakelog_{name}_ms"] = round(lakelog * 1000)
        summary[f"lakelog_{name}_first_ms"] = round(first[name].wall_s * 1000)
        summary[f"ratio_{name}"] = round(lakelog / plain, 3)
    return summary


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
