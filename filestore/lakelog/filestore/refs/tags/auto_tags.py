"""Tags that writers create by themselves after a commit, one per period, and delete when their time is over.

The search begins with the snapshot after the newest automatic tag: the first snapshot whose time, less the delay, has
reached the end of the next period gets the tag of the period before its own. With completion it gets the tag of the
first period without one, so that missed tags follow, one per snapshot. Names, times and rules are Paimon's, so Paimon's
writers can continue with them. A process caches when the next tag is due, so that an earlier commit costs no I/O.
Source: Paimon, `TagAutoCreation`, `TagBatchCreation`, `TagTimeExpire`; the proposal of tags, "Table Options".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options import tagging
from lakelog.filestore.options.tagging import TagCreation
from lakelog.filestore.options.writing import WRITE_ONLY
from lakelog.filestore.refs.states.travel import NO_WATERMARK
from lakelog.filestore.refs.tags.success_files import complete_success_file
from lakelog.filestore.refs.tags.tag_periods import TagPeriods
from lakelog.filestore.refs.tags.tags import drop_tag, expire_tags, write_tag

logger = logging.getLogger("lakelog.filestore")

_BATCH_PREFIX = "batch-write-"
_EXPIRY_MILLIS = 600_000  # between two searches of a process for tags whose time is over


@dataclass(frozen=True, slots=True)
class _Next:
    """The first snapshot that was not checked, and the period that gets the next tag; None before the first tag."""

    snapshot_id: int
    period: datetime | None


_next: dict[tuple[str, str], _Next] = {}
_expired: dict[tuple[str, str], int] = {}  # when a process last searched for tags whose time is over


def tag_after_commit(
    table: TableStore, snapshot: Snapshot, *, is_upkeep: bool = False, now_millis: int | None = None
) -> None:
    """Create the tags that are due after a commit, before anything expires. Errors of lakelog are only logged.

    In tables with `write-only` only upkeep creates them, such as a compaction job (`is_upkeep`).
    """
    if WRITE_ONLY.of(table.schema.options) and not is_upkeep:
        return
    key = (table.path, table.branch)
    try:
        create_due_tags(table, snapshot)
    except LakelogError as error:
        _next.pop(key, None)
        logger.warning("%s: tags after snapshot %d were not created: %s", table.name, snapshot.id, error)
    if tagging.TAG_DEFAULT_TIME_RETAINED.of(table.schema.options) is not None:
        expire_tags_by_writer(table, now_millis=now_millis)


def expire_tags_by_writer(table: TableStore, *, now_millis: int | None = None) -> list[str]:
    """Delete the tags whose time is over, every ten minutes at most; returns their names. Errors are only logged.

    Writers call it when they expire snapshots, and in tables with `tag.default-time-retained` after commits.
    """
    now = system_millis() if now_millis is None else now_millis
    key = (table.path, table.branch)
    is_early = 0 <= now - _expired.get(key, now - _EXPIRY_MILLIS) < _EXPIRY_MILLIS
    if is_early or not tagging.TAG_TIME_EXPIRE_ENABLED.of(table.schema.options):
        return []
    _expired[key] = now
    try:
        return expire_tags(table, now_millis=now)
    except LakelogError as error:
        logger.warning("%s: tags whose time is over were not deleted: %s", table.name, error)
        return []


def create_due_tags(table: TableStore, newest: Snapshot) -> list[str]:
    """Create the automatic tags that are due up to a snapshot; returns their names. Raises errors of lakelog."""
    options = table.schema.options
    creation = creation_of(options)
    if creation is TagCreation.NONE:
        return []
    if creation is TagCreation.BATCH:
        return _tag_batch(table, newest)
    return _AutoTags(table, creation).create_up_to(newest)


def is_snapshot_due(table: TableStore, *, watermark: int | None, now_millis: int | None = None) -> bool:
    """Whether a batch without rows is to create a snapshot, so that a tag can be created although no rows arrive.

    With tags by the time of commits: if one is due now. With tags by watermarks: if the newest snapshot's watermark is
    `snapshot.watermark-idle-timeout` behind now, and the batch has a later `watermark`. It reads nothing of the table
    if the options rule it out. Source: Paimon, `TagAutoCreation`, "forceCreatingSnapshot".
    """
    options = table.schema.options
    creation, timeout = creation_of(options), tagging.SNAPSHOT_WATERMARK_IDLE_TIMEOUT.of(options)
    if WRITE_ONLY.of(options) or creation not in (TagCreation.PROCESS_TIME, TagCreation.WATERMARK):
        return False
    if creation is TagCreation.WATERMARK and (timeout is None or watermark is None):
        return False
    newest = table.snapshots.latest()
    if newest is None:
        return False
    now = system_millis() if now_millis is None else now_millis
    if creation is TagCreation.PROCESS_TIME:
        return _AutoTags(table, creation).is_due_at(now, newest)
    assert timeout is not None, "checked above"
    assert watermark is not None, "checked above"
    known = newest.watermark
    return known is not None and known < watermark and known <= now - timeout


def creation_of(options: Mapping[str, str]) -> TagCreation:
    """By what time tags are created with these options; the proposal's options mean the time of commits."""
    creation = tagging.TAG_AUTOMATIC_CREATION.of(options)
    asked = (tagging.TAG_CREATE_TIME.of(options), tagging.TAG_CREATE_INTERVAL.of(options))
    if creation is TagCreation.NONE and any(one is not None for one in asked):
        return TagCreation.PROCESS_TIME
    return creation


