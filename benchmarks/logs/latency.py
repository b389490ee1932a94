"""Milliseconds from the call of commit_transaction to the row, in a reader without Spark and in Spark's foreachBatch.

Every 100 ms a transaction, at 1,000, 10,000 and 100,000 rows a second, into a table's log in one Kafka partition. The
reader without Spark is a process that asks for the last stable offset and reads up to it (`read_range`, 7 columns); its
latency counts to the batch that holds the transaction's last row. `median_ms_direct` is that of 1,000 rows a
transaction. In Spark the log is read by `readStream.format("lakelog")`, and the latency counts to the rows in the
function of foreachBatch; `median_ms_spark` is that at 1,000 rows a second. The aims are 20 and 300 ms; `ratio` is how
many times the worse of the two is within its aim.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.logs.latency_reader import FIELDS
from benchmarks.logs.log import make_rows
from benchmarks.streams.upsert import run_command
from benchmarks.upsert_data import SMALL, Size
from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.logstore.codec.debezium import encode_changes
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.access.table_log import kafka_topic

ROOT = Path(__file__).resolve().parents[2]
TICK_SECONDS = 0.1
RATES = (1_000, 10_000, 100_000)
AIM_MS_DIRECT, AIM_MS_SPARK = 20.0, 300.0
DIRECT_ROWS = 1_000  # of a transaction


@dataclass(slots=True)
class Writer:
    """Writes transactions to a table's log, and remembers when each was committed."""

    table: Table
    called: dict[int, float] = field(default_factory=dict)  # number of the transaction -> when commit was called
    ends: dict[int, int] = field(default_factory=dict)  # number -> its end offset

    def write(self, count: int, *, rows: int) -> None:
        """So many transactions of so many rows, one a tick."""
        assert self.table.log is not None
        base = make_rows(rows)
        with TransactionalProducer(kafka_topic(self.table.log).partition(0), f"{self.table.uuid}-0") as producer:
            started = time.monotonic()
            for place in range(count):
                number = len(self.called)
                records = _numbered(base, number)
                time.sleep(max(0.0, started + place * TICK_SECONDS - time.monotonic()))
                producer.begin()
                producer.produce(records, b"benchmark")
                producer.flush()
                self.called[number] = time.monotonic()
                self.ends[number] = producer.commit()


def _numbered(base: pa.Table, number: int) -> EncodedRecords:
    """The rows as records, with the number of their transaction as `amount`."""
    at = base.schema.get_field_index("amount")
    rows = base.set_column(at, "amount", pa.array(np.full(base.num_rows, number)))
    return encode_changes(rows, None, FIELDS, ["id"], ChangelogMode.UPSERT)


def create(work: Path, name: str) -> Table:
    """A table of one bucket with a log."""
    options = {"bucket": "1", "log.system": "kafka"}
    schema = to_arrow_schema(FIELDS)
    return Catalog(work / "log" / "warehouse").create_table(name, schema=schema, primary_keys=["id"], options=options)


def measure_direct(work: Path, name: str, *, rows: int, count: int) -> list[float]:
    """Milliseconds of each transaction to the reader without Spark."""
    table = create(work, name)
    assert table.log is not None
    servers = table.log.client_config["bootstrap.servers"]
    command = [sys.executable, "-m", "benchmarks.logs.latency_reader", servers, table.log.topic, str(count * rows)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()  # it reads
        writer = Writer(table)
        writer.write(count, rows=rows)
        seen = [json.loads(line) for line in reader.stdout]
    ends = np.array([end for end, _ in seen])
    times = [moment for _, moment in seen]
    return [1_000 * (times[int(np.searchsorted(ends, end))] - writer.called[at]) for at, end in writer.ends.items()]


def measure_spark(session: SparkSession, work: Path, name: str, *, rows: int, count: int, warm_up: int) -> list[float]:
    """Milliseconds of each transaction, after the first few, to foreachBatch."""
    table = create(work, name)
    arrived: dict[int, float] = {}
    is_all = threading.Event()

    def take(batch: DataFrame, _batch_id: int) -> None:
        numbers = np.unique(batch.toArrow()["amount"].to_numpy())
        now = time.monotonic()
        for number in numbers.tolist():
            arrived.setdefault(number, now)
        if len(arrived) == count + warm_up:
            is_all.set()

    stream = session.readStream.format("lakelog").option("row-kind", "true").load(table.path).writeStream
    query = stream.foreachBatch(take).option("checkpointLocation", str(work / f"checkpoint-{name}")).start()
    writer = Writer(table)
    writer.write(warm_up + count, rows=rows)
    is_all.wait(120)
    query.stop()
    error = query.exception()
    if error is not None:
        raise error
    if not is_all.is_set():
        sys.exit(f"the stream has given {len(arrived)} of {count + warm_up} transactions")
    return [1_000 * (arrived[number] - writer.called[number]) for number in range(warm_up, warm_up + count)]


def run_all(session: SparkSession, size: Size, work: Path) -> dict[str, object]:
    """The percentiles at each rate."""
    count, warm_up = (20, 20) if size == SMALL else (200, 150)
    rates = RATES[:1] if size == SMALL else RATES
    direct = _percentiles("direct", measure_direct(work, "bench.direct", rows=DIRECT_ROWS, count=count))
    summary: dict[str, object] = {"benchmark": "latency", "rows_per_transaction": DIRECT_ROWS, **direct}
    for rate in rates:
        rows = int(rate * TICK_SECONDS)
        found = measure_direct(work, f"bench.direct_{rate}", rows=rows, count=count)
        summary |= _percentiles(f"direct_at_{rate}", found)
    spark: dict[int, dict[str, float]] = {}
    for rate in rates:
        rows = int(rate * TICK_SECONDS)
        found = measure_spark(session, work, f"bench.spark_{rate}", rows=rows, count=count, warm_up=warm_up)
        spark[rate] = _percentiles("spark" if rate == RATES[0] else f"spark_at_{rate}", found)
        summary |= spark[rate]
    worst = min(AIM_MS_DIRECT / direct["median_ms_direct"], AIM_MS_SPARK / spark[RATES[0]]["median_ms_spark"])
    return summary | {"ratio": round(worst, 3)}


def _percentiles(name: str, found: Sequence[float]) -> dict[str, float]:
    median, p95, p99 = (round(float(one), 1) for one in np.percentile(found, [50, 95, 99]))
    return {f"median_ms_{name}": median, f"p95_ms_{name}": p95, f"p99_ms_{name}": p99}


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
