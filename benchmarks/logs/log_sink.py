"""Rows a second of streaming upserts with a log, beside what a user would write with Spark alone: Kafka and Parquet.

The peer is one foreachBatch that writes the batch by Spark's own Kafka sink, as debezium-json and at least once, and
appends the same rows as Parquet, in Spark 4.0.0. lakelog writes the batches of the benchmark `upsert` exactly once, and
merges them with the 4,000,000 rows that are there. Both have Spark on two cores, a topic of 4 partitions at the same
broker, and time from the start of the query to its end. They take turns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.measuring import in_turns
from benchmarks.peers.spark_kafka import SparkKafka, spark_kafka
from benchmarks.spark_runs import BUCKETS, LOGGED
from benchmarks.streams.upsert import WARM_UP, run_command, run_lakelog
from benchmarks.upsert_data import KEY, SMALL, SPARK_SCHEMA, Size, UpsertData, make_data
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic

REPEATS = 3


def run_peer(peer: SparkKafka, data: UpsertData, work: Path, servers: str) -> float:
    """The seconds of the peer's query, with a topic and a folder of its own."""
    shutil.rmtree(work, ignore_errors=True)
    topic = KafkaTopic(client_config={"bootstrap.servers": servers}, name="peer")
    create_topic(topic, BUCKETS)
    answer = peer.ask(
        "sink",
        folder=str(data.batches),
        schema=SPARK_SCHEMA,
        key=KEY,
        servers=servers,
        topic=topic.name,
        out=str(work / "rows"),
        checkpoint=str(work / "checkpoint"),
    )
    delete_topic(topic)
    return float(answer["seconds"])


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Both in turns; in the full size each is warmed up and measured several times."""
    data = make_data(work / "data", size)
    servers = EmbeddedBroker(work / "log" / "warehouse").start().bootstrap_servers
    with spark_kafka() as peer:
        if size != SMALL:
            _measure(session, peer, make_data(work / "warm-up", WARM_UP), work, servers, repeats=1)
        found = _measure(session, peer, data, work, servers, repeats=1 if size == SMALL else REPEATS)
    peer_s, lakelog_s = median(found["peer"]), median(found["lakelog"])
    return {
        "benchmark": "log-sink",
        "rows": size.upserted_rows,
        "peer_rows_per_s": round(size.upserted_rows / peer_s),
        "lakelog_rows_per_s": round(size.upserted_rows / lakelog_s),
        "ratio": round(peer_s / lakelog_s, 3),
    }


def _measure(
    session: SparkSession, peer: SparkKafka, data: UpsertData, work: Path, servers: str, *, repeats: int
) -> dict[str, list[float]]:
    expected = data.merged().sort(KEY)
    contenders: dict[str, Callable[[], float]] = {
        "peer": lambda: run_peer(peer, data, work / "peer", servers),
        "lakelog": lambda: run_lakelog(session, data, work / "log", options=LOGGED, expected=expected).wall_s,
    }
    return in_turns(contenders, repeats=repeats)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
