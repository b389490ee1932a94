"""The live files of a snapshot, kept up to date from commit to commit."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.metadata.manifests.data_file import SEQUENCE_MAX, DataFileMeta
from lakelog.filestore.metadata.manifests.layered import Draft, LayeredMap
from lakelog.filestore.metadata.manifests.manifest import FileIdentifier, FileKind, ManifestEntry, ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.manifests.manifest_steps import ManifestStep, count_entries, net_change
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

NO_SEQUENCE = -1  # of a bucket without files
_NO_FILES: LayeredMap[FileIdentifier, ManifestEntry] = LayeredMap()
_STATES_HELD = 4
_WHOLE_MAX = 20_000  # entries that become objects even if few are wanted
_StateName = tuple[str, str]  # the manifest lists


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The live files of one snapshot: the ADD entries of each bucket. Immutable.

    `highest_sequences` holds the highest sequence number of each bucket's files. Each commit needs it, so it is kept:
    searching for it in a bucket of 10,000 files takes three times as long as the rest of a commit.
    """

    buckets: LayeredMap[BucketId, LayeredMap[FileIdentifier, ManifestEntry]] = field(default_factory=LayeredMap)
    highest_sequences: LayeredMap[BucketId, int] = field(default_factory=LayeredMap)

    def entries(self) -> Iterator[ManifestEntry]:
        """All live entries, bucket by bucket."""
        for live in self.buckets.values():
            yield from live.values()

    def files(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        """The live files of a bucket."""
        return tuple(entry.file for entry in self.buckets.get(bucket, _NO_FILES).values())

    def find(self, entry: ManifestEntry) -> ManifestEntry | None:
        """The live entry with the same identifier."""
        return self.buckets.get(entry.bucket_id, _NO_FILES).get(entry.identifier)

    def next_sequence(self, bucket: BucketId) -> int:
        """The sequence number after those of all live rows in a bucket."""
        highest = self.highest_sequences.get(bucket, NO_SEQUENCE)
        if highest >= SEQUENCE_MAX:
            raise CorruptDataError(
                f"a file of bucket {bucket.number} has the sequence number {highest}, which leaves none for rows after "
                "it; restore the table to a snapshot without that file, or copy its rows into a new table"
            )
        return highest + 1

    def total_buckets(self, partitions: Collection[bytes]) -> dict[bytes, int]:
        """The number of buckets that each partition's files were written for; partitions without files are left out."""
        return {
            partition: next(iter(live.values())).total_buckets
            for (partition, _), live in self.buckets.items()
            if partition in partitions
        }

    def apply(self, entries: Iterable[ManifestEntry]) -> LiveFiles:
        """The state after a delta. Raises CorruptDataError for an ADD of a live file and a DELETE of a file that is not
        live."""
        # Grouped by plain tuples: a `BucketId` for each of many entries takes longer.
        changed: dict[tuple[bytes, int], _ChangedBucket] = {}
        for entry in entries:
            at = (entry.partition, entry.bucket)
            bucket = changed.get(at)
            if bucket is None:
                bucket = changed[at] = self._changed_bucket(BucketId(*at))
            bucket.apply(entry)
        buckets, highest = self.buckets.draft(), self.highest_sequences.draft()
        for at, bucket in changed.items():
            files = bucket.files.done()
            if files:
                buckets.put(BucketId(*at), files)
                highest.put(BucketId(*at), bucket.highest_sequence(files))
            else:
                buckets.discard(BucketId(*at))
                highest.discard(BucketId(*at))
        return LiveFiles(buckets=buckets.done(), highest_sequences=highest.done())

    def _changed_bucket(self, bucket: BucketId) -> _ChangedBucket:
        files = self.buckets.get(bucket, _NO_FILES).draft()
        return _ChangedBucket(files, self.highest_sequences.get(bucket, NO_SEQUENCE))


class _ChangedBucket:
    """A draft of a bucket's live files, and the sequence numbers that a change adds and removes."""

    __slots__ = ("_added", "_before", "_removed", "files")

    def __init__(self, files: Draft[FileIdentifier, ManifestEntry], highest_sequence: int) -> None:
        self.files = files
        self._before = highest_sequence
        self._added = self._removed = NO_SEQUENCE

    def apply(self, entry: ManifestEntry) -> None:
        """Raises CorruptDataError for an ADD of a live file and a DELETE of a file that is not live."""
        identifier = entry.identifier
        sequence = entry.file.max_sequence_number
        is_live = identifier in self.files
        if entry.kind is FileKind.ADD and not is_live:
            self.files.add(identifier, entry)
            self._added = max(self._added, sequence)
        elif entry.kind is FileKind.DELETE and is_live:
            self.files.discard(identifier)
            self._removed = max(self._removed, sequence)
        else:
            what = "added twice to" if is_live else "deleted but was never added to"
            raise CorruptDataError(f"file {entry.file.file_name} is {what} bucket {entry.bucket}")

    def highest_sequence(self, files: LayeredMap[FileIdentifier, ManifestEntry]) -> int:
        """The highest sequence number of the files after the change."""
        if self._removed < max(self._added, self._before):  # the file with the highest number is still live
            return max(self._added, self._before)
        return max(entry.file.max_sequence_number for entry in files.values())


class BucketChoice(Protocol):
    """Chooses manifests by their entries in the list, by buckets, and by the lowest level."""

    min_level: int

    def may_hold_manifest(self, manifest: ManifestFileMeta) -> bool:
        """False when the files that the manifest names are not needed."""
        ...

    def may_need(self, bucket: BucketId) -> bool:
        """False when the files of the bucket are not needed."""
        ...


class LiveFilesCache:
    """A cache of the live files of a few states. Another state is built from the nearest one and the difference.

    A state is identified by its manifest lists, not by the number of its snapshot, which another line may have got
    since. Safe to share between threads.
    """

    def __init__(self, manifests: ManifestFiles) -> None:
        self._manifests = manifests
        self._held: OrderedDict[_StateName, tuple[Snapshot, LiveFiles]] = OrderedDict()
        self._lock = threading.RLock()

    def of(self, snapshot: Snapshot | None) -> LiveFiles:
        """The live files of a snapshot; none before the first commit."""
        if snapshot is None:
            return LiveFiles()
        with self._lock:
            held = self._held.get(_name_of(snapshot))
            if held is not None:
                return held[1]
            live = self._made(snapshot)
            self.put(snapshot, live)
            return live

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether the state of a snapshot is cached, so that `of` reads nothing."""
        with self._lock:
            return _name_of(snapshot) in self._held

    def matching(self, snapshot: Snapshot, wanted: BucketChoice) -> LiveFiles:
        """The live files of a snapshot, or at least those of the buckets and levels that `wanted` may need.

        A file's ADD and DELETE are of one bucket and level, so both are read or neither. Cached states and small ones
        are returned whole, and cached.
        """
        with self._lock:
            if _name_of(snapshot) in self._held:
                return self.of(snapshot)
        manifests = self.manifests_of(snapshot)
        needed = [manifest for manifest in manifests if wanted.may_hold_manifest(manifest)]
        nearest = self._nearest(manifests)
        is_near = nearest is not None and nearest[1].entry_count <= count_entries(needed)
        if is_near or (count_entries(manifests) <= _WHOLE_MAX and len(needed) == len(manifests)):
            return self.of(snapshot)
        entries = self._manifests.read_all_buckets(needed, wanted.may_need, min_level=wanted.min_level)
        return self._merged(snapshot, entries)

    def count(self, snapshot: Snapshot) -> int:
        """How many files are live in a snapshot, from its manifest lists alone."""
        manifests = self.manifests_of(snapshot)
        return sum(manifest.num_added_files - manifest.num_deleted_files for manifest in manifests)

    def put(self, snapshot: Snapshot, live: LiveFiles) -> None:
        """Cache a state that the caller has built itself, such as the one that it has just committed."""
        with self._lock:
            self._held[_name_of(snapshot)] = (snapshot, live)
            self._held.move_to_end(_name_of(snapshot))
            while len(self._held) > _STATES_HELD:
                self._held.popitem(last=False)

    def continues(self, earlier: Snapshot | None, later: Snapshot) -> bool:
        """Whether a snapshot was committed on the state of another one, so that its delta leads from that state to it.

        The snapshot with the previous number may be of another line: other engines let a branch replace a part of a
        table's line. Reads manifest lists, and manifests if some were joined. Raises NotFoundError if a list has been
        deleted.
        """
        before = () if earlier is None else self.manifests_of(earlier)
        step = ManifestStep.between(before, self._read_list(later.base_manifest_list, later.base_manifest_list_size))
        return step.is_empty or not self._net_change(step)

    def manifests_of(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a snapshot: those of its base, then those of its delta. Raises NotFoundError."""
        base, delta = self._manifests.read_lists(
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        return (*base, *delta)

    def _read_list(self, name: str, size_bytes: int | None) -> tuple[ManifestFileMeta, ...]:
        return self._manifests.read_list(name, size_bytes=size_bytes)

    def _made(self, snapshot: Snapshot) -> LiveFiles:
        """The state, built from the nearest cached one, or from all manifests if that reads fewer entries."""
        manifests = self.manifests_of(snapshot)
        nearest = self._nearest(manifests)
        if nearest is not None and nearest[1].entry_count <= count_entries(manifests):
            live, step = nearest
            with contextlib.suppress(NotFoundError, CorruptDataError):  # expired, or a contradiction: all are read
                change = self._net_change(step) if step.dropped else self._manifests.read_entries(step.added)
                return live.apply(change)
        return self._merged(snapshot, self._manifests.read_entries(manifests))

    def _nearest(self, manifests: Sequence[ManifestFileMeta]) -> tuple[LiveFiles, ManifestStep] | None:
        """The cached state from which the fewest entries lead to these manifests."""
        with self._lock:
            held = list(self._held.values())
        found: list[tuple[LiveFiles, ManifestStep]] = []
        for snapshot, live in held:
            with contextlib.suppress(NotFoundError):  # its lists were deleted: it expired, or was replaced
                found.append((live, ManifestStep.between(self.manifests_of(snapshot), manifests)))
        return min(found, key=lambda one: one[1].entry_count, default=None)

    def _net_change(self, step: ManifestStep) -> list[ManifestEntry]:
        return net_change(*(self._manifests.read_entries(manifests) for manifests in (step.added, step.dropped)))

    def _merged(self, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> LiveFiles:
        with paused_collection():
            found = list(entries)  # outside of the try: a damaged manifest is not a contradiction between manifests
            try:
                return LiveFiles().apply(found)
            except CorruptDataError as error:
                raise CorruptDataError(
                    f"the manifests of snapshot {snapshot.id} contradict each other: {error}"
                ) from error


def _name_of(snapshot: Snapshot) -> _StateName:
    return snapshot.base_manifest_list, snapshot.delta_manifest_list
