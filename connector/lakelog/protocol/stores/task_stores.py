"""The ports of a task, implemented for the real stores: a Paimon table's files and its Kafka topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lakelog.common.clock import Stopwatch
from lakelog.filestore.io import LaterSyncs
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import FileNames
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.offsets import Position
from lakelog.logstore.kafka.clients.transaction_timeout import choose_timeout_millis
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.epochs import headers_at
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.state.header import BucketFile, CommitHeader, LogMark
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.ports import BucketTail, LoggedTransaction, PartBase, PreparedBucket, Producer
from lakelog.protocol.state.state import LogPosition, TableState
from lakelog.protocol.stores.encoded_parts import TURN, Encoded
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import write_changelog, write_level0
from lakelog.protocol.stores.table_states import newest_state


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The file store for a task."""

    table: TableStore
    target: LogTarget

    def newest(self) -> TableState:
        """The newest snapshot, read now."""
        return newest_state(self.table, topic_id=self.target.topic_id)

    def first_missing(self, bucket: int, files: Iterable[BucketFile]) -> str | None:
        """The path of the first missing one of these files; None without any."""
        paths = (self.table.data_path(file.bucket_id(bucket), file.meta) for file in files)
        return next((path for path in paths if not self.table.file_io.exists(path)), None)

    def prepare(self, bucket: int, rows: Encoded, base: PartBase) -> PreparedBucket[EncodedRecords]:
        """Write level-0 files and changelog files, one set per partition. `rows` may still be in preparation.

        Files without records get a header record, see `TransactionalProducer.produce`.
        """
        encoded = rows(base)
        first_sequence = base.first_sequence
        names, later = FileNames(), LaterSyncs()
        files: list[BucketFile] = []
        changelog: list[BucketFile] = []
        with TURN, later.collected():
            age = Stopwatch()
            for (bucket_id, staying), changes in zip_longest(encoded.parts, encoded.changes):
                assert bucket_id.number == bucket, "the rows are of another bucket"
                metas = write_level0(self.table, bucket_id, staying, first_sequence=first_sequence, names=names)
                files.extend(BucketFile(partition=bucket_id.partition, meta=meta) for meta in metas)
                if changes is not None:
                    metas = write_changelog(self.table, bucket_id, changes, first_sequence=first_sequence, names=names)
                    changelog.extend(BucketFile(partition=bucket_id.partition, meta=meta) for meta in metas)
                first_sequence += staying.given_count
        return PreparedBucket(
            files=tuple(files),
            changelog=tuple(changelog),
            record_count=encoded.records.sent_count if files or len(encoded.records) else 0,
            size_bytes=encoded.records.size_bytes,
            payload=encoded.records,
            age_seconds=age.seconds,
            make_durable=later.sync,
            mark=LogMark.UNTRACKED if encoded.records.has_header_record else None,
        )


class TaskProducer:
    """A bucket's transactional producer, as the protocol's port. Its transactions may take `timeout_millis`."""

    def __init__(self, producer: TransactionalProducer, headers: HeaderFiles) -> None:
        self._producer = producer
        self._headers = headers
        self._begun: tuple[EncodedRecords, bytes] | None = None
        self.timeout_millis = producer.timeout_millis
        self.flush = producer.flush
        self.commit = producer.commit
        self.close = producer.close

    def begin(self, payload: EncodedRecords, header: CommitHeader) -> None:
        """Open a transaction; a header that does not fit into the first record first becomes a file.

        Raises InvalidRequestError for a record that the topic would refuse.
        """
        limit = self._producer.limit
        limit.check(payload)
        self._begun = (payload, self._headers.write(header, limit.header_room(payload)))
        self._producer.begin()

    def produce(self) -> None:
        """Send the records; the first carries the header."""
        assert self._begun is not None, "begin a transaction first"
        payload, header = self._begun
        self._begun = None  # a kept producer keeps no records
        with TURN:
            self._producer.produce(payload, header)


@dataclass(frozen=True, slots=True)
class TaskLog:
    """The log of one table for a task.

    `size_bytes` is the memory of the rows of all its buckets: they share the connection to the broker, so one
    transaction may take as long as all together.
    """

    table: TableStore
    target: LogTarget
    size_bytes: int = 0

    def fence(self, bucket: int, *, patience: int) -> TaskProducer:
        """A new producer for `bucket`. Raises UnavailableError when the broker does not answer."""
        return TaskProducer(
            TransactionalProducer(
                self.target.topic.partition(bucket),
                f"{self.table.uuid}-{bucket}",
                size_bytes=self.size_bytes,
                patience=patience,
            ),
            HeaderFiles(self.table),
        )

    def fits(self, producer: Producer[EncodedRecords]) -> bool:
        """Whether a kept producer's transactions may take as long as this task's rows need."""
        assert isinstance(producer, TaskProducer)
        return producer.timeout_millis >= choose_timeout_millis(self.target.topic.client_config, self.size_bytes)

    def read_tail(self, bucket: int, position: LogPosition) -> BucketTail:
        """Every committed transaction from a position up to the present high watermark."""
        return self._tail(bucket, position.offset, _known(position), end=None)

    def committed(self, bucket: int, offset: int, position: LogPosition, end: Position) -> BucketTail:
        """Every transaction from an offset at or behind a snapshot's position up to a last stable offset."""
        return self._tail(bucket, offset, _known(position), end=end)

    def _tail(self, bucket: int, offset: int, known: Position, end: Position | None) -> BucketTail:
        partition = self.target.topic.partition(bucket)
        headers, found = HeaderFiles(self.table), dict[int, CommitHeader]()

        def read(first_offset: int, data: bytes) -> CommitHeader:
            if first_offset not in found:
                found[first_offset] = headers.read(data, where=f"{partition}, offset {first_offset}")
            return found[first_offset]

        tail = read_tail(partition, offset, known=known, end=end, count_of=lambda at, data: read(at, data).record_count)
        return BucketTail(
            transactions=tuple(
                LoggedTransaction(
                    header=read(one.first_offset, one.header),
                    first_offset=one.first_offset,
                    end_offset=one.end_offset,
                    record_count=one.record_count,
                )
                for one in tail.transactions
            ),
            high_watermark=tail.high_watermark,
            leader_epoch=tail.leader_epoch,
            epoch_offset=tail.epoch_offset,
        )

    def holds(self, bucket: int, transactions: Sequence[tuple[CommitHeader, int]]) -> bool:
        """Whether the log has these transactions, each up to its end. Raises what a read of the log raises."""
        partition = self.target.topic.partition(bucket)
        by_first = {end - header.record_count: header for header, end in transactions}
        found = headers_at(partition, {first: header.size_bytes for first, header in by_first.items()})
        headers = HeaderFiles(self.table)
        return all(
            first in found
            and headers.read(found[first], where=f"{partition}, offset {first}").to_bytes() == header.to_bytes()
            for first, header in by_first.items()
        )


def _known(position: LogPosition) -> Position:
    return Position(offset=position.epoch_offset, leader_epoch=position.leader_epoch)
