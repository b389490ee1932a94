"""The head of a table: its newest snapshot, and how far its log can be read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot
from lakelog.filestore.metadata.tables import check_got_no_log, check_same_table, latest_of
from lakelog.logstore.kafka.clients.offsets import committed_ends, last_stable_offsets
from lakelog.protocol.state import LogState
from lakelog.protocol.stores import LogTarget, OtherLogError, read_state
from lakelog.streams.reading.offsets import LogOffset

if TYPE_CHECKING:
    from lakelog.logstore.kafka.records.record_watch import HeardEnd

HEAD_SECONDS = 0.1
_SNAPSHOT_SECONDS_MAX = 1.0  # since the table was looked at, while a stream hears of its log
REST_SECONDS_MAX = 0.05
OTHER_HISTORY = (
    "The table was rolled back or created again, or another one is read: use a new checkpoint location, and set a "
    "consumer with `lakelog table consumer reset`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How far a stream may read: up to this snapshot and these offsets of the log; `epochs` are those of its leaders.

    `commit` is the uuid of the snapshot, if it has one.
    """

    snapshot_id: int
    commit: str | None
    ends: Mapping[int, int]
    epochs: Mapping[int, int]


class TableHead:
    """Reads the head of a table, at most ten times a second; once fixed, it always gives the same head."""

    def __init__(self, table: FileStoreTable, target: LogTarget | None, *, allows_foreign: bool = False) -> None:
        """Read nothing yet. `allows_foreign` is that of `read_state`."""
        self._allows_foreign = allows_foreign
        self._table = table
        self._target = target
        self._seen: tuple[float, Head] | None = None
        self._looked_at = 0.0
        self._fixed: Head | None = None
        self._checked: tuple[int, str | None] | None = None  # the newest snapshot known to be of this table

    @property
    def is_fixed(self) -> bool:
        """Whether the head is fixed."""
        return self._fixed is not None

    def fix(self, patience: Patience) -> None:
        """Fix the head as it is now, with all that was committed before."""
        self._fixed = patience.keep_trying(lambda: self._look(has_all=True))

    def now(self) -> Head:
        """The head of the table. Raises UnavailableError; ConflictError for a table that was renamed or dropped."""
        if self._fixed is not None:
            return self._fixed
        if self._seen is None or time.monotonic() - self._seen[0] > HEAD_SECONDS:
            self._looked_at = time.monotonic()
            self._seen = (self._looked_at, self._look())
        return self._seen[1]

    def hear(self, heard: Mapping[int, HeardEnd]) -> None:
        """The log goes on up to these ends, whose records have come; the table itself is looked at once a second."""
        if self._fixed is not None or self._seen is None:
            return
        now, (_, head) = time.monotonic(), self._seen
        further = {bucket: one for bucket, one in heard.items() if one.offset > head.ends.get(bucket, 0)}
        if now - self._looked_at > _SNAPSHOT_SECONDS_MAX or not further:
            self._seen = None
            return
        epochs = {bucket: one.leader_epoch for bucket, one in further.items() if one.leader_epoch is not None}
        ends = {bucket: one.offset for bucket, one in further.items()}
        self._seen = (now, replace(head, ends={**head.ends, **ends}, epochs={**head.epochs, **epochs}))

    def rest(self, asked: float) -> bool:
        """Wait until the head may be read again: briefly after a read, and not at all if the head is fixed.

        True if the last read is older than the monotonic time of a question, so that its answer lacks what was written
        since: the next call of `now` reads the head again. `processAllAvailable` relies on that. Spark asks for the
        next offset about 85 times a second while there is nothing to read, and each question takes processor time of
        two processes. A query with several sources asks one after the other: hence the short wait.
        """
        if self._fixed is not None or self._seen is None:
            return False
        seen = self._seen[0]
        is_old = seen < asked
        left = seen + HEAD_SECONDS - time.monotonic()
        time.sleep(max(0.0, left if is_old else min(left, REST_SECONDS_MAX)))
        if is_old:
            self._seen = None
        return is_old

    def _look(self, *, has_all: bool = False) -> Head:
        """The head; if it `has_all` that is committed, what Kafka shows a little later is waited for."""
        newest = latest_of(self._table)
        self._check_same_table(newest)
        if newest is not None and self._target is None:
            check_got_no_log(self._table, newest.properties)
        ends: dict[int, int] = {}
        epochs: dict[int, int] = {}
        if self._target is not None:
            held = self._held(newest, self._target)
            stable = (committed_ends if has_all else last_stable_offsets)(self._target.topic, self._table.bucket_count)
            has_end_marks = self._target.topic.is_transactional
            ends = {
                bucket: readable_end(held.get(bucket, 0), at.offset, has_end_marks=has_end_marks)
                for bucket, at in stable.items()
            }
            epochs = {bucket: at.leader_epoch for bucket, at in stable.items() if at.leader_epoch is not None}
        return Head(
            snapshot_id=newest.id if newest else 0, commit=newest.uuid if newest else None, ends=ends, epochs=epochs
        )

    def _held(self, newest: Snapshot | None, target: LogTarget) -> Mapping[int, int]:
        """The offsets that the newest snapshot holds. Raises ConflictError if the snapshot has another log."""
        try:
            return position_after(self._table, newest, target, allows_foreign=self._allows_foreign).offsets
        except OtherLogError as error:
            raise ConflictError(str(error)) from error

    def _check_same_table(self, newest: Snapshot | None) -> None:
        """Raise ConflictError when the folder holds another table; each snapshot is checked once."""
        if newest is not None and (newest.id, newest.uuid) != self._checked:
            check_same_table(self._table, newest.properties.get(PropertyKey.UUID))
            self._checked = newest.id, newest.uuid


