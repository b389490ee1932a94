"""What became of a snapshot that a commit has tried to create, where the answer alone does not tell."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from lakelog.common.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.filestore.identity import is_same_table
from lakelog.filestore.live_files import LiveFiles
from lakelog.filestore.snapshot import Snapshot
from lakelog.filestore.store import TableStore

logger = logging.getLogger("lakelog.filestore")


def continues_table(table: TableStore, snapshot: Snapshot, live: LiveFiles) -> bool:
    """Whether a created snapshot is the one after its base. Deletes it when it is not; `live` are its files.

    A writer that slept may create an id which others had used and an expiry has freed again: such a snapshot stands
    behind the newest one and nobody would see its rows. Snapshots expire in their order: as long as the one before is
    there, the id cannot have been used. Raises NotFoundError when the snapshot itself has expired.
    """
    if table.file_io.exists(table.paths.snapshot(snapshot.id - 1)):
        return True
    if not is_same_table(table):
        logger.warning("%s: the table was dropped meanwhile: snapshot %d is taken back", table.name, snapshot.id)
        table.file_io.delete(table.paths.snapshot(snapshot.id))
        return False
    ids = table.snapshots.ids()
    if snapshot.id not in ids:
        raise NotFoundError(f"snapshot {snapshot.id} was created and has expired")
    following = min((number for number in ids if number > snapshot.id), default=None)
    if following is None or (following == snapshot.id + 1 and _is_base_of(table, live, following)):
        return True
    logger.warning("%s: id %d was used and has expired: committing again", table.name, snapshot.id)
    table.file_io.delete(table.paths.snapshot(snapshot.id))
    return False


def _is_base_of(table: TableStore, live: LiveFiles, snapshot_id: int) -> bool:
    following = table.snapshots.get(snapshot_id)
    base = table.manifests.read_list(following.base_manifest_list, size_bytes=following.base_manifest_list_size)
    before = LiveFiles().apply(table.manifests.read_entries(base))
    return _names(before) == _names(live)


def _names(live: LiveFiles) -> set[tuple[object, ...]]:
    return {(bucket, identifier) for bucket, files in live.buckets.items() for identifier in files}


class UnknownAttempts:
    """The attempts of one commit whose snapshots may be there."""

    def __init__(self, table: TableStore) -> None:
        self._table = table
        self._ids: dict[str | None, int] = {}  # by uuid

    def add(self, snapshot: Snapshot) -> None:
        """Remember an attempt that got no answer."""
        self._ids[snapshot.uuid] = snapshot.id

    def find(self) -> Snapshot | None:
        """The snapshot of an attempt that is there after all. Forgets those whose ids others have."""
        for uid, snapshot_id in list(self._ids.items()):
            live = self._table.live_files
            try:
                snapshot = self._table.snapshots.get(snapshot_id)
                if snapshot.uuid == uid and continues_table(self._table, snapshot, live.of(snapshot)):
                    return snapshot
            except NotFoundError:  # not there, or expired meanwhile
                continue
            del self._ids[uid]
        return None

    def check_none_expired(self, latest: Snapshot | None) -> None:
        """Raise UnavailableError when a snapshot that may have been one of these was there and has expired."""
        gone = [number for number in self._ids.values() if latest is not None and number <= latest.id]
        if gone:
            raise UnavailableError(
                f"{self._table.name}: nobody can tell whether the commit is in the table: snapshot {gone[0]} may have "
                "been it, and has expired meanwhile. Look for the rows before they are written again"
            )

    @contextlib.contextmanager
    def refusal_is_known(self, latest: Snapshot | None) -> Iterator[None]:
        """A refusal says that nothing was committed: where that is not known, it is raised as UnavailableError."""
        try:
            yield
        except (ConflictError, NotFoundError):
            self.check_none_expired(latest)
            raise
