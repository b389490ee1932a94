"""Reads of a range of offsets of a topic partition. Committed records only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from lakelog.common.errors import UnavailableError
from lakelog.common.patience import Patience
from lakelog.common.types import ROW_KIND_COLUMN, DataField
from lakelog.logstore.codec.log_codec import codec_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.records.authors import LiveRecords, OnAuthor
from lakelog.logstore.kafka.records.consumer import HoldsNothing, commit_header, nothing_known, open_consumer
from lakelog.logstore.kafka.records.read_ahead import Ahead

OFFSET_COLUMN = "_offset"
TIMESTAMP_COLUMN = "_timestamp"
NO_BATCHES: Mapping[str, int] = MappingProxyType({})
_TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")

OnHeader = Callable[[int, bytes], None]  # (offset, header) of the first record of a transaction

CheckHeader = Callable[[bytes, str], None]  # the header of a header record, and its place for messages

logger = logging.getLogger("lakelog.logstore")


def read_range(
    partition: KafkaPartition,
    fields: Sequence[DataField],
    *,
    start: int,
    end: int,
    batch_rows: int = 65_536,
    with_offset: bool = False,
    with_timestamp: bool = False,
    on_header: OnHeader | None = None,
    timeout_seconds: float = 10.0,
    holds_nothing: HoldsNothing = nothing_known,
    patience: Patience | None = None,
    ahead: Ahead | None = None,
    done: Mapping[str, int] = NO_BATCHES,
    check_header: CheckHeader | None = None,
    on_author: OnAuthor | None = None,
) -> Generator[pa.RecordBatch]:
    """The committed changes in [start, end): columns, `_row_kind` (int8), `_offset`, `_timestamp` on request.

    `on_header` is called for each transaction that begins in the range, before its rows. `check_header` is called with
    the header of each header record and its place, and may raise. A batch has about `batch_rows` rows. The consumer
    stays open in this process for the next range. `holds_nothing` tests deleted offsets at the start, if the log itself
    does not show that they held no record. With `patience` requests to a broker that does not answer are repeated.
    `ahead` are the first records of the range, which were read already, see `read_ahead`. In an eventual log, records
    of a user's older batches are left out, see `LiveRecords`, which uses `done`; `on_author` is called where the
    records of another batch begin. Raises LogTruncatedError, StalledError when nothing comes for `timeout_seconds`
    before `end`, CorruptDataError, UnavailableError.
    """
    columns = [
        name for name, is_asked in ((OFFSET_COLUMN, with_offset), (TIMESTAMP_COLUMN, with_timestamp)) if is_asked
    ]
    gathered: list[Message] = []
    pieces = _pieces(
        partition, start if ahead is None else ahead.position, end, timeout_seconds, holds_nothing, patience
    )
    live = None if partition.topic.is_transactional else LiveRecords(partition, done, on_author)
    for messages in pieces if ahead is None else chain([ahead.messages], pieces):
        if on_header is not None:
            _give_headers(messages, on_header)
        gathered += messages if live is None else live.passing(messages)
        if len(gathered) >= batch_rows:
            yield from _record_batches(partition, gathered, fields, columns, check_header)
            gathered = []
    if gathered:
        yield from _record_batches(partition, gathered, fields, columns, check_header)


def _give_headers(messages: Sequence[Message], on_header: OnHeader) -> None:
    for message in messages:
        header, offset = commit_header(message), message.offset()
        if header is not None and offset is not None:
            on_header(offset, header)


def _pieces(  # noqa: PLR0917  # the arguments of `read_range`
    partition: KafkaPartition,
    start: int,
    end: int,
    timeout_seconds: float,
    holds_nothing: HoldsNothing,
    patience: Patience | None,
) -> Iterator[list[Message]]:
    """The committed records of a range in lists, with a new consumer after each error that `patience` allows."""
    while start < end:
        try:
            with open_consumer(partition) as consumer:
                for messages in consumer.read(start, end, timeout_seconds, holds_nothing=holds_nothing):
                    assert consumer.position is not None
                    start = consumer.position
                    yield messages
                    if patience is not None:  # independent of the caller's work on the records
                        patience.succeeded()
                return
        except UnavailableError as error:
            if patience is None:
                raise
            logger.info("reading %s goes on at offset %d: %s", partition, start, error)
            patience.bear(error)


def _record_batches(
    partition: KafkaPartition,
    messages: Sequence[Message],
    fields: Sequence[DataField],
    columns: Sequence[str],
    check_header: CheckHeader | None,
) -> Iterator[pa.RecordBatch]:
    """The changes of records, with these columns added to them; no rows for header records."""
    values = [message.value() for message in messages]
    if check_header is not None and None in values:
        for message in (messages[number] for number, value in enumerate(values) if value is None):
            header = commit_header(message)
            if header is not None:
                check_header(header, f"{partition}, offset {message.offset()}")
    changes = codec_of(partition.topic.format).decode_records(
        values,
        fields,
        name=lambda number: f"{partition}, offset {messages[number].offset()}",
    )
    table = changes.rows.append_column(pa.field(ROW_KIND_COLUMN, pa.int8(), nullable=False), pa.array(changes.kinds))
    if OFFSET_COLUMN in columns:
        offsets = np.array([message.offset() for message in messages], np.int64)[changes.records]
        table = table.append_column(pa.field(OFFSET_COLUMN, pa.int64(), nullable=False), pa.array(offsets))
    if TIMESTAMP_COLUMN in columns:
        times = np.array([message.timestamp()[1] for message in messages], np.int64)[changes.records]
        shown = pa.array(times, mask=times < 0).cast(_TIMESTAMP_TYPE)  # -1: the topic keeps none
        table = table.append_column(pa.field(TIMESTAMP_COLUMN, _TIMESTAMP_TYPE), shown)
    yield from table.combine_chunks().to_batches()
