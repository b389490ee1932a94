"""Readers that lag so far behind that the records they have not read will soon be deleted.

A running stream holds a lease on the log with its offsets. A reader is behind when it has not read records that are
older than three quarters of a retention: `retention.ms` of the topic, by which Kafka deletes records regardless of
leases, or `log.retention`, for which the lease keeps records until a day after the stream has stopped. A stream reads
deleted records from the files, as long as snapshots have them. Source: docs/rfcs/0031-healing.md, "Guard".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from lakelog.filestore.metadata.tables import LEASE_MILLIS, TableStore
from lakelog.logstore.kafka.clients.offsets import offsets_since
from lakelog.logstore.kafka.clients.topic import describe_topic
from lakelog.logstore.options import RETENTION
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.log_leases import LogLease, LogLeases
from lakelog.protocol.stores.table_states import newest_state

logger = logging.getLogger("lakelog.protocol")

TOPIC_RETENTION = "retention.ms"
BEHIND_PART = 3 / 4
_warned: set[tuple[str, str]] = set()  # (topic id, lease): one warning per process
_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBehind:
    """A reader that has not read the records of a bucket from `offset` on that are older than `age_millis`.

    `behind` is how many more offsets the log has; `setting` and `retention_millis` say what deletes them, and
    `renewed_millis` is how long ago the reader renewed its lease.
    """

    lease_id: str
    bucket: int
    offset: int
    behind: int
    age_millis: int
    setting: str
    retention_millis: int
    renewed_millis: int

    @property
    def found(self) -> str:
        """The finding, with the numbers."""
        left = max(LEASE_MILLIS - self.renewed_millis, 0)
        until = (
            "Kafka deletes them whether they are read or not"
            if self.setting == TOPIC_RETENTION
            else f"its lease keeps them for {_hours(left)} more unless it is renewed"
        )
        return (
            f"reader {self.lease_id} is at offset {self.offset} of bucket {self.bucket}, {self.behind} offsets behind: "
            f"the next records are older than {_hours(self.age_millis)}, {self.setting} is "
            f"{_hours(self.retention_millis)}, and {until}; it renewed its lease {_hours(self.renewed_millis)} ago"
        )


def _hours(millis: int) -> str:
    return f"{millis / 3_600_000:.3g} h"


def behind(
    leases: Sequence[LogLease],
    since: Mapping[int, int | None],
    ends: Mapping[int, int],
    *,
    age_millis: int,
    setting: str,
    retention_millis: int,
) -> list[ReaderBehind]:
    """The readers with leases that have not read the records before `since`, each with its most lagging bucket. Pure.

    `since` is bucket -> the first record that is younger than `age_millis`, None without one; `ends` are those of the
    newest snapshot: whether there are records after it is not known.
    """
    found = []
    for lease in leases:
        unread = {
            bucket: ends.get(bucket, 0) - at
            for bucket, at in lease.offsets.items()
            if at < ends.get(bucket, 0) and ((first := since.get(bucket)) is None or at < first)
        }
        if unread:
            bucket = max(unread, key=lambda one: unread[one])
            found.append(
                ReaderBehind(
                    lease_id=lease.id,
                    bucket=bucket,
                    offset=lease.offsets[bucket],
                    behind=unread[bucket],
                    age_millis=age_millis,
                    setting=setting,
                    retention_millis=retention_millis,
                    renewed_millis=lease.age_millis,
                )
            )
    return found


def find_readers_behind(table: TableStore, log: TableLog, *, now_millis: int) -> list[ReaderBehind]:
    """The readers whose next records are about to be deleted. Raises NotFoundError, UnavailableError."""
    leases = LogLeases(table, log.topic_id).living(now_millis=now_millis)
    if not leases:
        return []
    topic, count = kafka_topic(log), log.bucket_count
    own = describe_topic(topic).deletes_by.get(TOPIC_RETENTION)
    kept = RETENTION.of(table.schema.options)
    setting, retention = RETENTION.key, kept
    if own is not None and 0 <= int(own) < kept:
        setting, retention = TOPIC_RETENTION, int(own)
    age = int(retention * BEHIND_PART)
    state = newest_state(table, topic_id=log.topic_id, allows_foreign=True).logged
    ends = {bucket: state.position(bucket).offset for bucket in range(count)}
    since = offsets_since(topic, count, now_millis - age)
    return behind(leases, since, ends, age_millis=age, setting=setting, retention_millis=retention)


def warn_of_readers_behind(table: TableStore, log: TableLog, *, now_millis: int) -> None:
    """Log a warning for each reader that is behind, once in this process. Raises like `find_readers_behind`."""
    for one in find_readers_behind(table, log, now_millis=now_millis):
        key = (log.topic_id, one.lease_id)
        with _lock:
            if key in _warned:
                continue
            _warned.add(key)
        logger.warning("table %s: %s", table.name, one.found)
