"""Jobs of a cluster, as users write them: a program that needs an installed lakelog and nothing else of this project.

usage: cluster_job.py SETTINGS JOBS
SETTINGS is JSON: `master`, `warehouse`, `store` (options of the object store), `kafka` (bootstrap servers), and `conf`
(settings of Spark). JOBS is JSON, a list of [name, arguments]; they run one after the other. The last line of the
output is the list of their answers, in JSON.

The source is Spark's own `rate-micro-batch`: batch n has the numbers from n * rows on, wherever and whenever it runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: what JSON gives

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog
from lakelog.spark import LakelogSink, attach, compact, merge, read, write_stream

SETTINGS: dict[str, Any] = json.loads(sys.argv[1])
CATALOG = Catalog(SETTINGS["warehouse"], SETTINGS["kafka"], options=SETTINGS["store"])
_SCHEDULER = "org.apache.spark.scheduler.TaskSetManager"
DELETES = 9  # each number that it divides deletes its key


def session() -> SparkSession:
    """A session of the cluster."""
    builder = SparkSession.builder.master(SETTINGS["master"]).appName("lakelog on a cluster")
    for key, value in SETTINGS["conf"].items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("WARN")
    jvm: Any = found.sparkContext._jvm
    levels = jvm.org.apache.logging.log4j.Level  # the scheduler says which tasks it runs a second time
    jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(_SCHEDULER, levels.INFO)
    return found


def numbers(spark: SparkSession, rows: int, total: int) -> DataFrame:
    """A stream of the numbers from 0 to `total`, `rows` of them in a batch."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
    return reader.option("startTimestamp", 0).load().where(sf.col("value") < total)


def changes(given: DataFrame, keys: int) -> DataFrame:
    """Numbers as changes of keys; a number that `DELETES` divides deletes its key."""
    number = sf.col("value")
    kind = sf.when(number % DELETES == 0, "-D").otherwise("+I")
    return given.select(
        (number * 7919 % keys).alias("id"),
        sf.concat(sf.lit("number "), number.cast("string")).alias("name"),
        number.alias("amount"),
        kind.alias("_row_kind"),
    )


def run_until(queries: list[Any], batch: int) -> None:
    """Let the queries run until the first one has finished a batch, then stop them."""
    first = queries[0]
    while (first.lastProgress or {"batchId": -1})["batchId"] < batch:
        check_active(*queries)
        time.sleep(0.1)
    for query in queries:
        query.stop()


def write(spark: SparkSession, *, table: str, rows: int, batches: int, keys: int, until: int | None = None) -> object:
    """Stream changes into a table, up to a batch, or all of them."""
    query = write_stream(
        changes(numbers(spark, rows, rows * batches), keys),
        table,
        catalog=CATALOG,
        checkpoint_location=f"checkpoints/{table}",
        order_by="amount",
    )
    run_until([query], batches - 1 if until is None else until)
    return None


