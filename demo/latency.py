"""Times of the run: micro-batches, and the way of a batch from the log to the reader. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median

Offsets = Mapping[int, int]
"""Bucket -> the next offset of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One finished micro-batch of a run.

    `read_at` (seconds since 1970) is when the sink was handed the batch's rows. `log_offsets` are how far a reader of
    a lakelog table has read the log after it; None while the snapshot is being read, and for other sources.
    """

    identifier: int
    row_count: int
    seconds: float
    read_at: float
    log_offsets: Offsets | None

    def to_json(self) -> str:
        """One line of a progress file."""
        return json.dumps(
            {
                "batch": self.identifier,
                "rows": self.row_count,
                "seconds": self.seconds,
                "readAt": self.read_at,
                "logOffsets": self.log_offsets,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> MicroBatch:
        """Parse one line of a progress file."""
        fields = json.loads(line)
        offsets = fields["logOffsets"]
        return cls(
            identifier=fields["batch"],
            row_count=fields["rows"],
            seconds=fields["seconds"],
            read_at=fields["readAt"],
            log_offsets=None if offsets is None else {int(bucket): offset for bucket, offset in offsets.items()},
        )


def read_batches(path: Path) -> list[MicroBatch]:
    """The finished micro-batches of a run; a line that is being written is left out."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [MicroBatch.from_json(line) for line in whole.splitlines()]


def covers(reached: Offsets, wanted: Offsets) -> bool:
    """True when every bucket of `wanted` has been read to its offset."""
    return all(reached.get(bucket, 0) >= offset for bucket, offset in wanted.items())


def log_to_reader_seconds(
    logged_at: Mapping[int, float], log_ends: Mapping[int, Offsets], batches: Sequence[MicroBatch]
) -> Mapping[int, float]:
    """Writer's batch -> seconds from its last commit in the log to the reader's micro-batch that holds all of it.

    `log_ends` are the log offsets of each batch's snapshot. Left out is what did not come fresh from the log: what the
    reader had with its snapshot, and what its first micro-batch of the log caught up with.
    """
    by_log = [batch for batch in batches if batch.log_offsets is not None]
    fresh = by_log[2:]
    seconds: dict[int, float] = {}
    for identifier, end in log_ends.items():
        if identifier not in logged_at or (len(by_log) > 1 and covers(by_log[1].log_offsets or {}, end)):
            continue
        arrived_at = next((batch.read_at for batch in fresh if covers(batch.log_offsets or {}, end)), None)
        if arrived_at is not None:
            seconds[identifier] = arrived_at - logged_at[identifier]
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, 95th percentile (nearest rank) and maximum of some figures."""

    count: int
    median: float
    p95: float
    max: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread | None:
        """The spread of `figures`; None of none."""
        ordered = sorted(figures)
        if not ordered:
            return None
        p95 = ordered[ceil(0.95 * len(ordered)) - 1]
        return cls(count=len(ordered), median=median(ordered), p95=p95, max=ordered[-1])
