"""Open consumers, each of one topic partition, with their position.

They read committed records only, never jump (`auto.offset.reset=error`), and stay open in this process for the next
read, which needs no seek when it begins where the last one ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any  # Any: headers are declared as a list of pairs or of whatever else

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lakelog.common.errors import LakelogError, StalledError
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, ClientPool, close_consumer, config_key, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.offsets import high_watermark, log_start_offset
from lakelog.logstore.kafka.clients.record_limit import COMMIT_HEADER
from lakelog.logstore.kafka.clients.rights import READER_GROUP, topic_right

_CONSUME_RECORDS = 10_000
_POLL_SECONDS = 0.5
_OPEN_MAX = 16
_TRANSACTION_OFFSETS_MIN = 2  # a record and the control record
_OUT_OF_RANGE_CODES = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

CONSUMER_SETTINGS = {
    "fetch.message.max.bytes": str(4 << 20),
    "fetch.wait.max.ms": "1",  # each range ends with such a wait: behind its last record is the control record
    "fetch.queue.backoff.ms": "5",  # by default a full queue stops fetching for a second
    "queued.max.messages.kbytes": str(32 << 10),
    "queued.min.messages": "1000000",
}
SINGLE_SETTINGS = {  # for single records far from each other: a fetch has one batch of a producer
    "fetch.message.max.bytes": "16384",
    "fetch.wait.max.ms": "1",
    "fetch.queue.backoff.ms": "0",  # a queue that is full has the records behind the one that was read
    "queued.min.messages": "1000",
}
OWN_CONSUMER_SETTINGS = {
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "group.id": READER_GROUP,  # librdkafka needs one; no offset is ever committed in it
    "isolation.level": "read_committed",
}


RENEWAL = (
    "where the broker has lost records that snapshots hold, `lakelog log renew TABLE` gives the table another topic,"
    " and streams that start again read from the files what was lost"
)

HoldsNothing = Callable[[int, int], bool]  # (start, log start): whether there was no committed record in between


def nothing_known(_start: int, _log_start: int) -> bool:
    """The test if nothing is known: any gap may have held records."""
    return False


def can_hold_nothing(start: int, log_start: int, newest: int, *, is_after_record: bool) -> bool:
    """Whether the deleted offsets from `start` to `log_start` certainly hold no committed record. Pure.

    After the last record of a transaction (`is_after_record`) comes its control record. A whole transaction takes at
    least two offsets, and `start` is not inside of one; `newest` is the high watermark.
    """
    first = start + 1 if is_after_record else start
    return log_start <= first or (log_start == newest and log_start - first < _TRANSACTION_OFFSETS_MIN)


class PartitionConsumer:
    """Reads one partition. `position` is the offset up to which it has given everything that is committed."""

    def __init__(self, partition: KafkaPartition, *, is_single: bool = False) -> None:
        """Create the client; it connects with the first read. `is_single` is for reads of one record each."""
        self.partition = partition
        self.position: int | None = None
        settings = SINGLE_SETTINGS if is_single else CONSUMER_SETTINGS
        self._consumer = make_client(Consumer, settings | {**partition.client_config}, OWN_CONSUMER_SETTINGS)
        self._is_single = is_single
        self._left: list[Message] = []  # fetched, from `position` on, and not given yet
        self._is_at_end = False  # whether nothing committed was behind `position` at the broker's last answer
        self._holds_nothing: HoldsNothing = nothing_known
        self._is_tail = False
        self._tail_base = 0  # after the last record of a transaction, unless it is 0

    def read(
        self,
        start: int,
        end: int,
        timeout_seconds: float,
        *,
        is_tail: bool = False,
        holds_nothing: HoldsNothing = nothing_known,
    ) -> Iterator[list[Message]]:
        """The committed records from `start` to `end`, in lists; records behind `end` are kept for the next read.

        A tail continues behind `end`, to the end of the committed transactions; its `start` is 0 or behind the last
        record of a transaction. Deleted offsets at the start are skipped if the rest of the log or `holds_nothing`
        shows that they held no record. Raises StalledError when nothing comes for `timeout_seconds`, LogTruncatedError,
        UnavailableError.
        """
        self._holds_nothing, self._is_tail, self._tail_base = holds_nothing, is_tail, start if is_tail else 0
        self.move_to(start)
        asked_at = time.monotonic()
        is_checked = False
        while not self._is_done(end, is_tail):
            position = self.position
            records = self._take(None if is_tail else end, min(_POLL_SECONDS, timeout_seconds / 4))
            if records:
                yield records
            if self.position != position:
                asked_at, is_checked = time.monotonic(), False
                continue
            waited_seconds = time.monotonic() - asked_at
            if waited_seconds > timeout_seconds:
                raise self._stalled(end, timeout_seconds)
            if waited_seconds > timeout_seconds / 2 and not is_checked:
                self._check_is_there(end, timeout_seconds / 2)
                is_checked = True

    def move_to(self, start: int) -> None:
        """Go on at an offset; a read that has begun leaves out what is before it."""
        if self.position == start:
            return
        self._left, self._is_at_end, self.position = [], False, start
        self._consumer.assign([TopicPartition(self.partition.topic.name, self.partition.number, start)])

    def rest(self) -> None:
        """Pause fetching until the next read."""
        self._left, self.position = [], None
        self._consumer.unassign()

    def close(self) -> None:
        """Leave the broker. Never raises."""
        close_consumer(self._consumer)

    def _is_done(self, end: int, is_tail: bool) -> bool:
        assert self.position is not None
        return self.position >= end and (self._is_at_end or not is_tail)

    def _take(self, end: int | None, timeout_seconds: float) -> list[Message]:
        """The next records before `end`; moves the position. Empty if no record came in time."""
        messages = self._left or self._fetch(timeout_seconds)
        self._left = []
        if not messages:
            return []
        assert self.position is not None
        first_offset, last_offset = messages[0].offset() or 0, messages[-1].offset() or 0
        is_plain = first_offset >= self.position and not any(message.error() for message in messages)
        if is_plain and (end is None or last_offset < end):
            self.position, self._is_at_end = last_offset + 1, False
            return messages
        return self._take_up_to(end, messages, self.position)

    def _take_up_to(self, end: int | None, messages: list[Message], start: int) -> list[Message]:
        records: list[Message] = []
        for number, message in enumerate(messages):
            offset, error = message.offset() or 0, message.error()
            if error is not None and error.code() in _OUT_OF_RANGE_CODES:
                self._pass_deleted()
                return records
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise self._error(error)
            if offset < start:
                continue  # of the read before
            if error is None and end is not None and offset >= end:
                self._left, self.position, self._is_at_end = messages[number:], offset, False
                break
            if error is None:
                records.append(message)
            self._is_at_end = error is not None
            self.position = offset if self._is_at_end else offset + 1
        return records

    def _fetch(self, timeout_seconds: float) -> list[Message]:
        try:
            # With a time-out `consume` would wait until the list is full.
            messages = self._ready()
            if messages:
                return messages
            message = self._consumer.poll(timeout_seconds)
            return [] if message is None else [message, *self._ready()]
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _ready(self) -> list[Message]:
        """What was fetched, at once; nothing where single records are read, which are polled for."""
        return [] if self._is_single else self._consumer.consume(_CONSUME_RECORDS, 0)

    def _error(self, error: KafkaError) -> LakelogError:
        right = topic_right("READ", self.partition.topic.name)
        return kafka_error(error, f"reading {self.partition}", self.partition.client_config, right=right)

    def _pass_deleted(self) -> None:
        """Continue at the current log start. Raises LogTruncatedError when records before it may have been deleted."""
        position = self.position
        assert position is not None
        start = log_start_offset(self.partition).offset
        newest = high_watermark(self.partition).offset
        if position < start:
            is_after_record = 0 < position == self._tail_base
            holds_nothing = can_hold_nothing(position, start, newest, is_after_record=is_after_record)
            has_control_records = self.partition.topic.is_transactional
            self.move_to(start)
            if has_control_records and (holds_nothing or self._shows_control_record(position, start)):
                return
            if self._holds_nothing(position, start):
                return
        asked, is_end = f"offset {position}", position > newest
        raise truncated(self.partition, asked, start, newest, is_tail=self._is_tail, is_end=is_end)

    def _shows_control_record(self, position: int, start: int) -> bool:
        """Whether the one offset before `start` was a control record: a transaction begins directly behind it."""
        if start != position + 1:
            return False
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self._left and time.monotonic() < deadline:
            self._left = self._fetch(_POLL_SECONDS)
        if not self._left or self._left[0].error() is not None:
            return False
        return self._left[0].offset() == start and commit_header(self._left[0]) is not None

    def _check_is_there(self, end: int, seconds: float) -> None:
        """Raise the error for a broker without an answer or an end never written; else it is a transaction."""
        newest = high_watermark(self.partition, seconds=seconds).offset
        if newest < end:
            start = log_start_offset(self.partition).offset
            asked = f"the records before offset {end}"
            raise truncated(self.partition, asked, start, newest, is_tail=self._is_tail, is_end=True)

    def _stalled(self, end: int, timeout_seconds: float) -> StalledError:
        return StalledError(
            f"{self.partition}: nothing committed came after offset {self.position} in {timeout_seconds:g} s, though"
            f" the partition goes to {end} at least: another producer's open transaction hides it; try again when that"
            " has ended, at the latest after its transaction.timeout.ms"
        )


def commit_header(message: Message) -> bytes | None:
    """The header of a transaction's first record; None in others."""
    headers: Any = message.headers()
    return next((value for name, value in headers if name == COMMIT_HEADER), None) if headers else None


