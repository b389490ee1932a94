"""What a table shows of its sources at one snapshot: what each writer has read, and what has broken it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from lakelog.filestore.metadata.origins import LineKey, WriterName
from lakelog.lineage.lines.lines import named_writer
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.records.record import ReadMode, TableVersion

ABSENT, BROKEN = -1, -2  # in place of a version's key: not a source; a source that is shown at no version


class Reason(StrEnum):
    """Why a table shows a source at no version."""

    GAP = "gap"  # a stream read on from another snapshot than the one it had reached
    UNSEEN = "unseen"  # a stream has passed an overwrite, whose changes streams of files do not get
    INEXACT = "inexact"  # a stream has read a part of the changes after a snapshot; the next exact batch resolves it
    MIXED = "mixed"  # two versions are shown at once
    CHANGED = "changed"  # rows were changed by hand
    FOREIGN_WRITER = "foreign writer"
    UNKNOWN = "unknown"  # a batch does not record what it read
    MERGED = "merged"  # a branch brought rows of unknown origin
    RESTORED = "restored"  # a state was restored about which nothing is known
    PART = "part"  # the snapshot holds a batch in part
    WAITING = "waiting"  # rows wait for a compaction: no batch read of a snapshot shows exactly the rows that are there
    NOT_KNOWN = "not known"  # the snapshot has expired or was rolled back, and with it what it was made from


class Break(NamedTuple):
    """Why a source is shown at no version: the reason, the snapshot that caused it, and details in words."""

    reason: Reason
    snapshot_id: int
    details: str = ""


class Reader(NamedTuple):
    """One read of a source by a user: a batch may read a source several times."""

    user: str
    mode: ReadMode
    number: int

    @property
    def recorded_name(self) -> str:
        """The name of the reader in `lakelog.sources`."""
        return f"{self.mode.value} {self.number} {self.user}"


ALL_STREAMS = Reader("", ReadMode.STREAM, 0)  # stands for streams that have left, if they are too many to be named


@dataclass(slots=True)
class Reading:
    """What a user has read of a source. `last` is the newest version read fully, `passing` ends with an exact batch."""

    job: str | None
    last: int | None
    broken: Break | None = None
    passing: Break | None = None
    begun: int | None = None  # the version with which it began; None if unknown
    is_late: bool = False  # when a merge brought its reads, the same job had read further in the table

    def copy(self) -> Reading:
        return replace(self)


@dataclass(slots=True)
class SourceState:
    """One source in a state: what each reader has read; and the version that a statement has read -> its snapshot."""

    readings: dict[Reader, Reading] = field(default_factory=dict)
    once: dict[int, int] = field(default_factory=dict)
    broken: Break | None = None

    def copy(self) -> SourceState:
        readings = {reader: reading.copy() for reader, reading in self.readings.items()}
        return SourceState(readings=readings, once=dict(self.once), broken=self.broken)

    def shown(self, position: int, versions: LineVersions, origins: Collection[str] = ()) -> tuple[int, Break | None]:
        """The key of the version that is shown, or why there is none. `origins` has those of living branches."""
        if self.broken is not None:
            return BROKEN, self.broken
        keys = set(self.once)
        settled = settled_readers(self.readings, versions, origins)
        for reader, reading in self.readings.items():
            if reader in settled:
                continue
            found = reading.broken or reading.passing
            if found is not None:
                return BROKEN, found
            if reading.last is not None:
                keys.add(reading.last)
        if len(keys) == 1:
            key = keys.pop()
            return (key, None) if versions.is_shown(key) else (BROKEN, _not_shown(key, versions, position))
        if not keys:
            return ABSENT, None
        return BROKEN, Break(Reason.MIXED, position, mixed_text(self, keys, versions, settled))


@dataclass(slots=True)
class LineState:
    """What a snapshot shows.

    `left` has streams whose rows an overwrite or a restore has taken out, named as in the table even if a merged branch
    has brought them. `unknown` says that rows may come from any source, which is then shown at no version.
    """

    sources: dict[LineKey, SourceState] = field(default_factory=dict)
    left: set[tuple[LineKey, Reader]] = field(default_factory=set)
    unknown: Break | None = None

    def copy(self) -> LineState:
        return replace(self, sources={key: state.copy() for key, state in self.sources.items()}, left=set(self.left))

    def source(self, key: LineKey) -> SourceState:
        """The state of a source; if rows may come from any source, it may already have rows."""
        return self.sources.setdefault(key, SourceState(broken=self.unknown))

    def take_up(self, keys: Collection[LineKey]) -> None:
        """Create a state for each of these sources."""
        for key in keys:
            self.source(key)

    def break_all(self, found: Break) -> None:
        """Break all sources that are shown."""
        for state in self.sources.values():
            state.broken = state.broken or found

    def leave(self) -> set[tuple[LineKey, Reader]]:
        """The streams that have left when all rows are taken out."""
        return self.left | {(source, in_table(reader)) for source, reader in self.streams()}

    def has_left(self, source: LineKey, reader: Reader, start: int) -> bool:
        """Whether a stream that appears here for the first time continues after rows that were taken out.

        A stream that a merge brings continues where a stream of its job, in the table or an earlier branch, has ended.
        """
        if self.left.isdisjoint({(source, in_table(reader)), (source, ALL_STREAMS)}):
            return False
        readings = self.sources[source].readings.items() if in_table(reader) != reader else ()
        return all(in_table(other) != in_table(reader) or one.last != start for other, one in readings)

    def streams(self) -> Iterator[tuple[LineKey, Reader]]:
        """The streams that have written."""
        for source, state in self.sources.items():
            yield from ((source, reader) for reader in state.readings if reader.mode is ReadMode.STREAM)


def in_table(reader: Reader) -> Reader:
    """The reader in the table with which a merged branch has begun: without the branch's origin in its user."""
    return reader._replace(user=WriterName(reader.user).own_user())


