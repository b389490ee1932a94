"""Expiry of snapshots: what nobody can ask for any more is deleted, file by file.

Kept are the newest snapshots by number and age, those that a consumer still has to read, and every file that a kept
snapshot, a tag or a branch shows. The oldest snapshot goes first and its own file last, so that an expiry which ends
half-way is taken up by the next. Source: Paimon spec, "Manage snapshots"; Paimon, `ExpireSnapshotsImpl`.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.index_manifest import deletion_files
from lakelog.filestore.manifest import FileKind, ManifestEntry
from lakelog.filestore.options import (
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from lakelog.filestore.paths import BRANCH_PREFIX, CONSUMER_PREFIX, MAIN_BRANCH, TablePaths
from lakelog.filestore.snapshot import Snapshot, SnapshotManager
from lakelog.filestore.store import TableStore

logger = logging.getLogger("lakelog.filestore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many snapshots are kept at least and at most, how long, and how many go at a time."""

    count_min: int
    count_max: int
    age_millis: int
    limit: int

    @classmethod
    def of(cls, table: TableStore) -> Retention:
        """What the table's options say."""
        options = table.schema.options
        return cls(
            count_min=SNAPSHOT_NUM_RETAINED_MIN.of(options),
            count_max=SNAPSHOT_NUM_RETAINED_MAX.of(options),
            age_millis=SNAPSHOT_TIME_RETAINED.of(options),
            limit=SNAPSHOT_EXPIRE_LIMIT.of(options),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What an expiry deleted."""

    snapshot_ids: tuple[int, ...] = ()
    data_files: int = 0
    metadata_files: int = 0


def first_kept(
    ids: Sequence[int],
    retention: Retention,
    *,
    time_of: Callable[[int], int],
    now_millis: int,
    consumed_up_to: int | None,
) -> int:
    """The id of the oldest snapshot that stays, of ids oldest first; at least one.

    `time_of` gives the commit time of an id; only those that may go are asked for, and the one behind. A snapshot was
    the newest until the next one came: that moment counts for its age. `consumed_up_to` is the first snapshot that some
    consumer has not read yet.
    """
    end = 0
    while end < min(len(ids) - 1, retention.limit):
        is_one_too_many = len(ids) - end > retention.count_max
        is_old = time_of(ids[end + 1]) < now_millis - retention.age_millis
        is_spare = len(ids) - end > retention.count_min
        is_protected = consumed_up_to is not None and ids[end] >= consumed_up_to
        if is_protected or not (is_one_too_many or (is_old and is_spare)):
            break
        end += 1
    return ids[end]


def expire_snapshots(table: TableStore, *, now_millis: int, retention: Retention | None = None) -> Expired:
    """Delete the snapshots that need not be kept, oldest first, and the files that only they show."""
    ids = table.snapshots.ids()
    if len(ids) < 2:
        return Expired()
    consumed_up_to = _consumed_up_to(table)
    try:
        end = first_kept(
            ids,
            retention or Retention.of(table),
            time_of=lambda number: table.snapshots.get(number).time_millis,
            now_millis=now_millis,
            consumed_up_to=consumed_up_to,
        )
        *gone, kept = (table.snapshots.get(number) for number in ids if number <= end)
    except NotFoundError as error:
        logger.warning("%s: nothing expires now, for somebody else is at it: %s", table.name, error)
        return Expired()
    return _Expiry(table, kept).run([*gone, kept]) if gone else Expired()


def _consumed_up_to(table: TableStore) -> int | None:
    """The first snapshot that a consumer still has to read; None without consumers."""
    folder = table.paths.consumer_dir
    found = []
    for name in table.file_io.list_names(folder):
        if name.startswith(CONSUMER_PREFIX):
            path = f"{folder}/{name}"
            try:
                found.append(int(json.loads(table.file_io.read_bytes(path))["nextSnapshot"]))
            except NotFoundError:  # it has just been released
                continue
            except (KeyError, TypeError, ValueError) as error:
                raise CorruptDataError(
                    f"consumer file {path} is not readable: {error!r}; nothing expires until it is mended or deleted"
                ) from error
    return min(found, default=None)


class _Expiry:
    """One expiry: what stays is looked up once."""

    def __init__(self, table: TableStore, first: Snapshot) -> None:
        self._table = table
        shown = [first, *_kept_elsewhere(table)]
        self._kept_data = {
            entry.file.file_name for snapshot in shown for entry in table.live_files.of(snapshot).entries()
        }
        self._kept_metadata = {name for snapshot in shown for name in self._metadata(snapshot)}
        self._kept_vectors = {path for snapshot in shown for path in self._vectors(snapshot)}
        self._data_files = 0
        self._metadata_files = 0

    def run(self, snapshots: Sequence[Snapshot]) -> Expired:
        """Delete all but the last of these snapshots, oldest first."""
        for snapshot, following in itertools.pairwise(snapshots):
            self._delete_data(following)
            self._delete_changelog(snapshot)
            self._delete_vectors(snapshot, following)
            own = list(self._metadata(snapshot))
            named_next = set(self._metadata(following))
            for name in reversed(own):  # a list behind its manifests, which it names
                if name in named_next or name in self._kept_metadata:
                    continue
                self._table.file_io.delete(self._table.paths.manifest(name))
                self._metadata_files += 1
            self._table.file_io.delete(self._table.paths.snapshot(snapshot.id))
            self._table.file_io.write_bytes(self._table.paths.earliest_hint, str(following.id).encode())
        return Expired(
            snapshot_ids=tuple(snapshot.id for snapshot in snapshots[:-1]),
            data_files=self._data_files,
            metadata_files=self._metadata_files,
        )

    def _delete_data(self, following: Snapshot) -> None:
        """What the next snapshot took out of the table."""
        for entry in self._entries(following.delta_manifest_list):
            if entry.kind is FileKind.DELETE and entry.file.file_name not in self._kept_data:
                self._delete_file(entry)

    def _delete_changelog(self, snapshot: Snapshot) -> None:
        if snapshot.changelog_manifest_list is not None:
            for entry in self._entries(snapshot.changelog_manifest_list):
                self._delete_file(entry)

    def _delete_vectors(self, snapshot: Snapshot, following: Snapshot) -> None:
        """The index files of deletion vectors that the next snapshot does without."""
        if snapshot.index_manifest in (None, following.index_manifest):
            return
        try:
            gone = self._vectors(snapshot) - self._vectors(following) - self._kept_vectors
        except NotFoundError:  # an earlier expiry got so far
            return
        for path in sorted(gone):
            self._table.file_io.delete(path)
            self._metadata_files += 1

    def _vectors(self, snapshot: Snapshot) -> set[str]:
        """The paths of a snapshot's index files with deletion vectors. Raises NotFoundError."""
        return {one.path for bucket in deletion_files(self._table, snapshot).values() for one in bucket.values()}

    def _delete_file(self, entry: ManifestEntry) -> None:
        path = self._table.data_path(entry.partition, entry.bucket, entry.file)
        for name in entry.file.extra_files:
            self._table.file_io.delete(f"{path.rpartition('/')[0]}/{name}")
        self._table.file_io.delete(path)
        self._data_files += 1

    def _entries(self, manifest_list: str) -> Iterable[ManifestEntry]:
        try:
            return list(self._table.manifests.read_entries(self._table.manifests.read_list(manifest_list)))
        except NotFoundError:  # an earlier expiry got so far
            return ()

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        """The names of the manifests and lists of a snapshot, a list before the manifests that it names."""
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
        for name in lists:
            if name is None:
                continue
            yield name
            try:
                yield from (manifest.file_name for manifest in self._table.manifests.read_list(name))
            except NotFoundError:  # likewise
                continue
        if snapshot.index_manifest is not None:
            yield snapshot.index_manifest


def _kept_elsewhere(table: TableStore) -> Iterator[Snapshot]:
    """The snapshots of tags and branches: branches share manifests and data with the table."""
    names = table.file_io.list_names(f"{table.path}/branch")
    branches = [name.removeprefix(BRANCH_PREFIX) for name in names if name.startswith(BRANCH_PREFIX)]
    for branch in (MAIN_BRANCH, *branches):
        manager = SnapshotManager(table.file_io, TablePaths(table.path, branch))
        if branch != table.branch:
            yield from (manager.get(number) for number in manager.ids())
        yield from (manager.tagged(tag) for tag in manager.tags())
