"""The lines that tables are made from, at any depth, with what each of their snapshots shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakelog.filestore.metadata.origins import (
    Break,
    Change,
    LineKey,
    ReadMode,
    Reason,
    TableSource,
    TableVersion,
    row_step,
)
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, is_same_commit
from lakelog.filestore.metadata.tables import Fork, TableStore, read_fork
from lakelog.filestore.read import WaitingRows
from lakelog.filestore.schema import MAIN_BRANCH, line_name
from lakelog.lineage.lines.agreement import LineShape
from lakelog.lineage.lines.expired import ExpiredSteps, knows_past, with_expired_steps
from lakelog.lineage.lines.line_steps import StepRun, steps_of_table
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.lines.shown import ShownLine, as_read, shown_by
from lakelog.lineage.lines.versions import LineVersions
from lakelog.lineage.tables.beginnings import forked_at
from lakelog.lineage.tables.found_tables import FoundTables, line_key
from lakelog.warehouse.system_database import SystemDatabase
from lakelog.warehouse.warehouse import Warehouse


class FoundLines(FoundTables):
    """The tables of catalogs, with their lines. `expired` has the steps that no table has any more."""

    def __init__(self, catalogs: Sequence[Warehouse]) -> None:
        super().__init__(catalogs)
        self.expired = ExpiredSteps([SystemDatabase.of(catalog) for catalog in catalogs])

    def read(self, key: LineKey, table: TableStore | None, *, name: str) -> Line:
        """The line of a table that was asked for or found; `table` is None if no catalog has it."""
        return read_line(key, table, self.expired, name=name)


@dataclass(slots=True, kw_only=True)
class LineGraph:
    """Lines by their keys. `names` includes lines that no catalog has.

    `shown` has what batch reads of their snapshots show, `written` what is written up to each.
    """

    lines: dict[LineKey, Line] = field(default_factory=dict)
    names: dict[LineKey, str] = field(default_factory=dict)
    versions: dict[LineKey, LineVersions] = field(default_factory=dict)
    shown: dict[LineKey, ShownLine] = field(default_factory=dict)
    written: dict[LineKey, ShownLine] = field(default_factory=dict)

    def above(self, lines: Iterable[LineKey]) -> list[LineKey]:
        """These lines and all lines that they are made from, nearest first."""
        found = dict.fromkeys(lines)
        waiting = list(found)
        for line in waiting:
            for source in self.shown[line].sources:
                if source not in found:
                    found[source] = None
                    waiting.append(source)
        return list(found)

    def path(self, line: LineKey, source: LineKey) -> list[LineKey]:
        """A shortest path from a line up to a source; empty if there is none."""
        came = {line: line}
        waiting = [line]
        for one in waiting:
            for above in self.shown[one].sources:
                if above not in came:
                    came[above] = one
                    waiting.append(above)
        if source not in came:
            return []
        way = [source]
        while way[-1] != line:
            way.append(came[way[-1]])
        return way[::-1]

    def streamed(self, key: LineKey) -> ShownLine:
        """What streams of a line show after they have read up to each of its snapshots."""
        return as_read(self.written[key], self.lines[key].steps, self.versions[key], ReadMode.STREAM)

    def shape(self, key: LineKey, mode: ReadMode = ReadMode.BATCH) -> LineShape:
        """What an agreement needs of a line that is read in this mode."""
        versions, line = self.versions[key], self.lines[key]
        is_batch = mode is ReadMode.BATCH
        return LineShape(
            versions=versions.keys if is_batch else versions.streamed,
            version_count=versions.count,
            known_count=versions.known_count,
            is_whole=[step.is_whole for step in line.steps],
            sources=(self.shown[key] if is_batch else self.streamed(key)).sources,
            knows_past=knows_past(line),
        )


def load_lines(asked: Iterable[TableStore], tables: FoundLines) -> LineGraph:
    """The lines of tables and of everything upstream of them. Reads the living snapshots of all of them."""
    graph = LineGraph()
    waiting: dict[LineKey, TableStore | None] = {line_key(table): table for table in asked}
    while waiting:
        key, table = waiting.popitem()
        line = with_expired_steps(tables.read(key, table, name=graph.names.get(key, "")))
        graph.lines[key] = line
        graph.names[key] = line.name
        for source, name in _mentioned(line):
            if source not in graph.lines and source not in waiting:
                graph.names[source] = line_name(name, source.branch)
                waiting[source] = tables.find(source, name)
        main = LineKey(key.uuid)
        if key.branch is not None and table is not None and main not in graph.lines:
            waiting[main] = replace(table, branch=MAIN_BRANCH)
    return show_lines(graph)


def show_lines(graph: LineGraph) -> LineGraph:
    """Work out what the lines show."""
    graph.versions = {key: LineVersions(line.steps) for key, line in graph.lines.items()}
    began: dict[LineKey, list[TableVersion]] = {}
    for key, line in graph.lines.items():
        if line.began is not None:
            began.setdefault(LineKey(key.uuid), []).append(_at_or_before(graph, key, line.began))
    for key, line in sorted(graph.lines.items(), key=lambda one: one[0].branch is not None):
        state = None
        if line.began is not None:
            main = LineKey(key.uuid)
            is_recorded = bool(line.steps) and line.steps[0].row_sources is not None
            position = graph.versions[main].position(line.began)
            if position is None and not is_recorded:  # a change by hand may have come after older states
                position = graph.versions[main].position(_at_or_before(graph, key, line.began))
            state = None if position is None else graph.shown[main].states.get(position)
            if state is not None and graph.versions[main].is_rolled_back(line.began):
                state = state.copy()
                state.break_all(Break(line.began.snapshot_id, Reason.RESTORED, "the branch began at it"))
        graph.written[key] = shown_by(line, graph.versions, began=state, keep=began.get(key, ()))
        graph.shown[key] = as_read(graph.written[key], line.steps, graph.versions[key], ReadMode.BATCH)
    return graph


def _at_or_before(graph: LineGraph, branch: LineKey, began: TableVersion) -> TableVersion:
    """The newest step of the table that the branch began with: an older one if the snapshot itself has expired."""
    main = graph.lines.get(LineKey(branch.uuid))
    older = [step.version for step in main.steps if step.version.snapshot_id <= began.snapshot_id] if main else []
    return older[-1] if older else began


def read_line(key: LineKey, table: TableStore | None, expired_steps: ExpiredSteps, *, name: str) -> Line:
    """The line of a table; if no catalog has the table, as far as edges know it. Reads its living snapshots."""
    if table is None:
        return Line(key=key, name=name, steps=expired_steps.of(key, None))
    return joined_line(key, table, steps_of_table(table), lambda first: expired_steps.of(key, first))


def joined_line(
    key: LineKey, table: TableStore, living: Sequence[Step], expired_before: Callable[[int | None], Sequence[Step]]
) -> Line:
    """The line of a table with these living steps, and the expired ones before them."""
    fork = None if key.branch is None else read_fork(table, key.branch)
    began = None if fork is None or key.branch is None else forked_at(table, key.branch, fork)
    above = 0 if began is None else began.snapshot_id  # a table that has taken its branch also has the others
    own = [step for step in living if step.version.snapshot_id > above]
    first = own[0].version.snapshot_id if own else None
    is_cut = first is None or first > above + 1
    found = expired_before(_end_of_expired(table, first)) if is_cut else []
    expired = [step for step in found if step.version.snapshot_id > above]
    forked = [] if fork is None or began is None else [_forked(table, fork, began)]
    line = Line(key=key, name=table.name, steps=(*forked, *expired, *own), began=began)
    if not line.has_brought():
        return line
    return replace(line, origins=frozenset(replace(table, branch=MAIN_BRANCH).snapshots.tags()))


def _end_of_expired(table: TableStore, first: int | None) -> int | None:
    """The number below which snapshots of a line have expired; None if nothing lives. Others were rolled back.

    `first` is the oldest living snapshot of the line's own: a branch may have none, and live only up to its beginning.
    """
    newest = table.snapshots.latest_id() if first is None else None
    return first if newest is None else newest + 1


def with_earlier_steps(line: Line, table: TableStore) -> Line:
    """The line of a branch, with the snapshots up to its beginning that live in it but no longer in its table.

    A table loses such snapshots by a rollback, and when another branch replaces it. Reads them.
    """
    if line.began is None or line.key.branch is None:
        return line
    main, own = replace(table, branch=MAIN_BRANCH).snapshots, table.snapshots
    ids = (number for number in own.ids() if number <= line.began.snapshot_id)
    found = [one for one in map(own.find, ids) if one is not None and not is_same_commit(one, main.find(one.id))]
    if not found:
        return line
    run = StepRun.of(table, own.find(found[0].id - 1))
    return replace(line, earlier=[run.take(one) for one in found])


def _forked(table: TableStore, fork: Fork, began: TableVersion) -> Step:
    """The first step of a branch: the snapshot of the table at which it began, which the branch has too."""
    living = table.snapshots.find(began.snapshot_id)
    if living is None:
        return Step(version=began, time_millis=fork.created_millis, change=Change.NOTHING, is_living=False)
    in_batch, in_stream = WaitingRows(table).take(living, log=living.properties.get(PropertyKey.LOG_STATE, ""))
    return replace(forked_step(living, began), in_batch=in_batch, in_stream=in_stream)


def forked_step(snapshot: Snapshot, began: TableVersion) -> Step:
    """The first step of a branch, from the branch's copy of the snapshot at which it began."""
    recorded = row_step(Step, snapshot, None, (), replaces_all=lambda _: False)
    return Step(
        version=began,
        time_millis=snapshot.time_millis,
        change=Change.NOTHING,
        row_sources=recorded.row_sources,
        unseen=recorded.unseen,
    )


def _mentioned(line: Line) -> Iterable[tuple[LineKey, str]]:
    telling = [step for step in line.steps if step.row_sources is not None]
    for step in telling[:1] + [step for step in telling[1:] if step.change in {Change.RESTORE, Change.TAKEN}]:
        recorded = step.recorded_sources()
        yield from () if recorded is None else ((key, source.table) for key, source in recorded.sources.items())
    for step in line.steps:
        for batch in step.batches:
            for source in batch.sources:
                if isinstance(source, TableSource):
                    yield source.line, source.table
