"""Records of an eventual log: sent without transactions, so that each can be read as soon as the broker has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.common.quoting import shown
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, ClientPool, config_key, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.offsets import Position, high_watermark
from lakelog.logstore.kafka.clients.record_limit import HEADER_BYTES, record_limit
from lakelog.logstore.kafka.records.authors import Author, authors_of
from lakelog.logstore.kafka.records.consumer import open_consumer

DELIVERY_SECONDS = 20.0  # a record that the broker has not accepted after this time is not sent any more
_CHUNK_RECORDS = 10_000
_IN_FLIGHT_MAX = 50_000
_POLL_SECONDS = 0.1
_LINGER_MS = "50"  # full batches cost the broker half as much; a flush does not wait for full batches
_OPEN_MAX = 64


class EventualProducer:
    """A producer of one partition. After an error it must be closed and replaced by a new one."""

    def __init__(self, partition: KafkaPartition) -> None:
        """Create the client; it connects with the first record. Raises NotFoundError without the topic."""
        self.partition = partition
        self._limit = record_limit(partition.topic)
        if partition.number >= self._limit.partition_count:
            raise InvalidRequestError(f"{partition}: the topic has {self._limit.partition_count} partitions only")
        self._failed: KafkaError | None = None
        settings = {
            "compression.type": "lz4",
            "linger.ms": _LINGER_MS,
            "queue.buffering.max.messages": str(2 * (_IN_FLIGHT_MAX + _CHUNK_RECORDS)),
            "queue.buffering.max.kbytes": str((1 << 31) - 1),
        } | {**partition.client_config}
        own = {
            "acks": "all",
            "enable.idempotence": "true",  # in this order, and none twice while the producer lives
            "message.timeout.ms": str(int(DELIVERY_SECONDS * 1000)),
            "message.max.bytes": str(self._limit.message_bytes),
            "delivery.report.only.error": True,
            "on_delivery": self._report,
        }
        self._producer = make_client(Producer, settings, own)

    def send(self, records: EncodedRecords, author: Author, check: Callable[[], None]) -> Position:
        """Send the records and wait until the broker has them all; returns the end of the log behind them.

        `check` is called before each part of them, and may raise to send no more. The client sends headers only with
        single records, not with batches. Raises InvalidRequestError for a record that is too large, before any is sent,
        and UnavailableError when some may not have arrived.
        """
        self._limit.check(records)
        if author.header_bytes > HEADER_BYTES:
            raise InvalidRequestError(
                f"the commit user {shown(author.user)} has {len(author.user.encode())} bytes, too many for the headers"
                f" of records, which have {HEADER_BYTES}: give a shorter one"
            )
        headers, produce = author.headers(), self._producer.produce
        topic, number = self.partition.topic.name, self.partition.number
        keys, values = records.keys, records.values
        with self._classifying():
            for start in range(0, len(records), _CHUNK_RECORDS):
                check()
                end = start + _CHUNK_RECORDS
                for key, value in zip(keys[start:end], values[start:end], strict=True):
                    produce(topic, value, key, number, headers=headers)
                self._drain(_IN_FLIGHT_MAX)
            self._drain(0)
        return high_watermark(self.partition)

    def close(self) -> None:
        """Send nothing more. Never raises."""
        self._producer.purge()

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = self._failed or error

    def _drain(self, in_flight_max: int) -> None:
        """Wait until few enough records are in flight, as long as some arrive every ANSWER_SECONDS."""
        in_flight = len(self._producer)
        deadline = time.monotonic() + ANSWER_SECONDS
        self._producer.poll(0)
        while (now_in_flight := len(self._producer)) > in_flight_max:
            if now_in_flight < in_flight:
                in_flight, deadline = now_in_flight, time.monotonic() + ANSWER_SECONDS
            elif time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self.partition}: {now_in_flight} records were not acknowledged by Kafka at"
                    f" {servers_of(self.partition.client_config)} for {ANSWER_SECONDS:.0f} s; they are sent again"
                )
            if in_flight_max:
                self._producer.poll(_POLL_SECONDS)
            else:
                self._producer.flush(_POLL_SECONDS)  # which also sends waiting records
        if self._failed is not None:
            raise KafkaException(self._failed)

    @contextmanager
    def _classifying(self) -> Iterator[None]:
        """Raise errors of the client as errors of lakelog; after a fatal one it raises SystemError."""
        doing, config = f"{self.partition}: producing", self.partition.client_config
        try:
            yield
        except KafkaException as error:
            raise kafka_error(error.args[0], doing, config) from error
        except SystemError as error:
            raise kafka_error(KafkaError(KafkaError._FAIL, repr(error)), doing, config) from error


_pool: ClientPool[EventualProducer] = ClientPool(_OPEN_MAX, close=EventualProducer.close)


@contextmanager
def open_producer(partition: KafkaPartition) -> Iterator[EventualProducer]:
    """A producer that this process keeps, for one writer at a time; it is closed after an error."""
    key = (partition.topic.name, partition.number, *config_key(partition.client_config))
    producer = _pool.take(key) or EventualProducer(partition)
    try:
        yield producer
    except BaseException:  # some of its records may still be in flight
        producer.close()
        raise
    else:
        _pool.put(key, producer)


def authors_behind(partition: KafkaPartition, start: int, *, timeout_seconds: float = 10.0) -> set[Author]:
    """The batches to which the records from `start` to the end of an eventual log belong.

    Raises LogTruncatedError when the log does not hold `start`, CorruptDataError for a record without the headers.
    """
    end = high_watermark(partition).offset
    found: set[Author] = set()
    if start < end:
        with open_consumer(partition) as consumer:
            for messages in consumer.read(start, end, timeout_seconds):
                found |= authors_of(messages, partition)
    return found
