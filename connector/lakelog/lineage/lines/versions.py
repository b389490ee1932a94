"""Versions: snapshots of a line between which no row changes, as one.

A version has a key, a number within its line. Snapshots that a batch names and the line has not, since they expired
before any edge named them, were rolled back, or are of a table that is not in the catalogs, are versions of their own.

With `changelog-producer` lookup or full-compaction a stream is given changes by the compaction behind them: up to it it
shows the version of the last compaction that gave changes.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from lakelog.filestore.metadata.origins.unseen_changes import Given, UnseenChanges, parse_unseen
from lakelog.lineage.lines.lines import Step
from lakelog.lineage.records.record import ReadMode, TableVersion


class LineVersions:
    """The versions of one line."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.keys: list[int] = []  # of each step
        self._followed: list[int] = []  # of each step: what streams show that have read up to it
        self._first: list[TableVersion] = []  # of each version
        self._ids: list[int] = []  # of each step
        self._at: dict[int, tuple[str | None, int]] = {}  # by snapshot: its commit and its step
        self._known = 0
        self._is_living = bool(steps) and steps[-1].is_living
        self._others: dict[tuple[TableVersion, bool], int] = {}  # with whether streams show other rows of it
        self._unseen: list[UnseenChanges] = []  # whose changes streams of the line are not given, oldest first
        self._gives_late = any(step.given is not Given.AT_ONCE for step in steps)
        for step in steps:
            self._add(step)
        told = next((step.unseen for step in steps if step.unseen is not None), None)
        if told is not None:  # of snapshots before it, which have expired, too
            first = self._unseen[0].first if self._unseen else None
            older = [one for one in parse_unseen(told) if first is None or one.last < first]
            self._unseen[:0] = older

    def _add(self, step: Step) -> None:
        is_next = bool(self._ids) and self._ids[-1] + 1 == step.version.snapshot_id  # others may have changed rows
        followed = self._followed[-1] if is_next else None
        if followed is None and step.given is Given.LATER:  # no snapshot shows it: what was given before is not known
            followed = len(self._first)
            self._first.append(step.version)
        if step.changes_rows or not is_next:
            self._first.append(step.version)
        if step.is_unseen:
            self._unseen.append(UnseenChanges(step.version.snapshot_id, step.version.snapshot_id, step.version.commit))
        self._ids.append(step.version.snapshot_id)
        self._at[step.version.snapshot_id] = step.version.commit, len(self.keys)
        self.keys.append(len(self._first) - 1)
        self._followed.append(followed if step.given is Given.LATER and followed is not None else self.keys[-1])
        self._known = len(self._first)

    @property
    def known_count(self) -> int:
        """The number of versions of the line's own steps, which have the lowest keys, rising with their age."""
        return self._known

    @property
    def count(self) -> int:
        """The number of versions, those that other tables name included."""
        return len(self._first)

    def position(self, version: TableVersion) -> int | None:
        """The step of a snapshot; None for one that the line has not, or that is of another commit."""
        commit, position = self._at.get(version.snapshot_id, (None, -1))
        is_same = commit is None or version.commit is None or commit == version.commit
        return position if position >= 0 and is_same else None

    def at_or_before(self, version: TableVersion) -> int | None:
        """The step of a snapshot, or where the line has not that number, since it expired, the last one before it."""
        if version.snapshot_id in self._at:
            return self.position(version)
        found = bisect.bisect_right(self._ids, version.snapshot_id) - 1
        return None if found < 0 else found

    def is_rolled_back(self, version: TableVersion) -> bool:
        """Whether the line has another commit under the number of a snapshot, or ends before it."""
        is_other = version.snapshot_id in self._at and self.position(version) is None
        return is_other or (bool(self._ids) and self._ids[-1] < version.snapshot_id)

    def has_lost(self, version: TableVersion) -> bool:
        """Whether a snapshot was rolled back, of a line that is there."""
        return self._is_living and self.is_rolled_back(version)

    def key(self, version: TableVersion, mode: ReadMode = ReadMode.BATCH) -> int:
        """The key of the version that a snapshot shows who has read it, or with the mode of streams up to it.

        One that the line has not gets a key.
        """
        position = self.position(version)
        if position is not None:
            return (self._followed if mode is ReadMode.STREAM else self.keys)[position]
        named = version, self._gives_late and mode is ReadMode.STREAM
        found = self._others.get(named)
        if found is None:
            found = self._others[named] = len(self._first)
            self._first.append(version)
        return found

    def unseen_between(self, start: TableVersion, end: TableVersion) -> UnseenChanges | None:
        """The first snapshot behind one, up to another, whose changes streams of the line are not given.

        It is known of expired snapshots too. None where one of the two is of another line.
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
        """The key of the version of a snapshot's id; None for one that is not known."""
        if snapshot_id in self._at:
            return self.keys[self._at[snapshot_id][1]]
        named = [key for (version, _), key in self._others.items() if version.snapshot_id == snapshot_id]
        return named[-1] if named else None
