"""Versions: the snapshots of a line between which no row changes, as one.

A version has a key, a number within its line. A snapshot that a batch names but the line lacks is a version of its own:
it expired before any edge named it, was rolled back, or belongs to a table that is not in the catalogs. So is the
snapshot before the oldest living one, even if that is a compaction: which commit had the number last is not known.

In some tables reads do not show the rows that wait for a compaction: batch reads of tables with deletion vectors or
`first-row`, and streams of tables with `changelog-producer` lookup or full-compaction. What such a read shows of a
snapshot is an earlier version, or with rows of later versions a version of its own. What a stream has read is a version
of the table if a batch read of a snapshot shows the same rows.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from lakelog.filestore.metadata.origins import ReadMode, TableVersion, UnseenChanges
from lakelog.filestore.read import Visible, Waits
from lakelog.lineage.lines.lines import Step


class LineVersions:
    """The versions of one line."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.keys: list[int] = []  # for each step: what a batch read of it shows
        self.streamed: list[int] = []  # for each step: what streams show that have read up to it
        self._written: list[int] = []  # for each step: all rows
        self._first: list[TableVersion] = []  # of each version
        self._ids: list[int] = []  # of each step
        self._at: dict[int, tuple[str | None, int]] = {}  # by snapshot: its commit and its step
        self._sure: dict[int, int] = {}  # by number: the step that had the number last
        self._waits = {mode: _waits_of(steps, mode) for mode in ReadMode}
        self._partial: dict[tuple[int, Waits], int] = {}  # versions of some rows, by the snapshot since which
        self._others: dict[tuple[TableVersion, Waits], int] = {}  # of snapshots that the line lacks
        self._is_living = bool(steps) and steps[-1].is_living
        self._unseen: list[UnseenChanges] = []  # whose changes streams of the line do not get, oldest first
        for before, step in zip((None, *steps), steps, strict=False):
            self._add(before, step)
        self._known = len(self._first)
        self._in_batches = set(self.keys)
        recorded = next((step.unseen for step in steps if step.unseen is not None), None)
        if recorded is not None:  # also of earlier snapshots, which have expired
            first = self._unseen[0].first if self._unseen else None
            older = [one for one in UnseenChanges.parsed(recorded) if first is None or one.last < first]
            self._unseen[:0] = older

    def _add(self, before: Step | None, step: Step) -> None:
        number = step.version.snapshot_id
        if step.changes_rows or not _follows(before, step):  # missing snapshots may have changed rows
            self._first.append(step.version)
            self._written.append(len(self._first) - 1)
        else:
            self._written.append(self._written[-1])
        if step.is_unseen:
            self._unseen.append(UnseenChanges(number, number, step.version.commit))
        self._ids.append(number)
        self._at[number] = step.version.commit, len(self.keys)
        if not step.is_of_edges:
            self._sure[number] = len(self.keys)
        self.keys.append(self._seen(step, ReadMode.BATCH))
        self.streamed.append(self._seen(step, ReadMode.STREAM))

    def _seen(self, step: Step, mode: ReadMode) -> int:
        """The key of the version that reads of the newest step show."""
        number, found = step.version.snapshot_id, seen_by(step, mode)
        waits = self._waits[mode]
        if found is None and waits is not Waits.NONE:
            found = Visible(number, waits, is_whole=False)
        if found is None or (found.is_whole and found.up_to == number):
            return self._written[-1]
        if found.is_whole and found.up_to in self._sure:
            return self._written[self._sure[found.up_to]]
        named = found.up_to, found.waits
        if named not in self._partial:
            self._partial[named] = len(self._first)
            self._first.append(step.version)
        return self._partial[named]

    def shown_step(self, position: int, step: Step, mode: ReadMode) -> int | None:
        """The step whose rows a read of the step at `position` shows exactly; None if there is none."""
        found = seen_by(step, mode)
        if found is None:
            return position if self._waits[mode] is Waits.NONE else None
        if not found.is_whole:
            return None
        return position if found.up_to == step.version.snapshot_id else self._sure.get(found.up_to)

    def hides_rows(self, mode: ReadMode) -> bool:
        """Whether reads leave out rows that wait for a compaction."""
        return self._waits[mode] is not Waits.NONE

    def is_shown(self, key: int) -> bool:
        """Whether a batch read of some snapshot shows a version, as far as that is known."""
        if key in self._in_batches or self._waits[ReadMode.BATCH] is self._waits[ReadMode.STREAM]:
            return True
        return key in (other for (_, waits), other in self._others.items() if waits is self._waits[ReadMode.BATCH])

    @property
    def known_count(self) -> int:
        """The number of versions of the line's own steps, which have the lowest keys, in the order of the steps."""
        return self._known

    @property
    def count(self) -> int:
        """The number of versions, including those that other tables name."""
        return len(self._first)

    def position(self, version: TableVersion) -> int | None:
        """The step of a snapshot; None if the line lacks it or has another commit under its number."""
        commit, position = self._at.get(version.snapshot_id, (None, -1))
        is_same = commit is None or version.commit is None or commit == version.commit
        return position if position >= 0 and is_same else None

    def at_or_before(self, version: TableVersion) -> int | None:
        """The step of a snapshot, or if the line lacks its number because it expired, the last step before it."""
        if version.snapshot_id in self._at:
            return self.position(version)
        found = bisect.bisect_right(self._ids, version.snapshot_id) - 1
        return None if found < 0 else found

    def is_rolled_back(self, version: TableVersion) -> bool:
        """Whether the line has another commit under a snapshot's number, or ends before it."""
        is_other = version.snapshot_id in self._at and self.position(version) is None
        return is_other or (bool(self._ids) and self._ids[-1] < version.snapshot_id)

    def has_lost(self, version: TableVersion) -> bool:
        """Whether a snapshot was rolled back in a line that exists."""
        return self._is_living and self.is_rolled_back(version)

    def key(self, version: TableVersion, mode: ReadMode = ReadMode.BATCH) -> int:
        """The key of the version that a batch read of a snapshot shows, or with the mode of streams, a stream up to it.

        A snapshot that the line lacks gets a key of its own.
        """
        position = self.position(version)
        if position is not None:
            return (self.streamed if mode is ReadMode.STREAM else self.keys)[position]
        named = version, self._waits[mode]
        found = self._others.get(named)
        if found is None:
            found = self._others[named] = len(self._first)
            self._first.append(version)
        return found

    def unseen_between(self, start: TableVersion, end: TableVersion) -> UnseenChanges | None:
        """The first snapshot after one, up to another, whose changes streams of the line do not get.

        It is known for expired snapshots too. None if one of the two is in another line.
        """
        if self.is_rolled_back(start) or self.is_rolled_back(end):
            return None
        position = bisect.bisect_right(self._unseen, start.snapshot_id, key=lambda one: one.last)
        found = self._unseen[position] if position < len(self._unseen) else None
        if found is None or found.first > end.snapshot_id:
            return None
        is_other = found.last == end.snapshot_id and None not in {found.commit, end.commit}
        return None if is_other and found.commit != end.commit else found

    def first(self, key: int) -> TableVersion:
        """The first snapshot of a version."""
        return self._first[key]

    def key_by_id(self, snapshot_id: int) -> int | None:
        """The key of the version of the snapshot with an id; None if it is not known."""
        if snapshot_id in self._at:
            return self.keys[self._at[snapshot_id][1]]
        waits = self._waits[ReadMode.BATCH]
        found = [(one is waits, key) for (named, one), key in self._others.items() if named.snapshot_id == snapshot_id]
        return max(found)[1] if found else None

    def step_of(self, key: int) -> int | None:
        """The first step of which a batch read shows a version; if there is none, the step of its first snapshot."""
        if key in self._in_batches:
            return self.keys.index(key)
        return self.position(self._first[key])


def seen_by(step: Step, mode: ReadMode) -> Visible | None:
    """What reads of a step show; None if that is not known."""
    return step.in_stream if mode is ReadMode.STREAM else step.in_batch


def _follows(before: Step | None, step: Step) -> bool:
    """Whether a step is known to come right after another one.

    Not after one that edges alone name, unless it records that a stream has written the other's batch under its number.
    """
    if before is None or before.version.snapshot_id + 1 != step.version.snapshot_id:
        return False
    if not before.is_of_edges:
        return True
    recorded = step.recorded_sources()
    read = {
        (reader.snapshot_id, source.writer(name).user, reader.batch)
        for source in (() if recorded is None else recorded.sources.values())
        for name, reader in source.readers.items()
    }
    written = {(one.user, one.identifier) for one in before.batches if one.number is not None}
    return any((before.version.snapshot_id, *one) in read for one in written)


def _waits_of(steps: Sequence[Step], mode: ReadMode) -> Waits:
    """What reads of a line leave out; expired snapshots are assumed to be like the known ones."""
    found = (seen_by(step, mode) for step in reversed(steps))
    return next((one.waits for one in found if one is not None and one.waits is not Waits.NONE), Waits.NONE)
