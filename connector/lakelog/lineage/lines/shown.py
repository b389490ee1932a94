"""What each snapshot of a line shows of its sources: a version of each, or the reason why there is none.

It is computed along the line, oldest snapshot first, with a state for each user. Pure, and linear in the number of
steps. Source: docs/rfcs/0039-snapshot-lineage.md, "Consistent versions".
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakelog.filestore.metadata.origins import LineKey, RowSources
from lakelog.lineage.lines.carried_state import state_of
from lakelog.lineage.lines.expired import gapless, takes_out, unknown_since
from lakelog.lineage.lines.line_state import (
    ABSENT,
    BROKEN,
    Break,
    LineState,
    Reader,
    Reading,
    Reason,
    is_late,
    mixed_text,
    named_version,
    unseen_by,
)
from lakelog.lineage.lines.lines import Change, Line, LineBatch, Step, source_key
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.records.record import ReadMode, TableSource, TableVersion, UnknownSource


@dataclass(slots=True)
class ShownSource:
    """What the steps of a line show of one source: from each step in `positions` on, one of `keys` and of `breaks`."""

    positions: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    breaks: list[Break | None] = field(default_factory=list)

    def put(self, position: int, key: int, found: Break | None) -> None:
        """Set what is shown from a step on."""
        if self.keys and (self.keys[-1], self.breaks[-1]) == (key, found):
            return
        if self.positions and self.positions[-1] == position:
            self.keys[-1], self.breaks[-1] = key, found
            return
        self.positions.append(position)
        self.keys.append(key)
        self.breaks.append(found)

    def break_from(self, position: int, found: Break) -> None:
        """Set a break from a step on, after all steps are taken."""
        last = bisect.bisect_right(self.positions, position)
        del self.positions[last:], self.keys[last:], self.breaks[last:]
        if not self.keys or self.keys[-1] != BROKEN:
            self.put(position, BROKEN, found)

    def at(self, position: int) -> tuple[int, Break | None]:
        """What is shown at one step."""
        found = bisect.bisect_right(self.positions, position) - 1
        return (ABSENT, None) if found < 0 else (self.keys[found], self.breaks[found])


@dataclass(slots=True)
class ShownLine:
    """What the steps of a line show, by source; `states` has those that were asked for, by step."""

    sources: dict[LineKey, ShownSource] = field(default_factory=dict)
    states: dict[int, LineState] = field(default_factory=dict)


def shown_by(
    line: Line,
    versions: Mapping[LineKey, LineVersions],
    *,
    began: LineState | None = None,
    keep: Collection[TableVersion] = (),
) -> ShownLine:
    """What each step of a line shows of its sources. `versions` has those of the line and of each of its sources.

    `began` is what a branch showed when it began, None if it is not known. `keep` has snapshots whose state is kept.
    """
    own = versions[line.key]
    restored = [step.restored for step in line.steps if step.restored is not None]
    kept = {own.position(version) for version in (*keep, *restored)} | {own.at_or_before(one) for one in restored}
    run = _Run(line, versions, began)
    run.show(0, run.state.sources)
    for position, step in enumerate(line.steps):
        run.take(position, step)
        if position in kept and not run.is_cut:
            run.shown.states[position] = run.state.copy()
    return run.shown


class _Run:
    def __init__(self, line: Line, versions: Mapping[LineKey, LineVersions], began: LineState | None) -> None:
        self._line = line
        self._versions = versions
        self._is_complete = bool(line.steps) and line.steps[0].version.snapshot_id == 1
        self._first = next((position for position, step in enumerate(line.steps) if step.is_living), 0)
        self._known = 0 if line.began is not None and began is None else gapless(line)
        self.is_cut = self._known <= self._first and any(step.row_sources is not None for step in line.steps)
        self._writers: set[str] = set()  # writers with a batch in an earlier step
        self._is_lost = False  # a step has brought a state about which nothing is known
        self._is_merge = False  # for the present step: what a branch brings has begun in the branch
        self.state = LineState() if began is None else began.copy()
        self.shown = ShownLine()

    def show(self, position: int, sources: Collection[LineKey]) -> None:
        """Record what is shown of sources from a step on."""
        number = self._line.steps[position].version.snapshot_id if self._line.steps else 0
        for source in sources:
            state = self.state.sources.get(source)
            versions = self._versions[source]
            key, found = (ABSENT, None) if state is None else state.shown(number, versions, self._line.origins)
            if key != ABSENT or source in self.shown.sources:
                self.shown.sources.setdefault(source, ShownSource()).put(position, key, found)

    def take(self, position: int, step: Step) -> None:
        has_lost_target = self._has_lost_target(step)
        self._is_lost |= has_lost_target
        recorded = step.recorded_sources() if self.is_cut or has_lost_target else None
        if recorded is not None:
            before = self.state
            touched = self._begin_with(recorded)
            if self.is_cut:
                self._show_unknown_before(position, None if takes_out(step) or self._is_lost else before)
                self.shown.states.clear()
            self.is_cut = False
            self.show(position, touched)
            return
        touched = set()
        number = step.version.snapshot_id
        lost: Break | None = None
        match step.change:
            case Change.RESTORE:
                touched |= self._restore(step)
            case Change.OVERWRITE:
                touched |= self._overwrite(step)
            case Change.TAKEN:
                found, lost = self._take_branch(step)
                touched |= found
            case Change.BY_HAND | Change.FOREIGN:
                reason = Reason.CHANGED if step.change is Change.BY_HAND else Reason.FOREIGN_WRITER
                touched |= self._break(Break(reason, number, step.operation))
        self._is_merge = any(batch.merged for batch in step.batches)
        for batch in sorted(step.batches, key=lambda one: one.merged is not None):  # a merge's own unknowns last
            touched |= self._batch(batch, step)
        if lost is not None:
            touched |= self._break(lost)
        self._writers.update(batch.user for batch in step.batches)
        self.show(position, touched)

    def _show_unknown_before(self, position: int, before: LineState | None) -> None:
        """Nothing is known about older steps if a snapshot records a state other than the one `before` it, or none."""
        steps, recorded = self._line.steps, self.state.sources
        for key in recorded.keys() | self.shown.sources.keys():
            number = 0 if before is None else unknown_since(recorded.get(key), before.sources.get(key))
            if number is None:
                continue
            first = bisect.bisect_left(steps, number, key=lambda step: step.version.snapshot_id)
            first = max(first, self._known)
            if first < position:
                found = Break(Reason.NOT_KNOWN, steps[first].version.snapshot_id)
                self.shown.sources.setdefault(key, ShownSource()).break_from(first, found)

    def _begin_with(self, sources: RowSources) -> set[LineKey]:
        """Take over what a snapshot says about its rows; from earlier steps, which streams passed overwrites."""
        before, self.state = self.state, state_of(sources, self._versions)
        if self.state.unknown is not None:
            self.state.take_up(self.shown.sources)
        for key, reader in self.state.streams():
            older = before.sources[key].readings.get(reader) if key in before.sources else None
            if older is not None and older.broken is not None and older.broken.reason is Reason.UNSEEN:
                reading = self.state.sources[key].readings[reader]
                reading.broken = reading.broken or older.broken
        self.state.left = (self.state.left | before.leave()) - set(self.state.streams())
        self._is_complete = sources.is_complete
        self._writers = {reader.user for _, reader in self.state.streams()}
        return {*before.sources, *self.state.sources}

    def _has_lost_target(self, step: Step) -> bool:
        """Whether a step brings back an expired state."""
        return step.change in {Change.RESTORE, Change.TAKEN} and self._target(step) is None

    def _target(self, step: Step) -> LineState | None:
        """The state that a restore brings back or that a branch began with; None if it is not known."""
        versions, is_branch = self._versions[self._line.key], step.change is Change.TAKEN
        if step.restored is None:
            return LineState() if is_branch else None
        position = versions.at_or_before(step.restored) if is_branch else versions.position(step.restored)
        return None if position is None else self.shown.states.get(position)

    def _restore(self, step: Step) -> set[LineKey]:
        """Take over the state of the restored snapshot; streams that have written since or before it have left."""
        then = self._target(step)
        if then is None:
            return self._break(Break(Reason.RESTORED, step.version.snapshot_id))
        before = self.state
        self.state = then.copy()
        self.state.left |= before.leave()
        self.state.left -= set(self.state.streams())
        return {*before.sources, *self.state.sources}

    def _take_branch(self, step: Step) -> tuple[set[LineKey], Break | None]:
        """Take over the state at which a branch began, before its batches are taken; streams of the table have left."""
        before = self.state
        then = self._target(step)
        if then is None:
            details = f"the branch began at snapshot {step.restored and step.restored.snapshot_id}, which has expired"
            return set(), Break(Reason.MERGED, step.version.snapshot_id, details)
        self.state = then.copy()
        self.state.left |= before.leave()
        self.state.left -= set(self.state.streams())
        return {*before.sources, *self.state.sources}, None

    def _overwrite(self, step: Step) -> set[LineKey]:
        sources = [source for batch in step.batches for source in batch.sources]
        reads_itself = any(isinstance(one, TableSource) and source_key(one) == self._line.key for one in sources)
        if reads_itself or any(isinstance(one, UnknownSource) for one in sources):
            return set()
        before = self.state
        self.state = LineState(left=before.leave())
        return set(before.sources)

    def _break(self, found: Break) -> set[LineKey]:
        """Break all sources that are shown."""
        self.state.break_all(found)
        return set(self.state.sources)

    def _batch(self, batch: LineBatch, step: Step) -> set[LineKey]:
        touched: set[LineKey] = set()
        counts: dict[tuple[LineKey, ReadMode], int] = {}
        number = step.version.snapshot_id
        unknown: Break | None = None
        if not batch.read and step.changes_rows:
            unknown = Break(Reason.CHANGED, number, step.operation)
        for source in batch.sources:
            if isinstance(source, UnknownSource):
                reason = Reason.UNKNOWN if batch.merged is None else Reason.MERGED
                unknown = Break(reason, number, source.why)
            if not isinstance(source, TableSource):
                continue
            key = source_key(source)
            if key == self._line.key:
                continue
            nth = counts[key, source.mode] = counts.get((key, source.mode), -1) + 1
            self._read(key, Reader(batch.user, source.mode, nth), source, batch, step)
            touched.add(key)
        if unknown is not None and batch.merged is not None:  # it may bring back rows that the table has dropped
            self.state.take_up(self.shown.sources)
        return touched if unknown is None else touched | self._break(unknown)

    def _read(self, key: LineKey, reader: Reader, source: TableSource, batch: LineBatch, step: Step) -> None:
        number = step.version.snapshot_id
        state = self.state.source(key)
        versions = self._versions[key]
        start, end = (None if one is None else versions.key(one, reader.mode) for one in (source.start, source.end))
        reading = state.readings.get(reader)
        if reader.mode is ReadMode.BATCH:
            if end is None or source.start is not None:  # with a start these are changes, not a state
                state.broken = state.broken or Break(Reason.UNKNOWN, number, source.why or "")
            elif batch.number is None:
                state.once.setdefault(end, number)
                if len(state.once) > 1 and state.broken is None:  # permanently: a statement is not run again
                    state.broken = Break(Reason.MIXED, number, mixed_text(state, state.once, versions))
            elif reading is None:
                state.readings[reader] = Reading(job=batch.job, last=end)
            elif reading.last != end and reading.broken is None:
                reading.broken = Break(Reason.MIXED, number, _two_states(batch, versions, reading.last, end))
            return
        if reading is None:
            is_missed = self._misses_batches(batch) or (self._is_merge and step.records_gap(key, reader.recorded_name))
            is_gap = start is not None and (is_missed or self.state.has_left(key, reader, start))
            reading = state.readings[reader] = Reading(job=batch.job, last=start, begun=end if start is None else start)
            if is_gap:
                why = f"rows that {batch.writer} wrote before were restored, rolled back or overwritten"
                reading.broken = Break(Reason.GAP, number, why)
            self.state.left.discard((key, reader))
        elif start != reading.last and reading.broken is None:
            details = f"{batch.writer} read on from {named_version(versions, start)}, not from "
            reading.broken = Break(Reason.GAP, number, details + named_version(versions, reading.last))
        if source.start is not None and source.end is not None and reading.broken is None:
            reading.broken = unseen_by(batch.writer, versions, source.start, source.end, number)
        reading.last, reading.job = end, batch.job
        reading.is_late = is_late(reader, state.readings, versions)
        is_whole = source.is_exact and end is not None
        reading.passing = None if is_whole else Break(Reason.INEXACT, number, source.why or "")

    def _misses_batches(self, batch: LineBatch) -> bool:
        """Whether earlier batches of a writer were rolled back: it appears with a later one in a complete line."""
        is_missed = self._is_complete and bool(batch.number) and batch.user not in self._writers
        return is_missed and not self._is_merge


def _two_states(batch: LineBatch, versions: LineVersions, before: int | None, now: int) -> str:
    return f"{batch.writer} read {named_version(versions, before)} before, {named_version(versions, now)} now"
