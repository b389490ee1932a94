"""Rows a second and core to encode, decode, produce and consume a log, beside the limits of polars and librdkafka.

Rows of 7 columns, about 190 bytes as debezium-json. The limits are measured in the same run, in turns: polars' own JSON
of the same rows without keys, envelope and exact types; librdkafka's producer and consumer through confluent_kafka for
the same bytes, without transactions, headers and checks. `ratio` is the lowest of the four.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.command import run_command
from benchmarks.logs.log import make_rows, some_broker
from benchmarks.measuring import in_turns
from benchmarks.peers.python_peer import timed
from lakelog.common.arrow import from_arrow_field
from lakelog.logstore.codec.debezium import decode_changes, encode_changes
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.logstore.options import ChangelogMode

REPEATS = 5
CHUNK = 10_000
CONSUME_SECONDS = 30.0


def run(rows: int, servers: str, repeats: int) -> dict[str, object]:
    """The figures: medians of the repeats."""
    table = make_rows(rows)
    fields = [from_arrow_field(field) for field in table.schema]
    encode = partial(encode_changes, table, None, fields, ["id"], ChangelogMode.UPSERT)
    records = encode()
    frame = pl.DataFrame(table)
    texts = frame.select(pl.struct(pl.all()).struct.json_encode().alias("row"))
    shape = pl.Struct(frame.schema)
    topic = KafkaTopic(client_config={"bootstrap.servers": servers}, name=f"bench-{uuid.uuid4().hex[:8]}")
    create_topic(topic, 2)
    with TransactionalProducer(topic.partition(0), topic.name) as producer:
        contenders: dict[str, Callable[[], object]] = {
            "encode": encode,
            "encode_limit": lambda: frame.select(pl.struct(pl.all()).struct.json_encode()),
            "decode": lambda: decode_changes(records.values, fields),
            "decode_limit": lambda: texts.select(pl.col("row").str.json_decode(shape)),
            "produce": lambda: _produce(producer, records),
            "produce_limit": lambda: _produce_plainly(topic, 1, records),
        }
        found = in_turns(_in_processor_time(contenders), repeats=repeats)
    found |= in_turns(
        _in_processor_time(
            {
                "consume": lambda: read_tail(topic.partition(0), 0),
                "consume_limit": lambda: _consume_plainly(topic, 1, repeats * len(records)),
            }
        ),
        repeats=repeats,
    )
    delete_topic(topic)
    counts = {name: rows * repeats if name.startswith("consume") else rows for name in found}
    rates = {name: round(counts[name] / median(ones)) for name, ones in found.items()}
    ratios = {
        f"ratio_{name}": round(rates[name] / rates[f"{name}_limit"], 3)
        for name in ("encode", "decode", "produce", "consume")
    }
    summary: dict[str, object] = {"benchmark": "codec", "rows": rows}
    summary |= {f"{name}_rows_per_core_s": rate for name, rate in rates.items()}
    return summary | ratios | {"ratio": min(ratios.values())}


def _in_processor_time(contenders: dict[str, Callable[[], object]]) -> dict[str, Callable[[], float]]:
    return {name: partial(_processor_seconds, call) for name, call in contenders.items()}


def _processor_seconds(call: Callable[[], object]) -> float:
    return timed(call)[1]


def _produce(producer: TransactionalProducer, records: EncodedRecords) -> None:
    producer.begin()
    producer.produce(records, b"header")
    producer.commit()


def _produce_plainly(topic: KafkaTopic, partition: int, records: EncodedRecords) -> None:
    producer = Producer(
        {**topic.client_config, "compression.type": "lz4", "linger.ms": "50", "queue.buffering.max.messages": "1000000"}
    )
    values, keys = records.values, records.keys
    for start in range(0, len(records), CHUNK):
        chunk = slice(start, start + CHUNK)
        messages = [{"value": value, "key": key} for value, key in zip(values[chunk], keys[chunk], strict=True)]
        producer.produce_batch(topic.name, messages, partition)
    producer.flush()


def _consume_plainly(topic: KafkaTopic, partition: int, count: int) -> None:
    settings = {**topic.client_config, "group.id": "bench", "enable.auto.commit": "false"}
    consumer = Consumer(settings | {"fetch.message.max.bytes": str(4 << 20), "queued.min.messages": "1000000"})
    consumer.assign([TopicPartition(topic.name, partition, 0)])
    while count > 0:
        count -= len(consumer.consume(min(CHUNK, count), CONSUME_SECONDS))
    consumer.close()


def run_small_or_full(_folder: Path, is_small: bool) -> dict[str, object]:
    """The figures at some broker."""
    with some_broker() as servers:
        return run(20_000 if is_small else 500_000, servers, 1 if is_small else REPEATS)


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_small_or_full)


if __name__ == "__main__":
    main()
