"""The state of the protocol in the snapshots of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, forgotten_millis, parse_users
from lakelog.filestore.metadata.tables import (
    OutdatedSnapshotError,
    TableStore,
    carried_by,
    foreign_rows_text,
    snapshot_with_rows,
)
from lakelog.protocol.state.log_generations import ended_generations, other_log_text, state_of_log
from lakelog.protocol.state.state import LogState, TableState


class OtherLogError(NotFoundError):
    """A snapshot belongs to another log than the one that the table has, or had when it was opened."""


def read_state(
    table: TableStore, snapshot: Snapshot | None, *, topic_id: str | None, allows_foreign: bool = False
) -> TableState:
    """The users and the log state of `snapshot`; None is the state before the first. `topic_id` None means no log.

    COMPACT snapshots of other engines have no state of lakelog: it is read from the newest snapshot before them. Raises
    OtherLogError, and unless `allows_foreign`, UnsupportedError for rows of another engine in a logged table, which are
    not in the log.
    """
    carried = carried_by(table, snapshot)
    log = None
    if topic_id is not None:
        if not allows_foreign:
            _check_foreign(table, carried.foreign)
        where = f"table {table.path}, snapshot {snapshot.id if snapshot else 0}"
        found = state_of_log(carried.properties, where=where)
        is_new = not carried.properties or not table.has_log  # a table that gets its log has snapshots without a state
        log = LogState(topic_id=topic_id) if found is None and is_new else found
        if log is None or log.topic_id != topic_id:
            raise OtherLogError(
                other_log_text(
                    where,
                    found="" if log is None else log.topic_id,
                    expected=topic_id,
                    ended=ended_generations(carried.properties, where=where),
                )
            )
    snapshot_id = 0 if snapshot is None else snapshot.id
    placed = carried.properties.get(PropertyKey.PLACE) or table.schema.options.get(PropertyKey.PLACE)
    return TableState(
        snapshot_id=snapshot_id,
        users=parse_users(carried.properties),
        log=log,
        forgotten_millis=forgotten_millis(carried.properties),
        place=None if log is None else placed,
    )


def newest_state(table: TableStore, *, topic_id: str | None, allows_foreign: bool = False) -> TableState:
    """The users and the log state of the newest snapshot, read now. Raises like `read_state`."""
    while True:
        try:
            latest = table.snapshots.latest()
            return read_state(table, latest, topic_id=topic_id, allows_foreign=allows_foreign)
        except OutdatedSnapshotError:  # there is a newer one now
            continue


def _check_foreign(table: TableStore, foreign: Sequence[Snapshot]) -> None:
    found = snapshot_with_rows(table, foreign)
    if found is not None:
        raise UnsupportedError(foreign_rows_text(table.path, found))


def states_of(table: TableStore, *, topic_id: str | None) -> Iterator[tuple[Snapshot, TableState]]:
    """Every living snapshot, oldest first, with its users and log state."""
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        yield snapshot, read_state(table, snapshot, topic_id=topic_id)
