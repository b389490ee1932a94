"""The files in the snapshots, changelogs and tags of a table: expiry keeps them, and they are no orphans.

A file is identified by its name, which holds a uuid.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.index.index_manifest import read_index
from lakelog.filestore.metadata.manifests.data_file import FileSource
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_pruning import manifests_of_partitions
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.manifests.manifest_steps import count_entries
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.tag_holds import StateFiles, kept_by_tags, state_files
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.branch_damage import damage_of_branch
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths

_NAME_BYTES = 128
_WHOLE_MAX = 20_000  # entries of a state whose names are collected and cached for all partitions
_CHECKSUM = re.compile(r'"([0-9a-f]{64})"')
# The live files of tags and branches, which do not change, and what the manifests of such states add and delete.
_STATE_NAMES: BoundedCache[str, tuple[str, ...]] = BoundedCache(bytes_max=64 << 20)
_MANIFEST_NAMES: BoundedCache[str, tuple[tuple[str, int], ...]] = BoundedCache(bytes_max=32 << 20)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """The snapshots, changelogs and tags of one branch. All branches share manifests, indexes and data files."""

    branch: str
    paths: TablePaths
    snapshots: SnapshotManager
    changelogs: ChangelogManager


def history_of(table: TableStore, branch: str) -> BranchHistory:
    """One branch of the table."""
    paths = TablePaths(table.path, branch)
    return BranchHistory(branch, paths, SnapshotManager(table.file_io, paths), ChangelogManager(table.file_io, paths))


def keeps_deltas(table: TableStore, history: BranchHistory) -> bool:
    """Whether files of expired deltas are kept as changes: longer than snapshots, without changelog files."""
    has_producer = CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE
    retention = Retention.of(table)
    is_longer = retention.for_changes(table).exceeds(retention)
    return not has_producer and (is_longer or history.changelogs.earliest_id() is not None)


def names_of(entries: Iterable[ManifestEntry]) -> Iterator[str]:
    """The names of data files and of the files that belong to each."""
    for entry in entries:
        yield entry.file.file_name
        yield from entry.file.extra_files


def brought_by_appends(entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    """The entries of files that no compaction wrote: without changelog files, these hold the changes."""
    return (entry for entry in entries if entry.file.file_source is not FileSource.COMPACT)


def lists_of(snapshot: Snapshot) -> tuple[str, str]:
    """The manifest lists of a snapshot's state: base, then delta."""
    return (snapshot.base_manifest_list, snapshot.delta_manifest_list)


def entries_of(table: TableStore, *lists: str) -> Iterator[ManifestEntry]:
    """The entries of manifest lists, in order. Raises NotFoundError, CorruptDataError."""
    for name in lists:
        yield from table.manifests.read_entries(table.manifests.read_list(name))


def manifest_names(table: TableStore, *lists: str) -> Iterator[str]:
    """The names of lists, each before the manifests that it names. Raises NotFoundError, CorruptDataError."""
    for name in lists:
        yield name
        yield from (manifest.file_name for manifest in table.manifests.read_list(name))


def index_names(table: TableStore, index_manifest: str) -> list[str]:
    """The names of the index files in an index manifest. Raises NotFoundError, CorruptDataError."""
    return [record["_FILE_NAME"] for record in read_index(table, index_manifest)]


def live_names(table: TableStore, snapshot: Snapshot, partitions: Collection[bytes] | None = None) -> tuple[str, ...]:
    """The names of the live files of a snapshot, or at least of those in some partitions.

    Those of all files are cached between calls. Raises NotFoundError, CorruptDataError.
    """
    key = "+".join(table.paths.manifest(name) for name in lists_of(snapshot))
    held = _STATE_NAMES.get(key)
    if held is not None:
        return held
    manifests = [manifest for name in lists_of(snapshot) for manifest in table.manifests.read_list(name)]
    if partitions is not None and table.schema.partition_keys and count_entries(manifests) > _WHOLE_MAX:
        return _names_in_partitions(table, manifests, partitions)
    counts: dict[str, int] = {}
    for manifest in manifests:
        for named, count in _net_names(table, manifest):
            counts[named] = counts.get(named, 0) + count
    held = tuple(name for name, count in counts.items() if count > 0)
    _STATE_NAMES.add(key, held, _NAME_BYTES * len(held))
    return held


