"""Records a second of a stream that starts 10,000,000 records behind, beside Spark's own Kafka source with from_json.

The records of the benchmark `log-source`, five times as many, in batches of 1,000,000; from the first offset to the end
of the log.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.logs.log_reading import Reading, compare_readers
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import SMALL, Size

FULL_READING = Reading(records=10_000_000, batch_records=1_000_000, repeats=3)
SMALL_READING = Reading(records=40_000, batch_records=10_000, repeats=1)


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """The figures of both."""
    return compare_readers("catch-up", session, SMALL_READING if size == SMALL else FULL_READING, work)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
