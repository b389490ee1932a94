"""What a table shows of its sources at one snapshot: what each writer has read, and what has broken that. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from lakelog.filestore.metadata.row_sources import LineKey
from lakelog.lineage.record import ReadMode, TableVersion
from lakelog.lineage.versions import LineVersions

ABSENT, BROKEN = -1, -2  # instead of a version's key: not a source; a source that is shown at no version


class Reason(StrEnum):
    """Why a table shows a source at no version."""

    GAP = "gap"  # a stream read on from another snapshot than the one that it had read up to
    UNSEEN = "unseen"  # a stream has passed an overwrite, whose changes streams of files are not given
    INEXACT = "inexact"  # a stream has read a part of the changes behind a snapshot; the next exact batch mends it
    MIXED = "mixed"  # two versions are shown at once
    CHANGED = "changed"  # rows were changed by hand
    FOREIGN_WRITER = "foreign writer"
    UNKNOWN = "unknown"  # a batch does not record what it read
    MERGED = "merged"  # a branch brought rows of which it is not known what they were made from
    RESTORED = "restored"  # a state was restored of which nothing is known
    PART = "part"  # the snapshot holds a batch in part
    NOT_KNOWN = "not known"  # the snapshot has expired, or was rolled back, and what it was made from with it


class Break(NamedTuple):
    """Why a source is shown at no version, the snapshot that made it so, and details in words."""

    reason: Reason
    snapshot_id: int
    details: str = ""


class Reader(NamedTuple):
    """One read of a source by a user: a batch may read a source several times."""

    user: str
    mode: ReadMode
    number: int


@dataclass(slots=True)
class Reading:
    """What a user has read of a source. `last` is the newest version read whole, `passing` ends with an exact batch."""

    job: str | None
    last: int | None
    broken: Break | None = None
    passing: Break | None = None

    def copy(self) -> Reading:
        return Reading(job=self.job, last=self.last, broken=self.broken, passing=self.passing)


@dataclass(slots=True)
class SourceState:
    """One source in a state: by reader, and by the version that a statement has read, the statement's snapshot."""

    readings: dict[Reader, Reading] = field(default_factory=dict)
    once: dict[int, int] = field(default_factory=dict)
    broken: Break | None = None

    def copy(self) -> SourceState:
        readings = {reader: reading.copy() for reader, reading in self.readings.items()}
        return SourceState(readings=readings, once=dict(self.once), broken=self.broken)

    def shown(self, position: int, versions: LineVersions) -> tuple[int, Break | None]:
        """The key of the version that is shown, or why there is none."""
        if self.broken is not None:
            return BROKEN, self.broken
        keys = set(self.once)
        for reading in self.readings.values():
            found = reading.broken or reading.passing
            if found is not None:
                return BROKEN, found
            if reading.last is not None:
                keys.add(reading.last)
        if len(keys) == 1:
            return keys.pop(), None
        if not keys:
            return ABSENT, None
        return BROKEN, Break(Reason.MIXED, position, mixed_text(self, keys, versions))


@dataclass(slots=True)
class LineState:
    """What a snapshot shows. `left` are streams whose rows an overwrite or a restore has removed."""

    sources: dict[LineKey, SourceState] = field(default_factory=dict)
    left: set[tuple[LineKey, Reader]] = field(default_factory=set)

    def copy(self) -> LineState:
        return LineState(sources={key: state.copy() for key, state in self.sources.items()}, left=set(self.left))

    def break_all(self, found: Break) -> None:
        """Break all sources that are shown."""
        for state in self.sources.values():
            state.broken = state.broken or found

    def streams(self) -> Iterator[tuple[LineKey, Reader]]:
        """The streams that have written."""
        for source, state in self.sources.items():
            yield from ((source, reader) for reader in state.readings if reader.mode is ReadMode.STREAM)


def named_version(versions: LineVersions, key: int | None) -> str:
    """A version in words, None for the state before the first one."""
    return "the beginning" if key is None else f"snapshot {versions.first(key).snapshot_id}"


def named_writer(job: str | None, user: str) -> str:
    """The writer of a batch in words."""
    return f"job {job}" if job is not None else f"writer {user}"


def unseen_by(writer: str, versions: LineVersions, start: TableVersion, end: TableVersion, number: int) -> Break | None:
    """The break in a snapshot whose stream has passed an overwrite of its source between two snapshots of that."""
    passed = versions.unseen_between(start, end)
    if passed is None:
        return None
    named = f"snapshot {passed.last}"
    if passed.first < passed.last:
        named = f"one of the snapshots {passed.first} to {passed.last}"
    return Break(Reason.UNSEEN, number, f"{named} of the source overwrote rows, and {writer} did not see it")


def mixed_text(state: SourceState, keys: Collection[int], versions: LineVersions) -> str:
    """Which writer shows which version."""
    found: dict[int, list[str]] = {key: [] for key in sorted(keys)}  # and what a reader with a gap has read last
    for reader, reading in state.readings.items():
        if reading.last is not None:
            found.setdefault(reading.last, []).append(named_writer(reading.job, reader.user))
    for key, number in state.once.items():
        found.setdefault(key, []).append(f"the statement in snapshot {number}")
    return "; ".join(f"{named_version(versions, key)} by {', '.join(names[:3])}" for key, names in found.items())
