"""The ports, implemented for the real stores: a Paimon table's files and its Kafka topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.common.types import RowKind
from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.compact import CompactResult, compact_request
from lakelog.filestore.encoding import serialize_row
from lakelog.filestore.metadata.manifests import BucketId, ManifestEntry
from lakelog.filestore.metadata.snapshots import (
    LINEAGE_KEY,
    LOG_STATE_KEY,
    UNTRACKED_KEY,
    CommitKind,
    CommitUser,
    Snapshot,
    forgotten_millis,
    parse_users,
    users_properties,
)
from lakelog.filestore.metadata.tables import (
    PLACE_KEY,
    OutdatedSnapshotError,
    TableStore,
    carried_by,
    foreign_rows_text,
    snapshot_with_rows,
)
from lakelog.filestore.options import USERS_TIME_RETAINED
from lakelog.filestore.schema import FileNames
from lakelog.filestore.write import add_entry, check_kinds_taken, check_table_writable, written_kinds
from lakelog.logstore.codec.debezium import NO_RECORDS, EncodedRecords, encode_changes
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import Position
from lakelog.logstore.kafka.clients.record_limit import record_limit
from lakelog.logstore.kafka.clients.transaction_timeout import choose_timeout_millis
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.reader import read_tail
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.state.change_tracking import EVERYTHING_TRACKED, ChangeTracking
from lakelog.protocol.state.header import BucketFile, CommitHeader, LogMark
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.log_generations import ended_generations, other_log_text, state_of_log
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.state.logged_rows import (
    BucketRows,
    ResolvedRows,
    StayingRows,
    split_rows,
    staying_rows,
    write_changelog,
    write_level0,
)
from lakelog.protocol.state.moved_parts import rows_left
from lakelog.protocol.state.ports import (
    BucketTail,
    Decide,
    LoggedTransaction,
    PartBase,
    PreparedBucket,
    Producer,
    SnapshotChange,
)
from lakelog.protocol.state.prepared import STATEMENT_RETAINED_MILLIS, PreparedCommits, user_of, without_old_statements
from lakelog.protocol.state.removing import without_removed
from lakelog.protocol.state.resolving import resolve
from lakelog.protocol.state.state import Batch, LogPosition, LogState, TableState

# Each bucket of a task has its own thread, to wait for the broker in parallel. Computations take turns: threads that
# compete for the interpreter take a third more time for the same work.
_turn = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """The settings with which a task opens a table's log: small when pickled, and with secrets, so never printed.

    `unavailable_seconds` is how long a task retries when the log does not answer, `tracking` which changes are logged.
    """

    topic: KafkaTopic
    topic_id: str
    mode: ChangelogMode
    unavailable_seconds: float = 0.0
    tracking: ChangeTracking = EVERYTHING_TRACKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Checked rows of one bucket in arrival order, in the table's columns.

    `kinds` are RowKind values as int8; None means that all are +I.
    """

    rows: pa.Table
    kinds: pa.Array | None


class OtherLogError(NotFoundError):
    """A snapshot belongs to another log than the one that the table has, or had when it was opened."""


def read_state(
    table: TableStore, snapshot: Snapshot | None, *, topic_id: str | None, allows_foreign: bool = False
) -> TableState:
    """The users and the log state of `snapshot`; None is the state before the first. `topic_id` None means no log.

    COMPACT snapshots of other engines have no state of lakelog: it is read from the newest snapshot before them. Raises
    OtherLogError, and unless `allows_foreign`, UnsupportedError for rows of another engine in a logged table, which are
    not in the log.
    """
    carried = carried_by(table, snapshot)
    log = None
    if topic_id is not None:
        if not allows_foreign:
            _check_foreign(table, carried.foreign)
        where = f"table {table.path}, snapshot {snapshot.id if snapshot else 0}"
        found = state_of_log(carried.properties, where=where)
        is_new = not carried.properties or not table.has_log  # a table that gets its log has snapshots without a state
        log = LogState(topic_id=topic_id) if found is None and is_new else found
        if log is None or log.topic_id != topic_id:
            raise OtherLogError(
                other_log_text(
                    where,
                    found="" if log is None else log.topic_id,
                    expected=topic_id,
                    ended=ended_generations(carried.properties, where=where),
                )
            )
    snapshot_id = 0 if snapshot is None else snapshot.id
    return TableState(
        snapshot_id=snapshot_id,
        users=parse_users(carried.properties),
        log=log,
        forgotten_millis=forgotten_millis(carried.properties),
        place=None if log is None else carried.properties.get(PLACE_KEY) or table.schema.options.get(PLACE_KEY),
    )


def newest_state(table: TableStore, *, topic_id: str | None, allows_foreign: bool = False) -> TableState:
    """The users and the log state of the newest snapshot, read now. Raises like `read_state`."""
    while True:
        try:
            latest = table.snapshots.latest()
            return read_state(table, latest, topic_id=topic_id, allows_foreign=allows_foreign)
        except OutdatedSnapshotError:  # there is a newer one now
            continue


