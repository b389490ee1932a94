"""Topics of a real broker for tests: one for each test, records of one BIGINT column, whole transactions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.types import DataField, RowKind, parse_type
from lakelog.logstore.codec.debezium import encode_changes
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.kafka.records.tail import Tail, read_tail
from lakelog.logstore.options import ChangelogMode

FIELDS = (DataField(id=0, name="id", type=parse_type("BIGINT NOT NULL")),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopic(KafkaTopic):
    """A topic of two partitions; tests use partition 0 unless they say otherwise."""

    def producer(
        self, transactional_id: str = "owner", partition: int = 0, *, size_bytes: int = 0, **config: str
    ) -> TransactionalProducer:
        """A new owner; `config` is more of the client's, with underscores for dots."""
        settings = {**self.client_config, **{key.replace("_", "."): value for key, value in config.items()}}
        owned = KafkaTopic(client_config=settings, name=self.name).partition(partition)
        return TransactionalProducer(owned, f"{self.name}-{transactional_id}", size_bytes=size_bytes)

    def tail(self, base: int = 0, timeout_seconds: float = 10.0) -> Tail:
        """The tail from `base`."""
        return read_tail(self.partition(0), base, timeout_seconds=timeout_seconds)

    def ids(self, start: int, end: int, timeout_seconds: float = 10.0) -> list[int]:
        """The ids in [start, end)."""
        return [row["id"] for row in self.rows(start, end, timeout_seconds)]

    def rows(self, start: int, end: int, timeout_seconds: float = 10.0) -> list[dict[str, int]]:
        """The changes in [start, end) with kind and offset."""
        batches = read_range(
            self.partition(0),
            FIELDS,
            start=start,
            end=end,
            with_offset=True,
            timeout_seconds=timeout_seconds,
        )
        return [row for batch in batches for row in batch.to_pylist()]


def topic_at(bootstrap_servers: str, name: str, **config: str) -> KafkaTopic:
    """A topic of these servers, which may not exist; `config` is more of the client's, with underscores for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return KafkaTopic(client_config={"bootstrap.servers": bootstrap_servers, **settings}, name=name)


@contextmanager
def log_topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    """A topic that is there for one test."""
    topic = LogTopic(client_config={"bootstrap.servers": bootstrap_servers}, name=f"log-{uuid.uuid4().hex[:12]}")
    create_topic(topic, 2)
    yield topic
    delete_topic(topic)


def records(ids: Sequence[int], kinds: Sequence[RowKind] | None = None) -> EncodedRecords:
    """One record an id, or fewer where kinds make pairs."""
    rows = pa.table({"id": pa.array(ids, pa.int64())})
    codes = None if kinds is None else pa.array([int(kind) for kind in kinds], pa.int8())
    return encode_changes(rows, codes, FIELDS, ["id"], ChangelogMode.ALL)


def write(producer: TransactionalProducer, ids: Sequence[int], header: bytes = b"header") -> int:
    """One transaction; its end offset."""
    producer.begin()
    producer.produce(records(ids), header)
    return producer.commit()


def leave_open(producer: TransactionalProducer, ids: Sequence[int], header: bytes = b"open") -> None:
    """Records that are in the log, in a transaction that is neither committed nor aborted."""
    producer.begin()
    producer.produce(records(ids), header)
    producer.flush()
