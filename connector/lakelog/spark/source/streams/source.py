"""The streaming source: snapshot rows first, then the log from the very offsets that the snapshot holds.

Spark runs one planner process for a query's whole run; it asks for offsets and partitions, and ships what reads them
to the workers. Nothing but the offsets survives a restart, so they say everything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any  # Any: offsets are JSON objects

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.consumers import ConsumerManager, check_reader_id
from lakelog.filestore.metadata.tables.identity import identity_of
from lakelog.filestore.read.changes import check_followable
from lakelog.filestore.read.scan import DataSplit, plan
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.options import LogScan, OnUntracked
from lakelog.protocol.reading.operation_stops import OperationStops
from lakelog.protocol.state.stores import LogTarget
from lakelog.spark.failures import sentence_first
from lakelog.spark.log_options import MetadataColumn, check_stream
from lakelog.spark.options import CONSUMER_ID, ReadOptions
from lakelog.spark.source.phases.generations import FindTopic, Generations, no_topic
from lakelog.spark.source.phases.stream_follow import FollowPhase
from lakelog.spark.source.phases.stream_group import StreamGroup
from lakelog.spark.source.phases.stream_grouped import GroupPhase
from lakelog.spark.source.phases.stream_head import TableHead, check_same_commit
from lakelog.spark.source.phases.stream_heal import Healer
from lakelog.spark.source.phases.stream_log import LogPhase
from lakelog.spark.source.phases.stream_old_rows import looks_up_old_rows
from lakelog.spark.source.phases.stream_start import ReadStart
from lakelog.spark.source.phases.stream_tag import TagStart
from lakelog.spark.source.reading.admission import NO_LIMITS, Limits, take_splits
from lakelog.spark.source.reading.input_partitions import (
    PARTITION_BYTES,
    SplitsPartition,
    TableRows,
    pack,
    partition_count,
)
from lakelog.spark.source.reading.lease import SnapshotLease
from lakelog.spark.source.reading.metadata_columns import SnapshotMark
from lakelog.spark.source.reading.offsets import (
    FollowOffset,
    LogOffset,
    Offset,
    SnapshotOffset,
    StartOffset,
    TableMark,
    offset_from_json,
    offset_to_json,
)

if TYPE_CHECKING:
    from lakelog.spark.source.streams.audit_stream import AuditRows

logger = logging.getLogger("lakelog.spark")


class LakelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream of changes."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        rows: TableRows | AuditRows,
        options: ReadOptions,
        *,
        check_log: Callable[[], None] | None = None,
        find_topic: FindTopic = no_topic,
        group: StreamGroup | None = None,
    ) -> None:
        """Read nothing yet. Raises InvalidRequestError for options that do not go together."""
        self._rows = rows
        self._planner: StreamPlanner | None = StreamPlanner(
            table, target, options, check_log=check_log, find_topic=find_topic, group=group
        )

    def __getstate__(self) -> TableRows | AuditRows:
        # Workers only read; what the planner remembers stays in its process.
        return self._rows

    def __setstate__(self, rows: TableRows | AuditRows) -> None:
        self._rows = rows
        self._planner = None

    @property
    def planner(self) -> StreamPlanner:
        """What plans; only in the planner process."""
        assert self._planner is not None
        return self._planner

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        """Always the same: where to start is decided by the first batch, which Spark stores."""
        return self.planner.to_json(self.planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options, in the one form that Spark can carry.

        Spark asks each stream of a query for it before it asks one for the end of a batch.
        """
        limits = self.planner.limits
        self.planner.enter_group()
        if limits.rows is not None:
            return ReadMaxRows(limits.rows)
        return ReadAllAvailable() if limits.size_bytes is None else ReadMaxBytes(limits.size_bytes)

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the batch that begins at `start` ends."""
        limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self.planner.limits
        asked = time.monotonic()
        begin = self.planner.from_json(start)
        end = self.planner.end_of_batch(begin, limits)
        if end == begin and self.planner.rest(asked):
            end = self.planner.end_of_batch(begin, limits)
        return self.planner.to_json(end)

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """Let what is there now be all that there is."""
        self.planner.fix_head()

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What the tasks of a batch read."""
        return self.planner.partitions(self.planner.from_json(start), self.planner.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a worker."""
        return self._rows.read(partition)

    @sentence_first()
    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is processed: snapshots before it are let go."""
        self.planner.let_go(self.planner.from_json(end))

    def stop(self) -> None:
        """Let go of every snapshot. Spark calls this after errors only."""
        self.planner.release()


class StreamPlanner:
    """Decides where batches end, and what they consist of."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        options: ReadOptions,
        *,
        check_log: Callable[[], None] | None = None,
        find_topic: FindTopic = no_topic,
        group: StreamGroup | None = None,
    ) -> None:
        """Check table and options. Raises InvalidRequestError, UnsupportedError.

        `check_log` raises for a topic that is not the table's. It is called before the first batch, when there is
        patience with a log that does not answer. `find_topic` finds topics that the table had before.
        """
        self._check_log = check_log
        if target is None:
            check_followable(table)
        self._table = table
        self._target = target
        self._options = options
        self._mark = TableMark(uuid=identity_of(table), name=table.name)
        self._lease = SnapshotLease(table)
        self._is_aligned = options.log.alignment.is_by_snapshot
        skips = options.on_untracked is OnUntracked.SKIP
        self._head = TableHead(table, target, allows_foreign=skips)
        self._patience = Patience(0 if target is None else target.unavailable_seconds)
        stops = OperationStops(table_name=table.name, options=options.log.stops)
        self._healer = Healer(
            table, accepts_loss=not options.log.fails_on_loss, on_untracked=options.on_untracked, stops=stops
        )
        looks_up = looks_up_old_rows(table, target, options)
        self._log = None if target is None else self._log_phase(target, looks_up=looks_up, allows_foreign=skips)
        self._generations = Generations(
            table,
            target,
            find_topic,
            self._healer,
            fails_on_loss=options.log.fails_on_loss,
            normalizes=options.normalizes,
            patience=self._patience,
            is_aligned=self._is_aligned,
            versions_max=options.log.alignment.versions_max,
        )
        self._start = ReadStart(table, target, options, self._head, self._log, generations=self._generations)
        self._tag = TagStart(
            table, target, self._generations, self._start.after, fails_on_loss=options.log.fails_on_loss
        )
        self._following = FollowPhase(table, self._head, stops=stops, versions_max=options.log.alignment.versions_max)
        self._grouped = (
            None
            if group is None
            else GroupPhase(table, group, options, self._head, self._start, log=self._log, following=self._following)
        )
        self._consumers = ConsumerManager(table.file_io, table.paths)
        self._recorded: int | None = None
        self._has_snapshots = MetadataColumn.SNAPSHOT_ID in options.log.metadata
        self._splits: tuple[Snapshot, tuple[DataSplit, ...]] | None = None
        self._is_waiting = False  # for a log that does not answer
        self.limits = Limits(rows=options.max_rows, size_bytes=options.max_bytes)
        self._check_options()

    def _log_phase(self, target: LogTarget, *, looks_up: bool, allows_foreign: bool) -> LogPhase:
        return LogPhase(
            self._table,
            target,
            self._head,
            self._options.log,
            looks_up=looks_up,
            allows_foreign=allows_foreign,
            healer=self._healer,
            patience=self._patience,
        )

    def _check_options(self) -> None:
        """Raise InvalidRequestError for options that do not go with the table."""
        table, options, has_log = self._table, self._options, self._target is not None
        if options.consumer_id is not None and has_log:
            raise InvalidRequestError(
                f"table {table.name} has a log, whose offsets are in the checkpoint: leave {CONSUMER_ID.key} out"
            )
        if options.consumer_id is not None:
            check_reader_id(options.consumer_id)
        check_stream(options.log, options.state, table_name=table.name, has_log=has_log)

    @property
    def log(self) -> LogPhase:
        """What plans batches of the log; only of a table that has one."""
        assert self._log is not None
        return self._log

    def to_json(self, offset: Offset) -> dict[str, Any]:
        """The offset as Spark stores it."""
        return offset_to_json(offset, self._mark)

    def from_json(self, fields: Mapping[str, Any]) -> Offset:
        """A stored offset. Raises InvalidRequestError for another table's."""
        return offset_from_json(fields, self._mark)

    def initial(self) -> Offset:
        """Where a new query starts: where its consumer is, or as `log.scan` says.

        Spark asks again after a crash in the first batch. The answer is the same: a consumer moves with a batch that is
        committed.
        """
        if self._options.consumer_id is not None:
            found = self._consumers.consumer(self._options.consumer_id)
            if found is not None:
                return FollowOffset(consumed=found.next_snapshot - 1, commit=found.commit)
        return StartOffset(start=self._options.log.scan.value)

    def end_of_batch(self, start: Offset, limits: Limits) -> Offset:
        """Where the batch that begins at `start` ends; `start` when there is nothing to read.

        While the log does not answer there is nothing to read, as long as there is patience.
        """
        if not self._is_waiting:
            self._patience.succeeded()
        try:
            self._check_log_once()
            end = self._end_of_batch(start, limits)
        except UnavailableError as error:
            if self._target is None or self._head.is_fixed or not self._patience.allows():
                raise
            logger.warning("table %s is read on later: %s", self._mark.name, error)
            self._is_waiting = True
            return start
        self._is_waiting = False
        if self._log is not None:
            self._log.wait.check(is_fixed=self._head.is_fixed)
        return end

    def _check_log_once(self) -> None:
        if self._check_log is not None:
            self._check_log()
            self._check_log = None

    def _end_of_batch(self, start: Offset, limits: Limits) -> Offset:
        if self._grouped is not None:
            end = self._grouped.end(start, moved=self._generations.moved(start))
            if isinstance(start, StartOffset) and isinstance(end, LogOffset | FollowOffset):
                self._lease.hold(end.consumed)
            return end
        start = self._generations.moved(start)
        match start:
            case StartOffset():
                return self._first_end(start, limits)
            case SnapshotOffset():
                return self._snapshot_end(start, limits)
            case LogOffset():
                is_older = self._generations.is_older(start)
                return self._generations.end(start, limits) if is_older else self.log.end(start, limits)
            case FollowOffset():
                last = self._generations.last_followed(start)
                end = self._following.end(start, limits, last=last)
                if last is None or end != start:
                    return end
                return self._end_of_batch(FollowOffset(consumed=last), limits)  # where a log begins

    def rest(self, asked: float) -> bool:
        """Wait a little where there was nothing to read; whether something may have been written since the question."""
        return self._head.rest(asked)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """What lies between two offsets."""
        self._patience.keep_trying(self._check_log_once)  # a batch that is run again is not asked for its end
        start, end = self._generations.span(start, end)
        if isinstance(end, SnapshotOffset):
            first = start.split if isinstance(start, SnapshotOffset) else 0
            return self._split_partitions(end, first, end.split)
        if isinstance(start, SnapshotOffset):
            rows = self._split_partitions(start, start.split, None)
            if start.tag is None or not isinstance(end, LogOffset | FollowOffset) or end.consumed <= start.snapshot:
                return rows
            return [*rows, *self._tag.difference(self._tag.snapshot_of(start), end.consumed)]
        if isinstance(start, StartOffset):
            return self._first_partitions(start, end)
        if isinstance(start, LogOffset) and isinstance(end, LogOffset):
            if self._generations.is_older(start):
                return self._generations.partitions(start, end)
            return self.log.partitions(start, end, has_snapshots=self._has_snapshots)
        if isinstance(start, FollowOffset) and isinstance(end, FollowOffset):
            return self._following.partitions(start, end)
        raise CorruptDataError(f"no batch of table {self._mark.name} goes from {start} to {end}")

    def enter_group(self) -> None:
        """Enter the group of the stream, if it has one, before any stream of it is asked for the end of a batch."""
        if self._grouped is not None:
            self._grouped.enter()

    def fix_head(self) -> None:
        """Read up to where the table is now, and no further."""
        if self._grouped is not None:
            self._grouped.fix()
        self._patience.succeeded()
        self._patience.keep_trying(self._check_log_once)
        self._head.fix(self._patience)

    def let_go(self, end: Offset) -> None:
        """Keep what comes after `end`."""
        needed = None if self._grouped is None else self._grouped.let_go(end)
        match end:
            case SnapshotOffset():
                self._lease.hold(end.snapshot)
            case FollowOffset():
                self._record(end.consumed + 1, end.commit)
                self._lease.hold(needed or end.consumed + 1)
            case LogOffset():
                if not self._generations.is_older(end):  # nothing is deleted in a log that ended
                    self.log.let_go(end)
                if self._is_aligned:
                    self._lease.hold(needed or end.consumed + 1)  # where the next batches end
                else:
                    self._lease.release()
                self._healer.release()
            case StartOffset():
                self._lease.release()

    def _record(self, next_snapshot: int, commit: str | None) -> None:
        consumer_id = self._options.consumer_id
        if consumer_id is not None and self._recorded != next_snapshot:
            self._consumers.put(consumer_id, next_snapshot, commit=commit)
            self._recorded = next_snapshot

    def release(self) -> None:
        """Keep nothing."""
        self._lease.release()
        self._healer.release()
        if self._log is not None:
            self._log.release()

    # The first batch decides where the stream starts.

    def _first_end(self, start: StartOffset, limits: Limits) -> Offset:
        scan = LogScan(start.start)
        if scan is not LogScan.FULL:
            return replace(self._start.changes(scan), reads_rows=False)
        tagged = self._tag.named(self._options.state)
        if tagged is not None:
            return self._first_end_of_tag(*tagged, limits)
        base = self._start.snapshot()
        if base is not None:
            self._lease.hold(base.id)
            return self._snapshot_end(SnapshotOffset(snapshot=base.id, split=0, commit=base.uuid), limits)
        offset = self._start.after(None)
        # Nothing to read at once, and maybe nothing at all yet.
        return start if self._end_of_batch(offset, limits) == offset else replace(offset, reads_rows=False)

    def _first_end_of_tag(self, snapshot: Snapshot, tag: str, limits: Limits) -> SnapshotOffset:
        """The end of the first batch, always among the rows of the tag: the offset names it for all that follows."""
        self._lease.hold(snapshot.id)
        self._start.check_whole(snapshot)
        self._tag.goes_on_at(snapshot, tag)  # raises before a row is read
        start = SnapshotOffset(snapshot=snapshot.id, split=0, commit=snapshot.uuid, tag=tag)
        end = self._snapshot_end(start, limits)
        return end if isinstance(end, SnapshotOffset) else start

    def _first_partitions(self, start: StartOffset, end: Offset) -> list[InputPartition]:
        if not isinstance(end, LogOffset | FollowOffset):
            return []
        reads_rows = LogScan(start.start) is LogScan.FULL if end.reads_rows is None else end.reads_rows
        if reads_rows and end.consumed:
            commit = end.commit if isinstance(end, FollowOffset) else None
            return self._split_partitions(SnapshotOffset(snapshot=end.consumed, split=0, commit=commit), 0, None)
        return []

    # Snapshot rows.

    def _snapshot_end(self, start: SnapshotOffset, limits: Limits) -> Offset:
        self._lease.hold(start.snapshot)
        snapshot, splits = self._splits_of(start)
        sizes = [(split.row_count, split.size_bytes) for split in splits]
        end = len(splits) if self._is_aligned else take_splits(sizes, start.split, limits)
        if end < len(splits) or (start.tag is not None and start.split < end):
            return SnapshotOffset(snapshot=snapshot.id, split=end, commit=snapshot.uuid, tag=start.tag)
        if start.tag is not None:
            return self._start.after(self._tag.goes_on_at(snapshot, start.tag))
        reads_rows = True if start.split == 0 else None
        return replace(self._start.after(self._table.snapshots.get(snapshot.id)), reads_rows=reads_rows)

    def _splits_of(self, place: SnapshotOffset) -> tuple[Snapshot, tuple[DataSplit, ...]]:
        """A snapshot, and all splits, also those without a row that passes `where`: their numbers are in offsets.

        Raises InvalidRequestError when it is not the one that the commit of the place made.
        """
        if self._splits is None or self._splits[0].id != place.snapshot:
            snapshot = self._tag.snapshot_of(place)
            is_followed = self._target is None
            self._splits = (snapshot, plan(self._table, snapshot, is_followed=is_followed).splits)
        check_same_commit(self._table, place.snapshot, found=self._splits[0].uuid, read=place.commit)
        return self._splits

    def _split_partitions(self, place: SnapshotOffset, first: int, end: int | None) -> list[InputPartition]:
        self._lease.hold(place.snapshot)
        snapshot, found = self._splits_of(place)
        splits = found[first:end]
        groups = pack(splits, lambda split: split.size_bytes, count=partition_count(), size_max=PARTITION_BYTES)
        return [SplitsPartition(group, SnapshotMark.of(snapshot)) for group in groups]
