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
from lakelog.common.errors import LakelogError, NotFoundError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import is_local
from lakelog.logstore.broker.abort_transaction import abort_transaction
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS
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
    """Fence the writer of a lakelog transaction, then ask the embedded broker if that did not help."""
    if transaction.is_own:
        partition = kafka_topic(log).partition(transaction.bucket)
        with TransactionalProducer(partition, f"{table.uuid}-{transaction.bucket}"):
            pass
    still = open_transactions(kafka_topic(log), [transaction.bucket])
    address = _embedded_address(log)
    if address is None or all(one.first_offset != transaction.first_offset for one in still):
        return
    host, port = address
    try:
        abort_transaction(
            host,
            port,
            topic=log.topic,
            partition=transaction.bucket,
            first_offset=transaction.first_offset,
            seconds=ANSWER_SECONDS,
        )
    except NotFoundError:
        return  # it has ended meanwhile


def _embedded_address(log: TableLog) -> tuple[str, int] | None:
    """Host and port of the embedded broker of the table's warehouse, if it has the log."""
    if not is_local(log.warehouse):
        return None
    running = EmbeddedBroker(Path(log.warehouse)).status()
    if running is None or running.bootstrap_servers != log.bootstrap_servers:
        return None
    host, _, port = running.bootstrap_servers.rpartition(":")
    return host, int(port)


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