def truncated(
    partition: KafkaPartition, asked: str, start: int, end: int, *, is_tail: bool, is_end: bool = False
) -> LogTruncatedError:
    """The error for an offset that the partition lacks: of a writer (`is_tail`), or behind it (`is_end`)."""
    if is_tail:
        way_out = (
            "records that are in no snapshot yet may be lost; `lakelog log check TABLE` names them, and `lakelog log"
            f" repair TABLE` lets writers continue; {RENEWAL}"
        )
    elif is_end:
        way_out = RENEWAL
    else:
        way_out = (
            "start the stream again with its checkpoint: it reads from the files what it finds there, and names the"
            " choices where it does not; `lakelog log check TABLE` reports whether Kafka itself deletes records"
        )
    return LogTruncatedError(
        f"{partition} does not hold {asked}, it holds [{start}, {end}): deleted by retention, or lost by the broker;"
        f" {way_out}"
    )


_pool: ClientPool[PartitionConsumer] = ClientPool(_OPEN_MAX, close=PartitionConsumer.close)


@contextmanager
def open_consumer(partition: KafkaPartition, *, is_single: bool = False) -> Iterator[PartitionConsumer]:
    """A consumer that this process keeps, for one reader at a time; it is closed after an error.

    `is_single` is for reads of one record each.
    """
    key = (partition.topic.name, partition.number, is_single, *config_key(partition.client_config))
    consumer = _pool.take(key) or PartitionConsumer(partition, is_single=is_single)
    try:
        yield consumer
    except Exception:  # any error: the position of the consumer is unknown
        consumer.close()
        raise
    else:
        consumer.rest()
        _pool.put(key, consumer)


def close_idle_consumers() -> None:
    """Close every consumer that this process keeps."""
    _pool.clear()
