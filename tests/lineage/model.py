"""A model of jobs that derive tables from tables: rows in dicts, and what each snapshot shows by what was really read.

The rows of a table are a part for each read of each of its writers: {(writer, read, key): value}. A writer copies the
rows of its source, of which it may keep only some. A part knows which version of its source it shows from what the
writer did, not from its record. `check` holds it against the rows.

With `branches` a table has lines beside it, written by copies of its writers and by others, or by hand, that are merged
into it: changed rows, of which the branch's win, or the branch as a whole. Other tables are made from branches too.

An overwrite is no change for a stream of a table without changelog files: the stream copies nothing of it. A model that
`forgets` has of expired snapshots what the living ones carry on and, where lineage is recorded, their edges; otherwise
lineage knows all of their steps.

With `waits` the rows of roots may wait for compactions, of some buckets, or of a state before the newest: batch reads
of such a table, streams of it, or both have other rows than were written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

from lakelog.filestore.metadata.origins.record import (
    BatchLineage,
    CommittedBatch,
    LineKey,
    ReadMode,
    TableSource,
    TableVersion,
)
from lakelog.filestore.metadata.origins.restored import kept_sources, restores_properties
from lakelog.filestore.metadata.origins.row_steps import Change
from lakelog.filestore.metadata.origins.state_before import properties_after_rollback
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    MERGE_OPERATION,
    RESTORE_OPERATION,
    BranchVerb,
    CommitKind,
)
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot as StoredSnapshot
from lakelog.filestore.metadata.snapshots.users import CarriedProperties
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX
from lakelog.lineage.answers.brought import merge_lineage
from lakelog.lineage.lines.expired import with_expired_steps
from lakelog.lineage.lines.line_graph import LineGraph, forked_step, show_lines
from lakelog.lineage.lines.lines import Line, Step
from tests.lineage.model_files import KINDS, Files, compacted, rows_of, waiting_rows, written
from tests.lineage.model_snapshots import Commit, FedEdges, Living, committed, is_passed, living_steps, of_branch

Rows = dict[tuple[str, ...], int]
Read = tuple[str, int]  # a writer and the number of its read


@dataclass(frozen=True)
class Part:
    """What a read has put into a table: the rows of a version of its source, unless rows are missing or too many."""

    source: str
    version: str | None
    is_lost: bool = False
    ahead: tuple[str, ...] | None = None  # the key of a row from behind that version
    followed: frozenset[str] = frozenset()  # snapshots up to which a stream was given changes


Parts = dict[Read, Part]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the model. `version` is the commit of the first snapshot with these rows.

    `in_batch` is what a batch read of it shows, `in_stream` what streams that have read up to it have been given.
    """

    id: int
    commit: str
    version: str
    rows: Rows
    parts: Parts
    stored: StoredSnapshot
    in_batch: Rows
    in_stream: Rows
    files: Files = ()


