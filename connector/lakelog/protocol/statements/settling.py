"""Settle a log: one snapshot takes in what is committed behind the newest one.

No bucket is fenced, since committed transactions do not change: a writer that lives goes on, and finds in the snapshot
what is there of its batches. Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable

from lakelog.common.errors import ConflictError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.table_position import TablePosition, covers
from lakelog.protocol.state.writer_marks import WriterMark, WriterMarks, is_reached
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.stores.task_stores import TaskFiles
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.fresh import FreshReads, FreshState
from lakelog.protocol.writing.logged_batches import adopt
from lakelog.protocol.writing.tail_checks import check_named_files

logger = logging.getLogger("lakelog.protocol")

_USER = "lakelog-settle"
_TRIES_MIN = 10
_TRY_SECONDS = 30.0  # at least, and with so many tries
_BACK_OFF_SECONDS_MAX = 0.5
_LOOK_SECONDS = 0.05
_LAG_SECONDS = 2.0
_LAG_LOOK_SECONDS = 0.005


def settle(
    table: TableStore, target: LogTarget, finish_statements: Callable[[], object], *, wait_seconds: float = 0.0
) -> Snapshot | None:
    """Take what the log has into a snapshot; returns the newest snapshot, which has all that was committed before.

    It waits `wait_seconds` for the snapshot of a writer that lives. `finish_statements` finishes those in the log: only
    their own commit takes them in, so one that begins meanwhile is finished by the next try. Batches that are not in
    all their buckets yet are taken in as far as they are there, and stay named in the snapshot until their writer has
    finished them. Raises CorruptDataError, UnavailableError, UnsupportedError for an eventual log, ConflictError where
    other writers were always quicker.
    """
    reads = FreshReads(table, target)
    check_no_copy(table, newest_state(table, topic_id=target.topic_id).place)
    began = time.monotonic()
    deadline, tries = began + wait_seconds, 0
    given_up: dict[int, int] = {}
    while tries < _TRIES_MIN or time.monotonic() < began + wait_seconds + _TRY_SECONDS:
        if tries:  # writers that settle at the same time come between each other
            time.sleep(random.uniform(0, min(0.01 * 2**tries, _BACK_OFF_SECONDS_MAX)))
        tries += 1
        finish_statements()
        found = _with_marked(reads, table, target, given_up)
        while not (is_done := _is_taken_in(table, target, found.position)) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        if is_done:
            return table.snapshots.latest()
        if found.answers or _has_rowless(table, target):
            for one in found.answers:
                check_named_files(TaskFiles(table, target), one.bucket, zip(one.transactions, one.ends, strict=True))
            batch = Batch(user=f"{_USER}-{uuid.uuid4()}", identifier=0, source_digest=None)
            try:
                adopt(table, target, batch, found.answers)
            except BucketConflictError as error:
                logger.info("the log of %s is looked at again: %s", table.name, error)
        if _is_taken_in(table, target, found.position):
            return table.snapshots.latest()
    raise ConflictError(
        f"table {table.name} was changed by other writers {tries} times while its log was taken into a snapshot; "
        "try again"
    )


def _with_marked(
    reads: FreshReads[TableStore], table: TableStore, target: LogTarget, given_up: dict[int, int]
) -> FreshState[TableStore]:
    """What is committed, with what writers have acknowledged: Kafka shows it some time after its answer.

    What does not come in time is lost, or behind a statement; its writer finds that out, and refuses to go on. It is
    added to `given_up`, bucket -> offset, which is not waited for: a slow try would be overtaken again and again.
    """
    offsets: dict[int, int] = {}
    for mark in WriterMarks(table, target.topic_id).all():
        for bucket, (end, _) in mark.ends.items():
            if end > given_up.get(bucket, 0):
                offsets[bucket] = max(end, offsets.get(bucket, 0))
    deadline = time.monotonic() + _LAG_SECONDS
    while True:
        found = reads.read()
        if covers(found.position.offsets, offsets):
            return found
        if time.monotonic() > deadline:
            given_up |= offsets
            return found
        time.sleep(_LAG_LOOK_SECONDS)


def is_settled(table: TableStore, target: LogTarget) -> bool:
    """Whether no batch waits for its snapshot. One request to Kafka where the log has nothing behind the newest one."""
    if not target.topic.is_transactional:
        return True
    log = newest_state(table, topic_id=target.topic_id).logged
    ends = Patience(target.unavailable_seconds).keep_trying(lambda: high_watermarks(target.topic, table.bucket_count))
    # Behind a position there is at least the control record of its transaction.
    is_behind = any(end.offset > log.position(bucket).offset + 1 for bucket, end in ends.items())
    marks = WriterMarks(table, target.topic_id).all() if is_behind else ()
    return all(is_reached(mark, log) for mark in marks)


def waiting_marks(table: TableStore, topic_id: str) -> list[WriterMark]:
    """The marks of the writers that have acknowledged batches which no snapshot has. Asks no Kafka.

    Raises CorruptDataError and NotFoundError if the table has marks, and has lost its state.
    """
    marks = WriterMarks(table, topic_id).all()
    if not marks:
        return []
    state = newest_state(table, topic_id=topic_id)
    return [one for one in marks if not is_reached(one, state.logged) or one.rowless_behind(state.users)]


def _has_rowless(table: TableStore, target: LogTarget) -> bool:
    """Whether batches without a transaction wait, and nothing else of their writer."""
    marks = [one for one in WriterMarks(table, target.topic_id).all() if one.rowless]
    if not marks:
        return False
    state = newest_state(table, topic_id=target.topic_id)
    return any(is_reached(one, state.logged) and one.rowless_behind(state.users) for one in marks)


def _is_taken_in(table: TableStore, target: LogTarget, position: TablePosition) -> bool:
    """Whether a snapshot has the log up to a position, and no batch without a transaction waits alone."""
    is_there = TablePosition.of_snapshot(table, table.snapshots.latest()).covers(position)
    return is_there and not _has_rowless(table, target)
