"""Records a second of a stream that reads a table's log, beside Spark's own Kafka source with from_json.

2,000,000 debezium-json records in 4 Kafka partitions, 7 columns, read in batches of 250,000 as rows with their kinds
and thrown away. The peer is Spark 4.0.0 with `read_committed`. Both have Spark on two cores, and take turns.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.logs.log_reading import Reading, compare_readers
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import SMALL, Size

FULL_READING = Reading(records=2_000_000, batch_records=250_000, repeats=3)
SMALL_READING = Reading(records=20_000, batch_records=10_000, repeats=1)


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """The figures of both."""
    return compare_readers("log-source", session, SMALL_READING if size == SMALL else FULL_READING, work)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
