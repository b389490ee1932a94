"""The progress topic of tables: after each snapshot a record of its batch and of the end of each bucket's log.

Key: the table's uuid. Value, a JSON object:

    {"v": 1, "table": "<database>.<table>", "table_uuid": ..., "topic": ..., "topic_id": ..., "user": ..., "batch": 7,
     "snapshot": 12, "commit_uuid": ... or null, "time_millis": ..., "offsets": {"0": 120, "1": 96}}

`offsets` are the next records of the table's log after the snapshot. COMPACT snapshots change no row and have no
record. Publishing is at least once: a writer that publishes a snapshot has published every living one before it. So a
writer that starts, or whose last record failed, begins after the newest snapshot of the table in the topic's last
records. Publishing never fails a commit: errors are warnings, and the next commit publishes what is missing. Source:
Materialize, "Kafka sink: progress".
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError
from lakelog.common.json_fields import COUNT, optional, parse_object, string, whole
from lakelog.filestore.io import DATABASE_SUFFIX
from lakelog.filestore.metadata.snapshots import CommitKind, Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.producers.side_topic import append_records, ensure_side_topic, last_records
from lakelog.logstore.options import PROGRESS_TOPIC
from lakelog.protocol.access.table_log import TableLog
from lakelog.protocol.access.topics import progress_topic
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.table_states import read_state

VERSION = 1
LOOKED_AT_MAX = 10_000  # the last records of the topic that a writer searches for its table
_Record = tuple[bytes | None, bytes | None]
logger = logging.getLogger("lakelog.protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A snapshot in the topic: ids are reused after a rollback, so the commit's uuid is compared too."""

    snapshot_id: int
    commit_uuid: str | None


def progress_value(table: TableStore, log: TableLog, snapshot: Snapshot, state: LogState) -> bytes:
    """The value of a snapshot's record. Pure."""
    folder, _, name = table.path.rpartition("/")
    database = folder.rpartition("/")[2].removesuffix(DATABASE_SUFFIX)
    fields = {
        "v": VERSION,
        "table": f"{database}.{name}",
        "table_uuid": table.uuid,
        "topic": log.topic,
        "topic_id": log.topic_id,
        "user": snapshot.commit_user,
        "batch": snapshot.commit_identifier,
        "snapshot": snapshot.id,
        "commit_uuid": snapshot.uuid,
        "time_millis": snapshot.time_millis,
        "offsets": {str(bucket): at.offset for bucket, at in sorted(state.positions.items())},
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def newest_published(records: Iterable[_Record], table_uuid: str) -> Published | None:
    """The newest snapshot of a table among records; None without one. Records of other programs are skipped. Pure."""
    own = [_snapshot_of(value) for key, value in records if key == table_uuid.encode()]
    return next((one for one in reversed(own) if one is not None), None)


@dataclass(slots=True)
class ProgressTopics:
    """The publisher of one process, with what it has published of each table. It is thread-safe."""

    _lock: Lock = field(default_factory=Lock)
    _last: dict[tuple[str, str, str], Published | None] = field(default_factory=dict)

    def publish(self, table: TableStore, log: TableLog) -> None:
        """Publish the snapshots of a table that are not in its progress topic. Errors are logged as warnings.

        Without the option for a progress topic it does nothing.
        """
        name = log.progress_topic
        if not name:
            return
        try:
            with self._lock:
                self._publish(table, log, progress_topic(name, log.client_config))
        except LakelogError as error:
            logger.warning("%s: topic %s lacks the newest snapshot until the next commit: %s", table.name, name, error)

    def _publish(self, table: TableStore, log: TableLog, topic: KafkaTopic) -> None:
        key = (table.path, table.uuid, topic.name)
        if key in self._last:
            last = self._last.pop(key)
        else:
            ensure_side_topic(topic)
            last = newest_published(_checked(topic, last_records(topic, LOOKED_AT_MAX)), table.uuid)
        found = list(_missing(table, log, last))
        if found:
            values = [progress_value(table, log, one, state) for one, state in found]
            append_records(topic, [(table.uuid.encode(), value) for value in values])
            newest = found[-1][0]
            last = Published(snapshot_id=newest.id, commit_uuid=newest.uuid)
        self._last[key] = last  # after an error the topic is read again


_OF_PROCESS = ProgressTopics()


def publish_progress(table: TableStore, log: TableLog) -> None:
    """Publish the snapshots that the table's progress topic lacks. Called after a commit; errors are warnings."""
    _OF_PROCESS.publish(table, log)


def _checked(topic: KafkaTopic, records: Sequence[_Record]) -> Sequence[_Record]:
    """The records of a topic. Raises InvalidRequestError if they belong to another program."""
    if records and all(_snapshot_of(value) is None for _, value in records):
        raise InvalidRequestError(
            f"topic {topic.name} holds records of another program; name a topic of its own in {PROGRESS_TOPIC.key!r}"
        )
    return records


def _snapshot_of(value: bytes | None) -> Published | None:
    """The snapshot of a record; None for a record of another program."""
    if value is None:
        return None
    try:
        fields = parse_object(value)
        if whole(fields, "v") != VERSION:
            return None
        return Published(
            snapshot_id=whole(fields, "snapshot", COUNT), commit_uuid=optional(string, fields, "commit_uuid")
        )
    except (KeyError, ValueError):
        return None


def _missing(table: TableStore, log: TableLog, last: Published | None) -> Iterator[tuple[Snapshot, LogState]]:
    """The living snapshots after `last` and the states of the log in them, oldest first, without COMPACT snapshots.

    All of them if there is no `last`, or if its id now belongs to another commit: the table was rolled back since.
    """
    newest = table.snapshots.latest()
    found = None if last is None else table.snapshots.find(last.snapshot_id)
    is_same = last is not None and (found is None or found.uuid == last.commit_uuid)
    if newest is None or (is_same and last is not None and newest.id == last.snapshot_id):
        return
    is_behind = is_same and last is not None and newest.id > last.snapshot_id
    ids = range(last.snapshot_id + 1, newest.id + 1) if is_behind and last is not None else table.snapshots.ids()
    for snapshot_id in ids:
        with suppress(NotFoundError):  # expired meanwhile, or from an older log of the table
            snapshot = table.snapshots.get(snapshot_id)
            if snapshot.commit_kind is not CommitKind.COMPACT:
                yield snapshot, read_state(table, snapshot, topic_id=log.topic_id).logged