def _names_in_partitions(
    table: TableStore, manifests: Sequence[ManifestFileMeta], partitions: Collection[bytes]
) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for manifest in manifests_of_partitions(manifests, partitions, table.manifests.partition_types):
        for entry in table.manifests.read_buckets(manifest, lambda bucket: bucket.partition in partitions):
            for name in names_of([entry]):
                counts[name] = counts.get(name, 0) + (1 if entry.kind is FileKind.ADD else -1)
    return tuple(name for name, count in counts.items() if count > 0)


def _net_names(table: TableStore, manifest: ManifestFileMeta) -> tuple[tuple[str, int], ...]:
    """How often a manifest adds each name, less how often it deletes it; names with a difference of 0 are left out."""
    path = table.paths.manifest(manifest.file_name)
    held = _MANIFEST_NAMES.get(path)
    if held is None:
        counts: dict[str, int] = {}
        for entry in table.manifests.read_entries([manifest]):
            step = 1 if entry.kind is FileKind.ADD else -1
            for name in (entry.file.file_name, *entry.file.extra_files):
                counts[name] = counts.get(name, 0) + step
        held = tuple((name, count) for name, count in counts.items() if count)
        _MANIFEST_NAMES.add(path, held, _NAME_BYTES * len(held))
    return held


def documents_of(snapshot: Snapshot) -> list[str]:
    """The files with the lineage of fields that a snapshot names: see `lakelog.lineage.columns.field_store`."""
    return [f"{checksum}.json" for checksum in _CHECKSUM.findall(snapshot.properties.get(PropertyKey.LINEAGE, ""))]


