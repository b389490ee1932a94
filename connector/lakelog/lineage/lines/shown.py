"""What each snapshot of a line shows of its sources: a version of each, or the reason why there is none.

It is computed along the line, oldest snapshot first, with a state for each user. Pure, and linear in the number of
steps. Source: docs/rfcs/0039-snapshot-lineage.md, "Consistent versions".
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakelog.filestore.metadata.origins import (
    STATEMENTS,
    Break,
    Change,
    LineKey,
    ReadMode,
    Reason,
    RowBatch,
    RowHistory,
    RowSource,
    RowSources,
    RowStep,
    TableSource,
    TableVersion,
)
from lakelog.lineage.lines.expired import gapless, takes_out
from lakelog.lineage.lines.line_state import ABSENT, BROKEN, KnownVersions, shown_version
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.lines.versions import LineVersions, seen_by


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
    states: dict[int, RowSources] = field(default_factory=dict)


def shown_by(
    line: Line,
    versions: Mapping[LineKey, LineVersions],
    *,
    began: RowSources | None = None,
    keep: Collection[TableVersion] = (),
) -> ShownLine:
    """What each step of a line shows of its sources. `versions` has those of the line and of each of its sources.

    `began` is what a branch showed when it began, None if it is not known. `keep` has snapshots whose state is kept.
    """
    own = versions[line.key]
    restored = [step.restored for step in line.steps if step.restored is not None]
    kept = {own.position(version) for version in (*keep, *restored)} | {own.at_or_before(one) for one in restored}
    run = _Run(line, versions, began)
    run.touched |= run.state.sources.keys()
    run.show(0)
    for position, step in enumerate(line.steps):
        run.take_at(position, step)
        if position in kept and not run.is_cut:
            run.shown.states[position] = run.state.copy()
    return run.shown


class _Run(RowHistory):
    """Follows a line, and knows the states that its steps had, its writers, and all sources that it has shown."""

    def __init__(self, line: Line, versions: Mapping[LineKey, LineVersions], began: RowSources | None) -> None:
        state = RowSources() if began is None else began.copy()
        super().__init__(line.key, state, KnownVersions(versions))
        state.is_complete = bool(line.steps) and line.steps[0].version.snapshot_id == 1
        self._line = line
        self._lines = versions
        self._first = next((position for position, step in enumerate(line.steps) if step.is_living), 0)
        known = 0 if line.began is not None and began is None else gapless(line)
        self._is_gapless = known > self._first
        is_cut = not self._is_gapless or any(step.is_of_edges for step in line.steps)
        self.is_cut = is_cut and any(step.row_sources is not None for step in line.steps)
        self._writers: set[str] = set()  # writers with a batch in an earlier step
        self._is_lost = False  # a step has brought a state about which nothing is known
        self.shown = ShownLine()

    def show(self, position: int) -> None:
        """Record what is shown from a step on of the sources that were touched."""
        number = self._line.steps[position].version.snapshot_id if self._line.steps else 0
        for source in self.touched:
            versions = self._lines[source]
            key, found = shown_version(self, source, versions, number=number, origins=self._line.origins)
            if key != ABSENT or source in self.shown.sources:
                self.shown.sources.setdefault(source, ShownSource()).put(position, key, found)
        self.touched.clear()

    def take_at(self, position: int, step: Step) -> None:
        """Take in the next step, or take over what it records if not enough is known of those before it."""
        has_lost_target = step.change in {Change.RESTORE, Change.TAKEN} and self.target(step) is None
        self._is_lost |= has_lost_target
        recorded = step.recorded_sources() if self.is_cut or has_lost_target else None
        if recorded is None:
            self.take(step)
            self._writers.update(batch.user for batch in step.batches)
        else:
            if self.is_cut and self._is_gapless:
                self.take(step)  # to compare what edges say up to it with what it records
            before = self.state
            self._begin_with(recorded)
            if self.is_cut:
                self._show_unknown_before(position, None if takes_out(step) or self._is_lost else before)
                self.shown.states.clear()
            self.is_cut = False
        self.show(position)

    def target(self, step: RowStep) -> RowSources | None:
        """The state of an earlier step."""
        versions, is_branch = self._lines[self.own], step.change is Change.TAKEN
        if step.restored is None:
            return RowSources(is_complete=self.state.is_complete) if is_branch else None
        position = versions.at_or_before(step.restored) if is_branch else versions.position(step.restored)
        if position is None:
            return None
        is_other = self._line.steps[position].version.snapshot_id > step.restored.snapshot_id  # with the same rows
        return None if is_other else self.shown.states.get(position)

    def add_dropped_sources(self) -> None:
        """Add all sources that the line has shown."""
        self.touched |= self.shown.sources.keys()
        for key in self.shown.sources:
            self.state.source(key, table="")  # its name is only recorded

    def has_missed_batches(self, batch: RowBatch) -> bool:
        """Whether the line, known from its beginning, has no earlier batch of the writer."""
        return super().has_missed_batches(batch) and batch.user not in self._writers

    def has_missed(self, batch: RowBatch, step: RowStep, source: TableSource, name: str) -> bool:
        """Also whether the commit of a merge has recorded a gap."""
        is_recorded = step.is_merge and step.records_gap(source.line, name)
        return is_recorded or super().has_missed(batch, step, source, name)

    def _show_unknown_before(self, position: int, before: RowSources | None) -> None:
        """Nothing is known about older steps if a snapshot records a state other than the one `before` it, or none."""
        steps = self._line.steps
        for key in self.state.sources.keys() | self.shown.sources.keys():
            number = 0 if before is None else self._unknown_since(key, before.sources.get(key))
            if number is None:
                continue
            first = bisect.bisect_left(steps, number, key=lambda step: step.version.snapshot_id)
            if first < position:
                found = Break(steps[first].version.snapshot_id, Reason.NOT_KNOWN)
                self.shown.sources.setdefault(key, ShownSource()).break_from(first, found)

    def _unknown_since(self, key: LineKey, by_edges: RowSource | None) -> int | None:
        """The snapshot since which edges do not fully explain a recorded state; 0 for never, None if they do."""
        recorded = self.state.sources.get(key)
        if recorded is None or by_edges is None:
            return None if recorded is by_edges else 0
        for name in recorded.readers.keys() | by_edges.readers.keys():
            one, other = recorded.readers.get(name), by_edges.readers.get(name)
            is_settled = one is None and (name == STATEMENTS or by_edges.writer(name).origin is not None)
            if not is_settled and (one is None or other is None or not self.is_same(key, name, one.last, other.last)):
                return 0
        breaks = [recorded.broken, *(one.broken for one in recorded.readers.values())]
        return min((one.snapshot_id for one in breaks if one is not None), default=None)

    def _begin_with(self, recorded: RowSources) -> None:
        """Take over what a snapshot says about its rows; from earlier steps, which streams passed overwrites."""
        before = self.state
        self.replace_state(recorded)
        if self.state.unknown is not None:
            self.add_dropped_sources()
        for key, name in self.state.streams():
            source = self.state.sources[key]
            reader, older = (
                source.readers[name],
                before.sources[key].readers.get(name) if key in before.sources else None,
            )
            found = reader.broken
            if found is None and reader.since is not None and reader.last is not None:
                unseen = self.versions.unseen(key, source.writer(name), reader.since, reader.last)
                found = None if unseen is None else Break(reader.snapshot_id, Reason.UNSEEN, unseen)
            if (
                found is None
                and older is not None
                and older.broken is not None
                and older.broken.reason == Reason.UNSEEN
            ):
                found = older.broken
            source.readers[name] = replace(reader, broken=found)
        self._writers = {name.split(" ", 2)[-1] for _, name in self.state.streams()}


def as_read(written: ShownLine, steps: Sequence[Step], versions: LineVersions, mode: ReadMode) -> ShownLine:
    """What reads show of what is written up to each step. `versions` are those of the line."""
    if not versions.hides_rows(mode):
        return written
    ends = [versions.shown_step(position, step, mode) for position, step in enumerate(steps)]
    breaks = [_hidden(step, mode) if end is None else None for end, step in zip(ends, steps, strict=True)]
    sources = {}
    for key, source in written.sources.items():
        sources[key] = ShownSource()
        for position, (end, found) in enumerate(zip(ends, breaks, strict=True)):
            sources[key].put(position, *((BROKEN, found) if end is None else source.at(end)))
    return replace(written, sources=sources)


def _hidden(step: Step, mode: ReadMode) -> Break:
    """Why what reads of a step show is not known, or is not a version."""
    found, number = seen_by(step, mode), step.version.snapshot_id
    if found is None or found.is_whole:
        return Break(
            number, Reason.NOT_KNOWN, "which of its rows waited for a compaction, and since when, is not known"
        )
    return Break(found.up_to, Reason.WAITING, "some of the rows behind the last whole version are in, others wait")
