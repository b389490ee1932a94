"""Rows a second of streaming upserts into a log with old values (`all`), beside the same into one without (`upsert`).

The upserts of the benchmark `upsert`: plain rows, 80 % of which overwrite uniformly random keys. `all` looks each old
row up in the files, and logs it as `before`. Both take turns in one warehouse, so with one broker; time counts to the
end of the query, compaction included. Rows are checked in every run, the changes of the log in the first. `ratio` is
the time of `upsert` through that of `all`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

from benchmarks.measuring import Measure, in_turns, median_cpu_s, median_wall_s
from benchmarks.spark_runs import LOGGED, LakelogRun
from benchmarks.streams.upsert import WARM_UP, run_command, run_lakelog
from benchmarks.upsert_data import SMALL, Size, UpsertData, make_data
from lakelog.catalog import Table
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.access.table_log import kafka_topic

REPEATS = 3
MODES = ("upsert", "all")


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Both contenders in turns; in the full size each is warmed up and measured several times."""
    data = make_data(work / "data", size)
    if size != SMALL:
        _measure_all(session, make_data(work / "warm-up", WARM_UP), work, repeats=1)
    measures = _measure_all(session, data, work, repeats=1 if size == SMALL else REPEATS)
    summary: dict[str, object] = {"benchmark": "old-values", "rows": size.upserted_rows}
    for name, ones in measures.items():
        summary[f"{name}_rows_per_s"] = round(size.upserted_rows / median_wall_s(ones))
        summary[f"{name}_batch_ms"] = round(median_wall_s(ones) * 1000 / size.batch_count)
        summary[f"{name}_cpu_ms_per_batch"] = round(median_cpu_s(ones) * 1000 / size.batch_count)
    summary["ratio_cpu"] = round(median_cpu_s(measures["upsert"]) / median_cpu_s(measures["all"]), 3)
    summary["ratio"] = round(median_wall_s(measures["upsert"]) / median_wall_s(measures["all"]), 3)
    return summary


def _measure_all(session: SparkSession, data: UpsertData, work: Path, *, repeats: int) -> dict[str, list[Measure]]:
    expected = data.merged().sort("id")
    unchecked = {"all"}

    def run(mode: str) -> Measure:
        options = LOGGED | {"log.changelog-mode": mode}
        measure = run_lakelog(session, data, work / "log", options=options, expected=expected)
        if mode in unchecked:
            unchecked.remove(mode)
            _check_changes(LakelogRun(session=session, work=work / "log").table, expected)
        return measure

    contenders: dict[str, Callable[[], Measure]] = {mode: partial(run, mode) for mode in MODES}
    return in_turns(contenders, repeats=repeats)


def _check_changes(table: Table, expected: pl.DataFrame) -> None:
    """Stop the benchmark when the changes of the log do not sum up to the rows."""
    counts, total = _counts(table)
    row_sum = counts["+I"] - counts["-D"]
    if row_sum != expected.height or counts["-U"] != counts["+U"] or total != expected["amount"].sum():
        sys.exit(f"the changes {dict(counts)} lead to {row_sum} rows, the table has {expected.height}")


def _counts(table: Table) -> tuple[Counter[str], int]:
    """How many changes of each kind the log has, and the sum of a column, computed with retractions."""
    assert table.log is not None
    counts: Counter[str] = Counter()
    total = 0
    for bucket in range(table.store.bucket_count):
        partition = kafka_topic(table.log).partition(bucket)
        end = read_tail(partition, 0).high_watermark
        for batch in read_range(partition, table.schema.fields, start=0, end=end):
            kinds = batch.column(ROW_KIND_COLUMN).to_numpy()
            counts.update({text: int((kinds == kind).sum()) for kind, text in enumerate(ROW_KIND_TEXTS)})
            signs = np.where((kinds == 0) | (kinds == 2), 1, -1)
            total += int((batch.column("amount").to_numpy() * signs).sum())
    return counts, total


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
