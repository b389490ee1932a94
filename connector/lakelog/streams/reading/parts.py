"""What is to be read, in parts that may be read side by side, in any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.filestore.metadata.manifests import ManifestEntry
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.read import DataSplit
    from lakelog.filestore.refs import StateUnit
    from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
    from lakelog.protocol.reading import ChangeFile, NormalizedRange

_MILLIS_END = (1 << 63) // 1000  # Spark counts microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """What the rows of a snapshot show about it."""

    id: int
    watermark_millis: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotMark:
        """The mark of a snapshot."""
        return cls.shown(snapshot.id, snapshot.watermark)

    @classmethod
    def shown(cls, snapshot_id: int, watermark_millis: int | None) -> SnapshotMark:
        """The mark of a snapshot with a watermark, which is left out if Spark cannot show it."""
        return cls(id=snapshot_id, watermark_millis=shown_millis(watermark_millis))


def shown_millis(millis: int | None) -> int | None:
    """A time that Spark can show; None for any other, such as the smallest number, Flink's sign for no watermark."""
    return millis if millis is not None and abs(millis) < _MILLIS_END else None


@dataclass(frozen=True, slots=True)
class SplitsPart:
    """Splits of a snapshot; the snapshot is named if its metadata may be asked for."""

    splits: Sequence[DataSplit]
    snapshot: SnapshotMark | None = None


@dataclass(frozen=True, slots=True)
class LogPart:
    """Ranges of the log, each (bucket, start, end), and where snapshots end in a bucket, see `snapshot_ends`.

    `done` is, for buckets of an eventual log, user -> the last batch in a snapshot that ends at or before the range.
    The ranges are of an older `topic`, or of the one that the table has. The changes in the `files` of a bucket, which
    the log no longer holds, come before its range; `is_upsert` says that the log had no old values.
    """

    ranges: Sequence[tuple[int, int, int]]
    snapshot_ends: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    done: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    topic: KafkaTopic | None = None
    files: Mapping[int, Sequence[ChangeFile]] = field(default_factory=dict)
    is_upsert: bool = False


@dataclass(frozen=True, slots=True)
class NormalizedPart:
    """Ranges of the log, to be read as full changelogs."""

    ranges: Sequence[NormalizedRange]


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """Files of changes, in the order of their snapshots."""

    entries: Sequence[ManifestEntry]

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(entry.file.file_size_bytes for entry in self.entries)


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """The files that two states of a bucket or a partition do not share."""

    unit: StateUnit

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(split.size_bytes for split in (*self.unit.before, *self.unit.after))


Part = SplitsPart | LogPart | NormalizedPart | DeltaPart | DifferencePart
