"""Seconds of scans in Spark right after an upsert, beside Spark on the same rows as compacted plain Parquet.

The table is what the benchmark `upsert` leaves without a log, with no compaction by hand. `2col` is count, sum and
maximum of two columns, `all` the maximum of every column. Both sides answer the same; a difference stops the benchmark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.measuring import Measure, in_turns, measured, median_wall_s
from benchmarks.spark_runs import BUCKETS, TABLE, LakelogRun, make_session
from benchmarks.upsert import work_folder
from benchmarks.upsert_data import FULL, SCHEMA, SMALL, Size, make_data
from lakelog.spark import read

REPEATS = 7
TWO_COLUMNS = ("amount", "price")

Query = Callable[[DataFrame], DataFrame]


def two_columns(rows: DataFrame) -> DataFrame:
    """Count, sum and maximum of two columns. The sum is of whole numbers: it is the same in any order."""
    return rows.agg(sf.count("*"), sf.sum("amount"), *(sf.max(name) for name in TWO_COLUMNS))


def all_columns(rows: DataFrame) -> DataFrame:
    """The maximum of every column."""
    return rows.agg(*(sf.max(name) for name in SCHEMA.names))


def write_plain(run: LakelogRun, folder: Path) -> None:
    """The table's rows as one plain Parquet file a bucket."""
    rows = read(run.session, TABLE, catalog=run.catalog)
    rows.repartition(BUCKETS).write.mode("overwrite").parquet(str(folder))


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Upsert, then every query on both sides in turns."""
    data = make_data(work / "data", size)
    run = LakelogRun(session=session, work=work / "table", has_log=False)
    run.create()
    run.upsert(data.base)
    run.upsert(data.batches)
    plain = work / "plain"
    write_plain(run, plain)
    answers: dict[str, object] = {}

    def contender(query: Query, name: str, columns: tuple[str, ...], *, is_ours: bool) -> Callable[[], Measure]:
        def ask() -> None:
            rows = (
                read(session, TABLE, catalog=run.catalog, columns=columns)
                if is_ours
                else session.read.parquet(str(plain))
            )
            answer = query(rows).collect()
            if answers.setdefault(name, answer) != answer:
                sys.exit(f"the two sides differ on {name}: {answers[name]} and {answer}")

        return lambda: measured(ask)

    contenders = {
        "plain_2col": contender(two_columns, "2col", TWO_COLUMNS, is_ours=False),
        "lakelog_2col": contender(two_columns, "2col", TWO_COLUMNS, is_ours=True),
        "plain_all": contender(all_columns, "all", tuple(SCHEMA.names), is_ours=False),
        "lakelog_all": contender(all_columns, "all", tuple(SCHEMA.names), is_ours=True),
    }
    in_turns(contenders, repeats=1)
    measures = in_turns(contenders, repeats=REPEATS)
    shutil.rmtree(plain)
    return _summary(measures, rows=run.table.to_arrow(columns=["id"]).num_rows)


def _summary(measures: dict[str, list[Measure]], *, rows: int) -> dict[str, object]:
    seconds = {name: median_wall_s(ones) for name, ones in measures.items()}
    return {
        "benchmark": "scan",
        "rows": rows,
        **{f"{name}_s": round(median, 3) for name, median in seconds.items()},
        "ratio_2col": round(seconds["lakelog_2col"] / seconds["plain_2col"], 3),
        "ratio_all": round(seconds["lakelog_all"] / seconds["plain_all"], 3),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with work_folder() as work:
        session = make_session()
        try:
            summary = run_all(session, SMALL if arguments.small else FULL, work)
        finally:
            session.stop()
    for name, value in summary.items():
        print(f"{name:28} {value:>12,}" if isinstance(value, int) else f"{name:28} {value:>12}")
    if arguments.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
