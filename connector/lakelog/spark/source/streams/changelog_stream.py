"""The stream of changes of a table with the commit that made each: `spark.readStream.changes`.

Its offsets are numbers of snapshots. A batch reads what `ChangelogReader` reads of the same snapshots, so that a stream
and CHANGES give the same rows. The first batch reads nothing: it stores where the stream starts, so that a restart does
not ask again which snapshot a tag, a time or the oldest one is. Batches end at snapshots, within the limits of the
options: a larger snapshot is a batch alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any  # Any: offsets are JSON objects

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from lakelog.catalog.tables.commit_columns import compares_states
from lakelog.catalog.tables.commit_range import CommitRange
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore import FileStoreTable, Snapshot
from lakelog.filestore.metadata.snapshots import PropertyKey
from lakelog.filestore.metadata.tables import check_same_table, identity_of, latest_of
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import find_changes, first_changes
from lakelog.filestore.refs import RangeEnd
from lakelog.filestore.system import ChangeRange
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import (
    MAX_BYTES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    READ_OPTIONS,
    TIMEZONE,
    WHERE,
    known_options,
)
from lakelog.spark.source.batch.changelog_reader import ChangelogReader, changelog_reader
from lakelog.spark.source.streams.read_limits import limits_of, read_limit
from lakelog.streams.options.shown_state import BRANCH, SCAN_BRANCH
from lakelog.streams.phases.stream_head import check_is_there, check_same_commit
from lakelog.streams.reading.admission import NO_LIMITS, Limits, take_snapshots
from lakelog.streams.reading.lease import snapshot_lease
from lakelog.streams.reading.offsets import (
    FollowOffset,
    Offset,
    StartOffset,
    TableMark,
    offset_from_json,
    offset_to_json,
)

_START = StartOffset(start="changes")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_REST_SECONDS = 0.1
_OWN_OPTIONS = (WHERE, BRANCH, SCAN_BRANCH, TIMEZONE, MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER)


def check_changes_options(given: Mapping[str, str]) -> None:
    """Raise InvalidRequestError for options that CHANGES of a table, by a query or a stream, do not have."""
    taken = {option.key for option in _OWN_OPTIONS}
    known = {option.key for option in READ_OPTIONS}
    other = [key for key in known_options(given, READ_OPTIONS) if key in known - taken]
    if other:
        raise InvalidRequestError(
            f"CHANGES of a table does not take {', '.join(other)}: beside the start it takes {', '.join(sorted(taken))}"
        )


def start_to_text(asked: CommitRange | None) -> str:
    """The start of a stream as the value of the option `CHANGES_FROM`; None is the oldest change."""
    if asked is None:
        return json.dumps({})
    first = asked.first
    named = {"time": (first - _EPOCH) // _MICRO} if isinstance(first, datetime) else {"version": str(first)}
    return json.dumps({**named, "inclusive": asked.includes_first})


def start_from_text(text: str) -> CommitRange | None:
    """What `start_to_text` has written."""
    fields = json.loads(text)
    if not fields:
        return None
    first = _EPOCH + fields["time"] * _MICRO if "time" in fields else fields["version"]
    return CommitRange(first=first, last=None, includes_first=fields["inclusive"])


def changelog_stream(
    table: FileStoreTable, where: Predicate | None, schema: spark.StructType, *, start: str, limits: Limits
) -> ChangelogStreamReader:
    """The stream of the changes of a table. `start` is what `start_to_text` has written."""
    changes = changelog_reader(table, where, schema, after=RangeEnd(number=0), up_to=None)
    return ChangelogStreamReader(changes, start_from_text(start), limits)


class ChangelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of a table, snapshot by snapshot."""

    def __init__(self, changes: ChangelogReader, start: CommitRange | None, limits: Limits) -> None:
        """Read nothing yet. The range of `changes` is not used: each batch has its own."""
        self._changes = changes
        self._start = start
        self._limits = limits
        self._mark = TableMark(uuid=identity_of(self._table), name=self._table.name)
        self._lease = snapshot_lease(self._table)
        self._fixed: FollowOffset | None = None

    def __getstate__(self) -> ChangelogReader:
        # Workers only read.
        return self._changes

    def __setstate__(self, changes: ChangelogReader) -> None:
        self._changes = changes

    @property
    def _table(self) -> FileStoreTable:
        return self._changes.rows.table

    def initialOffset(self) -> dict[str, Any]:
        """Always the same: the first batch, which Spark stores, decides where to start."""
        return offset_to_json(_START, self._mark)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options, in the only form that Spark can carry."""
        return read_limit(self._limits)

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The newest snapshot within the limits.

        Raises InvalidRequestError if the table no longer has the snapshot that was read.
        """
        begin = self._parsed(start)
        if isinstance(begin, StartOffset):
            return offset_to_json(self._first(), self._mark)
        limits = limits_of(limit, self._limits)
        end = self._end(begin, limits)
        if end == begin and self._fixed is None:
            time.sleep(_REST_SECONDS)  # Spark asks about 85 times a second while there is nothing to read
            end = self._end(begin, limits)
        return offset_to_json(end, self._mark)

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what exists now, and no further."""
        self._fixed = self._newest()

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The changes between two offsets. Raises NotFoundError for changes that are no longer kept."""
        begin, last = self._parsed(start), self._parsed(end)
        if isinstance(last, StartOffset):
            raise CorruptDataError(f"no batch of table {self._mark.name} goes from {begin} to {last}")
        if isinstance(begin, StartOffset) or begin.consumed == last.consumed:
            return []
        self._hold(begin)
        newest = self._newest().consumed
        for offset in (begin, last):
            self._check_read(offset, newest)
        after, up_to = (RangeEnd(number=offset.consumed) for offset in (begin, last))
        return list(replace(self._changes, after=after, up_to=up_to).partitions())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a partition, in a worker."""
        return self._changes.read(partition)

    @sentence_first()
    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is processed: release the snapshots before it."""
        last = self._parsed(end)
        if isinstance(last, FollowOffset):
            self._hold(last)

    def stop(self) -> None:
        """Release every snapshot. Spark calls this only after errors."""
        self._lease.release()

    def _parsed(self, fields: dict[str, Any]) -> StartOffset | FollowOffset:
        found: Offset = offset_from_json(fields, self._mark)
        if isinstance(found, FollowOffset) or found == _START:
            return found
        raise InvalidRequestError(
            f"the checkpoint belongs to a stream of table {self._mark.name} that is not one of changes: use a new "
            "checkpoint location"
        )

    def _first(self) -> FollowOffset:
        """Where the stream starts: behind this snapshot."""
        if self._start is None:
            after = RangeEnd(number=_before_oldest(self._table))
        else:
            after = self._start.ends(self._table)[0]
        found = after.snapshot or (find_changes(self._table, after.number) if after.number else None)
        first = FollowOffset(consumed=after.number, commit=None if found is None else found.uuid, reads_rows=False)
        self._hold(first)
        return first

    def _end(self, begin: FollowOffset, limits: Limits) -> FollowOffset:
        """The end of the batch that begins at `begin`; `begin` itself when there is nothing to read."""
        newest = self._newest()
        self._check_read(begin, newest.consumed)
        self._hold(begin)
        if newest.consumed == begin.consumed:
            return begin
        if limits == NO_LIMITS:
            return newest
        commits: dict[int, str | None] = {}

        def size_of(snapshot_id: int) -> tuple[int, int, int]:
            after, up_to = RangeEnd(number=snapshot_id - 1), RangeEnd(number=snapshot_id)
            (snapshot,) = ChangeRange(table=self._table, first=after, last=up_to).snapshots()
            commits[snapshot_id] = snapshot.uuid
            return snapshot_id, *self._changes.size_of(snapshot)

        sizes = map(size_of, range(begin.consumed + 1, newest.consumed + 1))
        reached = take_snapshots(sizes, begin.consumed, limits)
        return begin if reached == begin.consumed else FollowOffset(consumed=reached, commit=commits[reached])

    def _newest(self) -> FollowOffset:
        if self._fixed is not None:
            return self._fixed
        newest = latest_of(self._table)
        if newest is None:
            return FollowOffset(consumed=0)
        check_same_table(self._table, newest.properties.get(PropertyKey.UUID))
        return FollowOffset(consumed=newest.id, commit=newest.uuid)

    def _check_read(self, offset: FollowOffset, newest: int) -> None:
        """Raise InvalidRequestError if a snapshot is not the one that was read. An expired one cannot be checked."""
        check_is_there(self._table, offset.consumed, newest=newest)
        found = find_changes(self._table, offset.consumed) if offset.consumed else None
        if found is not None:
            check_same_commit(self._table, offset.consumed, found=found.uuid, read=offset.commit)

    def _hold(self, offset: FollowOffset) -> None:
        """Keep the state from which the next changes lead, and later ones."""
        self._lease.hold(max(1, offset.consumed))


def _before_oldest(table: FileStoreTable) -> int:
    """The snapshot behind which all changes exist. The oldest snapshot has none if they need the state before it."""
    is_compared = compares_states(table.schema)
    oldest = (table.snapshots.earliest_id() or 1) if is_compared else first_changes(table)
    snapshot = find_changes(table, oldest)
    if snapshot is not None and (is_compared or ChangeRange(table=table).takes_states(snapshot)):
        return oldest - 1 if _has_before(table, snapshot) else oldest
    return oldest - 1


def _has_before(table: FileStoreTable, snapshot: Snapshot) -> bool:
    try:
        ChangeRange(table=table).state_before(snapshot)
    except NotFoundError:
        return False
    return True