def _not_shown(key: int, versions: LineVersions, number: int) -> Break:
    """The break in a snapshot whose streams have read rows that no batch read of the source shows."""
    end = versions.first(key).snapshot_id
    details = f"no known snapshot of the source shows to batch reads the rows that streams have read up to {end}"
    return Break(Reason.WAITING, number, details)


def named_version(versions: LineVersions, key: int | None) -> str:
    """A version in words; None is the state before the first version."""
    return "the beginning" if key is None else f"snapshot {versions.first(key).snapshot_id}"


def unseen_by(writer: str, versions: LineVersions, start: TableVersion, end: TableVersion, number: int) -> Break | None:
    """The break in a snapshot whose stream has passed an overwrite of its source, between two snapshots of the source.

    A stream may also have passed one if the source was rolled back since: nothing that lives records its snapshots.
    """
    if start.snapshot_id < end.snapshot_id and versions.has_lost(end):
        details = (
            f"{writer} has read snapshot {end.snapshot_id} of the source, which was rolled back: whether it passed "
        )
        return Break(Reason.UNSEEN, number, f"{details}an overwrite on the way is not known")
    passed = versions.unseen_between(start, end)
    if passed is None:
        return None
    named = f"snapshot {passed.last}"
    if passed.first < passed.last:
        named = f"one of the snapshots {passed.first} to {passed.last}"
    return Break(Reason.UNSEEN, number, f"{named} of the source overwrote rows, and {writer} did not see it")


def settled_readers(
    readings: Mapping[Reader, Reading], versions: LineVersions, origins: Collection[str]
) -> set[Reader]:
    """The readers whose rows other readers of the same job have made newer, if the branch of one was deleted.

    One continues where the other has ended, in a merged branch; or it has read past the other in the table. While the
    branch exists, each reads on by itself.
    """
    brought = {reader for reader in readings if _writer(reader, readings[reader]).origin is not None}
    if not brought:
        return set()
    pairs = [(newer, older) for newer in readings for older in readings if newer != older and {newer, older} & brought]
    return {older for newer, older in pairs if _is_settled(older, newer, readings, versions, origins)}


def _is_settled(
    older: Reader, newer: Reader, readings: Mapping[Reader, Reading], versions: LineVersions, origins: Collection[str]
) -> bool:
    is_stream = older.mode is newer.mode is ReadMode.STREAM and older.number == newer.number
    before, now = readings[older], readings[newer]
    writers = _writer(older, before), _writer(newer, now)
    is_deleted = [one.origin is not None and one.origin not in origins for one in writers]
    if not is_stream or not any(is_deleted) or not writers[0].is_same_job(writers[1]):
        return False
    if before.last is None or now.last is None or before.last == now.last:
        return False
    if any(one.broken or one.passing for one in (before, now)):
        return False
    if writers[1].origin is not None and now.begun == before.last:
        return True
    ends = [versions.first(one.last).snapshot_id for one in (before, now) if one.last is not None]
    return is_deleted[0] and not before.is_late and ends[0] < ends[1]


def is_late(reader: Reader, readings: Mapping[Reader, Reading], versions: LineVersions) -> bool:
    """Whether what a merge brings of a reader is older than what the same job has read in the table."""
    name, last = _writer(reader, readings[reader]), readings[reader].last
    if name.origin is None or last is None:
        return False
    end = versions.first(last).snapshot_id
    others = ((_writer(other, one), one.last) for other, one in readings.items() if other != reader)
    return any(
        at is not None and other.is_same_job(name) and versions.first(at).snapshot_id > end for other, at in others
    )


def _writer(reader: Reader, reading: Reading) -> WriterName:
    return WriterName(reader.user, reading.job)


def mixed_text(
    state: SourceState, keys: Collection[int], versions: LineVersions, settled: Collection[Reader] = ()
) -> str:
    """Which writer shows which version."""
    found: dict[int, list[str]] = {key: [] for key in sorted(keys)}  # also what a reader with a gap has read last
    for reader, reading in state.readings.items():
        if reading.last is not None and reader not in settled:
            found.setdefault(reading.last, []).append(named_writer(reading.job, reader.user))
    for key, number in state.once.items():
        found.setdefault(key, []).append(f"the statement in snapshot {number}")
    return "; ".join(f"{named_version(versions, key)} by {', '.join(names[:3])}" for key, names in found.items())