def check_same_commit(table: FileStoreTable, snapshot_id: int, *, found: str | None, read: str | None) -> None:
    """Raise InvalidRequestError if a snapshot is not the one that a query has read, made by the commit `read`."""
    if read is not None and found != read:
        raise InvalidRequestError(
            f"snapshot {snapshot_id} of table {table.name} is not the one that the query has read: that one was "
            f"made by the commit {read}, the present one by {found or 'a commit without a uuid'}. {OTHER_HISTORY}"
        )


def check_is_there(table: FileStoreTable, snapshot_id: int, *, newest: int) -> None:
    """Raise InvalidRequestError if a query has read a snapshot that is newer than the newest one."""
    if snapshot_id > newest:
        there = f"its newest is snapshot {newest}" if newest else "it has no snapshot"
        raise InvalidRequestError(
            f"the query has read table {table.name} up to snapshot {snapshot_id}, and {there}. {OTHER_HISTORY}"
        )


def log_after(
    table: FileStoreTable, snapshot: Snapshot | None, target: LogTarget, *, allows_foreign: bool = False
) -> LogState:
    """The state of the log in a snapshot; None stands for the state before the first one. Raises like `read_state`."""
    if snapshot is None:
        return LogState(topic_id=target.topic_id)
    return read_state(table, snapshot, topic_id=target.topic_id, allows_foreign=allows_foreign).logged


def position_after(
    table: FileStoreTable, snapshot: Snapshot | None, target: LogTarget, *, allows_foreign: bool = False
) -> LogOffset:
    """Where the log continues after a snapshot; before the first one, its beginning. Raises like `read_state`."""
    snapshot_id, commit = (0, None) if snapshot is None else (snapshot.id, snapshot.uuid)
    log = log_after(table, snapshot, target, allows_foreign=allows_foreign)
    return LogOffset.of_snapshot(snapshot_id, log, table.bucket_count, commit=commit)


def readable_end(held: int, stable: int, *, has_end_marks: bool = True) -> int:
    """How far a bucket can be read: to the last stable offset, or to what the newest snapshot holds.

    The last stable offset may lag behind a snapshot. If it is one step after a transaction that a snapshot holds, it
    has only passed the transaction's control record, which is no reason for a batch. Eventual logs have no control
    records.
    """
    return held if stable <= held + (1 if held and has_end_marks else 0) else stable
