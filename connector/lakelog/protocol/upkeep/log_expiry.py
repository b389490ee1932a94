"""Expiry of a log: the records at its beginning that no snapshot and no stream needs are deleted.

Kafka itself deletes nothing in a table's topic, since it cannot know what is needed. A record is deleted when it is
older than `log.retention` and is in the oldest living snapshot: every snapshot can be followed from its own offsets on,
and a batch in no snapshot comes after them all. Records that a stream with a lease still has to read stay too. A stream
without a lease that comes back later than `log.retention` gets LogTruncatedError.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError, NotFoundError
from lakelog.common.patience import Patience
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.kafka.clients.offsets import log_start_offsets, offsets_since
from lakelog.logstore.kafka.clients.topic import delete_records
from lakelog.logstore.options import RETENTION
from lakelog.protocol.access.place import original_of
from lakelog.protocol.access.table_log import TableLog, kafka_topic, log_of
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.upkeep.reader_guard import warn_of_readers_behind

logger = logging.getLogger("lakelog.protocol")

_EVERY_SECONDS = 60.0  # the minimum time between expiries of a writer: each costs some requests to the broker
_looked: dict[tuple[str, str], float] = {}
_lock = Lock()


def first_needed(
    bucket: int, *, snapshots: Sequence[LogState], leases: Iterable[Mapping[int, int]], since: int | None
) -> int:
    """The first offset of a bucket that must stay in the log. Pure.

    `snapshots` are the oldest and the newest living one, `leases` are those of streams, `since` is the first record
    that is young enough to stay, None when every record is older.
    """
    held = [log.position(bucket).offset for log in snapshots]
    leased = [offsets[bucket] for offsets in leases if bucket in offsets]
    young = [] if since is None else [since]
    return min([*held, *leased, *young]) if held else 0


def expire_log(
    table: TableStore, log: TableLog, *, now_millis: int, patience: Patience | None = None
) -> dict[int, int]:
    """Delete the records of a table's log that no snapshot and no stream needs.

    Requests are retried as long as `patience` allows, by default not at all.

    Returns bucket -> the first offset that stays, for the buckets whose records were deleted.

    Raises CorruptDataError for a lease or snapshot that is not readable, NotFoundError without the topic, and
    UnavailableError.
    """
    log.check_topic()
    leases = LogLeases(table, log.topic_id).held(now_millis=now_millis)
    oldest, newest = table.snapshots.earliest_id(), table.snapshots.latest()
    first = None if oldest is None else table.snapshots.find(oldest)
    if first is None or newest is None:  # no snapshot exists, or another expiry has deleted it
        return {}
    try:
        states = [read_state(table, snapshot, topic_id=log.topic_id) for snapshot in (first, newest)]
    except NotFoundError:  # it has another log or engine: nothing expires before that snapshot has expired
        return {}
    if original_of(table, states[-1].place) is not None:  # a copy, whose log belongs to its original
        return {}
    count = table.bucket_count
    young = now_millis - RETENTION.of(table.schema.options)
    again = Patience(0) if patience is None else patience
    since = again.keep_trying(lambda: offsets_since(kafka_topic(log), count, young))
    starts = again.keep_trying(lambda: log_start_offsets(kafka_topic(log), count))
    logs = [state.logged for state in states]
    kept = {b: first_needed(b, snapshots=logs, leases=leases, since=since[b]) for b in range(count)}
    moved = {bucket: offset for bucket, offset in kept.items() if offset > starts[bucket].offset}
    if moved:
        delete_records(kafka_topic(log), moved)
    return moved


def expire_log_after_commit(
    table: TableStore, *, kafka: Mapping[str, str] | None = None, now_millis: int | None = None
) -> None:
    """Like `expire_log`, for writers: at most once a minute; lakelog's errors are only logged, as the commit is done.

    `kafka` are the user's own settings of Kafka clients.
    """
    log = log_of(table.schema, warehouse_of(table.path), path=table.path, kafka=kafka)
    if log is None:
        return
    key = (table.path, log.topic_id)
    with _lock:
        now = time.monotonic()
        if now - _looked.get(key, -_EVERY_SECONDS) < _EVERY_SECONDS:
            return
        _looked[key] = now
    millis = system_millis() if now_millis is None else now_millis
    try:
        expire_log(table, log, now_millis=millis)
        warn_of_readers_behind(table, log, now_millis=millis)
    except LakelogError as error:
        logger.warning("%s: old records of the log were not deleted: %s", table.name, error)
