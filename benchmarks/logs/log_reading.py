"""The log of a table read to its end as rows with their kinds, by lakelog's source and by Spark's own Kafka source."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.measuring import in_turns
from benchmarks.peers.spark_kafka import SparkKafka, spark_kafka
from benchmarks.spark_runs import LOGGED, LakelogRun
from benchmarks.upsert_data import SPARK_SCHEMA, Size, make_data
from lakelog.catalog import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How many records are in the log, how many a batch reads, and how often both take their turn."""

    records: int
    batch_records: int
    repeats: int


def compare_readers(name: str, session: SparkSession, reading: Reading, work: Path) -> dict[str, object]:
    """Records a second of both; `ratio` is lakelog's by that of Spark's Kafka source."""
    data = make_data(work / "data", Size(base_rows=reading.records, batch_count=0, batch_rows=0))
    run = LakelogRun(session=session, work=work / "log", options=LOGGED | {"write-only": "true"})
    table = run.create()
    run.upsert(data.base)
    with spark_kafka() as peer:
        contenders = {
            "kafka": lambda: _read_by_peer(peer, table, reading, work / "peer"),
            "lakelog": lambda: read_by_lakelog(session, table, reading, work / "reader"),
        }
        if reading.repeats > 1:
            in_turns(contenders, repeats=1)
        found = in_turns(contenders, repeats=reading.repeats)
    seconds = {contender: median(ones) for contender, ones in found.items()}
    return {
        "benchmark": name,
        "records": reading.records,
        "kafka_source_records_per_s": round(reading.records / seconds["kafka"]),
        "lakelog_records_per_s": round(reading.records / seconds["lakelog"]),
        "ratio": round(seconds["kafka"] / seconds["lakelog"], 3),
    }


def read_by_lakelog(session: SparkSession, table: Table, reading: Reading, work: Path) -> float:
    """Seconds of a stream of lakelog that reads a log from its first snapshot to its end."""
    shutil.rmtree(work, ignore_errors=True)
    options = {"row-kind": "true", "log.scan": "from-snapshot", "snapshot_id": "1"}
    rows = session.readStream.format("lakelog").options(**options).option("maxRowsPerTrigger", reading.batch_records)
    writer = rows.load(table.path).writeStream.format("noop").trigger(availableNow=True)
    started = time.perf_counter()
    query = writer.option("checkpointLocation", str(work / "checkpoint")).start()
    query.awaitTermination()
    seconds = time.perf_counter() - started
    _check(sum(progress["numInputRows"] for progress in query.recentProgress), reading, "lakelog")
    return seconds


def _read_by_peer(peer: SparkKafka, table: Table, reading: Reading, work: Path) -> float:
    shutil.rmtree(work, ignore_errors=True)
    assert table.log is not None
    answer = peer.ask(
        "source",
        servers=table.log.client_config["bootstrap.servers"],
        topic=table.log.topic,
        schema=SPARK_SCHEMA,
        limit=reading.batch_records,
        checkpoint=str(work / "checkpoint"),
    )
    _check(answer["rows"], reading, "Spark's Kafka source")
    return float(answer["seconds"])


def _check(count: int, reading: Reading, name: str) -> None:
    if count != reading.records:
        sys.exit(f"{name} has read {count} records, the log has {reading.records}")
