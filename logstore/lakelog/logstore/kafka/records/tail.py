"""The tail of a topic partition behind an offset, as transactions. Committed records only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Message

from lakelog.common.errors import CorruptDataError
from lakelog.logstore.errors import SKIP_UNREADABLE
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.offsets import Position, high_watermark
from lakelog.logstore.kafka.clients.record_limit import COMMIT_HEADER
from lakelog.logstore.kafka.records.consumer import commit_header, open_consumer, truncated
from lakelog.logstore.kafka.records.epochs import check_not_rewritten

CountOf = Callable[[int, bytes], int]  # (offset, header) -> how many records the transaction has

_SEEK_RECORDS_MIN = 400  # a seek takes about as long as this many records


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTransaction:
    """One committed transaction, which begins with the record that has the header. `end_offset` is exclusive."""

    header: bytes
    first_offset: int
    end_offset: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The committed transactions from a base offset to the high watermark, in log order.

    The log had reached `epoch_offset` in `leader_epoch`.
    """

    transactions: tuple[TailTransaction, ...]
    high_watermark: int
    leader_epoch: int | None
    epoch_offset: int


def read_tail(
    partition: KafkaPartition,
    base: int,
    *,
    known: Position | None = None,
    end: Position | None = None,
    timeout_seconds: float = 10.0,
    count_of: CountOf | None = None,
) -> Tail:
    """The tail from `base` to the high watermark; call it after the fence, so that no older transaction is still open.

    Without a fence, `end` is the last stable offset: what is committed before it does not change.

    `base` is 0, or the offset after the last record of a committed transaction, whose control record is at `base` or
    behind it: if the log holds one more offset, it is this control record, and nothing is read. `known` is an earlier
    offset of the log and its leader epoch: if the current epoch differs, the log is checked to be still the same.
    With `count_of` only the headers of large transactions are read: the next one is so many records away. Where one is
    not there, all records are read, and counted.

    Raises StalledError when an open transaction hides records for `timeout_seconds`, LogTruncatedError when the
    partition does not hold `base`, LogRewrittenError when it may hold other records before `base`, CorruptDataError
    when the first record has no header.
    """
    newest = high_watermark(partition) if end is None else end
    if base > newest.offset:
        raise truncated(partition, f"offset {base}", 0, newest.offset, is_tail=True)
    if known is not None and newest.leader_epoch not in (None, known.leader_epoch):
        check_not_rewritten(partition, known)
    if newest.offset == base or (base and newest.offset == base + 1):
        return _tail((), newest.offset, newest)
    if count_of is not None and newest.offset - base >= _SEEK_RECORDS_MIN:
        found = _by_headers(partition, base, newest, timeout_seconds, count_of)
        if found is not None:
            return found
    with open_consumer(partition) as consumer:
        builder = _TailBuilder(partition)
        for messages in consumer.read(base, newest.offset, timeout_seconds, is_tail=True):
            builder.add(messages)
        reached = consumer.position
    assert reached is not None
    return _tail(builder.finish(), reached, newest)


def _by_headers(
    partition: KafkaPartition, base: int, newest: Position, timeout_seconds: float, count_of: CountOf
) -> Tail | None:
    """The tail by its headers alone; None where one is not where the header before it says, and for small transactions.

    As many seeks as there are transactions never take longer than all records, by the transactions so far.
    """
    found: list[TailTransaction] = []
    end = base  # where the records of the last transaction end; a control record follows
    with open_consumer(partition, is_single=True) as consumer:
        for messages in consumer.read(base, newest.offset, timeout_seconds, is_tail=True):
            for message in messages:
                header, offset = commit_header(message), message.offset() or 0
                if header is None and offset < end:
                    continue
                if header is None or offset < end + bool(found):
                    return None
                count = count_of(offset, header)
                end = offset + count
                found.append(TailTransaction(header=header, first_offset=offset, end_offset=end, record_count=count))
                if end - base < len(found) * _SEEK_RECORDS_MIN:
                    return None
                if end <= newest.offset:
                    consumer.move_to(end)
        reached = consumer.position
    assert reached is not None
    return _tail(tuple(found), reached, newest) if end + bool(found) <= reached else None


def begun_transactions(
    partition: KafkaPartition, base: int, *, timeout_seconds: float = 10.0
) -> tuple[tuple[TailTransaction, ...], Position]:
    """The transactions of a tail before the first record that belongs to none, and the high watermark.

    Records of another program behind a transaction count as part of it. Arguments and errors are those of `read_tail`,
    except the CorruptDataError.
    """
    newest = high_watermark(partition)
    if newest.offset <= base + (1 if base else 0):
        return (), newest
    builder = _TailBuilder(partition)
    with open_consumer(partition) as consumer, suppress(CorruptDataError):
        for messages in consumer.read(base, newest.offset, timeout_seconds, is_tail=True):
            builder.add(messages)
    return builder.finish(), newest


def _tail(transactions: tuple[TailTransaction, ...], high_watermark: int, asked: Position) -> Tail:
    return Tail(
        transactions=transactions,
        high_watermark=high_watermark,
        leader_epoch=asked.leader_epoch,
        epoch_offset=asked.offset,
    )


def first_transaction(partition: KafkaPartition, start: int, end: int, *, timeout_seconds: float = 10.0) -> int | None:
    """The offset of the first record from `start` on that begins a committed transaction; None without one.

    Call it after the fence. Raises as `read_tail`.
    """
    if start >= end:
        return None
    with open_consumer(partition) as consumer:
        for messages in consumer.read(start, end, timeout_seconds, is_tail=True):
            for message in messages:
                if commit_header(message) is not None:
                    return message.offset()
    return None


class _TailBuilder:
    """Groups records by transaction: records without header belong to the transaction before them."""

    def __init__(self, partition: KafkaPartition) -> None:
        self._partition = partition
        self._transactions: list[TailTransaction] = []
        self._header: bytes | None = None
        self._first_offset = 0
        self._end_offset = 0
        self._record_count = 0

    def add(self, messages: Sequence[Message]) -> None:
        """Add the next records. Raises CorruptDataError."""
        for message in messages:
            header, offset = commit_header(message), message.offset()
            assert offset is not None
            if header is not None:
                self._end_transaction()
                self._header, self._first_offset = header, offset
            elif self._header is None:
                raise CorruptDataError(
                    f"{self._partition}: the record at offset {offset} belongs to no transaction of lakelog, the first"
                    f" record of which has the header {COMMIT_HEADER!r}; nothing else may write to this topic. "
                    f"{SKIP_UNREADABLE}"
                )
            self._end_offset = offset + 1
            self._record_count += 1

    def finish(self) -> tuple[TailTransaction, ...]:
        """All transactions, in log order."""
        self._end_transaction()
        return tuple(self._transactions)

    def _end_transaction(self) -> None:
        if self._header is not None:
            transaction = TailTransaction(
                header=self._header,
                first_offset=self._first_offset,
                end_offset=self._end_offset,
                record_count=self._record_count,
            )
            self._transactions.append(transaction)
        self._header, self._record_count = None, 0
