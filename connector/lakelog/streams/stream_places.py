"""The place of a stream: an offset of the planner, and how far what follows it is read; as a position, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any  # Any: offsets are JSON objects

from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import COUNT, member, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.tables import TableStore, identity_of
from lakelog.protocol.state import TablePosition
from lakelog.streams.reading.offsets import (
    FollowOffset,
    LogOffset,
    Offset,
    SnapshotOffset,
    TableMark,
    offset_from_json,
    offset_to_json,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlace:
    """An offset of a stream of a table, and how many rows behind it are read, in the order that they always have."""

    table: TableStore
    offset: Offset
    rows: int = 0

    @property
    def _mark(self) -> TableMark:
        return TableMark(uuid=identity_of(self.table), name=self.table.name)

    @property
    def is_between(self) -> bool:
        """Whether the place is behind whole snapshots or transactions, so that what it has read can be compared."""
        return isinstance(self.offset, LogOffset | FollowOffset) and not self.rows

    @property
    def position(self) -> TablePosition:
        """The position, with all that a stream needs to go on there."""
        stream: dict[str, object] = {"at": offset_to_json(self.offset, self._mark)}
        if self.rows:
            stream["rows"] = self.rows
        snapshot_id, topic_id, offsets = 0, None, {}
        match self.offset:
            case SnapshotOffset():
                snapshot_id = self.offset.snapshot
            case FollowOffset():
                snapshot_id = self.offset.consumed
            case LogOffset():
                snapshot_id, topic_id, offsets = self.offset.consumed, self.offset.topic_id, dict(self.offset.offsets)
        return TablePosition(
            table_uuid=self.table.uuid,
            branch=self.table.branch,
            snapshot_id=snapshot_id,
            topic_id=topic_id,
            offsets=offsets,
            stream=stream,
        )

    def at(self, offset: Offset) -> StreamPlace:
        """The place at another offset; this one if it is the same offset."""
        return self if offset == self.offset else replace(self, offset=offset, rows=0)

    @classmethod
    def of_stream(cls, table: TableStore, stream: Mapping[str, Any]) -> StreamPlace:
        """The place that a stream has recorded in a position. Raises InvalidRequestError."""
        mark = TableMark(uuid=identity_of(table), name=table.name)
        try:
            rows = whole(stream, "rows", COUNT) if "rows" in stream else 0
            at = member(stream, "at")
        except (KeyError, ValueError) as error:
            raise InvalidRequestError(
                f"the position is not one of a stream of table {table.name}: {cause(error)}; a position is what "
                "`position` of a batch gives, as it is or by str()"
            ) from error
        return cls(table=table, offset=offset_from_json(at, mark), rows=rows)


def inside(start: LogOffset, end: LogOffset, offsets: Mapping[int, int]) -> LogOffset:
    """The offset between two others at which buckets are read up to `offsets`. Pure.

    A bucket that has moved has the epoch in which it was read: the log may have reached its place in none before.
    """
    moved = {bucket for bucket, at in offsets.items() if at != start.offsets.get(bucket)}
    epochs = {bucket: epoch for bucket, epoch in start.epochs.items() if bucket not in moved}
    epochs |= {bucket: epoch for bucket, epoch in end.epochs.items() if bucket in moved}
    return replace(start, offsets=dict(offsets), epochs=epochs, is_exact=False)


def pinned(end: Offset) -> Offset:
    """The beginning of the rows of the snapshot that a stream begins with; `end` if it begins with changes."""
    match end:
        case SnapshotOffset():
            return replace(end, split=0)
        case LogOffset() | FollowOffset() if end.reads_rows:
            return SnapshotOffset(snapshot=end.consumed, split=0, commit=end.commit)
        case _:
            return end
