"""Where a log ended, and which buckets have lost records that snapshots hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import carried_properties
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.log_generations import older_schema, state_of_log
from lakelog.protocol.state.state import LogPosition
from lakelog.protocol.statements.readable_tails import asked_again, is_taken_in
from lakelog.protocol.statements.statement_runs import target_of
from lakelog.protocol.upkeep.log_check import check_log

_LOOKS = 3
_LOOK_AGAIN_SECONDS = 0.3


def is_there(log: TableLog) -> bool:
    """Whether the topic exists and belongs to the table."""
    try:
        log.check_topic()
    except (NotFoundError, CorruptDataError):
        return False
    return True


def is_lost(log: TableLog) -> bool:
    """Whether the topic is missing or another table's; checked several times, as a broker may not know it yet."""
    for _ in range(_LOOKS - 1):
        if is_there(log):
            return False
        time.sleep(_LOOK_AGAIN_SECONDS)
    return not is_there(log)


def cut_buckets(table: FileStoreTable, log: TableLog) -> frozenset[int]:
    """The buckets of the newest snapshot's log that have lost records that it holds; all, without the topic."""
    if is_lost(log):
        return frozenset(range(log.bucket_count))
    schema = older_schema(table, log.topic_id)  # the newest schema may have another number of buckets
    found = check_log(table if schema is None else replace(table, schema=schema), log).buckets
    return frozenset(one.bucket for one in found if one.missing is not None or one.is_rewritten)


def _is_taken_in(table: FileStoreTable, log: TableLog, bucket: int, at: LogPosition) -> bool:
    target = target_of(log)
    return asked_again(target, lambda: is_taken_in(table, target, bucket, at))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a log ended: its high watermarks, or the newest snapshot's offsets where the log lacks records.

    A time without a log has no offsets.
    """

    offsets: Mapping[int, int] = field(default_factory=dict)
    is_lost: bool = False

    @classmethod
    def of(cls, table: FileStoreTable, log: TableLog | None) -> LogEnd:
        """The end of a log that the newest snapshot still has; retried as `TableLog.patience` allows.

        Raises UnavailableError.
        """
        if log is None:
            return cls()
        cut = cut_buckets(table, log)
        latest = table.snapshots.latest()
        where = f"table {table.path}, snapshot {latest.id if latest else 0}"
        state = state_of_log(carried_properties(latest, table.snapshots).properties, where=where)
        if state is not None:
            cut |= {
                bucket
                for bucket in range(log.bucket_count)
                if bucket not in cut and not _is_taken_in(table, log, bucket, state.position(bucket))
            }
        held = {} if state is None else {bucket: state.position(bucket).offset for bucket in cut}
        if len(cut) < log.bucket_count:
            ends = log.patience().keep_trying(lambda: high_watermarks(kafka_topic(log), log.bucket_count))
            held |= {bucket: at.offset for bucket, at in ends.items() if bucket not in cut}
        return cls(offsets=held, is_lost=bool(cut))
