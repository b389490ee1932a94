"""The outcome of a commit whose requests to create a snapshot got no clear answer.

A running commit whose answers were lost searches for its snapshot itself. When it has ended with UnknownOutcomeError,
`find_commit` searches for it, in any process, by the commit's uuid.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakelog.common.errors import (
    ConflictError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot, is_same_commit
from lakelog.filestore.metadata.tables.identity import is_same_table
from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")

_UNKNOWN_MAX = 10  # so file systems that answer reads but no creation are not tried until a commit's timeout


def continues_table(
    table: TableStore,
    snapshot: Snapshot,
    live: LiveBuckets,
    *,
    before: Snapshot | None,
    base: Snapshot | None = None,
) -> bool:
    """Whether a created snapshot is the one after its base. Deletes it if it is not; `live` are its files.

    `before` is the snapshot with the id before, read after the snapshot was created; None if it is missing.
    The snapshot with the id of a known `base` is of the same commit, unless a branch has replaced it since.

    A writer that slept may create an id which others had used and an expiry has freed again: such a snapshot is older
    than the newest one and no reader would see its rows. Snapshots expire in order: as long as the one before exists,
    the id cannot have been used. If the one before is missing and an older one exists, the base was rolled back. Raises
    NotFoundError if the snapshot itself has expired.
    """
    if before is not None and (base is None or is_same_commit(before, base)):
        return True
    if before is not None:
        logger.warning("%s: snapshot %d was replaced: committing again", table.name, before.id)
        table.file_io.delete(table.paths.snapshot(snapshot.id))
        return False
    if not is_same_table(table):
        if not table.file_io.exists(table.paths.snapshot(snapshot.id)):  # deleted or renamed with the table
            raise NotFoundError(
                f"snapshot {snapshot.id} was created in {table.path}, and the table was renamed or dropped since"
            )
        logger.warning("%s: the table was dropped meanwhile: snapshot %d is deleted again", table.name, snapshot.id)
        table.file_io.delete(table.paths.snapshot(snapshot.id))
        return False
    ids = table.snapshots.ids()
    if snapshot.id not in ids:
        raise NotFoundError(f"snapshot {snapshot.id} was created and has expired")
    following = min((number for number in ids if number > snapshot.id), default=None)
    older = max((number for number in ids if number < snapshot.id), default=None)
    if older is not None and table.file_io.exists(table.paths.snapshot(older)):  # not expired: rolled back
        logger.warning("%s: snapshot %d was rolled back: committing again", table.name, snapshot.id - 1)
        table.file_io.delete(table.paths.snapshot(snapshot.id))
        return False
    if following is None or (following == snapshot.id + 1 and _is_base_of(table, live, following)):
        return True
    logger.warning("%s: id %d was used and has expired: committing again", table.name, snapshot.id)
    table.file_io.delete(table.paths.snapshot(snapshot.id))
    return False


def _is_base_of(table: TableStore, live: LiveBuckets, snapshot_id: int) -> bool:
    following = table.snapshots.get(snapshot_id)
    base = table.manifests.read_list(following.base_manifest_list, size_bytes=following.base_manifest_list_size)
    before = LiveFiles().apply(table.manifests.read_entries(base))
    return _names(before) == _names(live.whole())


def _names(live: LiveFiles) -> set[tuple[object, ...]]:
    return {(bucket, identifier) for bucket, files in live.buckets.items() for identifier in files}


class UnknownAttempts:
    """The attempts of one commit whose snapshots may exist. All snapshots of a commit have its uuid."""

    def __init__(self, table: TableStore, commit_uuid: str) -> None:
        self._table = table
        self._uuid = commit_uuid
        self._ids: set[int] = set()
        self._count = 0

    def add(self, snapshot_id: int, error: LakelogError) -> None:
        """Record an attempt without an answer. Raises UnknownOutcomeError after too many attempts."""
        self._ids.add(snapshot_id)
        self._count += 1
        if self._count > _UNKNOWN_MAX:
            raise self._open(f"{self._count} attempts got no answer, at last {error}", error) from error

    def find(self) -> Snapshot | None:
        """The snapshot of an attempt, if one exists. Drops attempts whose ids belong to other commits."""
        for snapshot_id in sorted(self._ids):
            try:
                snapshot = self._table.snapshots.get(snapshot_id)
                if snapshot.uuid == self._uuid:
                    live = self._table.live_files.near(snapshot)
                    before = self._table.snapshots.find(snapshot.id - 1)
                    if continues_table(self._table, snapshot, live, before=before):
                        return snapshot
            except NotFoundError:  # not created, or expired meanwhile
                continue
            self._ids.discard(snapshot_id)
        return None

    def check_none_expired(self, latest: Snapshot | None) -> None:
        """Raise UnknownOutcomeError if a snapshot that may have been one of these has expired."""
        expired = [number for number in self._ids if latest is not None and number <= latest.id]
        if expired:
            raise self._error(
                f"snapshot {min(expired)} may have been it, and has expired meanwhile. Check for the rows before they "
                "are written again"
            )

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Replace errors of the block by UnknownOutcomeError if the commit may be in the table nevertheless."""
        try:
            yield
        except UnknownOutcomeError:
            raise
        except (ConflictError, NotFoundError, UnavailableError) as error:
            if not self._ids:
                raise
            raise self._open(str(error), error) from error

    def _open(self, reason: str, error: LakelogError) -> UnknownOutcomeError:
        """The error of a commit for which `find_commit` can search, even in a table that was renamed."""
        path, note = self._table.path, ""
        if self._was_renamed(error):
            path, note = "NEW_PATH", ", with the folder of the renamed table as NEW_PATH"
        command = f"lakelog table find-commit {path} {self._uuid} --snapshot-id {min(self._ids)}"
        return self._error(
            f"{reason}. Before its rows are written again run: {command}{note}. A stream that runs its batch again "
            "does this itself"
        )

    def _was_renamed(self, error: LakelogError) -> bool:
        """Whether the table was renamed or dropped since; False if that cannot be found out."""
        with contextlib.suppress(LakelogError):
            return not isinstance(error, UnavailableError) and not is_same_table(self._table)
        return False

    def _error(self, reason: str) -> UnknownOutcomeError:
        number = min(self._ids)
        return UnknownOutcomeError(
            f"{self._table.name}: it is unknown whether the commit is in the table, as snapshot {number} with the "
            f"uuid {self._uuid}: {reason}",
            commit_uuid=self._uuid,
            snapshot_id=number,
        )


