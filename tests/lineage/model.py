"""A model of jobs that derive tables from tables: rows in dicts, and what each snapshot shows by what was really read.

The rows of a table are a part for each read of each of its writers: {(writer, read, key): value}. A writer copies the
rows of its source, of which it may keep only some. A part knows which version of its source it shows from what the
writer did, not from its record. `check` holds it against the rows.

With `branches` a table has lines beside it, written by copies of its writers and by others, which are merged into it:
changed rows, of which the branch's win, or the branch as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from lakelog.filestore.metadata.row_sources import LineKey
from lakelog.lineage.brought import merge_lineage
from lakelog.lineage.line_graph import LineGraph, show_lines
from lakelog.lineage.lines import Change, Line, LineBatch, Step
from lakelog.lineage.record import ReadMode, TableSource, TableVersion

Rows = dict[tuple[str, ...], int]
Read = tuple[str, int]  # a writer and the number of its read


@dataclass(frozen=True)
class Part:
    """What a read has put into a table: the rows of a version of its source, unless rows are missing or too many."""

    source: str
    version: str | None
    is_lost: bool = False
    ahead: tuple[str, ...] | None = None  # the key of a row from behind that version

    @property
    def shown(self) -> str | None:
        """The version that the rows show; None for none."""
        return None if self.is_lost or self.ahead else self.version


Parts = dict[Read, Part]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the model. `version` is the commit of the first snapshot with these rows."""

    id: int
    commit: str
    version: str
    rows: Rows
    parts: Parts
    step: Step


@dataclass
class Table:
    """The living snapshots of a table, oldest first; `expired` are those that only lineage knows."""

    name: str
    snapshots: list[Snapshot] = field(default_factory=list)
    expired: int = 0
    main: str | None = None  # of a branch, whose first snapshot is the one that it began at
    base: Snapshot | None = None  # up to where a branch is merged

    @property
    def key(self) -> LineKey:
        """The key of the line."""
        return LineKey(self.name) if self.main is None else LineKey(self.main, self.name)


@dataclass
class Writer:
    """A stream. `progress` is what it has read of each source, by commit."""

    name: str
    sink: str
    sources: list[str]
    statics: list[str]
    keeps: int  # one of so many rows
    batch: int = 0
    progress: list[str | None] = field(default_factory=list)
    is_stopped: bool = False


