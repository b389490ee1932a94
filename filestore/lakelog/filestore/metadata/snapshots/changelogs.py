"""Changelogs that outlive their snapshots: `changes` reads them once a snapshot has expired.

When a snapshot expires whose changes are kept longer, its file moves from `snapshot/snapshot-N` to
`changelog/changelog-N` with the same JSON, and the files that hold its changes are kept: the changelog files, or in
tables without a changelog producer the manifests and the files that its delta added. `changelog/EARLIEST` and
`changelog/LATEST` are hints like those of snapshots. Source: Paimon spec, "Manage snapshots"; Paimon,
`ChangelogManager`, `ExpireChangelogImpl`.
"""

from __future__ import annotations

from lakelog.common.errors import NotFoundError
from lakelog.common.file_names import numbers_of
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.schema.paths import CHANGELOG_PREFIX, TablePaths


class ChangelogManager:
    """The changelogs of one branch of a table. Caches nothing."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def ids(self) -> list[int]:
        """All ids, in ascending order. Lists the folder."""
        return numbers_of(self._file_io.list_names(self._paths.changelog_dir), CHANGELOG_PREFIX)

    def earliest_id(self) -> int | None:
        """The oldest id; None when every changelog ends with its snapshot."""
        hint = read_hint(self._file_io, f"{self._paths.changelog_dir}/EARLIEST")
        if hint is not None and self._exists(hint) and not self._exists(hint - 1):
            return hint
        return min(self.ids(), default=None)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The expired snapshot of an id; None when its changelog is missing. Raises CorruptDataError."""
        path = self._paths.changelog(snapshot_id)
        try:
            snapshot = Snapshot.from_json(self._file_io.read_bytes(path), path=path)
        except NotFoundError:
            return None
        if snapshot.id != snapshot_id:
            raise damaged(path, f"it holds the snapshot {snapshot.id}, expected {snapshot_id}")
        return snapshot

    def _exists(self, snapshot_id: int) -> bool:
        return self._file_io.exists(self._paths.changelog(snapshot_id))

    def put(self, snapshot: Snapshot) -> None:
        """Keep the changes of a snapshot that is about to expire; may be repeated after a crash."""
        self._file_io.write_bytes(self._paths.changelog(snapshot.id), snapshot.to_json().encode())
        self._file_io.write_bytes(f"{self._paths.changelog_dir}/LATEST", str(snapshot.id).encode())

    def delete(self, snapshot_id: int) -> None:
        """Delete the changelog of a snapshot, without its files of rows."""
        self._file_io.delete(self._paths.changelog(snapshot_id))

    def write_earliest_hint(self) -> None:
        """Write the hint of the oldest changelog, after an expiry; delete the hints when there is no changelog."""
        ids = self.ids()
        folder = self._paths.changelog_dir
        if ids:
            self._file_io.write_bytes(f"{folder}/EARLIEST", str(ids[0]).encode())
            return
        for hint in ("EARLIEST", "LATEST"):
            self._file_io.delete(f"{folder}/{hint}")

    def write_hints(self) -> None:
        """Write both hints, after a rollback."""
        ids = self.ids()
        if ids:
            self._file_io.write_bytes(f"{self._paths.changelog_dir}/LATEST", str(ids[-1]).encode())
        self.write_earliest_hint()
