"""The planner of a stream: the offset at which a batch begins says which phase it belongs to.

| offset | phase | goes on with |
|---|---|---|
| `StartOffset` | where to start: `phases.stream_start` | the rows of a snapshot, or at once the changes |
| `SnapshotOffset` | the rows of a snapshot or a tag: `phases.first_rows`, `phases.stream_tag` | the changes behind it |
| `LogOffset` of an older topic | the log that was ended: `phases.generations` | the next topic, or the files |
| `LogOffset` | the log: `phases.stream_log`; what it lost is read from files: `phases.stream_heal` | the log |
| `FollowOffset` | snapshots, of a table without a log: `phases.stream_follow` | the log, once there is one |

With a group, see `Grouped`, the group decides where a batch ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol  # Any: offsets are JSON objects

from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.tables import ConsumerManager, check_reader_id, identity_of
from lakelog.filestore.read import check_followable
from lakelog.logstore.options import LogScan, OnUntracked
from lakelog.protocol.reading import OperationStops
from lakelog.protocol.stores import LogTarget
from lakelog.streams.options.log_options import MetadataColumn
from lakelog.streams.options.stream_read import CONSUMER_ID, StreamRead
from lakelog.streams.phases.first_rows import RowsPhase
from lakelog.streams.phases.generations import FindTopic, Generations, no_topic
from lakelog.streams.phases.stream_follow import FollowPhase
from lakelog.streams.phases.stream_head import TableHead
from lakelog.streams.phases.stream_heal import Healer
from lakelog.streams.phases.stream_log import InHand, LogPhase, nothing_in_hand
from lakelog.streams.phases.stream_old_rows import looks_up_old_rows
from lakelog.streams.phases.stream_start import ReadStart
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.lease import snapshot_lease
from lakelog.streams.reading.offsets import (
    FollowOffset,
    LogOffset,
    Offset,
    SnapshotOffset,
    StartOffset,
    TableMark,
    offset_from_json,
    offset_to_json,
)
from lakelog.streams.reading.parts import Part

if TYPE_CHECKING:
    from lakelog.logstore.kafka.records.record_watch import HeardEnd

logger = logging.getLogger("lakelog.streams")


class Grouped(Protocol):
    """A group of streams of which this is one: it decides where the batches of all of them end."""

    def enter(self) -> None:
        """Enter the group, before any stream of it is asked for the end of a batch."""
        ...

    def fix(self) -> None:
        """Read up to where the tables are now, and no further."""
        ...

    def end(self, start: Offset, *, moved: Offset) -> Offset:
        """The end of the batch that begins at `start`; `moved` is the start in the present generation of the log."""
        ...

    def let_go(self, end: Offset) -> int | None:
        """Everything up to `end` is processed; returns the snapshot from which on the group needs them."""
        ...


MakeGrouped = Callable[[TableHead, ReadStart, LogPhase | None, FollowPhase], Grouped]


class StreamPlanner:
    """Decides where batches end and what they consist of, by asking the phase of the offset at which a batch begins."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        options: StreamRead,
        *,
        check_log: Callable[[], None] | None = None,
        find_topic: FindTopic = no_topic,
        group: MakeGrouped | None = None,
        in_hand: InHand = nothing_in_hand,
    ) -> None:
        """Check table and options. Raises InvalidRequestError, UnsupportedError.

        `check_log` raises for a topic that is not the table's. It is called before the first batch, when the planner
        may wait for a log that does not answer. `find_topic` finds older topics of the table. `in_hand` says which
        records have come already.
        """
        self._check_log = check_log
        if target is None:
            check_followable(table)
        self._table = table
        self._target = target
        self._options = options
        self._mark = TableMark(uuid=identity_of(table), name=table.name)
        self._lease = snapshot_lease(table)
        self._is_aligned = options.log.alignment.is_by_snapshot
        skips = options.on_untracked is OnUntracked.SKIP
        self._head = TableHead(table, target, allows_foreign=skips)
        self._patience = Patience(0 if target is None else target.unavailable_seconds)
        stops = OperationStops(table_name=table.name, options=options.log.stops)
        self._healer = Healer(
            table, accepts_loss=not options.log.fails_on_loss, on_untracked=options.on_untracked, stops=stops
        )
        looks_up = looks_up_old_rows(table, target, options)
        self._log = (
            None if target is None else self._log_phase(target, in_hand, looks_up=looks_up, allows_foreign=skips)
        )
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
        self._rows = RowsPhase(table, target, options, self._generations, self._start, lease=self._lease)
        self._following = FollowPhase(table, self._head, stops=stops, versions_max=options.log.alignment.versions_max)
        self._grouped = None if group is None else group(self._head, self._start, self._log, self._following)
        self._consumers = ConsumerManager(table.file_io, table.paths)
        self._recorded: int | None = None
        self._has_snapshots = MetadataColumn.SNAPSHOT_ID in options.log.metadata
        self._is_waiting = False  # waiting for a log that does not answer
        self.limits = Limits(rows=options.max_rows, size_bytes=options.max_bytes)
        self._check_options()

    def _log_phase(self, target: LogTarget, in_hand: InHand, *, looks_up: bool, allows_foreign: bool) -> LogPhase:
        return LogPhase(
            self._table,
            target,
            self._head,
            self._options.log,
            looks_up=looks_up,
            allows_foreign=allows_foreign,
            healer=self._healer,
            patience=self._patience,
            in_hand=in_hand,
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

    @property
    def target(self) -> LogTarget | None:
        """The log that is read; None for a table whose snapshots are followed."""
        return self._target

    @property
    def log(self) -> LogPhase:
        """The phase that plans batches of the log; only for a table with a log."""
        assert self._log is not None
        return self._log

    def to_json(self, offset: Offset) -> dict[str, Any]:
        """The offset as Spark stores it."""
        return offset_to_json(offset, self._mark)

    def from_json(self, fields: Mapping[str, Any]) -> Offset:
        """A stored offset. Raises InvalidRequestError for the offset of another table."""
        return offset_from_json(fields, self._mark)

    def initial(self) -> Offset:
        """Where a new query starts: at its consumer, or as `log.scan` says.

        Spark asks again after a crash in the first batch. The answer is the same: a consumer moves only when a batch is
        committed.
        """
        if self._options.consumer_id is not None:
            found = self._consumers.consumer(self._options.consumer_id)
            if found is not None:
                return FollowOffset(consumed=found.next_snapshot - 1, commit=found.commit)
        return StartOffset(start=self._options.log.scan.value)

    def end_of_batch(self, start: Offset, limits: Limits) -> Offset:
        """The end of the batch that begins at `start`; `start` itself when there is nothing to read.

        While the log does not answer there is nothing to read, until the time-out.
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
                return self._rows.end(start, limits)
            case LogOffset():
                is_older = self._generations.is_older(start)
                return self._generations.end(start, limits) if is_older else self.log.end(start, limits)
            case FollowOffset():
                last = self._generations.last_followed(start)
                end = self._following.end(start, limits, last=last)
                if last is None or end != start:
                    return end
                return self._end_of_batch(FollowOffset(consumed=last), limits)  # where a log begins

    def _first_end(self, start: StartOffset, limits: Limits) -> Offset:
        """The first batch decides where the stream starts."""
        scan = LogScan(start.start)
        if scan is not LogScan.FULL:
            return replace(self._start.changes(scan), reads_rows=False)
        found = self._rows.begin(limits)
        if found is not None:
            return found
        offset = self._start.after(None)
        # Nothing can be read immediately, and maybe nothing exists yet.
        return start if self._end_of_batch(offset, limits) == offset else replace(offset, reads_rows=False)

    def moved(self, offset: Offset) -> Offset:
        """The offset in the generation of the log where reading continues."""
        return self._generations.moved(offset)

    def placed(self, topic_id: str, offsets: Mapping[int, int], *, consumed: int) -> Offset:
        """The offset of a stream that has read a log up to `offsets`, and the snapshot `consumed`."""
        if self._target is not None and topic_id == self._target.topic_id:
            found = {bucket: offsets.get(bucket, 0) for bucket in range(self._table.bucket_count)}
            return self._start.placed(found)
        return LogOffset(topic_id=topic_id, offsets=dict(offsets), counts={}, consumed=consumed)

    @property
    def newest_seen(self) -> int:
        """The newest snapshot that the last answer has looked at, 0 before the first."""
        return self._head.now().snapshot_id

    def hear(self, heard: Mapping[int, HeardEnd]) -> None:
        """The log goes on, maybe up to these ends of whole transactions."""
        self._head.hear(heard)

    def rest(self, asked: float) -> bool:
        """Wait briefly if there was nothing to read; returns whether something may have been written since then."""
        return self._head.rest(asked)

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        """What lies between two offsets."""
        self._patience.keep_trying(self._check_log_once)  # Spark does not ask for the end of a batch that is run again
        start, end = self._generations.span(start, end)
        if isinstance(start, StartOffset | SnapshotOffset):
            return self._rows.parts(start, end)
        if isinstance(start, LogOffset) and isinstance(end, LogOffset):
            if self._generations.is_older(start):
                return self._generations.parts(start, end)
            return self.log.parts(start, end, has_snapshots=self._has_snapshots)
        if isinstance(start, FollowOffset) and isinstance(end, FollowOffset):
            return self._following.parts(start, end)
        raise CorruptDataError(f"no batch of table {self._mark.name} goes from {start} to {end}")

    def enter_group(self) -> None:
        """Enter the stream's group, if it has one, before Spark asks any stream of it for the end of a batch."""
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
        """Release what comes before `end`."""
        needed = None if self._grouped is None else self._grouped.let_go(end)
        match end:
            case SnapshotOffset():
                self._lease.hold(end.snapshot)
            case FollowOffset():
                self._record(end.consumed + 1, end.commit)
                self._lease.hold(needed or end.consumed + 1)
            case LogOffset():
                if not self._generations.is_older(end):  # nothing is deleted from a log that ended
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
        """Release everything."""
        self._lease.release()
        self._healer.release()
        if self._log is not None:
            self._log.release()