class Model:
    """Tables, and the writers that fill them. Every choice comes from `choose`."""

    def __init__(self, choose: random.Random, *, roots: int = 2, derived: int = 3, branches: bool = False) -> None:
        self.choose = choose
        self.tables = {f"t{number}": Table(f"t{number}") for number in range(roots + derived)}
        self.roots = list(self.tables)[:roots]
        self.has_branches = branches
        self.by_commit: dict[str, Snapshot] = {}
        self.writers: list[Writer] = []
        self._numbers = count(1)
        for name in self.roots:
            self.write_root(name)
        for name in list(self.tables)[roots:]:
            self.start(name)
            if choose.random() < 0.2:
                self.start(name)

    # What happens.

    def step(self) -> None:
        """One event."""
        names = list(self.tables)
        derived = names[len(self.roots) :]
        events: list[tuple[int, Callable[[str], None], list[str]]] = [
            (6, self.write_root, self.roots),
            (14, lambda name: self.run(self.choose.choice([one for one in self.writers if one.sink == name])), derived),
            (1, self.compact, names),
            (1, self.change_by_hand, derived),
            (1, self.restore, derived),
            (1, self.roll_back, names),
            (1, self.overwrite, derived),
            (1, self.insert, derived),
            (1, self.expire, names),
            (1, self.start, derived),
        ]
        if self.has_branches:
            forks = [name for name in derived if self.tables[name].main is not None]
            mains = [name for name in derived if self.tables[name].main is None]
            events += [(3, self.fork, mains), *[(2, one, forks) for one in (self.merge, self.take) if forks]]
        ((_, event, of),) = self.choose.choices(events, [weight for weight, _, _ in events])
        event(self.choose.choice(of))

    def write_root(self, name: str) -> None:
        """A root gets a row of its own."""
        number = next(self._numbers)
        rows = {**self._rows(name), ("row", str(number)): number, ("stamp",): number}
        self._commit(name, rows, {}, Change.BY_HAND)

    def start(self, sink: str) -> None:
        """A new stream into a table, from tables before it."""
        before = self._before(sink)
        sources = self.choose.choices(before, k=self.choose.choice([1, 1, 2]))
        statics = [self.choose.choice(before)] if self.choose.random() < 0.15 else []
        name = f"writer{len(self.writers)}"
        keeps = self.choose.choice([1, 1, 1, 3])
        self.writers.append(Writer(name, sink, sources, statics, keeps, progress=[None] * len(sources)))

    def run(self, writer: Writer) -> None:
        """A batch of a stream, mostly exact and in order."""
        named = [*writer.sources, *writer.statics]
        progress = list(zip(writer.sources, writer.progress, strict=True))
        if writer.is_stopped or not all(self.tables[name].snapshots for name in named):
            return
        if not all(self._is_on_line(name, commit) for name, commit in progress):
            writer.is_stopped = True  # its source was rolled back: such a stream fails
            return
        if self.choose.random() < 0.03:  # changes are lost, as with failOnDataLoss=false
            progress = [(name, commit and self._later(name, commit)) for name, commit in progress]
        rows, parts = dict(self._rows(writer.sink)), dict(self._parts(writer.sink))
        ends: list[str | None] = []
        found: list[TableSource] = []
        for number, (name, start) in enumerate(progress):
            end = self._later(name, start)
            before = parts.get((writer.name, number), Part(name, None))
            self._copy(rows, (writer, number), start, end, again=before.ahead)
            is_lost = before.is_lost or before.version != self._version(start)
            ahead = self._copy_ahead(rows, writer, number, name, end) if self.choose.random() < 0.06 else None
            parts[writer.name, number] = Part(name, self._version(end), is_lost=is_lost, ahead=ahead)
            found.append(self._source(name, start, end, is_exact=ahead is None))
            ends.append(end)
        for number, name in enumerate(writer.statics, len(ends)):
            newest = self.tables[name].snapshots[-1]
            before = parts.get((writer.name, number), Part(name, newest.version))
            is_lost = before.is_lost or before.version != newest.version
            parts[writer.name, number] = Part(name, newest.version, is_lost=is_lost)
            made = self.made_of((writer.name, number), newest.rows)
            rows = {**made, **rows}  # rows that were joined before stay
            found.append(self._source(name, None, newest.commit, mode=ReadMode.BATCH))
        writer.progress = ends
        batch = LineBatch(user=writer.name, job=writer.name, number=writer.batch, sources=found)
        writer.batch += 1
        self._commit(writer.sink, rows, parts, Change.BATCHES, batches=[batch])

    def compact(self, name: str) -> None:
        """A snapshot that changes no row."""
        if self.tables[name].snapshots:
            self._commit(name, self._rows(name), self._parts(name), Change.NOTHING)

    def change_by_hand(self, name: str) -> None:
        """Other rows, of which nothing is recorded; by lakelog or another engine."""
        rows, number = self._rows(name), next(self._numbers)
        if not rows:
            return
        parts = {read: replace(part, is_lost=True) for read, part in self._parts(name).items()}
        change = self.choose.choice([Change.BY_HAND, Change.FOREIGN])
        self._commit(name, dict.fromkeys(rows, -number), parts, change)

    def restore(self, name: str) -> None:
        """An older state again."""
        living = self.living(name)
        if len(living) > 1:
            target = self.choose.choice(living[:-1])
            version = TableVersion(snapshot_id=target.id, commit=target.commit)
            self._commit(name, target.rows, target.parts, Change.RESTORE, restored=version)
            self._rewind(name)

    def roll_back(self, name: str) -> None:
        """The newest snapshots are deleted; their numbers are given again."""
        living = self.living(name)
        if len(living) > 1 and self.tables[name].main is None:
            target = self.choose.choice(living[:-1])
            snapshots = self.tables[name].snapshots
            at = snapshots.index(target) + 1
            is_known = sources_in(snapshots[at:]) <= sources_in(snapshots[:at])  # else nothing says what they were
            if is_known and all(one.version == one.commit for one in snapshots[at:]):  # else versions lose their names
                del snapshots[at:]
                self._rewind(name)

    def overwrite(self, name: str) -> None:
        """All rows are replaced by those of a statement."""
        self._statement(name, {}, {}, Change.OVERWRITE)

    def insert(self, name: str) -> None:
        """The rows of a statement come beside the others."""
        self._statement(name, self._rows(name), self._parts(name), Change.BATCHES)

    def expire(self, name: str) -> None:
        """The oldest snapshots expire; what they recorded was fed."""
        table = self.tables[name]
        table.expired = max(table.expired, self.choose.randrange(len(table.snapshots) or 1))

    def fork(self, main: str) -> None:
        """A branch of a table, with copies of its writers and one of its own."""
        if not self.living(main):
            return
        began = self.choose.choice(self.living(main))
        name = f"{main}-{len(self.tables)}"
        first = replace(began, step=replace(began.step, change=Change.NOTHING, batches=(), restored=None))
        self.tables[name] = Table(name, [first], main=main, base=first)
        for writer in [one for one in self.writers if one.sink == main]:
            reads = [began.parts.get((writer.name, number)) for number in range(len(writer.sources))]
            if all(part is None or part.ahead is None for part in reads):
                progress = [None if part is None else part.version for part in reads]
                batch = writer.batch if any(progress) else 0
                self.writers.append(replace(writer, sink=name, progress=progress, batch=batch, is_stopped=False))
        self.start(name)

    def merge(self, branch: str) -> None:
        """The rows that a branch has changed since it was merged last, into its table."""
        table = self.tables[branch]
        assert table.main is not None, "it is a branch"
        assert table.base is not None, "it has begun"
        rows, taken = dict(self._rows(table.main)), table.snapshots[-1]
        for key in taken.rows.keys() | table.base.rows.keys():
            if taken.rows.get(key) != table.base.rows.get(key):
                rows.pop(key, None)
                rows |= {key: taken.rows[key]} if key in taken.rows else {}
        new = {read: part for read, part in taken.parts.items() if part != table.base.parts.get(read)}
        self._merge(table, rows, {**new, **self._parts(table.main)}, table.base, origin=branch)
        table.base = taken

    def take(self, branch: str) -> None:
        """A branch as a whole, whose rows become those of its table."""
        table = self.tables[branch]
        taken = table.snapshots[-1]
        self._merge(table, taken.rows, taken.parts, table.snapshots[0], origin=None)
        table.base = taken

    def _merge(self, table: Table, rows: Rows, parts: Parts, base: Snapshot, *, origin: str | None) -> None:
        assert table.main is not None, "it is a branch"
        start, end = (TableVersion(snapshot_id=one.id, commit=one.commit) for one in (base, table.snapshots[-1]))
        own = TableSource(table=table.main, uuid=table.main, branch=table.name, mode=ReadMode.BATCH, end=end)
        found = merge_lineage(own, [one.step for one in table.snapshots], start, origin=origin)
        merged, *unknown = found.sources
        assert isinstance(merged, TableSource), "the branch is the first source"
        batches = [LineBatch(user=f"merge{end.commit}", job=None, number=None, sources=unknown, merged=merged)]
        for one in found.brought:
            job, number = one.lineage.job, one.lineage.batch_id
            batches.append(LineBatch(user=one.user, job=job, number=number, sources=one.lineage.sources))
        change, restored = (Change.TAKEN, merged.start) if origin is None else (Change.BATCHES, None)
        self._commit(table.main, rows, parts, change, batches=batches, restored=restored)

    # What is there.

    def living(self, name: str) -> list[Snapshot]:
        """The living snapshots of a table."""
        table = self.tables[name]
        return table.snapshots[min(table.expired, max(len(table.snapshots) - 1, 0)) :]

    def graph(self) -> LineGraph:
        """The tables as lineage reads them."""
        graph = LineGraph()
        for name, table in self.tables.items():
            key = table.key
            gone = len(table.snapshots) - len(self.living(name))
            steps = [replace(one.step, is_living=at >= gone) for at, one in enumerate(table.snapshots)]
            began = None if table.main is None else steps[0].version
            graph.lines[key] = Line(key=key, name=name, steps=steps, began=began)
            graph.names[key] = name
        return show_lines(graph)

    def made_of(self, read: Read, source: Rows) -> Rows:
        """The rows that a read makes of a state of its source."""
        keeps = next((one.keeps for one in self.writers if one.name == read[0]), 1)
        return {(read[0], str(read[1]), *key): value for key, value in source.items() if _is_kept(key, keeps)}

    def _before(self, name: str) -> list[str]:
        """The tables that one may read, without branches."""
        names = [one for one, table in self.tables.items() if table.main is None]
        return names[: names.index(self.tables[name].main or name)]

    def _rows(self, name: str) -> Rows:
        snapshots = self.tables[name].snapshots
        return snapshots[-1].rows if snapshots else {}

    def _parts(self, name: str) -> Parts:
        snapshots = self.tables[name].snapshots
        return snapshots[-1].parts if snapshots else {}

    def _version(self, commit: str | None) -> str | None:
        return None if commit is None else self.by_commit[commit].version

    def _is_on_line(self, name: str, commit: str | None) -> bool:
        return commit is None or any(one.commit == commit for one in self.tables[name].snapshots)

    def _later(self, name: str, commit: str | None) -> str:
        """A snapshot of a source at or behind one: the newest, or fewer for a slow reader."""
        snapshots = self.tables[name].snapshots
        first = next((at for at, one in enumerate(snapshots) if one.commit == commit), 0)
        return snapshots[max(first, len(snapshots) - 1 - self.choose.choice([0, 0, 0, 1, 2]))].commit

    def _copy(
        self, rows: Rows, read: tuple[Writer, int], start: str | None, end: str, *, again: tuple[str, ...] | None
    ) -> None:
        """Apply the changes between two states of a source, and those of a row that was read ahead."""
        writer, number = read
        before = {} if start is None else self.by_commit[start].rows
        after = self.by_commit[end].rows
        for key in before.keys() | after.keys() | ({again} if again else set()):
            if (before.get(key) != after.get(key) or key == again) and _is_kept(key, writer.keeps):
                rows.pop((writer.name, str(number), *key), None)
                if key in after:
                    rows[writer.name, str(number), *key] = after[key]

    def _copy_ahead(self, rows: Rows, writer: Writer, number: int, name: str, end: str) -> tuple[str, ...] | None:
        """Apply one of the changes behind the last snapshot that is read whole, and give its key; None for none."""
        snapshots = self.tables[name].snapshots
        at = next(at for at, one in enumerate(snapshots) if one.commit == end)
        new = sorted((snapshots[at + 1].rows.items() - snapshots[at].rows.items()) if at + 1 < len(snapshots) else [])
        found = [(key, value) for key, value in new if _is_kept(key, writer.keeps)]
        for key, value in found[:1]:
            rows[writer.name, str(number), *key] = value
            return key
        return None

    def _source(
        self, name: str, start: str | None, end: str | None, *, mode: ReadMode = ReadMode.STREAM, is_exact: bool = True
    ) -> TableSource:
        versions = [
            None if one is None else TableVersion(snapshot_id=self.by_commit[one].id, commit=one)
            for one in (start, end)
        ]
        return TableSource(table=name, uuid=name, mode=mode, start=versions[0], end=versions[1], is_exact=is_exact)

    def _statement(self, name: str, rows: Rows, parts: Parts, change: Change) -> None:
        source = self.choose.choice(self._before(name))
        if not self.tables[source].snapshots:
            return
        newest = self.tables[source].snapshots[-1]
        user = f"statement{next(self._numbers)}"
        found = self._source(source, None, newest.commit, mode=ReadMode.BATCH)
        batch = LineBatch(user=user, job=None, number=None, sources=[found])
        made = self.made_of((user, 0), newest.rows)
        self._commit(
            name, {**rows, **made}, {**parts, (user, 0): Part(source, newest.version)}, change, batches=[batch]
        )

    def _rewind(self, name: str) -> None:
        """The writers of a table go on, or are set back to what the table shows now, or begin anew."""
        parts = self._parts(name)
        for writer in self.writers:
            if writer.sink == name and self.choose.random() < 0.5:
                reads = [parts.get((writer.name, number)) for number in range(len(writer.sources))]
                commits = [None if part is None else part.version for part in reads]
                if all(part is None or part.ahead is None for part in reads):
                    writer.progress = commits

    def _commit(
        self,
        name: str,
        rows: Rows,
        parts: Parts,
        change: Change,
        *,
        batches: Sequence[LineBatch] = (),
        restored: TableVersion | None = None,
    ) -> None:
        snapshots = self.tables[name].snapshots
        newest = snapshots[-1] if snapshots else None
        number, commit = 1 if newest is None else newest.id + 1, f"{name}-{next(self._numbers)}"
        changes_rows = newest is None or newest.rows != rows or change is Change.RESTORE
        step = Step(
            version=TableVersion(snapshot_id=number, commit=commit),
            time_millis=next(self._numbers),
            change=change,
            changes_rows=changes_rows,
            batches=batches,
            restored=restored,
        )
        version = commit if changes_rows or newest is None else newest.version
        found = Snapshot(number, commit, version, rows, parts, step)
        snapshots.append(found)
        self.by_commit[commit] = found


def sources_in(snapshots: Sequence[Snapshot]) -> set[str]:
    """The tables that snapshots were made from."""
    return {part.source for one in snapshots for part in one.parts.values()}


def _is_kept(key: tuple[str, ...], keeps: int) -> bool:
    return keeps == 1 or (key[-1].isdigit() and int(key[-1]) % keeps == 0)
