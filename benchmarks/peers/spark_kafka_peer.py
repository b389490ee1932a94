"""What Spark alone is asked to do with Kafka, in an environment of its own: its Kafka sink, and its Kafka source.

    python spark_kafka_peer.py <jars of spark-sql-kafka, with commas>

Each line of its input is a JSON object with `do` (`sink` or `source`), each line of its output the answer. It knows
nothing of lakelog.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any  # Any: the requests

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.local_spark import start_session


def sink(session: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    """Stream Parquet files, one a batch, to a topic as debezium-json and to Parquet files: what a user would write."""
    rows = session.readStream.schema(asked["schema"]).option("maxFilesPerTrigger", 1).parquet(asked["folder"])
    writer = rows.writeStream.foreachBatch(partial(_write_both, asked)).trigger(availableNow=True)
    return _timed(writer.option("checkpointLocation", asked["checkpoint"]))


def _write_both(asked: dict[str, Any], batch: DataFrame, _batch_id: int) -> None:
    batch.persist()
    row = sf.struct(*batch.columns)
    value = sf.struct(sf.lit(None).cast("string").alias("before"), row.alias("after"), sf.lit("c").alias("op"))
    records = batch.select(
        sf.to_json(sf.struct(asked["key"])).alias("key"),
        sf.to_json(value, {"ignoreNullFields": "false"}).alias("value"),
    )
    to_kafka = records.write.format("kafka").option("kafka.bootstrap.servers", asked["servers"])
    to_kafka.option("topic", asked["topic"]).option("kafka.compression.type", "lz4").save()
    batch.write.mode("append").parquet(asked["out"])
    batch.unpersist()


def source(session: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    """Read all debezium-json of a topic as rows with their kinds, in batches of a limited size."""
    reader = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", asked["servers"])
        .option("subscribe", asked["topic"])
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", asked["limit"])
    )
    shape = f"before STRUCT<{asked['schema']}>, after STRUCT<{asked['schema']}>, op STRING"
    change = reader.load().select(sf.from_json(sf.col("value").cast("string"), shape).alias("change"))
    is_delete = sf.col("change.op") == "d"
    kind = sf.when(is_delete, "-D").when(sf.col("change.op") == "u", "+U").otherwise("+I")
    row = sf.when(is_delete, sf.col("change.before")).otherwise(sf.col("change.after"))
    rows = change.select(kind.alias("_row_kind"), row.alias("row")).select("row.*", "_row_kind")
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    return _timed(writer.option("checkpointLocation", asked["checkpoint"]))


def _timed(writer: Any) -> dict[str, Any]:
    started = time.perf_counter()
    query = writer.start()
    query.awaitTermination()
    seconds = time.perf_counter() - started
    if query.exception() is not None:
        raise query.exception()
    return {"seconds": seconds, "rows": sum(progress["numInputRows"] for progress in query.recentProgress)}


def main() -> None:
    """Answer requests until the input ends."""
    session = start_session("Spark's Kafka", {"spark.jars": sys.argv[1]})
    print(json.dumps({"spark": session.version}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"sink": sink, "source": source}[asked.pop("do")](session, asked)), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
