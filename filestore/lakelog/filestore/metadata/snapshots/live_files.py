"""The live files of a snapshot, kept up to date from commit to commit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry, ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.manifests.manifest_steps import ManifestStep, count_entries, net_change
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.partial_files import LiveBuckets, PartialFiles
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

_STATES_HELD = 4
_WHOLE_MAX = 20_000  # entries that become objects even if few are wanted
_StateName = tuple[str, str]  # the manifest lists


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
        self._held: BoundedCache[_StateName, tuple[Snapshot, LiveFiles]] = BoundedCache(_STATES_HELD)
        self._partial: tuple[_StateName, PartialFiles] | None = None
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
        return _name_of(snapshot) in self._held

    def near(self, snapshot: Snapshot | None) -> LiveBuckets:
        """The live files of a snapshot for one who needs those of few partitions.

        If there are many, they are read when they are asked for; what was read stays for the next snapshots.
        """
        if snapshot is None:
            return LiveFiles()
        with self._lock:
            if _name_of(snapshot) in self._held:
                return self.of(snapshot)
            if self._partial is not None and self._partial[0] == _name_of(snapshot):
                return self._partial[1]
            manifests = self.manifests_of(snapshot)
            nearest = self._nearest(manifests)
            is_near = nearest is not None and nearest[1].entry_count <= _WHOLE_MAX
            if is_near or not self._manifests.partition_types or count_entries(manifests) <= _WHOLE_MAX:
                return self.of(snapshot)
            partial = self._made_partial(manifests)
            self._partial = _name_of(snapshot), partial
            return partial

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
        """How many files are live in a snapshot, from its manifest lists alone if it is not cached."""
        held = self._held.get(_name_of(snapshot))
        if held is not None:
            return sum(len(files) for files in held[1].buckets.values())
        manifests = self.manifests_of(snapshot)
        return sum(manifest.num_added_files - manifest.num_deleted_files for manifest in manifests)

    def put(self, snapshot: Snapshot, live: LiveBuckets) -> None:
        """Cache a state that the caller has built itself, such as the one that it has just committed."""
        with self._lock:
            if isinstance(live, PartialFiles):
                self._partial = None
                with contextlib.suppress(NotFoundError):  # it has expired already
                    self._partial = _name_of(snapshot), live.rebased(self.manifests_of(snapshot))
                return
            assert isinstance(live, LiveFiles)
            self._held.put(_name_of(snapshot), (snapshot, live))

    def continues(self, earlier: Snapshot | None, later: Snapshot) -> bool:
        """Whether a snapshot was committed on the state of another one, so that its delta leads from that state to it.

        The snapshot with the previous number may be of another line: other engines let a branch replace a part of a
        table's line. Reads manifest lists, and manifests if some were joined. Raises NotFoundError if a list has been
        deleted.
        """
        before = () if earlier is None else self.manifests_of(earlier)
        base = self._read_list(later.base_manifest_list, later.base_manifest_list_size)
        if before == base:  # mostly the same objects, which are compared at once
            return True
        step = ManifestStep.between(before, base)
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

    def _made_partial(self, manifests: Sequence[ManifestFileMeta]) -> PartialFiles:
        """A state whose files are read when they are asked for, from those of the one before if that is known."""
        if self._partial is not None:
            with contextlib.suppress(NotFoundError, CorruptDataError):  # expired, or a contradiction: read anew
                return self._partial[1].stepped(manifests)
        return PartialFiles(self._manifests, manifests)

    def _nearest(self, manifests: Sequence[ManifestFileMeta]) -> tuple[LiveFiles, ManifestStep] | None:
        """The cached state from which the fewest entries lead to these manifests."""
        found: list[tuple[LiveFiles, ManifestStep]] = []
        for snapshot, live in self._held.values():
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
