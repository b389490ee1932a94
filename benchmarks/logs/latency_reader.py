"""A reader of one Kafka partition without Spark, for the benchmark `latency`, in a process of its own.

    python -m benchmarks.logs.latency_reader <servers> <topic> <records>

It prints a line when it reads, and one for each batch: the end offset, and when the rows were there (CLOCK_MONOTONIC,
which all processes of a machine share).
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.logs.log import make_rows
from lakelog.common.arrow import from_arrow_field
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import last_stable_offsets
from lakelog.logstore.kafka.records.reader import OFFSET_COLUMN, read_range

FIELDS = [from_arrow_field(field.with_nullable(field.name != "id")) for field in make_rows(1).schema]
IDLE_SECONDS = 0.001


def main(servers: str, topic_name: str, records: int) -> None:
    """Read until so many records have come."""
    topic = KafkaTopic(client_config={"bootstrap.servers": servers}, name=topic_name)
    position = last_stable_offsets(topic, 1)[0].offset
    print(flush=True)
    seen: list[tuple[int, float]] = []
    while records > 0:
        end = last_stable_offsets(topic, 1)[0].offset
        if end == position:
            time.sleep(IDLE_SECONDS)
            continue
        for batch in read_range(topic.partition(0), FIELDS, start=position, end=end, with_offset=True):
            seen.append((batch.column(OFFSET_COLUMN)[-1].as_py() + 1, time.monotonic()))
            records -= batch.num_rows
        position = end
    for one in seen:
        print(json.dumps(one))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
