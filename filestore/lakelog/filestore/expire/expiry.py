"""Expiry of snapshots and of their changes: deletes the files that no kept snapshot needs.

It keeps the newest snapshots by number and age, those that a consumer still has to read, and every file that a kept
snapshot, a tag or a branch names. Changes may be kept longer than their snapshots, see
`filestore.metadata.snapshots.changelogs`. The oldest snapshot is deleted first and its own file last, so that the next
expiry continues one that was cut off. The hint of the oldest snapshot that stays is written before. Source: Paimon
spec, "Manage snapshots"; Paimon, `ExpireSnapshotsImpl`, `ExpireChangelogImpl`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Sequence

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import LakelogError
from lakelog.common.events import log_event
from lakelog.common.progress import counted
from lakelog.filestore.expire.before_expiry import expires_lineage, take_lineage, unfed_from
from lakelog.filestore.expire.kept_files import KeptFiles
from lakelog.filestore.expire.line_breaks import first_before_gaps
from lakelog.filestore.expire.references import (
    brought_by_appends,
    history_of,
    index_names,
    lists_of,
    manifest_names,
    names_of,
)
from lakelog.filestore.expire.removed_files import (
    entries_left,
    index_left,
    names_left,
    net_removed,
    partitions_of_removed,
    removed_by,
)
from lakelog.filestore.expire.retention_rules import Expired, Retention, first_kept
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.origins.restored import parse_restored
from lakelog.filestore.metadata.snapshots.commit_times import CommitTimes
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.filestore.metadata.tables.consumers import LINEAGE_CONSUMER, ConsumerManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.options.retention import CONSUMER_EXPIRATION_TIME

logger = logging.getLogger("lakelog.filestore")

__all__ = ["Expired", "Retention", "expire_snapshots", "first_kept"]


def expire_snapshots(table: TableStore, *, now_millis: int, retention: Retention | None = None) -> Expired:
    """Delete the snapshots that need not be kept, oldest first, and the files that only they name; then changelogs.

    Consumers that are too old by the table's options are deleted first. The lineage of snapshots is also taken first,
    see `lakelog.filestore.expire.before_expiry`. Raises CorruptDataError for a consumer or a manifest that is not
    readable: then nothing more is deleted. Logs a line of INFO, `expire`, if anything was deleted.
    """
    consumers = ConsumerManager(table.file_io, table.paths)
    age_millis = CONSUMER_EXPIRATION_TIME.of(table.schema.options)
    deleted_consumers = consumers.expire(now_millis=now_millis, age_millis=age_millis)
    newest = table.snapshots.latest()
    earliest = table.snapshots.earliest_id()
    if newest is None or earliest is None:
        return Expired(consumers=tuple(deleted_consumers))
    lasted = Stopwatch()
    retention = retention or Retention.of(table)
    wanted = consumers.first_wanted(but=LINEAGE_CONSUMER)
    end = _Expiry(table, retention, newest, now_millis, wanted).first_kept(earliest)
    if end > earliest and (oldest := first_before_gaps(table, earliest)) < earliest:
        earliest = oldest
        end = _Expiry(table, retention, newest, now_millis, wanted).first_kept(earliest)
    if table.lineage_keeper is not None and expires_lineage(table, range(earliest, end)):
        take_lineage(table)
    held = [one for one in (consumers.first_wanted(but=LINEAGE_CONSUMER), unfed_from(table)) if one is not None]
    expiry = _Expiry(table, retention, newest, now_millis, min(held, default=None))
    expired = expiry.expire_snapshots(earliest)
    expired_changes = expiry.expire_changelogs()
    done = Expired(
        snapshot_ids=expired,
        changelog_ids=expired_changes,
        consumers=tuple(deleted_consumers),
        data_files=expiry.data_files,
        metadata_files=expiry.metadata_files,
    )
    if done != Expired():
        _log(table, done, lasted)
    return done


def _log(table: TableStore, expired: Expired, lasted: Stopwatch) -> None:
    log_event(
        logger,
        "expire",
        table=table.name,
        snapshots=len(expired.snapshot_ids),
        newest_expired=max(expired.snapshot_ids, default=None),
        changelogs=len(expired.changelog_ids),
        consumers=len(expired.consumers),
        data_files=expired.data_files,
        metadata_files=expired.metadata_files,
        millis=lasted.millis(),
    )


def commit_times(table: TableStore, newest_id: int, *, now_millis: int) -> CommitTimes:
    """The commit times of a table's snapshots, and of expired ones whose changelog is kept."""
    changelogs = history_of(table, table.branch).changelogs

    def date_of(number: int) -> int | None:
        found = table.snapshots.find(number) or changelogs.find(number)
        return None if found is None else found.time_millis

    def ids() -> Iterable[int]:
        return (*changelogs.ids(), *table.snapshots.ids())

    return CommitTimes(date_of, ids=ids, newest_id=newest_id, now_millis=now_millis)


