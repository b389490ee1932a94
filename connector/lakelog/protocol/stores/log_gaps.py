"""Which deleted offsets of a log held no record, as the table's snapshots show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.options import is_eventual
from lakelog.protocol.state.state import LogPosition
from lakelog.protocol.stores.table_states import read_state

_BEGINNING = LogPosition()


def held_nothing(
    positions: Iterable[LogPosition], start: int, log_start: int, *, has_control_records: bool = True
) -> bool:
    """Whether no committed record was in [`start`, `log_start`), by the positions of snapshots. Pure.

    A snapshot's `records` count all records before its offset. At its offset is a control record, except at the log's
    beginning and in a log without control records. So there is no record between two snapshots with the same count, one
    at or before `start` and one that reaches `log_start`.
    """
    known = [_BEGINNING, *positions]
    before = [at.records for at in known if at.offset <= start]
    reached = [at.records for at in known if at.offset + (1 if at.offset and has_control_records else 0) >= log_start]
    return bool(reached) and min(reached) == max(before)


def gap_test(table: TableStore, topic_id: str, bucket: int) -> Callable[[int, int], bool]:
    """The test of deleted offsets in a bucket for `read_range`. Reads the living snapshots, only when called."""
    return partial(_test, table, topic_id, bucket)


def _test(table: TableStore, topic_id: str, bucket: int, start: int, log_start: int) -> bool:
    return held_nothing(
        _positions(table, topic_id, bucket),
        start,
        log_start,
        has_control_records=not is_eventual(table.schema.options),
    )


def _positions(table: TableStore, topic_id: str, bucket: int) -> Iterator[LogPosition]:
    for snapshot_id in table.snapshots.ids():
        with suppress(NotFoundError):  # expired meanwhile, or it is another engine's and the one before it has expired
            snapshot = table.snapshots.get(snapshot_id)
            yield read_state(table, snapshot, topic_id=topic_id).logged.position(bucket)