def _check_foreign(table: TableStore, foreign: Sequence[Snapshot]) -> None:
    found = snapshot_with_rows(table, foreign)
    if found is not None:
        raise UnsupportedError(foreign_rows_text(table.path, found))


def states_of(table: TableStore, *, topic_id: str | None) -> Iterator[tuple[Snapshot, TableState]]:
    """Every living snapshot, oldest first, with its users and log state."""
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        yield snapshot, read_state(table, snapshot, topic_id=topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedChanges:
    """A bucket's part of a batch before it has sequence numbers: the staying rows, by partition, and its records.

    `changes` has those of the same partitions if they also go to changelog files; else there are none.
    """

    parts: tuple[tuple[BucketId, StayingRows], ...]
    records: EncodedRecords
    changes: tuple[ResolvedRows, ...] = ()


NO_CHANGES = EncodedChanges(parts=(), records=NO_RECORDS)
Encoded = Callable[[PartBase], EncodedChanges]
"""Makes a bucket's part on what the bucket has; asked behind the fence, and again when others have moved it on."""


def encode_part(table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows, base: PartBase) -> EncodedChanges:
    """Make the part from rows that `validate_rows` has checked, without rows that `base` has.

    Raises like `encode_bucket`, and NotFoundError.
    """
    if base.written:
        left = rows_left(table.schema, rows.rows, base.written)
        rows = ChangeRows(rows=rows.rows.filter(left), kinds=None if rows.kinds is None else rows.kinds.filter(left))
        if not rows.rows.num_rows:
            return NO_CHANGES
    if table.schema.looks_up_old_rows:
        return resolve_bucket(table, target, bucket, rows, base)
    return encode_bucket(table, target, bucket, rows)


def resolve_bucket(
    table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows, base: PartBase
) -> EncodedChanges:
    """Look up the rows that the keys have, and encode what changes; for tables that look up rows at each write.

    Raises NotFoundError for files that have expired, and like `encode_bucket`.
    """
    check_table_writable(table)
    check_loggable(table.schema, table_name=table.name)
    with _turn:
        parts = _by_partition(table, bucket, rows.rows, _kinds(table, rows))
        found = [(part.bucket_id, resolve(table, part, base)) for part in parts]
        changes = pa.concat_tables([one.changes for _, one in found])
        kinds = pa.chunked_array([one.kinds for _, one in found], pa.int8())
        return EncodedChanges(
            parts=tuple((bucket_id, one.staying) for bucket_id, one in found),
            records=tracked_records(table, target, changes, kinds),
            changes=tuple(one for _, one in found) if table.schema.has_changelog_at_write else (),
        )


def encode_bucket(table: TableStore, target: LogTarget, bucket: int, rows: ChangeRows) -> EncodedChanges:
    """Encode the records of rows that `validate_rows` has checked. Logs nothing.

    Raises InvalidRequestError for row kinds that are invalid or that the table does not take, UnsupportedError for a
    table that cannot have a log.
    """
    check_table_writable(table)
    check_loggable(table.schema, table_name=table.name)
    with _turn:
        given = _kinds(table, rows)
        parts = tuple(
            (part.bucket_id, staying_rows(table, part.rows, part.kinds))
            for part in _by_partition(table, bucket, rows.rows, given)
        )
        logged, kinds = (rows.rows, given) if target.mode is ChangelogMode.ALL else _last_changes(parts)
        return EncodedChanges(parts=parts, records=tracked_records(table, target, logged, kinds))


def _records_of(
    table: TableStore, target: LogTarget, rows: pa.Table, kinds: pa.Array | pa.ChunkedArray | None
) -> EncodedRecords:
    """The records of changes in the table's columns, in order; `kinds` None means that all are +I."""
    limit = record_limit(target.topic)
    return encode_changes(
        rows,
        kinds,
        table.schema.fields,
        table.schema.primary_keys,
        target.mode,
        update_bytes_max=limit.record_bytes,
    )


def tracked_records(
    table: TableStore, target: LogTarget, rows: pa.Table, kinds: pa.Array | pa.ChunkedArray
) -> EncodedRecords:
    """The records of the tracked changes, after a header record if some changes are not tracked."""
    is_logged = target.tracking.logged(rows, table.schema)
    if is_logged is None:
        return _records_of(table, target, rows, kinds)
    records = _records_of(table, target, rows.filter(is_logged), kinds.filter(is_logged))
    return replace(records, has_header_record=True)


def _kinds(table: TableStore, rows: ChangeRows) -> pa.Array:
    """The kinds of rows (int8), checked for the table."""
    kinds = written_kinds(table.schema, rows.rows, rows.kinds, table_name=table.name)
    check_kinds_taken(table, kinds)
    return kinds


def _by_partition(table: TableStore, bucket: int, rows: pa.Table, kinds: pa.Array) -> Sequence[BucketRows]:
    if not table.schema.partition_keys:
        return [BucketRows(bucket_id=BucketId(serialize_row([], []), bucket), rows=rows, kinds=kinds)]
    parts = split_rows(table, rows, kinds)
    assert all(part.bucket_id.number == bucket for part in parts), "the task was given another bucket's rows"
    return parts


def _last_changes(parts: Sequence[tuple[BucketId, StayingRows]]) -> tuple[pa.Table, pa.ChunkedArray]:
    """The last change of each key. A key whose last change is -U is not in the files, so its record is a delete."""
    kinds = pa.chunked_array([newest.kinds for _, newest in parts], pa.int8())
    is_deleted = pc.equal(kinds, pa.scalar(RowKind.UPDATE_BEFORE.value, pa.int8()))
    deletes = pc.if_else(is_deleted, pa.scalar(RowKind.DELETE.value, pa.int8()), kinds)
    return pa.concat_tables([newest.rows for _, newest in parts]), deletes


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
        names = FileNames()
        files: list[BucketFile] = []
        changelog: list[BucketFile] = []
        with _turn:
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
        with _turn:
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
        known = Position(offset=position.epoch_offset, leader_epoch=position.leader_epoch)
        partition = self.target.topic.partition(bucket)
        tail = read_tail(partition, position.offset, known=known)
        headers = HeaderFiles(self.table)
        return BucketTail(
            transactions=tuple(
                LoggedTransaction(
                    header=headers.read(one.header, where=f"{partition}, offset {one.first_offset}"),
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


@dataclass(frozen=True, slots=True)
class DriverSnapshots:
    """The file store for the driver. `topic_id` None means a table without a log.

    `kafka` are the user's own settings of Kafka clients, for the expiry of the log. `allows_foreign` is that of
    `read_state`.
    """

    table: TableStore
    topic_id: str | None
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    allows_foreign: bool = False

    def newest(self) -> TableState:
        """The newest snapshot, read now."""
        return newest_state(self.table, topic_id=self.topic_id, allows_foreign=self.allows_foreign)

    def append(self, batch: Batch, decide: Decide) -> int | None:
        """Make an APPEND snapshot of the change that `decide` gives; it is called again at every attempt."""

        def resolve(latest: Snapshot | None) -> CommitRequest | None:
            change = decide(self._state(latest))
            return None if change is None else self._request(batch, change, latest)

        snapshot = TableCommit(self.table).commit(resolve)
        return None if snapshot is None else snapshot.id

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        """Make a COMPACT snapshot. Raises ConflictError when an input was replaced."""
        request = compact_request(self.table, buckets, user=batch.user, identifier=batch.identifier)
        snapshot = TableCommit(self.table).commit(lambda _latest: request)
        assert snapshot is not None
        return snapshot.id

    def _state(self, snapshot: Snapshot | None) -> TableState:
        return read_state(self.table, snapshot, topic_id=self.topic_id, allows_foreign=self.allows_foreign)

    def _request(self, batch: Batch, change: SnapshotChange, latest: Snapshot | None) -> CommitRequest:
        lineage = {"batches": [dict(entry) for entry in change.lineage]}
        taken = () if change.log is None else change.log.taken()
        users, held = self._statements_kept(change.users, latest)
        properties = users_properties(
            users,
            latest=latest,
            carried=carried_by(self.table, latest).properties,
            options=self.table.schema.options,
            in_use={batch.user, *held, *(user for user, _ in taken)},
        )
        properties[LINEAGE_KEY] = json.dumps(lineage)
        if change.untracked:
            properties[UNTRACKED_KEY] = json.dumps([dict(entry) for entry in change.untracked])
        if change.log is not None:
            properties |= {LOG_STATE_KEY: change.log.to_json(), PLACE_KEY: self.table.path}
        properties |= change.properties
        return CommitRequest(
            commit_user=batch.user,
            commit_identifier=batch.identifier,
            kind=CommitKind.APPEND,
            entries=self._entries(change, latest),
            changelog=[add_entry(self.table, file.bucket_id(b), file.meta) for b, file in change.changelog],
            properties=properties,
            watermark=change.watermark_millis,
        )

    def _entries(self, change: SnapshotChange, latest: Snapshot | None) -> list[ManifestEntry]:
        if change.removed:
            return without_removed(self.table, latest, change.files, change.removed)
        return [add_entry(self.table, file.bucket_id(bucket), file.meta) for bucket, file in change.files]

    def _statements_kept(
        self, users: Mapping[str, CommitUser], latest: Snapshot | None
    ) -> tuple[Mapping[str, CommitUser], Collection[str]]:
        """The users without old batch statements whose prepared commits are deleted, and the old statements that stay.

        A statement is old after STATEMENT_RETAINED_MILLIS, or after `users.time-retained` if that is shorter.
        """
        if latest is None:
            return users, ()
        retained = min(USERS_TIME_RETAINED.of(self.table.schema.options), STATEMENT_RETAINED_MILLIS)
        before = latest.time_millis - retained
        commits = PreparedCommits(self.table)
        return without_old_statements(
            users, before_millis=before, held=lambda: {user_of(name) for name in commits.names()}
        )
