"""The live files of a large snapshot, read partition by partition when they are asked for.

A commit asks for the files of the partitions that it changes, and reading all of a million files for that takes seconds
and gigabytes. Manifests hold entries in the order of partitions, so few of them have those of one partition.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry, ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_pruning import manifests_of_partitions
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.manifests.manifest_steps import ManifestStep, net_change
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles

_READS_MAX = 32  # after so many reads of some partitions, a caller wants most of them: the rest is read at once


class LiveBuckets(Protocol):
    """The live files of a snapshot, as those ask for them who need a few buckets."""

    def read(self, partitions: Collection[bytes]) -> None:
        """Read the files of partitions at once, where they would be read one by one."""
        ...

    def files(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        """The live files of a bucket."""
        ...

    def find(self, entry: ManifestEntry) -> ManifestEntry | None:
        """The live entry with the same identifier."""
        ...

    def next_sequence(self, bucket: BucketId) -> int:
        """The sequence number after those of all live rows in a bucket."""
        ...

    def total_buckets(self, partitions: Collection[bytes]) -> dict[bytes, int]:
        """The number of buckets that each partition's files were written for."""
        ...

    def apply(self, entries: Sequence[ManifestEntry]) -> LiveBuckets:
        """The state after a delta. Raises CorruptDataError for a contradiction."""
        ...

    def whole(self) -> LiveFiles:
        """All live files."""
        ...


class PartialFiles:
    """The live files of one state. What was read stays; safe to share between threads.

    Reads raise NotFoundError if the state has expired, and CorruptDataError.
    """

    def __init__(
        self,
        manifests: ManifestFiles,
        state: Sequence[ManifestFileMeta],
        known: LiveFiles | None = None,
        covered: frozenset[bytes] = frozenset(),
    ) -> None:
        """`state` are all manifests of the state, in order; `known` are the files of the partitions `covered`."""
        self._manifests = manifests
        self._state = state
        self._known = LiveFiles() if known is None else known
        self._covered = covered
        self._is_whole = False
        self._reads = 0
        self._lock = threading.RLock()

    def read(self, partitions: Collection[bytes]) -> None:
        """Read the files of partitions, of which those that are known are not read again."""
        self._of(partitions)

    def files(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        """The live files of a bucket."""
        return self._of((bucket.partition,)).files(bucket)

    def find(self, entry: ManifestEntry) -> ManifestEntry | None:
        """The live entry with the same identifier."""
        return self._of((entry.partition,)).find(entry)

    def next_sequence(self, bucket: BucketId) -> int:
        """The sequence number after those of all live rows in a bucket."""
        return self._of((bucket.partition,)).next_sequence(bucket)

    def total_buckets(self, partitions: Collection[bytes]) -> dict[bytes, int]:
        """The number of buckets that each partition's files were written for; partitions without files are left out."""
        return self._of(partitions).total_buckets(partitions)

    def apply(self, entries: Sequence[ManifestEntry]) -> PartialFiles:
        """The state after a delta. Raises CorruptDataError for an ADD of a live file or a DELETE of another.

        Partitions that the delta does not change are read from the manifests of this state.
        """
        with self._lock:
            known = self._of({entry.partition for entry in entries}).apply(entries)
            return self._with(self._state, known)

    def whole(self) -> LiveFiles:
        """All live files."""
        with self._lock:
            if not self._is_whole:
                self._add(self._state, self._covered, is_inside=False)
                self._is_whole = True
            return self._known

    def rebased(self, state: Sequence[ManifestFileMeta]) -> PartialFiles:
        """The same files by the manifests of the snapshot that was committed with them."""
        with self._lock:
            return self._with(state, self._known)

    def stepped(self, state: Sequence[ManifestFileMeta]) -> PartialFiles:
        """The files of another state, of which those of the known partitions are made from these.

        Raises NotFoundError and CorruptDataError, then the other state must be read anew.
        """
        with self._lock:
            step = ManifestStep.between(self._state, state)
            parts = (self._entries(part, self._covered, is_inside=True) for part in (step.added, step.dropped))
            if self._is_whole:
                parts = (self._manifests.read_entries(part) for part in (step.added, step.dropped))
            return self._with(state, self._known.apply(net_change(*parts)))

    def _with(self, state: Sequence[ManifestFileMeta], known: LiveFiles) -> PartialFiles:
        made = PartialFiles(self._manifests, state, known, self._covered)
        made._is_whole = self._is_whole
        return made

    def _of(self, partitions: Collection[bytes]) -> LiveFiles:
        """Files, with at least those of these partitions."""
        with self._lock:
            missing = frozenset(partitions) - self._covered
            if self._is_whole or not missing:
                return self._known
            self._reads += 1
            if self._reads > _READS_MAX:
                return self.whole()
            self._add(self._state, missing, is_inside=True)
            self._covered |= missing
            return self._known

    def _add(self, state: Sequence[ManifestFileMeta], partitions: frozenset[bytes], *, is_inside: bool) -> None:
        with paused_collection():
            self._known = self._known.apply(list(self._entries(state, partitions, is_inside=is_inside)))

    def _entries(
        self, state: Sequence[ManifestFileMeta], partitions: frozenset[bytes], *, is_inside: bool
    ) -> Iterable[ManifestEntry]:
        """The entries of manifests whose partitions are among these, or are not."""
        kinds = self._manifests.partition_types
        for manifest in manifests_of_partitions(state, partitions, kinds) if is_inside else state:
            yield from self._manifests.read_buckets(
                manifest, lambda bucket: (bucket.partition in partitions) is is_inside
            )
