"""Listing and ending the open transactions in the log of a table.

lakelog's own transactions are ended by a fence, as the next writer of the bucket would do: Kafka aborts the
transaction, and a writer that is alive starts the batch again. Others have unknown transactional ids, or Kafka's
coordinator has lost them (KIP-664); Apache Kafka's command ends them, which is not safe while their writer is alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, LakelogError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import is_local
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.open_transactions import OpenTransaction, abort_command, open_transactions
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.header_files import HeaderFiles

AGE_MILLIS_MIN = 15 * 60_000  # Kafka's default of transaction.max.timeout.ms: it aborts younger ones itself


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTransaction:
    """An open transaction, which hides the records of a bucket from `first_offset` to `high_watermark` (exclusive).

    `age_millis` is the time since its first record, None if the record has no time. `user` and `batch_id` are known for
    lakelog's transactions, None for others. `command` ends the transaction, with Apache Kafka's own tool.
    """

    bucket: int
    first_offset: int
    high_watermark: int
    age_millis: int | None
    user: str | None
    batch_id: int | None
    command: str

    @property
    def is_own(self) -> bool:
        """Whether a lakelog writer has opened it."""
        return self.user is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransactions:
    """The result of `end_transactions`: those that were aborted, and those that are still open."""

    ended: tuple[LogTransaction, ...]
    left: tuple[LogTransaction, ...]


def list_transactions(
    table: FileStoreTable, log: TableLog, *, clock: Callable[[], int] = system_millis
) -> list[LogTransaction]:
    """The oldest open transaction of each bucket that has one.

    Raises CorruptDataError for another topic with the log's name, NotFoundError without the topic, UnavailableError.
    """
    log.check_topic()
    now_millis = clock()
    found = open_transactions(kafka_topic(log), range(table.bucket_count))
    return [_described(table, log, one, now_millis) for one in found]


def end_transactions(
    table: FileStoreTable,
    log: TableLog,
    *,
    age_millis_min: int = AGE_MILLIS_MIN,
    clock: Callable[[], int] = system_millis,
) -> EndedTransactions:
    """Abort the open transactions that are at least this old, and those after them. Raises like `list_transactions`.

    Transactions that a fence does not end are aborted on the embedded broker; on other brokers they are left.
    """
    asked: dict[tuple[int, int], LogTransaction] = {}
    tried: set[tuple[int, int]] = set()
    while True:
        found = list_transactions(table, log, clock=clock)
        old = [one for one in found if one.age_millis is None or one.age_millis >= age_millis_min]
        new = [one for one in old if (one.bucket, one.first_offset) not in tried]
        if not new:
            break
        for one in new:
            tried.add((one.bucket, one.first_offset))
            asked[one.bucket, one.first_offset] = one
            _end(table, log, one)
    open_now = {(one.bucket, one.first_offset) for one in found}
    ended = tuple(one for place, one in asked.items() if place not in open_now)
    return EndedTransactions(ended=ended, left=tuple(found))


def _end(table: FileStoreTable, log: TableLog, transaction: LogTransaction) -> None:
    """Fence the writer of a lakelog transaction, then ask the embedded broker if that did not help.

    Raises ConflictError if the broker does not end it.
    """
    if transaction.is_own:
        partition = kafka_topic(log).partition(transaction.bucket)
        with TransactionalProducer(partition, f"{table.uuid}-{transaction.bucket}"):
            pass
    broker = _embedded_broker(log)
    if broker is None or not _is_open(log, transaction):
        return
    failure = broker.abort_transaction(log.topic, transaction.bucket, transaction.first_offset)
    if failure is not None and _is_open(log, transaction):
        raise ConflictError(
            f"topic {log.topic}, partition {transaction.bucket}: the broker does not end the transaction at offset "
            f"{transaction.first_offset}: {failure}; list the transactions again"
        )


def _is_open(log: TableLog, transaction: LogTransaction) -> bool:
    found = open_transactions(kafka_topic(log), [transaction.bucket])
    return any(one.first_offset == transaction.first_offset for one in found)


def _embedded_broker(log: TableLog) -> EmbeddedBroker | None:
    """The running broker of the table's warehouse, if it has the log."""
    if not is_local(log.warehouse):
        return None
    broker = EmbeddedBroker(Path(log.warehouse))
    running = broker.status()
    return broker if running is not None and running.bootstrap_servers == log.bootstrap_servers else None


def _described(table: FileStoreTable, log: TableLog, found: OpenTransaction, now_millis: int) -> LogTransaction:
    user, batch_id = _batch_of(table, log, found)
    return LogTransaction(
        bucket=found.partition,
        first_offset=found.first_offset,
        high_watermark=found.high_watermark,
        age_millis=None if found.time_millis is None else max(0, now_millis - found.time_millis),
        user=user,
        batch_id=batch_id,
        command=abort_command(kafka_topic(log), found.partition, found.first_offset),
    )


def _batch_of(table: FileStoreTable, log: TableLog, found: OpenTransaction) -> tuple[str | None, int | None]:
    """User and batch of the header; None for a header of another program, which need not be readable."""
    if found.header is None:
        return None, None
    try:
        where = f"topic {log.topic}, partition {found.partition}, offset {found.first_offset}"
        mark = HeaderFiles(table).read_mark(found.header, where=where)
    except LakelogError:
        return None, None
    return (None, None) if mark is None else (mark.user, mark.identifier)
