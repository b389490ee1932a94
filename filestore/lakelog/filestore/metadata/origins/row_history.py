"""What the rows of a line come from, followed from snapshot to snapshot.

A commit follows one snapshot, from what its table has recorded: see `origins.sources_property`. Lineage follows the
known snapshots of a line, and knows more of them: see `lakelog.lineage.lines.shown`. Pure, and linear in the number of
steps. Source: docs/rfcs/0039-snapshot-lineage.md, "Consistent versions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from lakelog.common.quoting import cut
from lakelog.filestore.metadata.origins.record import LineKey, ReadMode, TableSource, TableVersion, UnknownSource
from lakelog.filestore.metadata.origins.row_sources import (
    ORIGIN_MARK,
    STATEMENTS,
    Break,
    ReaderState,
    Reason,
    RowSource,
    RowSources,
    WriterName,
    in_table,
    mode_of,
    reader_name,
)
from lakelog.filestore.metadata.origins.row_steps import Change, RowBatch, RowStep

DETAILS_MAX = 300  # characters


class Versions(Protocol):
    """How the snapshots of sources compare that reads have read up to."""

    def is_same(self, source: LineKey, mode: ReadMode, one: TableVersion | None, other: TableVersion | None) -> bool:
        """Whether reads up to two snapshots have read the same rows. None is before the first one."""
        ...

    def number(self, source: LineKey, mode: ReadMode, version: TableVersion) -> int:
        """The first snapshot up to which a read has read the same rows."""
        ...

    def unseen(self, source: LineKey, writer: WriterName, start: TableVersion, end: TableVersion) -> str | None:
        """How a stream has passed an overwrite of its source between two snapshots; None if that is not known."""
        ...


class RowHistory:
    """Follows the `state` of one line. `touched` are the sources that the last steps have changed.

    Subclasses know more than the commits of the line record: the states that restores bring back, which batches came
    before, and which sources the line has shown.
    """

    def __init__(self, own: LineKey, state: RowSources, versions: Versions) -> None:
        self.own = own
        self.state = state
        self.versions = versions
        self.touched: set[LineKey] = set()

    def take(self, step: RowStep) -> None:
        """Take in the next snapshot."""
        lost: Break | None = None
        if step.change is Change.OVERWRITE:
            self._overwrite(step)
        elif step.change in {Change.RESTORE, Change.TAKEN}:
            lost = self._bring_back(step)
        elif step.change in {Change.BY_HAND, Change.FOREIGN}:
            reason = Reason.CHANGED if step.change is Change.BY_HAND else Reason.FOREIGN_WRITER
            self.break_all(_break(step, reason, step.operation))
        for batch in sorted(step.batches, key=lambda one: one.merged is not None):  # a merge's own unknowns last
            self._take_batch(batch, step)
        if lost is not None:
            self.break_all(lost)

    def break_all(self, found: Break) -> None:
        """Break all sources that are shown."""
        self.state.break_all(found)
        self.touched |= self.state.sources.keys()

    def replace_state(self, state: RowSources) -> None:
        """Take over another state; streams that it lacks have left."""
        self.touched |= self.state.sources.keys() | state.sources.keys()
        self.state = state.in_place_of(self.state)

    def target(self, step: RowStep) -> RowSources | None:
        """The state that a restore brings back or that a branch began with; None if it is not known."""

    def add_dropped_sources(self) -> None:
        """Before all sources are broken by the merge of a branch: it may bring back rows that the table has dropped."""

    def has_missed_batches(self, batch: RowBatch) -> bool:
        """Whether the writer of a stream's first batch here must have written earlier ones, which were rolled back."""
        return bool(batch.number) and self.state.is_complete

    def has_missed(self, batch: RowBatch, step: RowStep, source: TableSource, name: str) -> bool:
        """Whether a stream that is new here continues after rows that were removed, or that never arrived.

        A stream that a merge brings has begun in its branch. It continues where a stream of its job, in the table or an
        earlier branch, has ended.
        """
        if self.has_missed_batches(batch) and not step.is_merge:
            return True
        readers = self.state.sources[source.line].readers.items() if in_table(name) != name else ()
        same = (one for other, one in readers if other != STATEMENTS and in_table(other) == in_table(name))
        is_continued = any(self.is_same(source.line, name, one.last, source.start) for one in same)
        return self.state.has_left(source.line, name) and not is_continued

    def _bring_back(self, step: RowStep) -> Break | None:
        """Take over the state of a restored snapshot, or that at which a branch began; a break if it is not known."""
        found = self.target(step)
        if found is not None:
            self.replace_state(found)
            return None
        if step.change is Change.TAKEN:
            began = step.restored and step.restored.snapshot_id
            return _break(step, Reason.MERGED, f"the branch began at snapshot {began}, which has expired")
        self.break_all(_break(step, Reason.RESTORED))
        return None

    def _overwrite(self, step: RowStep) -> None:
        sources = [source for batch in step.batches for source in batch.sources]
        reads_itself = any(isinstance(one, TableSource) and one.line == self.own for one in sources)
        if not reads_itself and not any(isinstance(one, UnknownSource) for one in sources):
            self.replace_state(RowSources(is_complete=self.state.is_complete))

    def _take_batch(self, batch: RowBatch, step: RowStep) -> None:
        counts: Counter[tuple[LineKey, ReadMode]] = Counter()
        unknown = None if batch.read or not step.changes_rows else _break(step, Reason.CHANGED, step.operation)
        for source in batch.sources:
            if isinstance(source, UnknownSource):
                reason = Reason.UNKNOWN if batch.merged is None else Reason.MERGED
                unknown = unknown or _break(step, reason, source.why)
            if isinstance(source, TableSource) and (key := source.line) != self.own:
                self._read(batch, step, key, source, counts[key, source.mode])
                counts[key, source.mode] += 1
        if unknown is not None:
            if batch.merged is not None:
                self.add_dropped_sources()
            self.break_all(unknown)

    def _read(self, batch: RowBatch, step: RowStep, key: LineKey, source: TableSource, number: int) -> None:
        self.touched.add(key)
        found = self.state.source(key, source.table)
        is_stream = source.mode is ReadMode.STREAM
        if not is_stream and (source.end is None or source.start is not None):  # with a start these are changes
            found.broken = found.broken or _break(step, Reason.UNKNOWN, source.why or "")
            return
        is_statement = not is_stream and batch.number is None
        name = STATEMENTS if is_statement else reader_name(source.mode, number, batch.user)
        before = found.readers.get(name)
        state = ReaderState(
            snapshot_id=step.version.snapshot_id,
            last=source.end,
            batch=batch.identifier,
            job=batch.job,
            broken=None if before is None else before.broken,
        )
        if is_stream:
            state = self._followed(batch, step, source, name, state)
        elif before is not None and not self.is_same(key, name, before.last, source.end):
            versions = (self._named(key, name, one) for one in (before.last, source.end))
            by = "statements" if is_statement else str(batch.writer)
            state = replace(
                state, broken=state.broken or _break(step, Reason.MIXED, f"{', then '.join(versions)} by {by}")
            )
        found.readers[name] = state
        if self._is_late(key, found, name):
            found.readers[name] = replace(state, is_late=True)

    def _followed(
        self, batch: RowBatch, step: RowStep, source: TableSource, name: str, state: ReaderState
    ) -> ReaderState:
        """The state of a stream, broken if it does not continue from what it has read."""
        key, start, end = source.line, source.start, source.end
        before = self.state.sources[key].readers.get(name)
        broken = state.broken
        if before is None:
            if start is not None and self.has_missed(batch, step, source, name):
                why = f"rows that {batch.writer} wrote before were restored, rolled back or overwritten"
                broken = _break(step, Reason.GAP, why)
            self.state.left.discard((key, name))
        elif broken is None and not self.is_same(key, name, before.last, start):
            is_part = before.batch == batch.identifier and not step.is_merge  # another part of one batch
            names = (self._named(key, name, one) for one in (start, before.last))
            why = f"{batch.writer} read on from {', not from '.join(names)}"
            broken = None if is_part else _break(step, Reason.GAP, why)
        if broken is None and start is not None and end is not None:
            unseen = self.versions.unseen(key, batch.writer, start, end)
            broken = None if unseen is None else _break(step, Reason.UNSEEN, unseen)
        is_whole = source.is_exact and end is not None
        return replace(
            state,
            since=(start or end) if before is None else before.since,
            broken=broken,
            passing=None if is_whole else _break(step, Reason.INEXACT, source.why or ""),
        )

    def is_settled(self, key: LineKey, source: RowSource, older: str, newer: str, deleted: Collection[str]) -> bool:
        """Whether a reader has made the rows of another one of the same job newer, and the branch of one was deleted.

        It continues where the other has ended, in a merged branch; or it has read past the other in the table. While
        the branch exists, each reads on by itself. Otherwise a table whose branches are created, merged and deleted
        each night would get one more reader each night, and show their source at several versions forever. `deleted`
        has the origins of deleted branches.
        """
        before, now = source.readers[older], source.readers[newer]
        is_stream = mode_of(older) is ReadMode.STREAM and older.split(" ", 2)[:2] == newer.split(" ", 2)[:2]
        if not is_stream or any(one.broken or one.passing or one.last is None for one in (before, now)):
            return False
        writers = source.writer(older), source.writer(newer)
        is_deleted = [one.origin in deleted for one in writers]
        if not any(is_deleted) or not writers[0].is_same_job(writers[1]):
            return False
        if self.is_same(key, older, before.last, now.last):
            return False
        is_passed = is_deleted[0] and not before.is_late and self._is_before(key, older, before.last, now.last)
        return is_passed or self.is_continued(key, source, older, newer)

    def is_continued(self, key: LineKey, source: RowSource, older: str, newer: str) -> bool:
        """Whether the reader of a merged branch has begun where another reader has ended."""
        is_brought = source.writer(newer).origin is not None
        return is_brought and self.is_same(key, older, source.readers[older].last, source.readers[newer].since)

    def _is_late(self, key: LineKey, source: RowSource, name: str) -> bool:
        """Whether what a merge brings of a reader is older than what the same job has read in the table."""
        if ORIGIN_MARK not in name or source.writer(name).origin is None:
            return False
        writer, last = source.writer(name), source.readers[name].last
        return any(
            writer.is_same_job(source.writer(other)) and self._is_before(key, other, last, one.last)
            for other, one in source.readers.items()
            if other not in {name, STATEMENTS}
        )

    def is_same(self, key: LineKey, reader: str, one: TableVersion | None, other: TableVersion | None) -> bool:
        return self.versions.is_same(key, mode_of(reader), one, other)

    def _is_before(self, key: LineKey, reader: str, one: TableVersion | None, other: TableVersion | None) -> bool:
        if one is None or other is None:
            return False
        first, second = (self.versions.number(key, mode_of(reader), version) for version in (one, other))
        return first < second

    def _named(self, key: LineKey, reader: str, version: TableVersion | None) -> str:
        return "the beginning" if version is None else f"snapshot {self.versions.number(key, mode_of(reader), version)}"


def _break(step: RowStep, reason: Reason, details: str = "") -> Break:
    return Break(step.version.snapshot_id, reason, cut(details, DETAILS_MAX))
