"""How many rows a second pass through the log store: encode, produce, consume, decode, both ways.

Rows of 7 columns (two BIGINT besides the key, DOUBLE, two STRING, TIMESTAMP), about 190 bytes as debezium-json.
`cpu` divides by the processor time of all threads of this process, `wall` by the time that passed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import from_arrow_field
from lakelog.common.types import RowKind
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.codec.debezium import decode_changes, encode_changes
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.logstore.options import ChangelogMode

REPEATS = 3


def make_rows(count: int) -> pa.Table:
    """Random rows, the same every time."""
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "id": rng.integers(0, 10**9, count),
            "amount": rng.integers(-(1 << 62), 1 << 62, count),
            "ratio": rng.normal(size=count) * 1000,
            "quantity": rng.integers(0, 1000, count),
            "customer": [f"customer-{number % 10_007}" for number in range(count)],
            "note": [f"some text of row {number}" for number in range(count)],
            "at": pa.array(rng.integers(1_600_000_000_000_000, 1_700_000_000_000_000, count)).cast(pa.timestamp("us")),
        }
    )


def measure(name: str, rows: int, call: Callable[[], object]) -> dict[str, object]:
    """The best of REPEATS."""
    walls, cpus = [], []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"what": name, "rows_per_s_wall": round(rows / min(walls)), "rows_per_s_cpu": round(rows / min(cpus))}


def run(servers: str, rows: int) -> Iterator[dict[str, object]]:
    """One result a step."""
    table = make_rows(rows)
    fields = [from_arrow_field(field) for field in table.schema]
    pairs = table.take(pa.array(np.repeat(np.arange(rows // 2), 2)))
    pair_kinds = pa.array(np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], np.int8), rows // 2))
    upsert_kinds = pa.array(np.random.default_rng(8).choice([0, 2, 3], rows).astype(np.int8))

    def encode(which: pa.Table, kinds: pa.Array | None, mode: ChangelogMode) -> EncodedRecords:
        return encode_changes(which, kinds, fields, ["id"], mode)

    for name, which, kinds, mode in (
        ("inserts", table, None, ChangelogMode.UPSERT),
        ("upserts and deletes", table, upsert_kinds, ChangelogMode.UPSERT),
        ("updates with both images", pairs, pair_kinds, ChangelogMode.ALL),
    ):
        records = encode(which, kinds, mode)
        yield measure(f"encode {name}", which.num_rows, partial(encode, which, kinds, mode))
        yield measure(f"decode {name}", which.num_rows, partial(decode_changes, records.values, fields))

    records = encode(table, None, ChangelogMode.UPSERT)
    topic = KafkaTopic(client_config={"bootstrap.servers": servers}, name=f"bench-{uuid.uuid4().hex[:8]}")
    create_topic(topic, 1)
    partition = topic.partition(0)
    with TransactionalProducer(partition, topic.name) as producer:
        ends: list[int] = []

        def produce() -> None:
            producer.begin()
            producer.produce(records, b"header")
            ends.append(producer.commit())

        yield measure("produce one transaction", rows, produce)
    start, end = ends[-1] - rows, ends[-1]
    yield measure("read_tail", rows, lambda: read_tail(partition, start))
    yield measure(
        "read_range",
        rows,
        lambda: sum(batch.num_rows for batch in read_range(partition, fields, start=start, end=end)),
    )
    delete_topic(topic)


@contextmanager
def some_broker() -> Iterator[str]:
    """The broker that LAKELOG_TEST_BOOTSTRAP_SERVERS names, else an embedded one."""
    named = os.environ.get("LAKELOG_TEST_BOOTSTRAP_SERVERS")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = EmbeddedBroker(Path(folder))
        try:
            yield broker.start().bootstrap_servers
        finally:
            broker.stop()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few rows, to see that it runs")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    with some_broker() as servers:
        for result in run(servers, 2_000 if arguments.small else 500_000):
            if arguments.json:
                print(json.dumps(result), flush=True)
            else:
                wall, cpu = result["rows_per_s_wall"], result["rows_per_s_cpu"]
                print(f"{result['what']:32} {wall:>12,} rows/s wall {cpu:>12,} rows/s per core", flush=True)


if __name__ == "__main__":
    main()
