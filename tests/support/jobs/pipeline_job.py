"""One job of the pipeline of `tests.support.lineage.pipeline` on Spark, a process of its own so that it can be killed.

usage: python -m tests.support.jobs.pipeline_job FOLDER one|two|three aligned|plain
FOLDER holds lake/; checkpoints go there too. The process runs until it is killed.
"""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from lakelog.catalog import Catalog
from lakelog.spark import read_streams, write_stream
from tests.support.lineage.pipeline import SOURCES
from tests.support.servers.spark import make_session

SINKS = {"one": "db.t5", "two": "db.t6", "three": "db.t7"}
SECONDS = {"one": 0.2, "two": 1.5, "three": 0.2}  # from batch to batch


def main(folder: Path, job: str, *, is_aligned: bool) -> None:
    """Run the job until the process ends."""
    spark = make_session()
    catalog = Catalog(folder / "lake")
    query = write_stream(
        rows_of(spark, catalog, job, folder / f"ck-{job}", is_aligned=is_aligned),
        SINKS[job],
        catalog=catalog,
        checkpoint_location=folder / f"ck-{job}",
        processing_time=f"{int(SECONDS[job] * 1000)} milliseconds",
        job=job,
    )
    query.awaitTermination()


def rows_of(spark: SparkSession, catalog: Catalog, job: str, checkpoint: Path, *, is_aligned: bool) -> DataFrame:
    """What a job writes."""
    tables = ("db.t5", "db.t6") if job == "three" else SOURCES
    if is_aligned:
        streams = read_streams(spark, tables, catalog=catalog, checkpoint_location=checkpoint)
    else:
        streams = {name: spark.readStream.format("lakelog").load(catalog.load_table(name).path) for name in tables}
    if job == "three":
        five = streams["db.t5"].withColumnRenamed("amount", "five")
        return five.join(streams["db.t6"].withColumnRenamed("amount", "six"), "id")
    rows = reduce(DataFrame.unionByName, streams.values())
    if job == "one":
        return rows.withColumn("amount", expr("cast(amount + 0.0001 as decimal(18, 4))"))
    return rows.where(col("id") % 3 != 0).withColumn("amount", expr("cast(amount * 3 as decimal(18, 4))"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], is_aligned=sys.argv[3] == "aligned")