class _Expiry:
    """One expiry: its decisions, and the files to delete with each snapshot."""

    def __init__(
        self, table: TableStore, retention: Retention, newest: Snapshot, now_millis: int, wanted: int | None
    ) -> None:
        self._table = table
        self._retention = retention
        self._for_changes = retention.for_changes(table)
        self._newest = newest
        self._now_millis = now_millis
        self._history = history_of(table, table.branch)
        self._has_producer = CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.NONE
        self._first_changelog = self._history.changelogs.earliest_id()
        self._keeps_changes = self._for_changes.exceeds(retention) or self._first_changelog is not None
        self._carried = carried_properties(newest, table.snapshots)
        self._restored = max(parse_restored(self._carried.properties).values(), default=0)
        limits = [at for at in (wanted, self._carrier()) if at is not None]
        self._wanted = min(limits, default=None)
        self.data_files = 0
        self.metadata_files = 0

    def first_kept(self, earliest: int) -> int:
        """The oldest snapshot that stays."""
        return self._first_kept(range(earliest, self._newest.id + 1), self._retention)

    def expire_snapshots(self, earliest: int) -> tuple[int, ...]:
        """Delete the snapshots that are due; returns their ids."""
        end = self.first_kept(earliest)
        if end == earliest:
            return ()
        found = self._found(earliest, end)
        if len(found) < 2:  # another expiry is running, and is ahead
            return ()
        keeps_deltas = self._keeps_changes and not self._has_producer
        removed = removed_by(self._table, found)
        files = self._files_behind_hint(found, partitions_of_removed(self._table, found[:-1], removed))
        steps = counted(itertools.pairwise(found), "snapshots deleted", total=len(found) - 1)
        for snapshot, next_snapshot in steps:
            changes = {*names_of(brought_by_appends(removed[next_snapshot.id]))} if keeps_deltas else set()
            for entry in removed[next_snapshot.id]:
                if entry.file.file_name not in changes:
                    self._delete_data(files, entry)
            if self._keeps_changes:
                self._history.changelogs.put(snapshot)
            else:
                self._delete_changelog(files, snapshot)
            lists = () if keeps_deltas else lists_of(snapshot)
            self._delete_metadata(files, snapshot, next_snapshot, lists)
            self._table.file_io.delete(self._table.paths.snapshot(snapshot.id))
        if self._keeps_changes and self._first_changelog is None:
            self._history.changelogs.write_earliest_hint()
        return tuple(snapshot.id for snapshot in found[:-1])

    def _found(self, earliest: int, end: int) -> list[Snapshot]:
        """The living snapshots from `earliest` up to `end`, or up to the next one if `end` is in a gap."""
        snapshots = self._table.snapshots
        found = [snapshot for number in range(earliest, end + 1) if (snapshot := snapshots.find(number))]
        if found and found[-1].id == end:
            return found
        ids = snapshots.ids()
        if earliest not in ids:  # another expiry deletes
            return []
        following = snapshots.find(min((number for number in ids if number >= end), default=end))
        return [] if following is None else [*found, following]

    def _files_behind_hint(self, found: Sequence[Snapshot], partitions: Collection[bytes]) -> KeptFiles:
        """The files to keep, collected once the hint names the oldest snapshot that stays.

        A tag that is created meanwhile sees one of the two, see `lakelog.filestore.metadata.snapshots.tag_holds`.
        """
        self._table.snapshots.write_earliest_hint(found[-1].id)
        try:
            return KeptFiles(self._table, found[:-1], found[-1], self._restored, partitions=partitions)
        except LakelogError:
            self._table.snapshots.write_earliest_hint(found[0].id)
            raise

    def expire_changelogs(self) -> tuple[int, ...]:
        """Delete the changelogs that are due; returns their ids. Without changelogs it does no I/O."""
        if not self._keeps_changes:
            return ()
        first = self._history.changelogs.earliest_id()
        oldest = self._table.snapshots.earliest_id()
        if first is None or oldest is None:
            return ()
        end = min(self._first_kept(range(first, self._newest.id + 1), self._for_changes), oldest)
        kept = self._history.changelogs.find(end) or self._table.snapshots.find(end)
        living = self._table.snapshots.find(oldest)
        if end <= first or kept is None or living is None:
            return ()
        expired = [found for number in range(first, end) if (found := self._history.changelogs.find(number))]
        next_snapshot = [*expired[1:], kept]
        files = KeptFiles(self._table, expired, living, self._restored, is_of_changelogs=self._has_producer)
        for changelog, behind in zip(expired, next_snapshot, strict=True):
            has_deltas = changelog.has_own_changelog or changelog.changelog_manifest_list is None
            if not self._has_producer and has_deltas:
                for entry in net_removed(entries_left(self._table, changelog.delta_manifest_list)):
                    self._delete_data(files, entry)
            if self._has_producer or changelog.changelog_manifest_list is not None:
                self._delete_changelog(files, changelog)
            lists = () if self._has_producer else lists_of(changelog)
            self._delete_metadata(files, changelog, behind, lists, has_index=False)
            self._history.changelogs.delete(changelog.id)
        self._history.changelogs.write_earliest_hint()
        return tuple(changelog.id for changelog in expired)

    def _first_kept(self, ids: Sequence[int], retention: Retention) -> int:
        times = commit_times(self._table, self._newest.id, now_millis=self._now_millis)
        return first_kept(ids, retention, time_of=times.of, now_millis=self._now_millis, consumed_up_to=self._wanted)

    def _carrier(self) -> int | None:
        """The newest snapshot with lakelog's state, if other engines wrote those after it; it must be kept."""
        carried = self._carried
        return carried.foreign[-1].id - 1 if carried.properties and carried.foreign else None

    def _delete_data(self, files: KeptFiles, entry: ManifestEntry) -> None:
        if entry.file.file_name in files.kept or entry.file.external_path is not None:  # outside files stay
            return
        path = self._table.data_path(entry.bucket_id, entry.file)
        for name in entry.file.extra_files:
            self._table.file_io.delete(f"{path.rpartition('/')[0]}/{name}")
        self._table.file_io.delete(path)
        self.data_files += 1

    def _delete_changelog(self, files: KeptFiles, snapshot: Snapshot) -> None:
        """Delete the changelog files of a snapshot, then their manifests."""
        changelog = snapshot.changelog_manifest_list
        if changelog is None or changelog in files.kept:
            return
        for entry in entries_left(self._table, changelog):
            self._delete_data(files, entry)
        self._delete_named(files, names_left(self._table, changelog))

    def _delete_metadata(
        self,
        files: KeptFiles,
        snapshot: Snapshot,
        next_snapshot: Snapshot,
        lists: Sequence[str],
        *,
        has_index: bool = True,
    ) -> None:
        """Delete the manifests of a snapshot that the next one does not name, with their lists, index and statistics.

        A list is deleted after the manifests that it names.
        """
        if lists:
            named_next = set(manifest_names(self._table, *lists_of(next_snapshot)))
            own = names_left(self._table, *lists)
            self._delete_named(files, [name for name in own if name not in named_next])
        if has_index:
            self._delete_index(files, snapshot, next_snapshot)

    def _delete_index(self, files: KeptFiles, snapshot: Snapshot, next_snapshot: Snapshot) -> None:
        file_io, paths = self._table.file_io, self._table.paths
        index, statistics = snapshot.index_manifest, snapshot.statistics
        if index is not None and index not in files.kept and index != next_snapshot.index_manifest:
            behind = next_snapshot.index_manifest
            named_next = () if behind is None else index_names(self._table, behind)
            for name in index_left(self._table, index):
                if name not in files.kept and name not in named_next:
                    file_io.delete(paths.index(name))
                    self.metadata_files += 1
            file_io.delete(paths.manifest(index))
            self.metadata_files += 1
        if statistics is not None and statistics not in files.kept and statistics != next_snapshot.statistics:
            file_io.delete(paths.statistics(statistics))
            self.metadata_files += 1

    def _delete_named(self, files: KeptFiles, names: Sequence[str]) -> None:
        for name in reversed(names):
            if name not in files.kept:
                self._table.file_io.delete(self._table.paths.manifest(name))
                self.metadata_files += 1
