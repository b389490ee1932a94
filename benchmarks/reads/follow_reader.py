"""A process that hears of changes, for the benchmark `follow`.

    python -m benchmarks.reads.follow_reader follow|consumer <warehouse> <table> <last batch>
    python -m benchmarks.reads.follow_reader batches|snapshot <warehouse> <table> 0

The first two print a line when they hear changes, and at the end one for each batch that they saw: its number, and when
(seconds since 1970). `consumer` is a plain Kafka consumer of the table's topic. The others read all rows once, by
`to_batches` or by `follow`, and print the most memory that this took, in MB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition

from lakelog.catalog import Catalog, Table

FIRST = -1  # a batch that is written until the process hears of it


def by_follow(table: Table) -> Iterator[int]:
    """The batches of changes, as `follow` gives them."""
    for batch in table.follow(start="latest"):
        yield from batch.rows["batch"].unique().to_pylist()


def by_consumer(table: Table) -> Iterator[int]:
    """The batches of records, as a consumer of the topic gets them."""
    assert table.log is not None
    settings = {"group.id": str(uuid.uuid4()), "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "latest"} | dict(table.log.client_config))
    partition = TopicPartition(table.log.topic, 0)
    partition.offset = consumer.get_watermark_offsets(partition)[1]
    consumer.assign([partition])
    while True:
        message = consumer.poll(1.0)
        value = None if message is None or message.error() is not None else message.value()
        if value is not None:
            yield json.loads(value)["after"]["batch"]


def hear(table: Table, way: str, last: int) -> None:
    """Note when each batch is heard of, up to the last one."""
    seen: dict[int, float] = {}
    for number in by_follow(table) if way == "follow" else by_consumer(table):
        if number == FIRST and not seen:
            print(flush=True)
        seen.setdefault(number, time.time())
        if number == last:
            break
    for one in seen.items():
        print(json.dumps(one))


def main(way: str, warehouse: str, name: str, last: int) -> None:
    """Hear of changes, or read all rows."""
    table = Catalog(warehouse).load_table(name)
    if way in {"follow", "consumer"}:
        hear(table, way, last)
        return
    batches = table.to_batches() if way == "batches" else (one.rows for one in table.follow(until="latest"))
    rows = sum(batch.num_rows for batch in batches)
    print(json.dumps([rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