class _AutoTags:
    """The automatic tags of a table."""

    def __init__(self, table: TableStore, creation: TagCreation) -> None:
        self._table = table
        self._creation = creation
        self._options = table.schema.options
        self._periods = TagPeriods.of(self._options)
        self._is_completed = tagging.TAG_AUTOMATIC_COMPLETION.of(self._options)

    def create_up_to(self, newest: Snapshot) -> list[str]:
        """Check the snapshots up to `newest` that no process has checked, oldest first."""
        key = (self._table.path, self._table.branch)
        at = self._known(newest)
        if not self._is_due(newest, at):
            return []
        at = self._begin()  # another process may have created tags meanwhile
        made: list[str] = []
        first = max(at.snapshot_id, self._table.snapshots.earliest_id() or 1)
        for number in range(first, newest.id + 1):
            snapshot = newest if number == newest.id else self._table.snapshots.find(number)
            if snapshot is not None and self._is_due(snapshot, at):
                at = self._create(snapshot, at, made)
            at = _Next(number + 1, at.period)
        _next[key] = at
        return made

    def is_due_at(self, now_millis: int, newest: Snapshot) -> bool:
        """Whether a snapshot of this time, after the newest one, would get a tag."""
        at = self._known(newest)
        return self._is_due(replace(newest, id=newest.id + 1, time_millis=now_millis), at)

    def _known(self, newest: Snapshot) -> _Next:
        """What this process knows, or now finds out, about the next tag."""
        key = (self._table.path, self._table.branch)
        at = _next.get(key)
        if at is None or at.snapshot_id > newest.id + 1:  # another table in the same folder, or a rollback
            at = _next[key] = self._begin()
        return at

    def _begin(self) -> _Next:
        tags = self._tags()
        if not tags:
            return _Next(self._table.snapshots.earliest_id() or 1, None)
        last = tags[-1]
        complete_success_file(self._table, last.name)
        time = self._periods.time_of(last.name)
        assert time is not None, "automatic tags have a time"
        return _Next(last.snapshot.id + 1, time + self._periods.length)

    def _tags(self) -> list[Tag]:
        """The automatic tags, by snapshot, then by time."""
        tags = [tag for tag in self._table.snapshots.all_tags() if self._periods.time_of(tag.name) is not None]
        return sorted(tags, key=lambda tag: (tag.snapshot.id, self._periods.time_of(tag.name) or datetime.min))

    def _time(self, snapshot: Snapshot) -> datetime | None:
        if self._creation is TagCreation.PROCESS_TIME:
            return _local(snapshot.time_millis)
        if snapshot.watermark is None or snapshot.watermark == NO_WATERMARK:
            return None
        zone = tagging.SINK_WATERMARK_TIME_ZONE.of(self._options)
        try:
            return datetime.fromtimestamp(snapshot.watermark / 1_000, UTC).astimezone(zone).replace(tzinfo=None)
        except (OverflowError, OSError, ValueError):  # a watermark that ends a bounded stream
            return None

    def _is_due(self, snapshot: Snapshot, at: _Next) -> bool:
        time = self._time(snapshot)
        if time is None:
            return False
        return at.period is None or time - self._periods.delay >= at.period + self._periods.length

    def _create(self, snapshot: Snapshot, at: _Next, made: list[str]) -> _Next:
        time = self._time(snapshot)
        assert time is not None, "a snapshot without a time is not due"
        is_missed = self._is_completed and at.period is not None
        period = at.period if is_missed and at.period is not None else self._periods.before(time)
        name = self._periods.name_of(period)
        with contextlib.suppress(ConflictError):  # another writer was first
            write_tag(self._table, name, snapshot, time_retained=default_kept(self._options), is_automatic=True)
            made.append(name)
        keep = tagging.TAG_NUM_RETAINED_MAX.of(self._options)
        if keep is not None:
            _drop_oldest(self._table, self._tags(), keep)
        return _Next(snapshot.id + 1, period + self._periods.length)


def default_kept(options: Mapping[str, str]) -> timedelta | None:
    """How long a tag without a time of its own is kept; None means forever."""
    millis = tagging.TAG_DEFAULT_TIME_RETAINED.of(options)
    return None if millis is None else timedelta(milliseconds=millis)


def _tag_batch(table: TableStore, snapshot: Snapshot) -> list[str]:
    """Keep what a batch write has committed by the tag of the day, or by the one that the options name."""
    if snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
        return []
    options = table.schema.options
    name = tagging.TAG_BATCH_CUSTOMIZED_NAME.of(options) or f"{_BATCH_PREFIX}{_local(snapshot.time_millis):%Y-%m-%d}"
    kept = default_kept(options)
    try:
        write_tag(table, name, snapshot, time_retained=kept, replace=True, is_automatic=True)
    except NotFoundError:
        write_tag(table, name, snapshot, time_retained=kept, is_automatic=True)
    keep = tagging.TAG_NUM_RETAINED_MAX.of(options)
    if keep is not None:
        own = [tag for tag in table.snapshots.all_tags() if tag.name.startswith(_BATCH_PREFIX) or tag.name == name]
        _drop_oldest(table, own, keep)
    return [name]


def _drop_oldest(table: TableStore, tags: list[Tag], keep: int) -> None:
    for tag in tags[:-keep]:
        with contextlib.suppress(NotFoundError):  # another writer was first
            drop_tag(table, tag.name)


def _local(millis: int) -> datetime:
    try:
        return datetime.fromtimestamp(millis / 1_000).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError) as error:
        raise InvalidRequestError(f"no tag can be named after the time {millis} ms") from error
