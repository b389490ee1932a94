"""The phase of a stream in a group: its batches end where the group decides."""

from __future__ import annotations

from dataclasses import replace

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import find_changes
from lakelog.logstore.options import LogScan
from lakelog.spark.options import ReadOptions
from lakelog.spark.source.phases.stream_group import StreamGroup
from lakelog.streams.options.align_options import STREAM_ALIGN_GROUP
from lakelog.streams.options.shown_state import NEWEST
from lakelog.streams.phases.stream_follow import FollowPhase
from lakelog.streams.phases.stream_head import TableHead, check_same_commit
from lakelog.streams.phases.stream_log import LogPhase
from lakelog.streams.phases.stream_start import ReadStart
from lakelog.streams.reading.offsets import FollowOffset, LogOffset, Offset, Positions, StartOffset


class GroupPhase:
    """Plans the ends of batches from the decisions of a group."""

    def __init__(
        self,
        table: FileStoreTable,
        group: StreamGroup,
        options: ReadOptions,
        head: TableHead,
        start: ReadStart,
        *,
        log: LogPhase | None,
        following: FollowPhase,
    ) -> None:
        """Read nothing yet. Raises InvalidRequestError for options that say where this stream alone starts."""
        if options.log.scan is not LogScan.FULL or options.state != NEWEST or options.consumer_id is not None:
            raise InvalidRequestError(
                f"table {table.name} is read as a member of the group {group.name!r} ({STREAM_ALIGN_GROUP.key}), whose "
                "streams start at snapshots that go together: leave out the options that say where this one starts"
            )
        self._table = table
        self._group = group
        self._head = head
        self._start = start
        self._log = log
        self._following = following

    def enter(self) -> None:
        """See `StreamGroup.enter`."""
        self._group.enter()

    def fix(self) -> None:
        """See `StreamGroup.fix`."""
        self._group.fix()

    def end(self, start: Offset, *, moved: Offset) -> Offset:
        """The end of the batch that begins at `start`; `moved` is the start in the present generation of the log."""
        self._head.now()
        decided = self._group.end_behind(self._behind(start))
        if decided is None:
            if self._log is not None and isinstance(moved, LogOffset) and self._log.is_of(moved):
                self._log.wait_for_writers(moved)
            return start
        snapshot = self._snapshot(self._group.own(decided))
        if isinstance(start, StartOffset):
            return replace(self._start.after(snapshot), reads_rows=True, group=decided)
        assert isinstance(moved, LogOffset | FollowOffset)
        if moved.consumed == snapshot.id:
            return replace(moved, group=decided, reads_rows=None)
        return replace(self._end_at(moved, snapshot), group=decided)

    def let_go(self, end: Offset) -> int | None:
        """Delete decisions after a batch up to `end` is committed; returns the oldest snapshot that is still needed."""
        if not isinstance(end, LogOffset | FollowOffset) or end.group is None:
            return None
        self._group.let_go(end.group)
        return end.consumed

    def _behind(self, start: Offset) -> Positions | None:
        if isinstance(start, StartOffset):
            return None
        if isinstance(start, LogOffset | FollowOffset) and start.group is not None:
            return start.group
        raise InvalidRequestError(
            f"the query has read table {self._table.name} without the group {self._group.name!r} before, so the "
            "checkpoint does not say where its other tables are: start the query with a new checkpoint location"
        )

    def _snapshot(self, at: TableVersion) -> Snapshot:
        found = find_changes(self._table, at.snapshot_id)
        if found is None:
            raise NotFoundError(
                f"snapshot {at.snapshot_id} of table {self._table.name}, at which the next batch of the group "
                f"{self._group.name!r} ends, has expired: start the query with a new checkpoint location"
            )
        check_same_commit(self._table, at.snapshot_id, found=found.uuid, read=at.commit)
        return found

    def _end_at(self, start: LogOffset | FollowOffset, snapshot: Snapshot) -> LogOffset | FollowOffset:
        end = self._start.after(snapshot)
        if isinstance(start, FollowOffset) and isinstance(end, FollowOffset):
            return self._following.end_at(start, end)
        if isinstance(start, LogOffset) and isinstance(end, LogOffset) and start.topic_id == end.topic_id:
            if self._log is not None and self._log.is_of(start):
                return self._log.end_at(start, end)
            return end
        raise UnsupportedError(
            f"the log of table {self._table.name} began, ended or was renewed between snapshots {start.consumed} and "
            f"{snapshot.id}, and the batches of a group do not reach over that: start the query with a new checkpoint "
            "location"
        )
