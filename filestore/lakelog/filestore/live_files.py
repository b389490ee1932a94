"""The live files of a snapshot, kept up to date from commit to commit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.data_file import DataFileMeta
from lakelog.filestore.manifest import FileIdentifier, FileKind, ManifestEntry, ManifestFiles
from lakelog.filestore.snapshot import Snapshot, SnapshotManager

BucketId = tuple[bytes, int]
_STATES_HELD = 4
_STEPS_MAX = 32  # a state that is further behind is loaded anew


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """What is live in one snapshot: the ADD entries of each (partition, bucket). Immutable."""

    buckets: Mapping[BucketId, Mapping[FileIdentifier, ManifestEntry]] = field(default_factory=dict)

    def entries(self) -> Iterator[ManifestEntry]:
        """All live entries, bucket by bucket."""
        for live in self.buckets.values():
            yield from live.values()

    def files(self, partition: bytes, bucket: int) -> tuple[DataFileMeta, ...]:
        """The live files of a bucket."""
        return tuple(entry.file for entry in self.buckets.get((partition, bucket), {}).values())

    def find(self, entry: ManifestEntry) -> ManifestEntry | None:
        """The live entry with the same identifier."""
        return self.buckets.get((entry.partition, entry.bucket), {}).get(entry.identifier)

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """The sequence number after every live row's in a bucket."""
        live = self.buckets.get((partition, bucket), {})
        return max((entry.file.max_sequence_number + 1 for entry in live.values()), default=0)

    def total_buckets(self, partitions: Collection[bytes]) -> dict[bytes, int]:
        """The number of buckets that each partition's files were written for; partitions without files are left out."""
        return {
            partition: next(iter(live.values())).total_buckets
            for (partition, _), live in self.buckets.items()
            if partition in partitions
        }

    def apply(self, entries: Iterable[ManifestEntry]) -> LiveFiles:
        """The state after a delta. Raises CorruptDataError for an ADD that is live and a DELETE that is not."""
        changed: dict[BucketId, dict[FileIdentifier, ManifestEntry]] = {}
        for entry in entries:
            bucket_id = (entry.partition, entry.bucket)
            if bucket_id not in changed:
                changed[bucket_id] = dict(self.buckets.get(bucket_id, {}))
            live = changed[bucket_id]
            is_live = entry.identifier in live
            if entry.kind is FileKind.ADD and not is_live:
                live[entry.identifier] = entry
            elif entry.kind is FileKind.DELETE and is_live:
                del live[entry.identifier]
            else:
                what = "added twice to" if is_live else "deleted but was never added to"
                raise CorruptDataError(f"file {entry.file.file_name} is {what} bucket {entry.bucket}")
        buckets = {**self.buckets, **changed}
        return LiveFiles(buckets={bucket_id: live for bucket_id, live in buckets.items() if live})


class LiveFilesCache:
    """The live files of a few snapshots. A later state is made from an earlier one by the deltas in between.

    Safe to share between threads.
    """

    def __init__(self, manifests: ManifestFiles, snapshots: SnapshotManager) -> None:
        self._manifests = manifests
        self._snapshots = snapshots
        self._held: OrderedDict[int, tuple[Snapshot, LiveFiles]] = OrderedDict()
        self._lock = threading.RLock()

    def of(self, snapshot: Snapshot | None) -> LiveFiles:
        """The live files of a snapshot; none before the first commit."""
        if snapshot is None:
            return LiveFiles()
        with self._lock:
            held = self._held.get(snapshot.id)
            if held is not None and held[0] == snapshot:
                return held[1]
            live = self._step_to(snapshot) or self._load(snapshot)
            self.put(snapshot, live)
            return live

    def put(self, snapshot: Snapshot, live: LiveFiles) -> None:
        """Remember a state that the caller has made itself, such as the one it has just committed."""
        with self._lock:
            self._held[snapshot.id] = (snapshot, live)
            self._held.move_to_end(snapshot.id)
            while len(self._held) > _STATES_HELD:
                self._held.popitem(last=False)

    def _load(self, snapshot: Snapshot) -> LiveFiles:
        base = self._manifests.read_list(snapshot.base_manifest_list, size_bytes=snapshot.base_manifest_list_size)
        delta = self._manifests.read_list(snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size)
        entries = list(self._manifests.read_entries([*base, *delta]))
        try:
            return LiveFiles().apply(entries)
        except CorruptDataError as error:
            raise CorruptDataError(f"the manifests of snapshot {snapshot.id} contradict each other: {error}") from error

    def _step_to(self, snapshot: Snapshot) -> LiveFiles | None:
        """The state made from the nearest earlier one that is still part of the table's history."""
        earlier = max((held for held in self._held if held < snapshot.id), default=None)
        if earlier is None or snapshot.id - earlier > _STEPS_MAX:
            return None
        before, live = self._held[earlier]
        try:
            if self._snapshots.get(earlier) != before:  # rolled back and written anew
                del self._held[earlier]
                return None
            between = [self._snapshots.get(number) for number in range(earlier + 1, snapshot.id)]
            for step in (*between, snapshot):
                live = live.apply(self._manifests.read_entries(self._manifests.read_list(step.delta_manifest_list)))
        except (NotFoundError, CorruptDataError):
            return None
        return live
