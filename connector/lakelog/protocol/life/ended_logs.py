"""The topics of logs that have ended: a rescale leaves one for readers; renewing or removing a log may too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import TABLE_UUID
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.access.place import check_no_copy, recorded_place
from lakelog.protocol.access.table_log import TableLog
from lakelog.protocol.access.topics import drop_topic
from lakelog.protocol.life.log_beginning import check_not_cut_off, newest_of, present_log
from lakelog.protocol.life.log_ends import is_there
from lakelog.protocol.state.log_generations import ended_before
from lakelog.protocol.state.log_leases import LogLeases


def older_logs(table: FileStoreTable, kafka: Mapping[str, str] | None) -> list[TableLog]:
    """The logs that schemas of the table name, except the present one, the oldest first. Does not ask Kafka.

    Logs of a table that this one was copied from are left out.
    """
    found: dict[str, TableSchema] = {}
    for number in table.schemas.list_ids():
        schema = table.schemas.get(number)
        topic_id = TOPIC_ID.of(schema.options)
        if (
            topic_id
            and TABLE_UUID.of(schema.options) == table.uuid
            and not replace(table, schema=schema).has_foreign_log
        ):
            found[topic_id] = schema
    found.pop(TOPIC_ID.of(table.schema.options), None)
    return [present_log(replace(table, schema=schema), kafka) for schema in found.values()]


def drop_ended_logs(
    table: FileStoreTable, *, age_millis: int, now_millis: int, kafka: Mapping[str, str] | None = None
) -> list[str]:
    """Delete the topics of logs that ended at least that long ago and that no running stream reads; returns the names.

    A log without a known end is older than the generations that are kept, so it counts as old. Raises
    InvalidRequestError if a log is half ended, and for a copy; UnavailableError.
    """
    newest = newest_of(table)
    check_not_cut_off(newest)
    check_no_copy(newest, recorded_place(newest))
    ends = _ends(newest)
    dropped = []
    for log in older_logs(newest, kafka):
        end_millis, last = ends.get(log.topic_id, (0, {}))
        if end_millis > now_millis - age_millis:
            continue
        if _is_read(LogLeases(newest, log.topic_id).held(now_millis=now_millis), last) or not is_there(log):
            continue
        drop_topic(log)
        dropped.append(log.topic)
    return dropped


def _ends(table: TableStore) -> dict[str, tuple[int, Mapping[int, int]]]:
    """Topic id -> the latest time at which its log can have ended, in milliseconds, and its end offsets."""
    latest = table.snapshots.latest()
    if latest is None:
        return {}
    oldest = table.snapshots.earliest_id()
    found = {}
    for one in ended_before(table, latest):
        at = table.snapshots.find(max(one.snapshot_id, oldest or 0)) or latest
        found[one.topic_id] = (at.time_millis, one.ends)
    return found


def _is_read(leases: Sequence[Mapping[int, int]], ends: Mapping[int, int]) -> bool:
    """Whether a stream has records of an ended log left to read. The last record is followed by a control record."""
    return any(at < ends.get(bucket, 0) - 1 for lease in leases for bucket, at in lease.items())
