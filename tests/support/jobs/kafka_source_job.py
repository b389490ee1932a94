"""Two queries, each over a topic of Kafka's by Spark's own connector and a table beside it. Run by tests as a program.

usage: python -m tests.support.jobs.kafka_source_job FOLDER SERVERS TOPIC
FOLDER holds lake/ with db.source, db.union and db.join; the values of the topic are ids. Both queries read to the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lakelog.catalog import Catalog
from lakelog.spark import write_stream
from tests.support.servers.spark import make_session
from tests.support.servers.spark_kafka import connector_jars


def main(folder: Path, servers: str, topic: str) -> None:
    """Write the union of both, then the join."""
    spark = make_session(jars=connector_jars())
    catalog = Catalog(str(folder / "lake"))
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    ids = records.load().selectExpr("cast(cast(value as string) as bigint) as id")
    changes = spark.readStream.format("lakelog").load(catalog.load_table("db.source").path)
    of_topic = ids.selectExpr("id", "cast(null as bigint) as v")
    for name, rows in (("union", of_topic.unionByName(changes)), ("join", ids.join(changes, "id"))):
        checkpoint = folder / f"{name}-checkpoint"
        query = write_stream(
            rows, f"db.{name}", catalog=catalog, checkpoint_location=checkpoint, available_now=True, job=name
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