class CommitOutcome(StrEnum):
    """The outcome of a commit."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    NOT_KNOWABLE = "not knowable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCommit:
    """The result of a search for a commit: `snapshot_id` is its snapshot, `expired_up_to` the last unreadable snapshot.

    `is_open` is True for a commit that was not found while the snapshot id that it tried to create is still free: a
    pending request may create it.
    """

    outcome: CommitOutcome
    snapshot_id: int | None = None
    expired_up_to: int | None = None
    is_open: bool = False

    @property
    def advice(self) -> str:
        """What to do after a commit without an answer."""
        if self.snapshot_id is not None:
            return "nothing: it is committed"
        if self.expired_up_to is not None:
            return f"check for the rows: snapshots up to {self.expired_up_to} have expired"
        if self.is_open:
            return "ask again after a minute, with the snapshot_id of the error: a pending request may still create it"
        return "write again"


def find_commit(table: TableStore, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
    """Search for a commit among the living snapshots, and among the expired ones that a changelog or a tag keeps.

    With `snapshot_id`, which UnknownOutcomeError names, the commit can only be in that snapshot: then snapshots before
    it may have expired. Raises InvalidRequestError for an invalid uuid or id.
    """
    if not commit_uuid or (snapshot_id is not None and snapshot_id < 1):
        raise InvalidRequestError(
            f"a commit is searched for by its uuid and a snapshot id of at least 1, found {commit_uuid!r} and "
            f"{snapshot_id}: take both from the error that the commit ended with"
        )
    kept = {tag.snapshot.id: tag.snapshot for tag in table.snapshots.all_tags()}
    changelogs = ChangelogManager(table.file_io, table.paths)
    ids = table.snapshots.ids()
    newest = max(ids, default=0)
    wanted = range(newest, 0, -1) if snapshot_id is None else range(snapshot_id, snapshot_id - 1, -1)
    looked_into: set[int] = set()
    for number in sorted((number for number in {*ids, *kept, *changelogs.ids()} if number in wanted), reverse=True):
        living = table.snapshots.find(number)
        found = living or changelogs.find(number) or kept.get(number)
        if found is None:  # expired since the folder was listed
            continue
        if found.uuid == commit_uuid:
            is_of_table = living is None or _is_living(table, living, ids)
            if is_of_table:
                return FoundCommit(outcome=CommitOutcome.COMMITTED, snapshot_id=number)
            if is_of_table is None:
                continue
        looked_into.add(number)
    expired = next((number for number in wanted if number <= newest and number not in looked_into), None)
    if expired is not None:
        return FoundCommit(outcome=CommitOutcome.NOT_KNOWABLE, expired_up_to=expired)
    return FoundCommit(outcome=CommitOutcome.NOT_COMMITTED, is_open=snapshot_id is None or snapshot_id > newest)


def _is_living(table: TableStore, found: Snapshot, ids: Collection[int]) -> bool | None:
    """False for a snapshot under an id that had expired, which its writer has not deleted yet: see `continues_table`.

    None if that cannot be known, because its files expire.
    """
    if found.id - 1 in ids or found.id == max(ids):
        return True
    if found.id + 1 not in ids:
        return False
    try:
        return _is_base_of(table, table.live_files.of(found), found.id + 1)
    except NotFoundError:
        return None