@dataclass
class Table:
    """The living snapshots of a table, oldest first; `expired` are those that only lineage knows."""

    name: str
    snapshots: list[Snapshot] = field(default_factory=list)
    expired: int = 0
    expires_to: int | None = None  # the number up to which snapshots may expire
    has_changelog: bool = False  # streams of it are given the changes of overwrites too
    main: str | None = None  # of a branch, whose first snapshot is the one that it began at
    base: Snapshot | None = None  # up to where a branch is merged
    kind: str = "plain"

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

    def __init__(
        self,
        choose: random.Random,
        *,
        roots: int = 2,
        derived: int = 3,
        branches: bool = False,
        forgets: bool = False,
        waits: bool = False,
    ) -> None:
        self.choose = choose
        names = [f"t{number}" for number in range(roots + derived)]
        self.tables = {name: Table(name, has_changelog=choose.random() < 0.3) for name in names}
        self.roots = names[:roots]
        for name in self.roots if waits else ():
            self.tables[name].kind = choose.choice(list(KINDS))
        self.files: dict[str, Files] = {}  # of each commit
        self.files_before: dict[str, Files] = {}
        self.has_branches = branches
        self.forgets = forgets
        self.fed = FedEdges() if forgets else None
        self.is_fed_before_expiry = choose.random() < 0.5
        self.replacing: set[str] = set()  # commits that left no row from before
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
        choose, names = self.choose, list(self.tables)
        roots = [name for name in names if self._main(name) in self.roots]
        derived = [name for name in names if name not in roots]
        events: list[tuple[int, Callable[[str], None], list[str]]] = [
            (6, self.write_root, roots),
            (2 if self.forgets else 1, self.overwrite_by_hand, roots),
            (14, lambda name: self.run(self.choose.choice([one for one in self.writers if one.sink == name])), derived),
            (1, self.compact, names),
            (1, choose.choice([self.change_by_hand, self.overwrite_by_hand]), derived),
            (1, self.restore, names),
            (1, self.roll_back, names),
            (1, self.overwrite, derived),
            (1, self.insert, derived),
            (3 if self.forgets else 1, self.expire, names),
            (1, self.start, derived),
        ]
        if self.forgets:
            events.append((1, self.feed, names))
        if self.has_branches:
            forks = [name for name in names if self.tables[name].main is not None]
            mains = [name for name in names if self.tables[name].main is None]
            events += [(3, self.fork, mains), *[(2, one, forks) for one in (self.merge, self.take) if forks]]
        ((_, event, of),) = self.choose.choices(events, [weight for weight, _, _ in events])
        event(self.choose.choice(of))

    def write_root(self, name: str) -> None:
        """A root gets a row of its own."""
        number = next(self._numbers)
        rows = {**self._rows(name), ("row", str(number)): number, ("stamp",): number}
        self._commit(name, rows, {}, Commit(operation="WRITE", is_foreign=self._is_foreign(name)))

    def overwrite_by_hand(self, name: str) -> None:
        """Rows of a table are replaced by those of a nightly load, or all of them, of which nothing is recorded."""
        before, number = self._rows(name), next(self._numbers)
        if not before:
            return
        is_whole = self.choose.random() < 0.5
        kept = {} if is_whole else {key: value for key, value in before.items() if self.choose.random() < 0.5}
        rows = kept | dict.fromkeys(self.choose.sample(sorted(before), 1), -number)
        if self._main(name) in self.roots:
            rows |= {("row", str(number)): number, ("stamp",): number}
        parts = {read: replace(part, is_lost=True) for read, part in self._parts(name).items()}
        operation = "OVERWRITE" if is_whole else self.choose.choice(["UPDATE", "DELETE", "OVERWRITE"])
        is_foreign = self._is_foreign(name)
        commit = Commit(kind=CommitKind.OVERWRITE, operation=operation, replaces_all=not kept, is_foreign=is_foreign)
        self._commit(name, rows, parts, commit)

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
            is_lost = before.is_lost or before.version != self._version(start) or self._passes(name, start, end)
            ahead = self._copy_ahead(rows, writer, number, name, end) if self.choose.random() < 0.06 else None
            followed = before.followed | ({end} if start not in {None, end} else set())
            version = self._version(end)
            parts[writer.name, number] = Part(name, version, is_lost=is_lost, ahead=ahead, followed=followed)
            found.append(self._source(name, start, end, is_exact=ahead is None))
            ends.append(end)
        for number, name in enumerate(writer.statics, len(ends)):
            newest = self.tables[name].snapshots[-1]
            before = parts.get((writer.name, number), Part(name, newest.version))
            is_lost = before.is_lost or before.version != newest.version
            parts[writer.name, number] = Part(name, newest.version, is_lost=is_lost)
            made = self.made_of((writer.name, number), newest.in_batch)
            rows = {**made, **rows}  # rows that were joined before stay
            found.append(self._source(name, None, newest.commit, mode=ReadMode.BATCH))
        writer.progress = ends
        lineage = BatchLineage(job=writer.name, batch_id=writer.batch, sources=found)
        batch = CommittedBatch(user=writer.name, identifier=writer.batch, lineage=lineage)
        writer.batch += 1
        self._commit(writer.sink, rows, parts, Commit(batch=batch))

    def compact(self, name: str) -> None:
        """A snapshot that changes no row."""
        if self.tables[name].snapshots:
            earlier = [one.files for one in self.tables[name].snapshots]
            files = () if self.tables[name].kind == "plain" else compacted(earlier[-1], self.choose, earlier)
            self._commit(name, self._rows(name), self._parts(name), Commit(kind=CommitKind.COMPACT), files)

    def change_by_hand(self, name: str) -> None:
        """Other rows, of which nothing is recorded; by lakelog or another engine."""
        rows, number = self._rows(name), next(self._numbers)
        if not rows:
            return
        parts = {read: replace(part, is_lost=True) for read, part in self._parts(name).items()}
        commit = Commit(operation="WRITE", is_foreign=self.choose.random() < 0.5)
        self._commit(name, dict.fromkeys(rows, -number), parts, commit)

    def restore(self, name: str) -> None:
        """An older state again."""
        living = self.living(name)
        if len(living) > 1:
            target = self.choose.choice(living[:-1])
            stored = [one.stored for one in living]
            then, now = (Living(stored).carried(one) for one in (target.stored, stored[-1]))
            properties = restores_properties(target.stored, then, now.properties)
            commit = Commit(kind=CommitKind.OVERWRITE, operation=RESTORE_OPERATION, properties=properties)
            self._commit(name, target.rows, target.parts, commit, target.files)
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
                if any(is_passed(one.stored) for one in snapshots[at:]):  # unknown once expired: see docs/limits.md
                    table = self.tables[name]
                    table.expires_to = min(target.id + 1, table.expires_to or target.id + 1)
                while len(snapshots) > at:
                    self._take_newest_back(name)
                self._rewind(name)

    def _take_newest_back(self, name: str) -> None:
        """Delete the newest snapshot, once the one before it has what lakelog knows."""
        snapshots, stored = self.tables[name].snapshots, [one.stored for one in self.living(name)]
        older, newer = (Living(stored).carried(one) for one in stored[-2:])
        properties = properties_after_rollback(stored[-2], older, newer)
        snapshots.pop()
        snapshots[-1] = replace(snapshots[-1], stored=replace(stored[-2], properties=properties))
        self.by_commit[snapshots[-1].commit] = snapshots[-1]

    def overwrite(self, name: str) -> None:
        """All rows are replaced by those of a statement."""
        self._statement(name, {}, {}, CommitKind.OVERWRITE)

    def insert(self, name: str) -> None:
        """The rows of a statement come beside the others."""
        self._statement(name, self._rows(name), self._parts(name), CommitKind.APPEND)

    def expire(self, name: str) -> None:
        """The oldest snapshots expire, but for the newest of lakelog, whose properties the next commit carries on."""
        table = self.tables[name]
        own = [at for at, one in enumerate(table.snapshots) if one.stored.properties]
        if not own:
            return
        if self.is_fed_before_expiry:
            self._feed_line(name)
        last = table.snapshots[-1].id if table.expires_to is None else table.expires_to
        stay = [at for at, one in enumerate(table.snapshots) if one.id >= last]
        table.expired = max(table.expired, min(self.choose.randrange(len(table.snapshots)), own[-1], *stay[:1]))

    def feed(self, _name: str) -> None:
        """The lineage of all tables is fed."""
        for name in self.tables:
            self._feed_line(name)

    def _feed_line(self, name: str) -> None:
        if self.fed is not None:
            self.fed.feed(self.tables[name].key, [one.stored for one in self._own(name)])

    def fork(self, main: str) -> None:
        """A branch of a table, with copies of its writers and one of its own."""
        if not self.living(main):
            return
        began = self.choose.choice(self.living(main))
        name = f"{main}-{len(self.tables)}"
        stored = [one.stored for one in self.living(main)]
        own = of_branch(began.stored, Living(stored).carried(began.stored), self._carried(main))
        began = replace(began, stored=replace(own, changelog_manifest_list=None))
        has_changelog = self.tables[main].has_changelog
        self.tables[name] = Table(name, [began], has_changelog=has_changelog, main=main, base=began)
        for writer in [one for one in self.writers if one.sink == main]:
            reads = [began.parts.get((writer.name, number)) for number in range(len(writer.sources))]
            if all(part is None or part.ahead is None for part in reads):
                progress = [None if part is None else part.version for part in reads]
                batch = writer.batch if any(progress) else 0
                self.writers.append(replace(writer, sink=name, progress=progress, batch=batch, is_stopped=False))
        if main not in self.roots:
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
        self._merge(table, rows, {**new, **self._parts(table.main)}, table.base, origin=f"{PROTECTING_PREFIX}{branch}")
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
        found = merge_lineage(own, with_expired_steps(self._line(table.name)).steps, start, origin=origin)
        verb = MERGE_OPERATION if origin is not None else BranchVerb.MERGE.value
        lineage = BatchLineage(operation=verb, sources=found.sources, brought=found.brought)
        batch = CommittedBatch(user=f"merge{end.commit}", identifier=BATCH_COMMIT_IDENTIFIER, lineage=lineage)
        if origin is not None:
            self._commit(table.main, rows, parts, Commit(operation=verb, batch=batch))
            return
        then, now = (self._carried(name) for name in (table.name, table.main))
        commit = Commit(operation=RESTORE_OPERATION, batch=batch, properties=kept_sources(then, now.properties))
        self._commit(table.main, rows, parts, commit)

    # What is there.

    def living(self, name: str) -> list[Snapshot]:
        """The living snapshots of a table."""
        table = self.tables[name]
        return table.snapshots[min(table.expired, max(len(table.snapshots) - 1, 0)) :]

    def shown(self, part: Part) -> str | None:
        """The version of its source that a part shows; None for none.

        Whether a stream has passed an overwrite is not known of a source that was rolled back since.
        """
        is_known = all(self._is_on_line(part.source, commit) for commit in part.followed)
        return None if part.is_lost or part.ahead or not is_known else part.version

    def graph(self) -> LineGraph:
        """The tables as lineage reads them."""
        graph = LineGraph()
        for name, table in self.tables.items():
            graph.lines[table.key] = with_expired_steps(self._line(name))
            graph.names[table.key] = name
        return show_lines(graph)

    def _own(self, name: str) -> list[Snapshot]:
        """The living snapshots of a table; of a branch without the one that it began at."""
        living = self.living(name)
        return (
            living[1:] if self.tables[name].main is not None and living[0] is self.tables[name].snapshots[0] else living
        )

    def _line(self, name: str) -> Line:
        """A table as lineage reads it."""
        table, own = self.tables[name], self._own(name)
        began = None
        forked: list[Step] = []
        if table.main is not None:
            first = table.snapshots[0]
            began = TableVersion(snapshot_id=first.id, commit=first.commit)
            step = forked_step(first.stored, began)
            if self.living(name)[0] is not first:
                step = Step(version=began, time_millis=step.time_millis, change=Change.NOTHING, is_living=False)
            forked = [step]
        every = own if self.forgets else [one for one in table.snapshots if table.main is None or one.id > first.id]
        waiting = None if table.kind == "plain" else waiting_rows(table.kind, self.files, self.files_before)
        steps = living_steps([one.stored for one in every], self.replacing, waiting)
        living = {one.commit for one in own}
        steps = [step if step.version.commit in living else replace(step, is_living=False) for step in steps]
        expired: list[Step] = []
        if self.fed is not None and not (own and own[0].id == (1 if began is None else began.snapshot_id + 1)):
            expired = self.fed.steps(table.key, own[0].id if own else None)
        branches = (f"{PROTECTING_PREFIX}{one.name}" for one in self.tables.values() if one.main == name)
        steps = [*forked, *expired, *steps]
        return Line(key=table.key, name=name, steps=steps, began=began, origins=frozenset(branches))

    def made_of(self, read: Read, source: Rows) -> Rows:
        """The rows that a read makes of a state of its source."""
        keeps = next((one.keeps for one in self.writers if one.name == read[0]), 1)
        return {(read[0], str(read[1]), *key): value for key, value in source.items() if _is_kept(key, keeps)}

    def _before(self, name: str) -> list[str]:
        """The tables that one may read, and their branches."""
        mains = [one for one, table in self.tables.items() if table.main is None]
        before = mains[: mains.index(self._main(name))]
        return [one for one in self.tables if self._main(one) in before]

    def _main(self, name: str) -> str:
        """The table of a branch, or the table itself."""
        return self.tables[name].main or name

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

    def _between(self, name: str, start: str, end: str) -> list[Snapshot]:
        """The snapshots of a source from one to another."""
        snapshots = self.tables[name].snapshots
        commits = [one.commit for one in snapshots]
        return snapshots[commits.index(start) : commits.index(end) + 1]

    def _passes(self, name: str, start: str | None, end: str) -> bool:
        """Whether a stream between two snapshots of its source is not given the changes of one of them."""
        return start is not None and any(is_passed(one.stored) for one in self._between(name, start, end)[1:])

    def _copy(
        self, rows: Rows, read: tuple[Writer, int], start: str | None, end: str, *, again: tuple[str, ...] | None
    ) -> None:
        """Apply the changes between two states of a source, and those of a row that was read ahead."""
        writer, number = read
        after = self.by_commit[end].in_stream
        changes: list[tuple[Rows, Rows]] = [({}, after)]
        if start is not None:
            pairs = pairwise(self._between(writer.sources[number], start, end))
            changes = [(before.in_stream, now.in_stream) for before, now in pairs if not is_passed(now.stored)]
        changes += [({again: -1}, {again: after[again]} if again in after else {})] if again else []
        for before, now in changes:
            for key in before.keys() | now.keys():
                if before.get(key) != now.get(key) and _is_kept(key, writer.keeps):
                    rows.pop((writer.name, str(number), *key), None)
                    if key in now:
                        rows[writer.name, str(number), *key] = now[key]

    def _copy_ahead(self, rows: Rows, writer: Writer, number: int, name: str, end: str) -> tuple[str, ...] | None:
        """Apply one of the changes behind the last snapshot that is read whole, and give its key; None for none."""
        snapshots = self.tables[name].snapshots
        at = next(at for at, one in enumerate(snapshots) if one.commit == end)
        has_more = at + 1 < len(snapshots) and not is_passed(snapshots[at + 1].stored)
        new = sorted((snapshots[at + 1].in_stream.items() - snapshots[at].in_stream.items()) if has_more else [])
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
        key = self.tables[name].key
        return TableSource(
            table=key.uuid,
            uuid=key.uuid,
            branch=key.branch,
            mode=mode,
            start=versions[0],
            end=versions[1],
            is_exact=is_exact,
        )

    def _statement(self, name: str, rows: Rows, parts: Parts, kind: CommitKind) -> None:
        source = self.choose.choice(self._before(name))
        if not self.tables[source].snapshots:
            return
        newest = self.tables[source].snapshots[-1]
        user = f"statement{next(self._numbers)}"
        is_overwrite = kind is CommitKind.OVERWRITE
        operation = "OVERWRITE" if is_overwrite else "WRITE"
        found = self._source(source, None, newest.commit, mode=ReadMode.BATCH)
        lineage = BatchLineage(operation=operation, sources=[found])
        batch = CommittedBatch(user=user, identifier=BATCH_COMMIT_IDENTIFIER, lineage=lineage)
        made = self.made_of((user, 0), newest.in_batch)
        commit = Commit(kind=kind, operation=operation, batch=batch, replaces_all=is_overwrite)
        self._commit(name, {**rows, **made}, {**parts, (user, 0): Part(source, newest.version)}, commit)

    def _rewind(self, name: str) -> None:
        """The writers of a table go on, or are set back to what the table shows now, or begin anew."""
        parts = self._parts(name)
        for writer in self.writers:
            if writer.sink == name and self.choose.random() < 0.5:
                reads = [parts.get((writer.name, number)) for number in range(len(writer.sources))]
                commits = [None if part is None else part.version for part in reads]
                if all(part is None or part.ahead is None for part in reads):
                    writer.progress = commits

    def _is_foreign(self, name: str) -> bool:
        """Whether another engine writes by hand."""
        return self.choose.random() < (0.15 if self._main(name) in self.roots else 0.5)

    def _carried(self, name: str) -> CarriedProperties:
        """The properties that the next commit of a table carries on."""
        stored = [one.stored for one in self.living(name)]
        return Living(stored).carried(stored[-1] if stored else None)

    def _commit(self, name: str, rows: Rows, parts: Parts, commit: Commit, files: Files | None = None) -> None:
        table = self.tables[name]
        newest = table.snapshots[-1] if table.snapshots else None
        before = None if newest is None else newest.stored
        uuid = f"{name}-{next(self._numbers)}"
        stored = committed(
            table.key,
            [one.stored for one in self.living(name)],
            commit,
            uuid=uuid,
            time_millis=next(self._numbers),
            changes_rows=newest is None or newest.rows != rows,
            has_changelog=table.has_changelog,
        )
        if commit.replaces_all:
            self.replacing.add(uuid)
        version = uuid if newest is None or stored.changes_rows(before) else newest.version
        old = () if newest is None else newest.files
        if table.kind == "plain":
            files = ()
        elif files is None:
            is_overwrite = commit.kind is CommitKind.OVERWRITE
            there = {} if is_overwrite or newest is None else newest.rows
            files = (*(() if is_overwrite else old), *written(dict(rows.items() - there.items())))
        self.files[uuid], self.files_before[uuid] = files, old
        _, hides, gives = KINDS[table.kind]
        merged = rows_of(files, level_min=1)
        in_batch, in_stream = (merged if is_late else rows for is_late in (hides, gives))
        found = Snapshot(stored.id, uuid, version, rows, parts, stored, in_batch, in_stream, files)
        table.snapshots.append(found)
        self.by_commit[uuid] = found


def sources_in(snapshots: Sequence[Snapshot]) -> set[str]:
    """The tables that snapshots were made from."""
    return {part.source for one in snapshots for part in one.parts.values()}


def _is_kept(key: tuple[str, ...], keeps: int) -> bool:
    return keeps == 1 or (key[-1].isdigit() and int(key[-1]) % keeps == 0)