class References:
    """Collects names of files that must be kept."""

    def __init__(
        self,
        table: TableStore,
        *,
        holds_after_millis: int | None = None,
        partitions: Collection[bytes] | None = None,
    ) -> None:
        """`holds_after_millis` leaves out older holds of tags in creation, see `kept_by_tags`.

        With `partitions`, names of data files in other partitions may be left out.
        """
        self._table = table
        self._partitions = partitions
        self._added: set[StateFiles] = set()
        self._holds_after_millis = holds_after_millis
        self._named_elsewhere: Set[StateFiles] = frozenset()
        self.names: set[str] = set()

    def leave_out(self, states: Set[StateFiles]) -> None:
        """Leave out these states when files are added: the caller decides which of their files are kept."""
        self._named_elsewhere = states

    def add_metadata(self, snapshot: Snapshot) -> None:
        """Add manifests, their lists, index files and statistics of a state, and the lineage of fields that it names.

        Raises NotFoundError, CorruptDataError.
        """
        self.names.update(documents_of(snapshot))
        if state_files(snapshot) in self._named_elsewhere:
            return
        if snapshot.index_manifest is not None:
            self.names.add(snapshot.index_manifest)
            self.names.update(index_names(self._table, snapshot.index_manifest))
        if snapshot.statistics is not None:
            self.names.add(snapshot.statistics)
        self.names.update(lists_of(snapshot))
        self.names.update(manifest_names(self._table, *lists_of(snapshot)))

    def add_changelog(self, snapshot: Snapshot) -> None:
        """Add the changelog files of a snapshot, with their manifests, and the lineage of fields that it names."""
        self.names.update(documents_of(snapshot))
        if snapshot.changelog_manifest_list is not None:
            self.names.update(manifest_names(self._table, snapshot.changelog_manifest_list))
            self.names.update(names_of(entries_of(self._table, snapshot.changelog_manifest_list)))

    def add_state(self, snapshot: Snapshot) -> None:
        """Add the files that a read of the rows of a snapshot needs."""
        self.add_metadata(snapshot)
        state = state_files(snapshot)
        if state not in self._named_elsewhere and state not in self._added:
            self.names.update(live_names(self._table, snapshot, self._partitions))
            self._added.add(state)

    def add_tags(self, history: BranchHistory) -> None:
        """Add the files of the tags of a branch. Their changelog is not kept, as in Paimon."""
        kept = kept_by_tags(self._table.file_io, history.paths, holds_after_millis=self._holds_after_millis)
        for tag, snapshot in kept.by_name.items():
            try:
                self.add_state(snapshot)
            except NotFoundError as error:
                if tag in history.snapshots.tags():
                    raise CorruptDataError(
                        f"tag {tag!r} of {self._table.name} names a missing file: {error}; delete the tag"
                    ) from error

    def add_branch(self, history: BranchHistory) -> Snapshot | None:
        """Add all files that a branch names; returns its newest snapshot. Raises CorruptDataError if one is missing."""
        with damage_of_branch(history.branch, self._table.name):
            return self._add_branch(history)

    def _add_branch(self, history: BranchHistory) -> Snapshot | None:
        """For the main line as for each branch.

        It goes back from the newest snapshot: files that a delta removed are files of the snapshot before, unless the
        two are of different lines. A concurrent expiry deletes the oldest snapshots, and no file that a younger one
        needs.
        """
        ids = history.snapshots.ids()
        newest = None
        has_deltas = keeps_deltas(self._table, history)
        removed: list[ManifestEntry] = []  # by the delta of the next snapshot
        following: Snapshot | None = None
        for number in reversed(ids):
            snapshot = history.snapshots.find(number)
            if snapshot is None:
                break
            try:
                if following is None or not self._table.live_files.continues(snapshot, following):
                    self.add_state(snapshot)
                    removed = [*brought_by_appends(removed)] if has_deltas else []
                else:
                    self.add_metadata(snapshot)
                self.names.update(names_of(removed))
                try:
                    self.add_changelog(snapshot)
                except NotFoundError:  # another engine copies a tag, which keeps no changelog, unchanged
                    if history.branch == MAIN_BRANCH or number != ids[0]:
                        raise
                delta = entries_of(self._table, snapshot.delta_manifest_list)
                removed = [entry for entry in delta if entry.kind is FileKind.DELETE]
            except NotFoundError as error:
                if newest is None or history.snapshots.find(number - 1) is not None:
                    raise CorruptDataError(
                        f"snapshot {number} of {self._table.name} names a missing file: {error}; restore it"
                    ) from error
                break  # half expired: all older ones have expired too
            newest, following = newest or snapshot, snapshot
        if has_deltas:  # also of the oldest one: they are deleted with its changelog
            self.names.update(names_of(brought_by_appends(removed)))
        self._add_changelogs(history)
        self.add_tags(history)
        return newest

    def _add_changelogs(self, history: BranchHistory) -> None:
        has_producer = CHANGELOG_PRODUCER.of(self._table.schema.options) is not ChangelogProducer.NONE
        for number in history.changelogs.ids():
            changelog = history.changelogs.find(number)
            if changelog is None:
                continue
            try:
                self.add_changelog(changelog)
                if changelog.changelog_manifest_list is None or changelog.has_own_changelog:
                    self.names.update(manifest_names(self._table, *lists_of(changelog)))
                    delta = entries_of(self._table, changelog.delta_manifest_list)
                    self.names.update(names_of(brought_by_appends(delta)))
            except NotFoundError as error:
                is_half_expired = history.changelogs.find(number - 1) is None
                if is_half_expired or (has_producer and changelog.changelog_manifest_list is None):
                    continue
                raise CorruptDataError(
                    f"changelog {number} of {self._table.name} names a missing file: {error}; restore it"
                ) from error
