"""The two ends of a range of changes: snapshots, tags or timestamps.

An end is the number of a snapshot, 0 for the state before the first one; a string, read as in `VERSION AS OF` by
`lakelog.filestore.refs.states.travel`, or else as a timestamp; or a datetime.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import shown
from lakelog.common.timestamps import millis_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.states.travel import at_number, at_timestamp, at_version

RangeName = int | str | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeEnd:
    """One end. `snapshot` is None before the first snapshot, and where it may not be kept."""

    number: int
    snapshot: Snapshot | None = None
    is_tag: bool = False


def range_end(table: TableStore, named: RangeName, what: str) -> RangeEnd:
    """The end that a name means, in the table's branch. Raises NotFoundError and InvalidRequestError.

    A number is not looked up: its snapshot may have expired while its changes are kept.
    """
    if isinstance(named, bool) or not isinstance(named, int | str | datetime):
        raise InvalidRequestError(f"{what} takes a snapshot, a tag or a timestamp, found {shown(named)}")
    if isinstance(named, int):
        if named < 0:
            raise InvalidRequestError(f"{what} takes the number of a snapshot, or 0, found {named}")
        return RangeEnd(number=named)
    if isinstance(named, str) and not (named.isdigit() and named not in table.snapshots.tags()):
        return _of_version(table, named, what)
    return _of_time(table, named) if isinstance(named, datetime) else RangeEnd(number=int(named))


def state_of(table: TableStore, end: RangeEnd) -> Snapshot | None:
    """The snapshot of an end; None before the first one. Raises NotFoundError if it is not kept.

    The number of an expired snapshot is searched for in the tags.
    """
    if end.snapshot is not None or end.number == 0:
        return end.snapshot
    return at_number(table, end.number, or_tagged=True)


def _of_version(table: TableStore, text: str, what: str) -> RangeEnd:
    try:
        found, snapshot = at_version(table, text)
    except NotFoundError as error:
        try:
            millis = millis_of(text)
        except InvalidRequestError:
            raise error from None
        return _of_millis(table, millis)
    if found.branch != table.branch:
        raise InvalidRequestError(
            f"{what} names {text!r} of branch {found.branch!r}, and changes are those of one branch, {table.branch!r} "
            "here: open that branch, or compare the two with diff"
        )
    assert snapshot is not None, "a version that is no branch is a snapshot"
    return RangeEnd(number=snapshot.id, snapshot=snapshot, is_tag=text in table.snapshots.tags())


def _of_time(table: TableStore, time: datetime) -> RangeEnd:
    return _of_millis(table, millis_of(time))


def _of_millis(table: TableStore, millis: int) -> RangeEnd:
    """The snapshot at a time; for a time before the first snapshot, the state before it."""
    try:
        snapshot = at_timestamp(table, millis)
    except NotFoundError:
        oldest = table.snapshots.earliest_id()
        if oldest is not None and oldest > 1:
            raise
        return RangeEnd(number=0)
    return RangeEnd(number=snapshot.id, snapshot=snapshot)
