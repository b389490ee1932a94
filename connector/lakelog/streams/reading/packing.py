"""How what is to be read is shared out among tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import DataSplit
from lakelog.filestore.refs import TableState, unshared
from lakelog.streams.reading.parts import DeltaPart, DifferencePart

PARTITION_BYTES = 128 << 20

Item = TypeVar("Item")


def packed_splits(splits: Sequence[DataSplit]) -> list[list[DataSplit]]:
    """The splits of each task."""
    return pack(splits, lambda split: split.size_bytes, count=part_count(), size_max=PARTITION_BYTES)


def delta_parts(changes: Iterable[Sequence[ManifestEntry]]) -> list[DeltaPart]:
    """The tasks that read files of changes; those of one sequence are read in order, by one task."""
    groups = pack(
        list(changes),
        lambda entries: sum(entry.file.file_size_bytes for entry in entries),
        count=part_count(),
        size_max=PARTITION_BYTES,
    )
    return [DeltaPart([entry for entries in group for entry in entries]) for group in groups]


def difference_parts(
    table: FileStoreTable, old: Snapshot | None, new: Snapshot | None, *, is_followed: bool
) -> list[DifferencePart]:
    """The tasks that compare two states of a table; None is the empty table."""
    before, after = (TableState(table=table, snapshot=one) for one in (old, new))
    return [DifferencePart(unit) for unit in unshared(before, after, is_followed=is_followed)]


def part_count() -> int:
    """How many partitions a small read is split into: each costs a task."""
    return os.cpu_count() or 1


def pack(items: Sequence[Item], size_of: Callable[[Item], int], *, count: int, size_max: int) -> list[list[Item]]:
    """The items in about `count` groups of neighbours; more if a group of several would exceed `size_max`."""
    target = sum(size_of(item) for item in items) / count
    groups: list[list[Item]] = []
    held = 0
    for item in items:
        size = size_of(item)
        if not groups or held >= target or held + size > size_max:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size
    return groups
