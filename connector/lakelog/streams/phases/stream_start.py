"""Where a stream, or a batch read of the log, starts: at what `log.scan` and its related options name.

| `log.scan` | starts |
|---|---|
| `full` | with the rows of a snapshot: the newest one, or the one that the options name |
| `latest` | at the end of the log, or behind the newest snapshot |
| `from-snapshot` | behind the snapshot before the named one |
| `from-timestamp` | behind the newest snapshot at that time; when it has expired, at the log's first record since |
| `from-offsets` | at the given offsets |

Source: FLIP-188, "Table Options"; the other modes as Paimon and Spark's Kafka source have them.
"""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.logstore.options import LogScan
from lakelog.protocol.statements import check_whole
from lakelog.protocol.stores import LogTarget
from lakelog.streams.options.log_options import STARTING_OFFSETS
from lakelog.streams.options.shown_state import NEWEST
from lakelog.streams.options.stream_read import StreamRead
from lakelog.streams.phases.generations import Generations
from lakelog.streams.phases.log_bounds import LogBounds, place_offsets
from lakelog.streams.phases.stream_head import TableHead, log_after
from lakelog.streams.phases.stream_log import LogPhase
from lakelog.streams.reading.admission import NO_LIMITS, advance_log
from lakelog.streams.reading.offsets import FollowOffset, LogOffset


class ReadStart:
    """Finds where a read starts, after the combination of options has been checked."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        options: StreamRead,
        head: TableHead,
        log: LogPhase | None,
        *,
        generations: Generations | None = None,
    ) -> None:
        """Read nothing yet. `generations` are those of the log, for reads that continue in the next one."""
        self._generations = generations
        self._table = table
        self._target = target
        self._options = options
        self._head = head
        self._log = log

    def snapshot(self) -> Snapshot | None:
        """The snapshot with whose rows a stream with `full` starts; None before there is one.

        Raises NotFoundError, and InvalidRequestError when the snapshot is named, holds a partial batch, and batches are
        to end at whole snapshots.
        """
        state = self._options.state
        if state == NEWEST:
            return self._newest()
        if state.version is not None or state.watermark is not None:
            found = self._table.snapshot(**state.choice)
        elif state.snapshot_id is not None:
            found = self._table.snapshots.get(state.snapshot_id)
        else:
            assert state.timestamp_millis is not None
            found = self._at(state.timestamp_millis)
        if found is not None:
            self.check_whole(found)
        return found

    def check_whole(self, found: Snapshot) -> None:
        """Raise InvalidRequestError for a snapshot with a partial batch, if batches are to end at whole snapshots."""
        if self._target is not None and self._is_aligned:
            check_whole(log_after(self._table, found, self._target), snapshot_id=found.id, table_name=self._table.name)

    def changes(self, scan: LogScan) -> LogOffset | FollowOffset:
        """Where the changes begin, in a mode that reads no rows of a snapshot.

        Raises NotFoundError for snapshots that have expired and offsets that were deleted, InvalidRequestError for
        offsets that the log does not have, UnavailableError.
        """
        match scan:
            case LogScan.LATEST:
                return self._latest()
            case LogScan.FROM_SNAPSHOT:
                return self._held(self.after(self._before(self._options.state.snapshot_id)))
            case LogScan.FROM_OFFSETS:
                return self._given()
            case _:
                return self._since()

    def after(self, snapshot: Snapshot | None) -> LogOffset | FollowOffset:
        """Where the changes after a snapshot begin."""
        older = None if self._generations is None else self._generations.after(snapshot)
        if older is not None:
            return older
        if self._log is None:
            if snapshot is None:
                return FollowOffset(consumed=0)
            return FollowOffset(consumed=snapshot.id, commit=snapshot.uuid)
        return self._log.after(snapshot)

    @property
    def _heals(self) -> bool:
        """Whether what the log lacks after a snapshot is read from the files."""
        is_whole = self._target is not None and self._target.topic.is_transactional
        return is_whole and self._generations is not None and not self._options.normalizes

    @property
    def _is_aligned(self) -> bool:
        return self._log is not None and self._log.is_aligned

    def _newest(self) -> Snapshot | None:
        newest = self._head.now().snapshot_id
        if self._log is not None and self._is_aligned:
            place = self._log.newest_whole(0, newest)
            newest = 0 if place is None else place.position.consumed
        return self._table.snapshots.get(newest) if newest else None

    def _latest(self) -> LogOffset | FollowOffset:
        offset = self.after(self._newest())
        if isinstance(offset, FollowOffset) or self._is_aligned:
            return offset
        return advance_log(offset, (), self._head.now().ends, NO_LIMITS)

    def _before(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot before the named one, after which the changes of the named one begin; None before the first."""
        assert snapshot_id is not None, "the options were checked"
        chosen = self._table.snapshots.get(snapshot_id)
        if chosen.id == 1:
            return None
        found = self._table.snapshots.find(chosen.id - 1)
        if found is None:
            raise NotFoundError(
                f"the changes of snapshot {chosen.id} of table {self._table.name} begin after snapshot "
                f"{chosen.id - 1}, which has expired; name a later snapshot"
            )
        return found

    def _at(self, time_millis: int) -> Snapshot | None:
        found = self._table.snapshots.at_or_before(time_millis)
        if found is None and (self._table.snapshots.earliest_id() or 1) > 1:
            raise NotFoundError(
                f"table {self._table.name} has no snapshot at or before {time_millis} ms any more; name a later "
                "timestamp"
            )
        return found

    def _since(self) -> LogOffset | FollowOffset:
        millis = self._options.state.timestamp_millis
        if millis is None:
            millis = self._options.log.table_millis
        assert millis is not None, "the options were checked"
        try:
            found = self._at(millis)
        except NotFoundError:
            if self._log is None:
                raise
            return self.placed(self._bounds().since(millis, latest=self._head.now().ends))
        return self._held(self.after(found))

    def _given(self) -> LogOffset:
        given = self._options.log.starting
        assert given is not None, "the options were checked"
        ends = self._head.now().ends
        return self.placed(self._bounds().held(self._bounds().given(STARTING_OFFSETS.key, given, latest=ends)))

    def placed(self, offsets: dict[int, int]) -> LogOffset:
        """Offsets of the log, placed among the positions of the snapshots."""
        assert self._log is not None
        assert self._target is not None
        positions = (place.position for place in self._log.places(1, self._head.now().snapshot_id))
        return place_offsets(self._target.topic_id, offsets, positions)

    def _held(self, offset: LogOffset | FollowOffset) -> LogOffset | FollowOffset:
        """The offset, checked: the log holds everything after it. A stream reads what the log lacks from files.

        An offset in an older log is checked when it is read.
        """
        is_older = (
            isinstance(offset, LogOffset) and self._target is not None and offset.topic_id != self._target.topic_id
        )
        if isinstance(offset, FollowOffset) or self._heals or is_older:
            return offset
        held = self._bounds().held(offset.offsets)
        return offset if held == dict(offset.offsets) else self.placed(held)

    def _bounds(self) -> LogBounds:
        if self._target is None:
            raise InvalidRequestError(f"table {self._table.name} has no log")
        return LogBounds(self._table, self._target, fails_on_loss=self._options.log.fails_on_loss)