def copy(spark: SparkSession, *, source: str, table: str, align: bool = False) -> object:
    """Stream what is in a table, snapshot and log, into another one. Answers with the rows of each batch."""
    reader = spark.readStream.format("lakelog").options(**SETTINGS["store"]).option("row-kind", "true")
    if align:
        reader = reader.option("stream.align", "snapshot")
    rows = reader.load(CATALOG.load_table(source).path)
    query = write_stream(rows, table, catalog=CATALOG, checkpoint_location=f"checkpoints/{table}", available_now=True)
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def pipeline(spark: SparkSession, *, rows: int, keys: int) -> object:
    """Stream changes into two tables, db.changes and db.events, and db.changes into db.copy, until a file says stop.

    The answer is the number of batches that were written.
    """
    upserts, events = (LakelogSink(name, catalog=CATALOG, order_by="amount") for name in ("db.changes", "db.events"))

    def write_both(batch: DataFrame, batch_id: int) -> None:
        if Path("stop").exists() and not Path("last").exists():
            Path("last.new").write_text(str(batch_id))
            Path("last.new").rename("last")
        if not Path("last").exists() or batch_id < int(Path("last").read_text()):
            upserts(changes(batch, keys), batch_id)
            events(changes(batch, keys).drop("_row_kind"), batch_id)

    writer = numbers(spark, rows, 1 << 40).writeStream.foreachBatch(write_both)
    first = writer.option("checkpointLocation", "checkpoints/pipeline").start()
    reader = spark.readStream.format("lakelog").options(**SETTINGS["store"]).option("row-kind", "true")
    second = write_stream(
        reader.load(CATALOG.load_table("db.changes").path),
        "db.copy",
        catalog=CATALOG,
        checkpoint_location="checkpoints/copy",
    )
    while not Path("last").exists() or (first.lastProgress or {"batchId": -1})["batchId"] < int(
        Path("last").read_text()
    ):
        check_active(first, second)
        time.sleep(0.1)
    second.processAllAvailable()
    first.stop()
    second.stop()
    return int(Path("last").read_text())


def check_active(*queries: Any) -> None:
    """Raise the error of a query that has ended."""
    for query in queries:
        if not query.isActive:
            raise query.exception() or AssertionError(f"{query.id} has ended")


def sum_up(spark: SparkSession, *, table: str, rows: int, batches: int, until: int) -> object:
    """Add numbers up by their last digit, in Spark's state, into a table."""
    digit = (sf.col("value") % 10).alias("id")
    sums = numbers(spark, rows, rows * batches).groupBy(digit).agg(sf.sum("value").alias("amount"))
    query = write_stream(
        sums.select("id", sf.lit("sum").alias("name"), "amount"),
        table,
        catalog=CATALOG,
        checkpoint_location=f"checkpoints/{table}",
        output_mode="update",
    )
    run_until([query], until)
    return None


def compact_fully(spark: SparkSession, *, table: str) -> object:
    """Compact every bucket of a table, in tasks. Answers with the numbers of buckets, files before and after."""
    done = compact(spark, table, full=True, catalog=CATALOG)
    return [done.bucket_count, done.files_before, done.files_after]


def merge_rows(spark: SparkSession, *, table: str, rows: int) -> object:
    """Merge rows into a table: every third key that is there is deleted, others are updated, and new ones inserted."""
    source = spark.range(rows).select(
        "id", sf.concat(sf.lit("merged "), "id").alias("name"), (-sf.col("id")).alias("amount")
    )
    merged = merge(source, table, catalog=CATALOG).when_matched_delete("source.id % 3 = 0")
    snapshot = merged.when_matched_update_all().when_not_matched_insert_all().execute()
    return None if snapshot is None else snapshot.id


def run_sql(spark: SparkSession, *, statements: list[str]) -> object:
    """Run statements of Spark's own SQL, with the warehouse as `lake`. Answers with the rows of the last one."""
    attach(spark, "lake", CATALOG)
    for statement in statements:
        found = spark.sql(statement)
    return [list(row) for row in found.collect()]


def count(spark: SparkSession, *, table: str) -> object:
    """The number of rows of a table, and the sum of their amounts, by a batch read."""
    found = read(spark, table, catalog=CATALOG).agg(sf.count("*"), sf.sum("amount")).collect()
    return list(found[0])


JOBS: dict[str, Callable[..., object]] = {
    "write": write,
    "copy": copy,
    "pipeline": pipeline,
    "sum": sum_up,
    "compact": compact_fully,
    "merge": merge_rows,
    "sql": run_sql,
    "count": count,
}


def main() -> None:
    """Run the job that is named."""
    spark = session()
    answers = []
    for name, arguments in json.loads(sys.argv[2]):
        began = time.monotonic()
        answers.append(JOBS[name](spark, **arguments))
        print(f"job {name} {arguments}: {time.monotonic() - began:.1f} s", flush=True)
    spark.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
