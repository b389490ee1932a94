"""The buckets of rows in a table with dynamic buckets: a key keeps its bucket, a new key goes to a bucket with room.

The index has only hashes of keys, and all keys with one hash are in one bucket. The hashes of a partition fall into
classes by `hash % count`, and new keys of a class go to buckets whose `bucket % count` is the same number: writers of
different classes never give keys to the same bucket. Source: Paimon, `HashBucketAssigner`, `PartitionIndex`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: numbers of any width

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.encoding.bucket import hashes_of, shares_of
from lakelog.filestore.index.hash_index import (
    Hashes,
    HashFile,
    HashIndex,
    HashIndexChange,
    check_complete,
    read_hashes,
    write_hashes,
)
from lakelog.filestore.index.index_manifest import hash_index
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import (
    DYNAMIC_BUCKET_ASSIGNER_PARALLELISM,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
)
from lakelog.filestore.options.parsing import DYNAMIC_BUCKETS_MAX

Buckets = npt.NDArray[np.int32]
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignRules:
    """How new keys are spread over the buckets of a partition. `buckets_max` None means no limit."""

    target_key_count: int
    class_count: int = 1
    buckets_max: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], *, writer_count: int = 1) -> AssignRules:
        """The rules of a table if `writer_count` tasks assign at once."""
        most = DYNAMIC_BUCKET_MAX_BUCKETS.of(options)
        wanted = DYNAMIC_BUCKET_INITIAL_BUCKETS.of(options) or DYNAMIC_BUCKET_ASSIGNER_PARALLELISM.of(options)
        return cls(
            target_key_count=DYNAMIC_BUCKET_TARGET_ROW_NUM.of(options),
            class_count=min(wanted or writer_count, most if most > 0 else DYNAMIC_BUCKETS_MAX),
            buckets_max=most if most > 0 else None,
        )

    def class_of(self, hashes: Hashes) -> Buckets:
        """The class of each hash."""
        return shares_of(hashes, self.class_count)


def spread(count: int, held: Mapping[int, int], number: int, rules: AssignRules) -> Buckets:
    """The buckets of `count` new keys of class `number`, in the order of the keys.

    `held` is the number of keys in each bucket of the partition. Buckets with room are filled, the lowest first, then
    new ones; at `buckets_max` buckets the keys are spread over all buckets of the class in turn. Raises
    InvalidRequestError if there are too many buckets.
    """
    target = rules.target_key_count
    own = sorted(bucket for bucket in held if bucket % rules.class_count == number)
    rooms = {bucket: target - held[bucket] for bucket in own if held[bucket] < target}
    left = count - sum(rooms.values())
    limit = DYNAMIC_BUCKETS_MAX if rules.buckets_max is None else rules.buckets_max
    for bucket in range(number, limit, rules.class_count):
        if left <= 0:
            break
        if bucket not in held:
            own.append(bucket)
            rooms[bucket] = target
            left -= target
    if left > 0 and rules.buckets_max is None:
        raise InvalidRequestError(
            f"a partition would need more than {DYNAMIC_BUCKETS_MAX:,} buckets of {target:,} keys; raise "
            f"{DYNAMIC_BUCKET_TARGET_ROW_NUM.key}"
        )
    ends = np.minimum(np.cumsum([0, *rooms.values()]), count)
    filled = np.repeat(np.array([*rooms], np.int32), np.diff(ends))
    return np.concatenate([filled, np.resize(np.array(own, np.int32), max(left, 0))])


@dataclass(slots=True)
class _Partition:
    """The state of a partition: its index files, and the hashes that this write has assigned."""

    files: Mapping[int, HashFile]
    held: dict[int, int]  # number of keys by bucket
    placed: Hashes = field(default_factory=lambda: np.zeros(0, np.int32))
    buckets: Buckets = field(default_factory=lambda: np.zeros(0, np.int32))


class BucketAssigner:
    """Assigns buckets to the rows of one write, by the keys of one snapshot and those that it has assigned."""

    def __init__(self, table: TableStore, index: HashIndex, *, rules: AssignRules | None = None) -> None:
        """`index` is the HASH index of the base's snapshot; an empty one for an overwrite. No I/O."""
        self._table = table
        self._index = index
        self._rules = rules or AssignRules.of(table.schema.options)
        self._partitions: dict[bytes, _Partition] = {}

    def assign_rows(self, rows: pa.Table, partitions: Sequence[bytes], codes: pl.Series) -> Buckets:
        """The bucket of each row; `codes` are the indexes of the rows' partitions in `partitions`.

        Reads the index files of these partitions, one at a time. Raises NotFoundError, CorruptDataError.
        """
        hashes = hashes_of(rows, self._table.schema.key_fields)
        if len(partitions) == 1:
            return self.assign(partitions[0], hashes)
        buckets = np.empty(len(hashes), np.int32)
        for number, places in _groups(codes.to_numpy()):
            buckets[places] = self.assign(partitions[number], hashes[places])
        return buckets

    def assign(self, partition: bytes, hashes: Hashes) -> Buckets:
        """The bucket of each key of a partition, in any number and order."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        distinct = ordered[is_first]
        known = self._partition(partition)
        buckets = np.full(len(distinct), _NONE, np.int32)
        at = _places_in(known.placed, distinct)
        buckets[at >= 0] = known.buckets[at[at >= 0]]
        for bucket, file in sorted(known.files.items()):
            missing = np.flatnonzero(buckets == _NONE)
            if not len(missing):
                break
            found = _places_in(read_hashes(self._table, file), distinct[missing]) >= 0
            buckets[missing[found]] = bucket
        fresh = np.flatnonzero(buckets == _NONE)
        if len(fresh):
            arrivals = np.minimum.reduceat(order, np.flatnonzero(is_first))
            fresh = fresh[np.argsort(arrivals[fresh])]
            buckets[fresh] = self._place(known, distinct[fresh])
        assigned = np.empty(len(hashes), np.int32)
        assigned[order] = buckets[np.cumsum(is_first) - 1]
        return assigned

    def write_index(self) -> HashIndexChange:
        """Write the index files of the buckets that got keys, durably; no snapshot names them yet."""
        files = {}
        for partition, known in self._partitions.items():
            for bucket, places in _groups(known.buckets):
                before = known.files.get(bucket)
                held = [] if before is None else [read_hashes(self._table, before)]
                files[BucketId(partition, bucket)] = write_hashes(
                    self._table, np.sort(np.concatenate([*held, known.placed[places]]))
                )
        return HashIndexChange(
            seen={partition: known.files for partition, known in self._partitions.items()}, files=files
        )

    def _partition(self, partition: bytes) -> _Partition:
        if partition not in self._partitions:
            files = self._index.get(partition, {})
            held = {bucket: file.key_count for bucket, file in files.items()}
            self._partitions[partition] = _Partition(files, held)
        return self._partitions[partition]

    def _place(self, known: _Partition, fresh: Hashes) -> Buckets:
        """Assign buckets to new hashes, in order, and record them."""
        buckets = np.empty(len(fresh), np.int32)
        for number, places in _groups(self._rules.class_of(fresh)):
            buckets[places] = spread(len(places), known.held, number, self._rules)
        counts = np.bincount(buckets)
        for bucket in np.flatnonzero(counts).tolist():
            known.held[bucket] = known.held.get(bucket, 0) + int(counts[bucket])
        placed = np.concatenate([known.placed, fresh])
        order = np.argsort(placed)
        known.placed, known.buckets = placed[order], np.concatenate([known.buckets, buckets])[order]
        return buckets


def _groups(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each distinct number, and its positions, in order."""
    counts = np.bincount(numbers)
    narrow = numbers.astype(np.uint16) if len(counts) <= 1 << 16 else numbers
    order = np.argsort(narrow, kind="stable")  # of 16 bits: a radix sort
    ends = np.cumsum(counts)
    for number, (start, end) in enumerate(itertools.pairwise([0, *ends.tolist()])):
        if end > start:
            yield number, order[start:end]


def bucket_assigner(table: TableStore, base: Snapshot | None) -> BucketAssigner | None:
    """The assigner for rows written after a snapshot; None for a table without dynamic buckets.

    Raises CorruptDataError if the HASH index of the snapshot lacks a bucket.
    """
    index = checked_index(table, base)
    return None if index is None else BucketAssigner(table, index)


def checked_index(table: TableStore, base: Snapshot | None) -> HashIndex | None:
    """The HASH index of a snapshot; None for a table without dynamic buckets.

    Raises CorruptDataError if it lacks a bucket.
    """
    if not table.schema.has_dynamic_buckets:
        return None
    index = hash_index(table, base)
    check_complete(table, index, table.live_files.of(base).buckets.keys())
    return index


def _places_in(held: Hashes, wanted: Hashes) -> npt.NDArray[np.int64]:
    """The index of each wanted hash in sorted hashes, -1 if it is missing."""
    if not len(held):
        return np.full(len(wanted), _NONE, np.int64)
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return np.where(held[at] == wanted, at, _NONE)
