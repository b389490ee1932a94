"""Which manifests may hold entries of partitions, by the bounds of their partitions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lakelog.common.types import DataType
from lakelog.filestore.encoding.binary_row import deserialize_row
from lakelog.filestore.encoding.key_order import comparable, comparable_key
from lakelog.filestore.metadata.manifests.data_file import SimpleStats
from lakelog.filestore.metadata.manifests.manifest_entries import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta

_Values = list[tuple[object, ...] | None]  # of the columns; None for a null


def manifests_of_partitions(
    manifests: Iterable[ManifestFileMeta], partitions: Collection[bytes], kinds: Sequence[DataType]
) -> list[ManifestFileMeta]:
    """The manifests that may hold entries of some of the partitions, serialized rows of these types."""
    if not kinds:
        return list(manifests) if partitions else []
    wanted = [_values(kinds, partition) for partition in partitions]
    return [manifest for manifest in manifests if _may_hold_any(kinds, manifest.partition_stats, wanted)]


def _values(kinds: Sequence[DataType], partition: bytes) -> _Values:
    row = deserialize_row(kinds, partition)
    return [None if value is None else comparable([kind], [value]) for kind, value in zip(kinds, row, strict=True)]


def _may_hold_any(kinds: Sequence[DataType], stats: SimpleStats, wanted: Sequence[_Values]) -> bool:
    """A null excludes nothing, for not every writer counts the nulls among partitions."""
    if any(int.from_bytes(row[:4], "big") != len(kinds) for row in (stats.min_values, stats.max_values)):
        return True  # of another engine, without statistics
    least, most = _values(kinds, stats.min_values), _values(kinds, stats.max_values)
    return any(
        all(
            value is None or low is None or high is None or low <= value <= high
            for value, low, high in zip(values, least, most, strict=True)
        )
        for values in wanted
    )


def by_partition(entries: Iterable[ManifestEntry], kinds: Sequence[DataType]) -> list[ManifestEntry]:
    """The entries in the order of their partitions and buckets; those of one bucket stay in their order."""
    given = list(entries)
    partitions = sorted({entry.partition for entry in given}, key=lambda row: comparable_key(kinds, row))
    ranks = {partition: rank for rank, partition in enumerate(partitions)}
    return sorted(given, key=lambda entry: (ranks[entry.partition], entry.bucket))
