"""Keeps lakelog's state of a table (its writers, merges and restores) through the expiry of other engines.

The state is in the properties of lakelog's own snapshots, see `filestore.metadata.snapshots.users`; other engines do
not copy it into theirs. An engine that compacts and expires could leave only its own snapshots. The consumer
`lakelog-state` prevents that: every engine of the format keeps the snapshots from a consumer's on. The consumer is
never ahead of the newest snapshot of lakelog, and at most LAG_SNAPSHOTS or LAG_MILLIS behind while there are commits:
so most commits do not write it, and other engines, which keep 10 snapshots by default, expire as they would without it.

The option `consumer.expiration-time` of a table defeats this: other engines delete each consumer that was not written
for that long, including this one, and without commits it is not written. A table with the option gets a warning.

After a crash the consumer is further behind, which keeps more snapshots. It is written before the first snapshot with
state, and after all others. If nevertheless no snapshot of lakelog is left, the file `lakelog/state` shows that there
was one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from lakelog.common.errors import UnavailableError
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.snapshots.users import MERGED_PREFIX, NO_USERS, PropertyKey
from lakelog.filestore.metadata.tables.consumers import STATE_CONSUMER, ConsumerManager
from lakelog.filestore.schema.paths import TablePaths

logger = logging.getLogger("lakelog.filestore")

LAG_SNAPSHOTS = 8
LAG_MILLIS = 60_000


def has_state(properties: Mapping[str, str]) -> bool:
    """Whether snapshot properties hold state that must not be lost: users, offsets, merges, restores."""
    has_users = properties.get(PropertyKey.USERS, NO_USERS) != NO_USERS or PropertyKey.FORGOTTEN in properties
    has_merges = any(key.startswith(MERGED_PREFIX) for key in properties)
    return has_users or has_merges or PropertyKey.LOG_STATE in properties or PropertyKey.RESTORED in properties


class StateKeeper:
    """Moves the consumer of one table along after the commits of this process.

    `consumer_millis` is the table's `consumer.expiration-time`; None keeps consumers forever.
    """

    def __init__(self, file_io: FileIO, paths: TablePaths, *, consumer_millis: int | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._consumer_millis = consumer_millis
        self._put_at: int | None = None
        self._put_millis: int | None = None
        self._is_marked = False

    def before_commit(self, snapshot_id: int, properties: Mapping[str, str], *, carried: Mapping[str, str]) -> None:
        """Write the consumer before the first snapshot with state. Raises UnavailableError."""
        if self._put_at is None and has_state(properties) and not has_state(carried):
            self._put(snapshot_id)

    def after_commit(self, snapshot_id: int, properties: Mapping[str, str], *, now_millis: int) -> None:
        """Move the consumer to a snapshot that was just committed, if that is due.

        The commit has succeeded, so an error is logged and not raised: the next commit tries again.
        """
        if not has_state(properties):
            return
        try:
            if self._is_due(snapshot_id, now_millis):
                self._put(snapshot_id)
                self._put_millis = now_millis
            if not self._is_marked:
                self._file_io.create_new(self._paths.state_mark, b"{}")
                self._is_marked = True
        except UnavailableError as error:
            logger.warning("%s: consumer %s was not moved: %s", self._paths.root, STATE_CONSUMER, error)

    def _is_due(self, snapshot_id: int, now_millis: int) -> bool:
        if self._put_at is None or not self._put_at <= snapshot_id < self._put_at + LAG_SNAPSHOTS:
            return True
        if self._put_millis is None:  # written before this snapshot
            self._put_millis = now_millis
        return not self._put_millis <= now_millis < self._put_millis + LAG_MILLIS

    def _put(self, snapshot_id: int) -> None:
        if self._put_at is None and self._consumer_millis is not None:
            logger.warning(
                "%s has the option consumer.expiration-time (%d s): another engine that expires its snapshots deletes "
                "the consumer %s too when nothing was committed for that long, and then the snapshots with lakelog's "
                "state of the table's writers. Where another engine expires this table, remove the option",
                self._paths.root,
                self._consumer_millis // 1000,
                STATE_CONSUMER,
            )
        ConsumerManager(self._file_io, self._paths).put(STATE_CONSUMER, snapshot_id)
        self._put_at = snapshot_id
