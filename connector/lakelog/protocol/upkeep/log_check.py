"""Checks and repairs of a table's log.

A check reads the topic's settings, by which Kafka may delete records itself, and for each bucket whether the log
continues where the newest snapshot ends. Deleted offsets in between may have held a batch that was logged but not yet
in a snapshot: such a batch has files that no snapshot names, so without such files nothing is lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.common.errors import ConflictError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.expire import OrphanFile
from lakelog.filestore.verbs import remove_orphan_files
from lakelog.logstore.errors import LogRewrittenError
from lakelog.logstore.kafka.clients.offsets import Position, high_watermarks, log_start_offsets
from lakelog.logstore.kafka.clients.topic import describe_topic, keep_all_records
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.consumer import can_hold_nothing
from lakelog.logstore.kafka.records.epochs import check_not_rewritten
from lakelog.logstore.kafka.records.tail import first_transaction, read_tail
from lakelog.protocol.access.place import check_no_copy, recorded_place
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.prepared import names_of
from lakelog.protocol.state.state import Batch, LogPosition, TableState
from lakelog.protocol.statements.readable_tails import UnreadablePart, unreadable_part
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.table_states import newest_state

REPAIR_USER = "lakelog-log-repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCheck:
    """One bucket: the end of the newest snapshot in it, and its log, [`log_start`, `high_watermark`)."""

    bucket: int
    offset: int
    log_start: int
    high_watermark: int
    is_rewritten: bool = False  # it was cut before an offset that it had reached: it may hold other records now
    unreadable: UnreadablePart | None = None
    decides: bool = True  # False in an eventual log: a batch without a snapshot runs again, and repeats its records

    @property
    def gap(self) -> tuple[int, int] | None:
        """The deleted offsets that may have held records that no snapshot has; None without such offsets."""
        first = self.offset + 1 if self.offset else 0
        is_whole = not self.decides or can_hold_nothing(
            self.offset, self.log_start, self.high_watermark, is_after_record=self.offset > 0
        )
        return None if is_whole else (first, self.log_start)

    @property
    def missing(self) -> tuple[int, int] | None:
        """The offsets that the newest snapshot holds and the log has lost; None when it has lost nothing."""
        return (self.high_watermark, self.offset) if self.high_watermark < self.offset else None

    @property
    def is_repairable(self) -> bool:
        """Whether the bucket has a problem that a repair can solve."""
        return self.missing is not None or (self.gap is not None and not self.is_rewritten)

    @property
    def problem(self) -> str | None:
        """The problem of the bucket; None without one."""
        if self.missing is not None:
            return (
                f"the log ends at offset {self.high_watermark}, the newest snapshot holds it up to {self.offset}: the"
                " broker has lost records, as by an unclean leader election. Their rows are in the files: `lakelog log"
                " renew` gives the table another topic, and streams that start again read them there; after a repair"
                " streams that had not read them miss them"
            )
        if self.is_rewritten:
            return (
                "the log was cut before an offset that the newest snapshot holds, and continued: it may hold other"
                " records now. This is not repaired: `lakelog log renew` gives the table another topic, and streams"
                " that start again read from the files what was lost"
            )
        if self.unreadable is not None:
            return f"writers refuse the log, with all of its buckets, for {self.unreadable}"
        if self.gap is not None:
            return (
                f"offsets {self.gap[0]} to {self.gap[1]} (exclusive) were deleted before a snapshot took them in: a"
                " batch that was logged there is lost with them"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The result of a check. `deletes_by` are settings by which Kafka deletes records itself."""

    topic: str
    deletes_by: Mapping[str, str]
    buckets: tuple[BucketCheck, ...]

    @property
    def is_sound(self) -> bool:
        """True when there is no problem."""
        return not self.deletes_by and all(bucket.problem is None for bucket in self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRepair:
    """A bucket that was repaired. Writers continue at `offset`.

    `lost` has the lost offsets, `files` the files of this bucket that no snapshot names: they belong to the lost batch,
    or to attempts that were cut off. Without such files nothing is lost.
    """

    bucket: int
    offset: int
    lost: tuple[int, int]
    is_in_snapshots: bool
    files: tuple[OrphanFile, ...]

    @property
    def has_lost(self) -> bool:
        """Whether a batch may be lost."""
        return bool(self.files) and not self.is_in_snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRepair:
    """The result of a repair. `snapshot_id` is the snapshot that the repair made; None when no bucket needed one.

    `left` has the buckets that it cannot repair.
    """

    settings: Mapping[str, str]
    buckets: tuple[BucketRepair, ...]
    left: tuple[BucketCheck, ...]
    snapshot_id: int | None


def check_log(table: FileStoreTable, log: TableLog) -> LogReport:
    """Compare topic and newest snapshot, without changes. Requests are retried as `TableLog.patience` allows.

    Raises NotFoundError without the topic, CorruptDataError for another topic with its name, UnavailableError.
    """
    log.check_topic()
    newest = newest_state(table, topic_id=log.topic_id)
    state, count = newest.logged, table.bucket_count
    starts = log.patience().keep_trying(lambda: log_start_offsets(kafka_topic(log), count))
    ends = log.patience().keep_trying(lambda: high_watermarks(kafka_topic(log), count))
    checks = [
        BucketCheck(
            bucket=bucket,
            offset=state.position(bucket).offset,
            log_start=starts[bucket].offset,
            high_watermark=ends[bucket].offset,
            is_rewritten=_is_rewritten(log, bucket, state.position(bucket), ends[bucket]),
            decides=not log.is_eventual,
        )
        for bucket in range(count)
    ]
    return LogReport(
        topic=log.topic,
        deletes_by=describe_topic(kafka_topic(log)).deletes_by,
        buckets=tuple(
            one if one.problem else replace(one, unreadable=unreadable_part(table, log, newest, one.bucket))
            for one in checks
        ),
    )


def _is_rewritten(log: TableLog, bucket: int, at: LogPosition, newest: Position) -> bool:
    if newest.leader_epoch in (None, at.leader_epoch):
        return False
    try:
        known = Position(offset=at.epoch_offset, leader_epoch=at.leader_epoch)
        check_not_rewritten(kafka_topic(log).partition(bucket), known)
    except LogRewrittenError:
        return True
    return False


def repair_log(table: FileStoreTable, log: TableLog) -> LogRepair:
    """Stop Kafka from deleting records itself, and let writers continue where records are missing; returns the losses.

    Buckets are fenced first, so that no writer logs meanwhile; running streams continue. Raises ConflictError when
    another commit was faster, and like `check_log`.
    """
    check_no_copy(table, recorded_place(table))
    report = check_log(table, log)
    if report.deletes_by:
        keep_all_records(kafka_topic(log))
    broken = [bucket for bucket in report.buckets if bucket.is_repairable]
    repairs = [_look(table, log, bucket.bucket) for bucket in broken]
    found = [repair for repair in repairs if repair is not None]
    snapshot_id = _move(table, log, report, found) if found else None
    left = tuple(bucket for bucket in report.buckets if bucket.problem is not None and not bucket.is_repairable)
    return LogRepair(settings=report.deletes_by, buckets=tuple(found), left=left, snapshot_id=snapshot_id)


def _look(table: FileStoreTable, log: TableLog, bucket: int) -> BucketRepair | None:
    """The repair of a bucket, after a fence; None when its writer has repaired it meanwhile."""
    with TransactionalProducer(kafka_topic(log).partition(bucket), f"{table.uuid}-{bucket}"):
        pass
    check = check_log(table, log).buckets[bucket]
    if not check.is_repairable:
        return None
    if check.missing is not None:
        return BucketRepair(
            bucket=bucket, offset=max(check.high_watermark - 1, 0), lost=check.missing, is_in_snapshots=True, files=()
        )
    # If a transaction has lost its first record, which has the header, its other records are lost as well.
    first = first_transaction(kafka_topic(log).partition(bucket), check.log_start, check.high_watermark)
    offset = (check.high_watermark if first is None else first) - 1
    assert check.gap is not None
    return BucketRepair(
        bucket=bucket,
        offset=offset,
        lost=(check.gap[0], offset + 1),
        is_in_snapshots=False,
        files=_unnamed_files(table, log, bucket, offset),
    )


def _unnamed_files(table: FileStoreTable, log: TableLog, bucket: int, offset: int) -> tuple[OrphanFile, ...]:
    """The data files of a bucket that neither a snapshot nor the log from `offset` on names."""
    partition = kafka_topic(log).partition(bucket)

    def named_in_log() -> set[str]:
        headers = (
            HeaderFiles(table).read(one.header, where=f"{partition}, offset {one.first_offset}")
            for one in read_tail(partition, offset).transactions
        )
        files = (file for header in headers for file in (*header.files, *header.changelog, *header.removed))
        return names_of(table) | {file.meta.file_name for file in files}

    found = remove_orphan_files(
        table, older_than_millis=0, dry_run=True, allow_young=True, named_elsewhere=named_in_log
    )
    folder = f"/bucket-{bucket}/"
    return tuple(file for file in found.files if folder in file.path)


def _move(table: FileStoreTable, log: TableLog, report: LogReport, repairs: Sequence[BucketRepair]) -> int | None:
    """Make a snapshot without rows that holds the buckets up to where their logs continue."""
    expected = {bucket.bucket: bucket.offset for bucket in report.buckets}
    batch = Batch(user=f"{REPAIR_USER}-{uuid.uuid4()}", identifier=0, source_digest=None)

    def decide(state: TableState) -> SnapshotChange:
        logged = state.logged
        positions = dict(logged.positions)
        for repair in repairs:
            found = logged.position(repair.bucket)
            if found.offset != expected[repair.bucket]:
                raise ConflictError(
                    f"the snapshot of {table.name} has moved in bucket {repair.bucket} from offset"
                    f" {expected[repair.bucket]} to {found.offset} while it was repaired; run the repair again"
                )
            positions[repair.bucket] = _position_after(found, repair)
        log_state = replace(logged, positions=positions)
        lost = [
            {"user": batch.user, "identifier": 0, "log_repair": {"bucket": r.bucket, "lost": r.lost}} for r in repairs
        ]
        return SnapshotChange(files=(), changelog=(), users=state.users, log=log_state, lineage=lost)

    return DriverSnapshots(table, log.topic_id).append(batch, decide)


def _position_after(found: LogPosition, repair: BucketRepair) -> LogPosition:
    """The position where writers continue. Offsets that may be lost count as records: so readers notice the loss."""
    may_be_lost = repair.lost[1] - repair.lost[0] if repair.has_lost or repair.is_in_snapshots else 0
    return replace(found, offset=repair.offset, leader_epoch=None, epoch_offset=0, records=found.records + may_be_lost)
