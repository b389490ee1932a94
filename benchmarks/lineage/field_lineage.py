"""What the lineage of fields costs: of one plan, an answer over HTTP, five levels far, and the page in a browser.

The lineage of a plan is derived once for each start of a query. `ratio_batch` compares batches with those of a sink
that records no lineage, `batch_ms_unchanged` is what a batch costs in which a function makes what it made before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.command import run_command
from benchmarks.lineage import lineage_capture, lineage_page
from benchmarks.lineage.field_rest import rest_figures
from benchmarks.spark_runs import make_session
from lakelog.catalog import Catalog
from lakelog.filestore.metadata.origins.record import BatchLineage
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.plans.plan_fields import fields_of_plan
from lakelog.spark.capture.batch_fields import BatchFields
from lakelog.spark.capture.field_capture import fields_of
from lakelog.spark.capture.plan_leaves import leaves_of
from lakelog.spark.sink.alignment import identify_batch

WIDE, CHAINED = 200, 40
SOURCE = Dataset("parquet", "wide")


def run(folder: Path, is_small: bool) -> dict[str, object]:
    """The milliseconds of each plan: the first capture of all, the median, and the shares of JSON and of the walk."""
    session = make_session()
    rounds = 3 if is_small else 40
    plans = made_plans(session, folder)
    figures: dict[str, object] = {}
    for name, rows in plans.items():
        capture = partial(fields_of, rows)
        if not figures:
            figures["capture_ms_first"] = millis(capture)
        figures[f"capture_ms_{name}"] = median_millis(rounds, capture)
        plan = rows._jdf.queryExecution().analyzed()
        text = plan.toJSON()
        tree = json.loads(text)
        leaves = {int(leaf.output().apply(0).exprId().id()): SOURCE for leaf in leaves_of(plan)}
        figures[f"to_json_ms_{name}"] = median_millis(rounds, plan.toJSON)
        figures[f"parse_ms_{name}"] = median_millis(rounds, partial(json.loads, text))
        figures[f"walk_ms_{name}"] = median_millis(rounds, partial(fields_of_plan, tree, leaves))
        figures[f"json_kb_{name}"] = round(len(text) / 1_024)
    sinks = lineage_capture.run(folder / "batches", is_small=is_small)
    figures |= {"ratio_batch": sinks["ratio_batch"], "batch_ms_unchanged": unchanged_millis(session, folder, rounds)}
    session.stop()
    return figures | rest_figures(is_small) | lineage_page.run(folder, is_small)


def unchanged_millis(session: SparkSession, folder: Path, rounds: int) -> float:
    """The record of a batch whose function makes a new DataFrame of the same plan."""
    columns = "id BIGINT NOT NULL, a BIGINT"
    catalog = Catalog(folder / "unchanged")
    source, sink = (catalog.create_table(f"db.{name}", schema=columns, primary_keys="id") for name in ("one", "two"))
    source.write(pa.table({"id": [1], "a": [2]}))
    fields, record, found = BatchFields(), BatchLineage(run_id="r"), list[float]()

    def take(batch: DataFrame, batch_id: int) -> None:
        running = identify_batch(batch, batch_id).running
        assert running is not None
        for _ in range(rounds + 1):
            rows = batch.where("a > 1").select("id", (f.col("a") + 1).alias("a"))
            found.append(millis(partial(fields.of_batch, record, sink.store, rows, running.execution)))

    stream = session.readStream.format("lakelog").load(source.path).writeStream.foreachBatch(take)
    checkpoint = str(folder / "unchanged-checkpoint")
    stream.trigger(availableNow=True).option("checkpointLocation", checkpoint).start().awaitTermination()
    return round(median(found[1:]), 2)


def made_plans(session: SparkSession, folder: Path) -> Mapping[str, DataFrame]:
    """Wide: two projections of many columns. Chain: columns that a program adds one by one."""
    path = str(folder / "wide")
    session.range(1).select(*(f.col("id").alias(f"c{at}") for at in range(WIDE))).write.parquet(path)
    wide = session.read.parquet(path)
    first = wide.select(*((f.col(f"c{at}") + 1).alias(f"d{at}") for at in range(WIDE)))
    chain = wide.select(*(f"c{at}" for at in range(10)))
    for at in range(CHAINED):
        chain = chain.withColumn(f"n{at}", f.col(f"c{at % 10}") + at)
    joined = wide.alias("x").join(wide.alias("y"), f.expr("x.c0 = y.c1")).groupBy("x.c2").agg(f.sum("y.c3").alias("s"))
    return {
        "select": wide.selectExpr("c0 + 1 AS a", "upper(CAST(c1 AS STRING)) AS b"),
        "wide": first.select(*(f.concat(f"d{at}", f.lit("x")).alias(f"e{at}") for at in range(WIDE))),
        "chain": chain,
        "join": joined,
    }


def median_millis(rounds: int, call: Callable[[], object]) -> float:
    """The median of some calls after two that do not count."""
    times = [millis(call) for _ in range(rounds + 2)][2:]
    return round(median(times), 2)


def millis(call: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()
    return round((time.perf_counter() - started) * 1_000, 2)


if __name__ == "__main__":
    run_command(__doc__, run)
