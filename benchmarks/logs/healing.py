"""1,000,000 changes that Kafka has deleted, read from the files, beside the same changes read from the log.

Two tables of the same rows, in four snapshots; the log of one is deleted after it was written. A stream reads each from
its first snapshot on. `ratio` is the records a second from the files by those from the log.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.logs.log_reading import Reading, read_by_lakelog
from benchmarks.measuring import in_turns
from benchmarks.spark_runs import LOGGED, LakelogRun
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import SMALL, Size, make_data
from lakelog.catalog import Table
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.logstore.kafka.clients.topic import delete_records
from lakelog.protocol.access.table_log import kafka_topic

FULL_READING = Reading(records=1_000_000, batch_records=250_000, repeats=3)
SMALL_READING = Reading(records=20_000, batch_records=10_000, repeats=1)


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """Records a second from files and from the log."""
    reading = SMALL_READING if size == SMALL else FULL_READING
    data = make_data(work / "data", Size(base_rows=reading.records, batch_count=0, batch_rows=0))
    tables = {}
    for name in ("files", "log"):
        run = LakelogRun(
            session=session,
            work=work / name,
            options=LOGGED | {"write-only": "true"},
            name=f"bench.{name}",
            warehouse=work / "warehouse",
        )
        tables[name] = run.create()
        run.upsert(data.base)
    delete_log(tables["files"])
    contenders = {
        name: lambda name=name, table=table: read_by_lakelog(session, table, reading, work / f"reader-{name}")
        for name, table in tables.items()
    }
    if reading.repeats > 1:
        in_turns(contenders, repeats=1)
    found = in_turns(contenders, repeats=reading.repeats)
    seconds = {name: median(ones) for name, ones in found.items()}
    return {
        "benchmark": "healing",
        "records": reading.records,
        "files_records_per_s": round(reading.records / seconds["files"]),
        "log_records_per_s": round(reading.records / seconds["log"]),
        "ratio": round(seconds["log"] / seconds["files"], 3),
    }


def delete_log(table: Table) -> None:
    """Delete all records of a table's log."""
    assert table.log is not None
    topic = kafka_topic(table.log)
    ends = high_watermarks(topic, table.log.bucket_count)
    delete_records(topic, {bucket: at.offset for bucket, at in ends.items()})


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
