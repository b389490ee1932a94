"""Expiry by writers: after a commit, if it is due by the table's options.

It must cost a commit nothing if it is not due. So each process caches, by table, the oldest snapshot and the commit
time of the next one: these show when the oldest may expire, without I/O. Source: Paimon,
`FileStoreTable.newExpireRunnable`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError
from lakelog.filestore.expire.expiry import commit_times, expire_snapshots
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.commit_times import CLOCK_SKEW_MAX_MILLIS
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.writing import WRITE_ONLY

logger = logging.getLogger("lakelog.filestore")

_RETRY_MILLIS = 60_000  # the wait after an expiry that a consumer prevented


@dataclass(frozen=True, slots=True)
class _Oldest:
    """The oldest snapshot or changelog, and the commit time of the next one; None means not known yet."""

    snapshot_id: int
    following_millis: int | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """The cached state of a table: its oldest snapshot, its oldest changelog, and the time of the next check."""

    snapshot: _Oldest | None
    changelog: _Oldest | None
    not_before_millis: int = 0


_known: dict[tuple[str, str], _Known] = {}


def expire_after_commit(
    table: TableStore, newest_id: int, *, now_millis: int | None = None, is_upkeep: bool = False
) -> bool:
    """Expire what is due after the commit of snapshot `newest_id`; True if snapshots were deleted.

    The commit has taken effect, so errors of lakelog are logged and not raised. Tables with `write-only` are only
    expired by upkeep, such as a compaction job (`is_upkeep`).
    """
    if WRITE_ONLY.of(table.schema.options) and not is_upkeep:
        return False
    now = system_millis() if now_millis is None else now_millis
    key = (table.path, table.branch)
    try:
        known = _known.get(key) or _look(table)
        if known.snapshot is not None and known.snapshot.snapshot_id > newest_id:  # another table in the same folder
            known = _look(table)
        known, is_due = _decide(table, known, newest_id, now)
        has_expired = False
        if is_due:
            expired = expire_snapshots(table, now_millis=now)
            known = _look(table)
            has_expired = bool(expired.snapshot_ids)
            if not (expired.snapshot_ids or expired.changelog_ids):
                known = replace(known, not_before_millis=now + _RETRY_MILLIS)
        _known[key] = known
        return has_expired
    except LakelogError as error:
        _known.pop(key, None)
        logger.warning("%s: the expiry after snapshot %d did not happen: %s", table.name, newest_id, error)
        return False


def _decide(table: TableStore, known: _Known, newest_id: int, now_millis: int) -> tuple[_Known, bool]:
    """The updated cache, and whether an expiry is due."""
    if 0 < known.not_before_millis - now_millis <= _RETRY_MILLIS:  # a longer wait comes from a clock that was set back
        return known, False
    retention = Retention.of(table)
    snapshot, is_due = _decide_oldest(table, known.snapshot, newest_id, retention, now_millis)
    for_changes = retention.for_changes(table)
    changelog, is_change_due = _decide_oldest(table, known.changelog, newest_id, for_changes, now_millis)
    return replace(known, snapshot=snapshot, changelog=changelog), is_due or is_change_due


def _decide_oldest(
    table: TableStore, oldest: _Oldest | None, newest_id: int, retention: Retention, now_millis: int
) -> tuple[_Oldest | None, bool]:
    if oldest is None:
        return None, False
    count = newest_id - oldest.snapshot_id + 1
    if count > retention.count_max:
        return oldest, True
    if count <= retention.count_min:
        return oldest, False
    if oldest.following_millis is None or oldest.following_millis > now_millis + CLOCK_SKEW_MAX_MILLIS:
        times = commit_times(table, newest_id, now_millis=now_millis)
        oldest = replace(oldest, following_millis=times.of(oldest.snapshot_id + 1))
        assert oldest.following_millis is not None
    return oldest, oldest.following_millis < now_millis - retention.age_millis


def _look(table: TableStore) -> _Known:
    """Read the oldest ids. If there is no hint, lists a folder once and writes the hint."""
    earliest, is_hinted = table.snapshots.look_for_earliest()
    if earliest is not None and not is_hinted:
        table.snapshots.write_earliest_hint(earliest)
    changelog = ChangelogManager(table.file_io, table.paths).earliest_id()
    return _Known(
        snapshot=None if earliest is None else _Oldest(earliest),
        changelog=None if changelog is None else _Oldest(changelog),
    )
