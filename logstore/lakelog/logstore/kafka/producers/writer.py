"""Kafka transactions of one topic partition."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any  # Any: what a record of confluent_kafka may have beside key and value

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, connect, make_client
from lakelog.logstore.kafka.clients.connection_errors import collect_errors
from lakelog.logstore.kafka.clients.kafka_errors import (
    is_fenced,
    is_missing_right,
    kafka_error,
    refused_record,
    too_slow,
    transaction_error,
    unknown_outcome,
)
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.record_limit import COMMIT_HEADER, record_limit
from lakelog.logstore.kafka.clients.rights import topic_right, transactional_right
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_KEY, choose_timeout_millis, may_ask_for_less
from lakelog.logstore.kafka.producers.record_arrays import batch_function
from lakelog.logstore.kafka.records.consumer import open_consumer
from lakelog.logstore.kafka.records.epochs import rewritten

FENCE_SECONDS = 30.0  # an older owner's open transaction, or a broker that has just started, may delay it for this long
_ABORT_SECONDS = 2.0
_POLL_SECONDS = 0.1
_CHUNK_RECORDS = 10_000
_LINGER_MS = "50"  # full batches cost the broker half as much; a commit does not wait for full batches
_IN_FLIGHT_MAX = 50_000


class TransactionalProducer:
    """A producer that owns one partition by its transactional id.

    The constructor fences: the open transaction of any older producer with the same id is aborted, and it can no longer
    commit. After an error the producer must be closed and replaced by a new one.
    """

    def __init__(
        self,
        partition: KafkaPartition,
        transactional_id: str,
        *,
        size_bytes: int = 0,
        patience: int = 0,
    ) -> None:
        """Fence. Raises UnavailableError when the broker does not answer, NotFoundError without the topic.

        The time-out of its transactions is chosen by `size_bytes` and `patience`, see `choose_timeout_millis`.
        """
        self.partition = partition
        self.client_config = dict(partition.client_config)
        self.transactional_id = transactional_id
        self.limit = record_limit(partition.topic)
        if partition.number >= self.limit.partition_count:
            raise InvalidRequestError(f"{partition}: the topic has {self.limit.partition_count} partitions only")
        self._is_open = False
        self._sent_count = 0
        self._last_offset: int | None = None
        self._end: int | None = None  # end of the last transaction, before the next one
        self._delivery_error: KafkaError | None = None
        self._open_for: Stopwatch | None = None
        self._producer: Producer | None = None
        try:
            self._fence(size_bytes, patience)
        except BaseException:
            self.close()
            raise

    def _new_client(self) -> Producer:
        settings = {
            "compression.type": "lz4",
            "linger.ms": _LINGER_MS,
            "queue.buffering.max.messages": str(2 * (_IN_FLIGHT_MAX + _CHUNK_RECORDS)),
            "queue.buffering.max.kbytes": str((1 << 31) - 1),
        } | self.client_config
        own = {
            "transactional.id": self.transactional_id,
            TIMEOUT_KEY: str(self.timeout_millis),
            "enable.idempotence": "true",
            "message.max.bytes": str(self.limit.message_bytes),
        }
        return make_client(Producer, settings, own)

    def begin(self) -> None:
        """Begin a transaction. Raises FencedError, UnknownOutcomeError."""
        with self._classifying("beginning a transaction"):
            self._client.begin_transaction()
        self._is_open = True
        self._sent_count = 0
        self._last_offset = None
        self._open_for = Stopwatch()  # not later than at the broker, where the first record opens it

    def produce(self, records: EncodedRecords, header: bytes) -> None:
        """Send the records; the first of the transaction carries `header` as `lakelog-commit`.

        Without records, or if the records ask for a header record, the header is in a header record, whose key and
        value are null. May be called again in the same transaction; then `header` is ignored. The header must have at
        most `limit.header_room` bytes. Raises FencedError, TransactionTimeoutError, UnknownOutcomeError, and
        InvalidRequestError for a record that is too large, before any of these records is sent.
        """
        self.limit.check(records)
        with self._classifying("producing"):
            try:
                self._send(records, header)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    self.close()
                    raise self.limit.error(None, None) from error
                raise
        self._sent_count += len(records) if self._sent_count else records.sent_count

    def _send(self, records: EncodedRecords, header: bytes) -> None:
        start = 0
        if self._sent_count == 0:
            start = 0 if records.has_header_record or not len(records) else 1
            value, key = (records.value(0), records.key(0)) if start else (None, None)
            self._send_one(key, value, headers=[(COMMIT_HEADER, header)])
        last = len(records) - 1
        for chunk_start in range(start, last, _CHUNK_RECORDS):
            self._send_chunk(records, chunk_start, min(chunk_start + _CHUNK_RECORDS, last))
            self._drain(_IN_FLIGHT_MAX)
        if last >= start:
            self._send_one(records.key(last), records.value(last))

    def _send_one(self, key: bytes | None, value: bytes | None, **more: Any) -> None:
        """Send a record whose delivery is reported.

        Reports come in log order, so that of the last record of a call shows where the call ends. A record that fails
        makes the transaction fail, even if its report is not read.
        """
        topic = self.partition.topic.name
        self._client.produce(topic, value, key, self.partition.number, on_delivery=self._delivered, **more)

    def _send_chunk(self, records: EncodedRecords, start: int, end: int) -> None:
        """Send records, of whose delivery only errors count."""
        values = records.value_column[start:end]
        keys = None if records.key_column is None else records.key_column[start:end]
        batch_function()(self._client, self.partition.topic.name, self.partition.number, keys, values)

    def flush(self) -> None:
        """Wait until the broker has all records of the transaction. Raises as `commit`."""
        with self._classifying("producing"):
            self._drain(0)

    def commit(self) -> int:
        """Commit and return the end offset: the last record's offset + 1.

        Raises FencedError when a younger producer has taken over, TransactionTimeoutError when the broker has aborted
        the transaction for its age, and UnknownOutcomeError for any other failure. It also raises UnknownOutcomeError,
        before it commits, if records of another writer are between the transaction and the one before it: a new
        producer reads them.
        """
        assert self._sent_count, "an empty transaction proves nothing"
        self.flush()
        self._check_alone()
        self._is_open = False
        with self._classifying("committing"):
            self._client.commit_transaction(ANSWER_SECONDS)
        self._open_for = None
        if self._last_offset is None:
            raise unknown_outcome("no delivery report came", self._doing("committing"), self.client_config)
        before, self._end = self._end, self._last_offset + 1
        if before is not None and self._end - self._sent_count < before:
            raise rewritten(self.partition, before, None)
        return self._end

    def _check_alone(self) -> None:
        if self._end is None or self._last_offset is None:
            return
        first = self._last_offset + 1 - self._sent_count
        next_offset = self._end + 1  # the marker of the last commit is between
        if first > next_offset and self._is_committed_between(next_offset, first):
            reason = f"offsets {next_offset} to {first - 1} are not of this producer, and nothing was committed"
            raise unknown_outcome(reason, self._doing("committing"), self.client_config)

    def _is_committed_between(self, start: int, end: int) -> bool:
        """Whether the range holds committed records; it may hold a marker of a killed coordinator alone."""
        try:
            with open_consumer(self.partition) as consumer:
                return any(consumer.read(start, end, ANSWER_SECONDS))
        except LakelogError as error:
            reason = f"what is in the offsets {start} to {end - 1} cannot be read, and nothing was committed"
            raise unknown_outcome(f"{reason}: {error}", self._doing("committing"), self.client_config) from error

    def close(self) -> None:
        """Abort the open transaction, if the broker answers at once, and free all resources. Never raises."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge()
            if self._is_open:
                producer.abort_transaction(_ABORT_SECONDS)
        except (KafkaException, SystemError):
            pass  # the next owner's fence aborts it
        # The client ends with its last reference; its own close() would wait for a broker that does not answer.

    def __enter__(self) -> TransactionalProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _client(self) -> Producer:
        assert self._producer is not None, "the producer is closed"
        return self._producer

    def _fence(self, size_bytes: int, patience: int) -> None:
        while True:
            self.timeout_millis = choose_timeout_millis(self.client_config, size_bytes, patience)
            self._producer = self._new_client()
            try:
                self._take_over()
            except KafkaException as error:
                code = error.args[0].code()
                is_too_long = code == KafkaError.INVALID_TRANSACTION_TIMEOUT
                if is_too_long and may_ask_for_less(self.client_config, self.timeout_millis):
                    continue
                raise self._error(error.args[0], "taking over") from error
            except SystemError as error:
                failed = KafkaError(KafkaError._FAIL, repr(error))
                raise kafka_error(failed, self._doing("taking over"), self.client_config) from error
            return

    def _take_over(self) -> None:
        try:
            connect(self._client, ANSWER_SECONDS, topic=self.partition.topic.name)
            self._client.init_transactions(ANSWER_SECONDS)
        except KafkaException as error:
            collect_errors(self._client)
            if not error.args[0].retriable() or not self._does_broker_answer():
                raise
            self._client.init_transactions(FENCE_SECONDS - ANSWER_SECONDS)

    def _does_broker_answer(self) -> bool:
        try:
            self._client.list_topics(self.partition.topic.name, _ABORT_SECONDS)
        except KafkaException:
            return False
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._delivery_error = self._delivery_error or error
        else:
            self._last_offset = message.offset()

    def _drain(self, in_flight_max: int) -> None:
        """Wait until few enough records are in flight, as long as some arrive every ANSWER_SECONDS."""
        in_flight = len(self._client)
        deadline = time.monotonic() + ANSWER_SECONDS
        self._client.poll(0)
        while (now_in_flight := len(self._client)) > in_flight_max:
            if self._delivery_error is not None:
                raise KafkaException(self._delivery_error)
            if now_in_flight < in_flight:
                in_flight, deadline = now_in_flight, time.monotonic() + ANSWER_SECONDS
            elif time.monotonic() > deadline:
                reason = f"{now_in_flight} records were not acknowledged for {ANSWER_SECONDS:.0f} s"
                raise unknown_outcome(reason, self._doing("producing"), self.client_config)
            if in_flight_max:
                self._client.poll(_POLL_SECONDS)
            else:
                self._client.flush(_POLL_SECONDS)  # which also sends waiting records

    @contextmanager
    def _classifying(self, doing: str) -> Iterator[None]:
        """Raise errors of the client as errors of lakelog.

        A call that meets a fatal error and then logs a line ends with a SystemError (confluent-kafka 2.16). The client
        never lets go of a fatal error, so that its traceback would keep the frames of the task, and their rows.
        """
        try:
            yield
        except (KafkaException, SystemError) as error:
            error.__traceback__ = None
            known = isinstance(error, KafkaException)
            found = error.args[0] if known else KafkaError(KafkaError._FAIL, repr(error))
            raise self._classified(found, doing) from error

    def _classified(self, error: KafkaError, doing: str) -> LakelogError:
        """FencedError, TransactionTimeoutError, or UnknownOutcomeError for everything else.

        A broker that has aborted a transaction for its age refuses the producer just as after a fence: only the
        transaction's age tells the two cases apart.
        """
        error = self._fatal_error() or error
        open_seconds = self._open_for.seconds() if self._open_for else 0.0
        if is_fenced(error) and open_seconds * 1000 >= self.timeout_millis:
            return too_slow(open_seconds, self.timeout_millis, self._doing(doing))
        if is_missing_right(error):
            return self._error(error, doing)
        if error.code() == KafkaError.INVALID_RECORD:
            self.close()
            return refused_record(self._doing(doing), self.client_config)
        return transaction_error(error, self._doing(doing), self.client_config)

    def _error(self, error: KafkaError, doing: str) -> LakelogError:
        right = topic_right("WRITE", self.partition.topic.name)
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            right = transactional_right(self.transactional_id[: self.transactional_id.rfind("-") + 1], is_prefix=True)
        return kafka_error(error, self._doing(doing), self.client_config, right=right)

    def _fatal_error(self) -> KafkaError | None:
        """The error that made the client unusable; None while it is usable.

        After a fatal error a client answers with only the code _FATAL; its transactional calls give the error itself.
        Called after a failure only: the producer is not used any more.
        """
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found if found.fatal() else None
        return None

    def _doing(self, doing: str) -> str:
        return f"{self.partition}: {doing} as {self.transactional_id}"
