"""Random histories of real tables, of whose rows a model knows from which commits they came.

The model has the rows of each commit, with all commits that each row was made from, and the commit that each one came
after. A row that was deleted one by one stays as a shadow: nobody knows which rows it stood for, so that what holds it
counts as tainted. An overwrite, a truncate, and of its partitions an overwrite of partitions, take shadows out too; a
mend takes a wrong commit out of all rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar  # Any: values of edges

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError
from lakelog.common.types import RowKind
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.origins.cleared_rows import Clears, clears_properties
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows
from lakelog.lineage import feed, known_edges, made_from, mended
from tests.support.lineage.lineage_jobs import commit_rows, read_of
from tests.support.lineage.lineage_records import LINEAGE_ON
from tests.support.tables.foreign_engine import fast_forward_as_others_do, roll_back_as_others_do

SCHEMA = pa.schema(
    [pa.field("part", pa.int64(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
)
PARTS = 2
TABLES = ("a", "b", "c", "d")
BRANCHES = ("x", "y", "z")  # a name is given again


@dataclass(frozen=True)
class Row:
    """A row of the model; `is_there` is False for a shadow."""

    part: int
    value: int
    origins: frozenset[str]
    is_there: bool = True


State = dict[int, Row]
Value = TypeVar("Value")


@dataclass
class Commit:
    """A commit of the model: the rows that it wrote, those of its snapshot, and the commit before it."""

    id: int
    uuid: str
    before: str | None
    added: State
    state: State
    edges: list[dict[str, Any]] = field(default_factory=list)
    restored: str | None = None  # of a restore: the commit that it brought back
    clears: bool = False  # rows went as a whole
    base: str | None = None  # of a statement: the commit that it was worked out on


class RowHistory:
    """Tables of which each is made from those before it, and their branches.

    With `has_statements` rows are also taken out as statements through a log do it: worked out on an older snapshot,
    and committed behind others.
    """

    def __init__(self, folder: Path, seed: int, *, has_statements: bool = False) -> None:
        self.has_statements = has_statements
        self.choose = random.Random(seed)
        self.catalog = Catalog(folder, options=LINEAGE_ON)
        self.commits: dict[str, Commit] = {}
        self.has_partitions = self.choose.random() < 0.4
        self.gave_way = False  # whether snapshots were taken out of a line, by a rollback or a branch in its place
        self.is_exact = True  # whether an answer names nothing too much, see `step` and `_merge_changes`
        self.events: list[str] = []
        self.names = [f"db.{name}" for name in TABLES]
        self._numbers = count(1)
        self._taken_by_others: set[str] = set()  # tables in whose place another engine has put a branch
        self._forks: dict[str, str | None] = {}  # the commits at which branches began
        self._merges: dict[str, list[tuple[str, str | None]]] = {}  # of branches: a merge's commit, and what it merged
        for name in self.names:
            self.catalog.create_table(
                name,
                schema=SCHEMA,
                primary_keys=["part", "id"],
                partition_keys=["part"] if self.has_partitions else [],
                options={"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"},
            )
            self._write(self.catalog.load_table(name))
        feed(self.catalog)

    # What is known.

    def lines(self) -> Iterator[Table]:
        """All tables and branches."""
        for name in self.names:
            table = self.catalog.load_table(name)
            yield table
            yield from (table.branch(one.name) for one in table.branches.list())

    def newest(self, table: Table) -> Commit | None:
        """The newest commit of a line."""
        snapshot = table.store.snapshots.latest()
        return None if snapshot is None or snapshot.uuid is None else self.commits[snapshot.uuid]

    def path(self, commit: Commit | None) -> list[Commit]:
        """A commit and all before it, the newest first."""
        found = []
        while commit is not None:
            found.append(commit)
            commit = None if commit.before is None else self.commits[commit.before]
        return found

    def living(self) -> dict[str, list[Commit]]:
        """The living commits of each line, oldest first, by its name."""
        return {
            table.name: [self.commits[one.uuid] for one in table.store.snapshots.living() if one.uuid is not None]
            for table in self.lines()
        }

    def has_guesses(self) -> bool:
        """Whether lineage has to guess which snapshot one that does not live any more came after, or has to give up.

        It knows those that live, those with edges, and those that edges name. Of several that gave way and that have
        the number before, which none of these has, the newest is taken. It gives up on statements of which it does not
        know all snapshots behind their base. One that gave way and that edges name as a source alone may have rewritten
        the rows before it.
        """
        living = {one.uuid for found in self.living().values() for one in found}
        edges = [edge for one in self.commits.values() for edge in one.edges]
        named = {edge[side] for edge in edges for side in ("source_to_commit", "source_from_commit")}
        known = {one.uuid for one in self.commits.values() if one.edges or one.uuid in named}
        known |= living
        for one in self.commits.values():
            since = [] if one.base is None else [before.uuid for before in self.path(one)[1:]]
            if one.base is not None and not known.issuperset(since[: since.index(one.base)]):
                return True
        if any(not self.commits[uuid].edges for uuid in known - living):
            return True
        if self._taken_by_others:  # and when is not known
            return True
        gone = (self.commits[uuid] for uuid in known - living)
        return self.gave_way and any(one.before is not None and one.before not in known for one in gone)

    # What happens.

    def step(self) -> str:
        """One event, by its name.

        Of a snapshot that a rollback, a branch in its place or the deletion of its branch took out it is not known that
        it had cleared rows, unless edges say so: then rows that were read behind it count as what was there before, and
        so do those of a branch that began behind it.
        """
        events: list[tuple[int, Callable[[Table], None]]] = [
            (6, self._write),
            (10, self._copy),
            (10, self._follow),
            (2, self._overwrite),
            (1, self._truncate),
            (2, self._delete),
            (2, self._update),
            (2, self._restore),
            (2, self._roll_back),
            (3, self._fork),
            (3, self._merge_changes),
            (2, self._take_branch),
            (1, self._delete_branch),
            (1, self._rename),
            (1, self._roll_back_by_others),
            (1, self._take_branch_by_others),
            (2, self._expire),
            (1, self._mend),
        ]
        if self.has_partitions:
            events.append((3, self._overwrite_partitions))
        if self.has_statements:
            events.append((6, self._overwrite_by_statement))
        ((_, event),) = self.choose.choices(events, [weight for weight, _ in events])
        line = self.choose.choice(list(self.lines()))
        before, cleared = set(self.commits), self._clearing()
        event(line)
        self.is_exact = self.is_exact and cleared <= self._clearing()
        self.events.append(f"{event.__name__} {line.name} {sorted(self.commits.keys() - before)}")
        return event.__name__

    def _rows(self, parts: int | None = None) -> dict[int, tuple[int, int]]:
        numbers = [next(self._numbers) for _ in range(self.choose.choice([1, 2, 3]))]
        part = self.choose.randrange(PARTS) if parts is None else parts
        return {number: (part, number) for number in numbers}

    def _write(self, table: Table) -> None:
        rows, state = self._rows(), self._state(table)
        self._put(table, table.write(arrow(rows)), own(rows), state)

    def _overwrite(self, table: Table) -> None:
        rows = self._rows()
        self._put(table, table.write(arrow(rows), mode="overwrite"), own(rows), {}, clears=True)

    def _overwrite_partitions(self, table: Table) -> None:
        rows = self._rows()
        parts = {part for part, _ in rows.values()}
        state = {number: row for number, row in self._state(table).items() if row.part not in parts}
        snapshot = table.write(arrow(rows), mode="overwrite-partitions")
        self._put(table, snapshot, own(rows), state, clears=True)

    def _overwrite_by_statement(self, table: Table) -> None:
        """An overwrite that was worked out on an older snapshot: what was written since stays.

        Of a row of that snapshot that was written again since nobody knows what is left: it is a shadow.
        """
        newest = self.newest(table)
        if newest is None:
            return
        base = self.choose.choice(self.living()[table.name][-4:])
        self.is_exact = self.is_exact and self._is_line(newest, base.uuid)
        rows, state = self._rows(), dict(newest.state)
        parts = {part for part, _ in rows.values()} if self.has_partitions and self.choose.random() < 0.5 else None
        taken = {number: row for number, row in base.state.items() if parts is None or row.part in parts}
        for number, row in taken.items():
            if number not in state or (not row.is_there and state[number].is_there):
                continue
            if state[number].origins <= row.origins:
                del state[number]
            else:
                state[number] = replace(state[number], is_there=False)
        snapshot = commit_statement(
            table, there(taken), rows, base=table.store.snapshots.get(base.id), is_whole=parts is None
        )
        self._put(table, snapshot, own(rows), state, clears=True, base=base.uuid)

    def _truncate(self, table: Table) -> None:
        snapshot = table.truncate()
        if snapshot is not None:
            self._put(table, snapshot, {}, {}, clears=True)

    def _delete(self, table: Table) -> None:
        there = [number for number, row in self._state(table).items() if row.is_there]
        if there:
            chosen = self.choose.choice(there)
            state = self._state(table)
            state[chosen] = replace(state[chosen], is_there=False)
            snapshot = table.delete(f"id = {chosen}")
            assert snapshot is not None
            self._put(table, snapshot, {}, state)

    def _update(self, table: Table) -> None:
        state = self._state(table)
        if any(row.is_there for row in state.values()):
            value = next(self._numbers)
            snapshot = table.update({"v": value})
            assert snapshot is not None
            self._put(table, snapshot, {number: replace(row, value=value) for number, row in state.items()}, state)

    def _copy(self, sink: Table) -> None:
        """A batch that reads a state of a table before it, or of a branch."""
        source, commit = self._source(sink)
        if commit is None:
            return
        made = self._made(sink, commit.state)
        state = self._state(sink)
        table = made_from(sink, f"{source.name}@{commit.id}", job="copy")
        self._put(sink, table.write(arrow(there(made))), made, state)

    def _follow(self, sink: Table) -> None:
        """A batch of a stream that has read a table up to some snapshot."""
        source, commit = self._source(sink)
        if commit is None:
            return
        living = {one.uuid for one in self.living()[source.name]}
        path = [one for one in self.path(commit)[1:] if one.uuid in living]
        start = self.choose.choice([None, *path])
        read: State = dict(commit.state) if start is None else {}
        for one in [] if start is None else self.path(commit):
            if one is start:
                break
            older = {number: with_origins(row, one.added.get(number)) for number, row in read.items()}
            read = {**one.added, **older}  # a row that was written twice was read twice
        made, state = self._made(sink, read), self._state(sink)
        source_read = read_of(source, start=None if start is None else start.id, end=commit.id)
        snapshot = commit_rows(sink, arrow(there(made)), source_read, user=f"job-{next(self._numbers)}")
        self._put(sink, snapshot, made, state)

    def _restore(self, table: Table) -> None:
        target = self.choose.choice(self.living()[table.name])
        oldest = read_hint(table.store.file_io, table.store.paths.earliest_hint)
        if oldest is not None and target.id < oldest:  # another engine has brought the hint of a branch: docs/limits.md
            return
        restored = table.restore(snapshot_id=target.id)
        if restored.snapshot is not None:
            state = dict(target.state)
            self._put(table, restored.snapshot, state, state, restored=target.uuid, clears=True)

    def _roll_back(self, table: Table) -> None:
        self.gave_way = True
        target = self.choose.choice(self.living()[table.name][-3:])
        table.upkeep.rollback(snapshot_id=target.id, force=True)

    def _fork(self, table: Table) -> None:
        main = self._main(table)
        if len(main.branches.list()) < len(BRANCHES) - 1:
            commit = self.choose.choice(self.living()[main.name])
            taken = {one.name for one in main.branches.list()}
            name = self.choose.choice([one for one in BRANCHES if one not in taken])
            try:
                main.branches.create(name, snapshot_id=commit.id)
            except NotFoundError:  # the other engine brings the branch's hint of the oldest snapshot
                return
            self._forks[f"{main.name}/{name}"] = commit.uuid
            self._merges.pop(f"{main.name}/{name}", None)

    def _merge_changes(self, table: Table) -> None:
        """A merge of what a branch has changed.

        Which rows a restore of a state from before the base has brought back, and which were there, is not known.
        """
        main, branch = self._main(table), self._a_branch(table)
        if branch is None or main.store.uuid in self._taken_by_others:  # the base is not where it was
            return
        key = f"{main.name}/{branch.store.branch}"
        base_id = self._base(main, key)
        base = {} if base_id is None else self.commits[base_id].state
        theirs, state = self._state(branch), self._state(main)
        head = self.newest(branch)
        try:
            merged = main.branches.merge(branch.store.branch).snapshot_id
        except (ConflictError, InvalidRequestError, NotFoundError):  # another engine may have deleted the base's tag
            return
        if merged is None:
            return
        self.is_exact = self.is_exact and self._is_line(head, base_id)
        changed = {number: row for number, row in theirs.items() if row.is_there and is_other(row, base.get(number))}
        shadows = {
            number: row
            for number, row in theirs.items()
            if not row.is_there and (number not in base or row.origins != base[number].origins)
        }
        for number, row in base.items():
            is_gone = number not in theirs or not theirs[number].is_there
            if row.is_there and is_gone and number in state:
                state[number] = replace(state[number], is_there=False)
        found = main.store.snapshots.get(merged)
        self._put(main, found, {**shadows, **changed}, {**state, **shadows, **changed})
        assert found.uuid is not None
        self._merges.setdefault(key, []).append((found.uuid, None if head is None else head.uuid))

    def _take_branch(self, table: Table) -> None:
        main, branch = self._main(table), self._a_branch(table)
        if branch is None:
            return
        name = branch.store.branch
        self.gave_way = True
        branches = main.branches
        verbs: list[Callable[[str], object]] = [
            branches.fast_forward,
            partial(branches.replace_newer, force=True),
            partial(branches.replace_main, force=True),
        ]
        verb = self.choose.choice(verbs)
        try:
            verb(name)
        except (ConflictError, InvalidRequestError):
            return
        head = self.newest(main)
        self._forks[f"{main.name}/{name}"] = None if head is None else head.uuid
        self._merges.pop(f"{main.name}/{name}", None)

    def _roll_back_by_others(self, table: Table) -> None:
        """Another engine does it, which feeds nothing. It would delete data files that a branch needs."""
        if self._main(table).branches.list():
            return
        self.gave_way = True
        target = self.choose.choice(self.living()[table.name][-3:])
        feed(self.catalog)
        roll_back_as_others_do(table.store, target.id)

    def _take_branch_by_others(self, table: Table) -> None:
        """Another engine does it, which feeds nothing, and writes no fork file."""
        main, branch = self._main(table), self._a_branch(table)
        if branch is None:
            return
        self.gave_way = True
        self._taken_by_others.add(main.store.uuid)
        feed(self.catalog)
        fast_forward_as_others_do(main.store, branch.store.branch)

    def _rename(self, table: Table) -> None:
        name = self._main(table).name
        other = f"{name}2" if len(name) == len("db.a") else name[:-1]
        self.catalog.rename_table(name, other)
        self.names[self.names.index(name)] = other
        self._forks, self._merges = renamed(self._forks, name, other), renamed(self._merges, name, other)

    def _delete_branch(self, table: Table) -> None:
        branch = self._a_branch(table)
        if branch is not None:
            self._main(table).branches.delete(branch.store.branch)

    def _expire(self, table: Table) -> None:
        table.upkeep.expire_snapshots(retain_min=1, retain_max=self.choose.choice([1, 2, 4]))

    def _mend(self, table: Table) -> None:
        wrong = self.choose.choice([(line, one) for line, found in self.living().items() for one in found])
        state = self._state(table)
        snapshot = mended(table, f"{wrong[0]}@{wrong[1].id}", by="ann")
        mend = {number: replace(row, origins=row.origins - {wrong[1].uuid}) for number, row in state.items()}
        self._put(table, snapshot, {}, mend, clears=True)

    # How it is kept.

    def _main(self, table: Table) -> Table:
        return self.catalog.load_table(table.name.partition("$")[0])

    def _base(self, main: Table, branch: str) -> str | None:
        """The commit up to which a branch is merged, or at which it began."""
        there = {one.uuid for one in self.path(self.newest(main))}
        merged = [head for merge, head in self._merges.get(branch, ()) if merge in there]
        return merged[-1] if merged else self._forks[branch]

    def _is_line(self, head: Commit | None, base: str | None) -> bool:
        """Whether a branch has gone from a base to its newest commit without a state from before."""
        uuids = [one.uuid for one in self.path(head)]
        if base is not None and base not in uuids:
            return False
        since = uuids if base is None else uuids[: uuids.index(base) + 1]
        return {self.commits[one].restored for one in since if one != base} <= {None, *since}

    def _clearing(self) -> set[str]:
        """The commits that have cleared rows, those of tables, and those of branches behind their beginnings."""
        found: set[str] = set()
        for line in self.lines():
            began = self._forks.get(f"{self._main(line).name}/{line.store.branch}")
            path = [one.uuid for one in self.path(self.newest(line))]
            own = path[: path.index(began) + 1] if began in path else path
            found |= {uuid for uuid in own if self.commits[uuid].clears}
        return found

    def _a_branch(self, table: Table) -> Table | None:
        main = self._main(table)
        branches = main.branches.list()
        return main.branch(self.choose.choice(branches).name) if branches else None

    def _state(self, table: Table) -> State:
        newest = self.newest(table)
        return {} if newest is None else dict(newest.state)

    def _source(self, sink: Table) -> tuple[Table, Commit | None]:
        """A line of a table before a sink, and one of its living commits."""
        place = self.names.index(self._main(sink).name)
        sources = [one for one in self.lines() if self.names.index(self._main(one).name) < place]
        if not sources:
            return sink, None
        source = self.choose.choice(sources)
        living = self.living()[source.name]
        return source, self.choose.choice(living[-3:]) if living else None

    def _made(self, sink: Table, read: State) -> State:
        """Rows of a sink that are made from rows."""
        return {
            next(self._numbers): Row(row.part, number, row.origins, is_there=row.is_there)
            for number, row in read.items()
        }

    def _put(
        self,
        table: Table,
        snapshot: Snapshot,
        added: State,
        state: State,
        *,
        restored: str | None = None,
        clears: bool = False,
        base: str | None = None,
    ) -> None:
        """Take a commit in, and compare the table's rows with the model's."""
        assert snapshot.uuid is not None
        before = table.store.snapshots.find(snapshot.id - 1)
        new = {number: replace(row, origins=row.origins | {snapshot.uuid}) for number, row in added.items()}
        rows = dict(state) if restored is not None else {**state, **new}
        commit = Commit(snapshot.id, snapshot.uuid, None if before is None else before.uuid, new, rows)
        commit.restored, commit.clears, commit.base = restored, clears, base
        edges = known_edges(self.catalog).to_pylist() if "lakelog.lineage" in snapshot.properties else []
        commit.edges = [edge for edge in edges if edge["sink_commit"] == snapshot.uuid and edge["source_kind"]]
        self.commits[snapshot.uuid] = commit
        found = {(row["part"], row["id"], row["v"]) for row in table.to_arrow(snapshot_id=snapshot.id).to_pylist()}
        assert found == {(row.part, number, row.value) for number, row in rows.items() if row.is_there}


def commit_statement(
    table: Table, taken: dict[int, tuple[int, int]], rows: dict[int, tuple[int, int]], *, base: Snapshot, is_whole: bool
) -> Snapshot:
    """The snapshot of an overwrite through a log: deletes of the rows of a base, then the new ones."""
    store = table.store
    kinds = pa.array([int(RowKind.DELETE)] * len(taken) + [int(RowKind.INSERT)] * len(rows), pa.int8())
    partitions = frozenset(entry.partition for entry in entries_of(store, arrow(rows), None))
    clears = Clears() if is_whole else Clears(partitions=partitions)

    def resolve(latest: Snapshot | None) -> CommitRequest:
        return CommitRequest(
            commit_user="statement",
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.APPEND,
            entries=entries_of(store, pa.concat_tables([arrow(taken), arrow(rows)]), kinds),
            properties=clears_properties(clears, base),
        )

    snapshot = TableCommit(store).commit(resolve)
    assert snapshot is not None
    return snapshot


def entries_of(store: FileStoreTable, rows: pa.Table, kinds: pa.Array | None) -> Sequence[ManifestEntry]:
    live = store.live_files.of(store.snapshots.latest())
    return write_rows(store, rows, kinds, first_sequence=live.next_sequence).entries


def own(rows: dict[int, tuple[int, int]]) -> State:
    """Rows that came from nowhere."""
    return {number: Row(part, value, frozenset()) for number, (part, value) in rows.items()}


def there(rows: State) -> dict[int, tuple[int, int]]:
    return {number: (row.part, row.value) for number, row in rows.items() if row.is_there}


def renamed(of_branches: dict[str, Value], name: str, other: str) -> dict[str, Value]:
    """What is known of branches where their table has another name."""
    return {
        f"{other}/{key.partition('/')[2]}" if key.startswith(f"{name}/") else key: value
        for key, value in of_branches.items()
    }


def with_origins(row: Row, other: Row | None) -> Row:
    """A row that was made from another one too."""
    return row if other is None else replace(row, origins=row.origins | other.origins)


def is_other(row: Row, before: Row | None) -> bool:
    return before is None or not before.is_there or row.value != before.value


def arrow(rows: dict[int, tuple[int, int]]) -> pa.Table:
    values = [(part, number, value) for number, (part, value) in rows.items()]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], schema=SCHEMA)
