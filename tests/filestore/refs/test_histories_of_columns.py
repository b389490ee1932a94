"""Random histories of a table and its branches whose columns change, beside a model.

Each state reads as it was committed, and any two differ in the rows in which the model says so.

The model is the rows of each commit, by its uuid. A column is renamed for one write and gets its name back, and columns
are added, on each line by itself: so the number of a schema means other columns on each line. Most rows stay in files
that all lines share. Lines are also rolled back and fast-forwarded by another engine.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.filestore.alter.schema_changes import AddColumn, RenameColumn
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.metadata.tables.forks import read_fork
from lakelog.filestore.metadata.tables.identity import check_schema
from lakelog.filestore.refs import branch_list, create_branch, delete_branch
from lakelog.filestore.refs.states.differences import differences
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import restore, rollback
from tests.support.examples import in_full
from tests.support.tables.altered import altered
from tests.support.tables.foreign_engine import fast_forward_as_others_do, roll_back_as_others_do
from tests.support.tables.small_tables import UNSYNCED, in_new_process
from tests.support.tables.taken_over import take_over

Rows = Counter[tuple[int, int]]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
KINDS: Mapping[str, tuple[Sequence[str], dict[str, str]]] = {
    "key": (["id"], {"bucket": "1"}),
    "lookup": (["id"], {"bucket": "1", "changelog-producer": "lookup"}),
    "deletion vectors": (["id"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "dynamic buckets": (["id"], {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
    "append-only": ([], {"bucket": "-1"}),
    "append-only, fixed buckets": ([], {"bucket": "2", "bucket-key": "id"}),
    "value count": ([], {"bucket": "1", "bucket-key": "id", "write-mode": "change-log"}),
}
OF_THE_GATE = ("key", "append-only")  # all with `--full`, and longer
MAIN, BRANCHES, KEYS = "main", ("b0", "b1"), 40
MOVES = (
    *("write", "rename and write", "compact", "overwrite") * 2,
    *("add", "branch", "delete branch", "rollback", "restore", "merge_branch", "replace_main", "fast_forward"),
    *("rollback of another engine", "fast-forward of another engine"),
)
# From the first question on a number of a schema means other columns, or none, in another line; or it was given twice.
BEGINNINGS: Sequence[Sequence[tuple[str, str]]] = (
    [],
    [("rename and write", BRANCHES[0])],
    [("rename and write", MAIN)],
    [("rename and write", MAIN), ("merge_branch", MAIN), ("write", BRANCHES[0]), ("merge_branch", MAIN)],
)


class History:
    """A table, its branches, and the rows of each commit."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        keys, options = KINDS[kind]
        self.dice = random.Random(f"{kind} {seed}")
        self.moves: list[str] = []
        self.number = self.questions = 0
        self.states: dict[str | None, Rows] = {}
        self.is_fast_forwarded = False  # by another engine: it deletes schemas of snapshots that it keeps
        table = FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys=keys, options=options), UNSYNCED)
        self.path = table.path
        table.write(self.rows(table, range(KEYS)))
        table.compact(full=True)
        if begin := BEGINNINGS[seed % len(BEGINNINGS)]:
            create_branch(table, BRANCHES[0])
            for verb, name in begin:
                self.move(verb, name, BRANCHES[0])

    def line(self, name: str) -> FileStoreTable:
        return in_new_process(self.path).on_branch(None if name == MAIN else name)

    def lines(self) -> list[str]:
        return [MAIN, *(branch.name for branch in branch_list(in_new_process(self.path)))]

    def rows(self, line: FileStoreTable, ids: Sequence[int]) -> pa.Table:
        """A row for each key, null in the columns that came later."""
        self.number += 1
        shape = line.schema.arrow_schema
        columns = [list(ids), [self.number] * len(ids), *([[None] * len(ids)] * (len(shape) - 2))]
        return pa.table(columns, schema=shape)

    def readable(self, line: FileStoreTable) -> list[Snapshot]:
        """The living snapshots, but for those whose schema another engine has deleted: reading them is an error."""
        found = []
        for number in line.snapshots.ids():
            snapshot = line.snapshots.get(number)
            try:
                check_schema(line, snapshot)
                found.append(snapshot)
            except (CorruptDataError, NotFoundError):
                self.check(self.is_fast_forwarded)
        return found

    def with_own_name(self) -> list[int]:
        """The snapshots of the table whose column has its own name: columns of two lines are compared by name."""
        table = in_new_process(self.path)
        return [one.id for one in self.readable(table) if "v" in table.schemas.get(one.schema_id).field_names]

    def any_move(self) -> None:
        self.move(self.dice.choice(MOVES), self.dice.choice(self.lines()), self.dice.choice(BRANCHES))

    def move(self, verb: str, name: str, branch: str) -> None:
        self.moves.append(f"{verb} {name} {branch}")
        line = self.line(name)
        has_branch = branch in self.lines()
        ids = self.dice.sample(range(KEYS), self.dice.randint(1, 3))
        match verb:
            case "write":
                line.write(self.rows(line, ids))
            case "overwrite":
                line.write(self.rows(line, self.dice.sample(range(KEYS), KEYS)), mode="overwrite")
            case "rename and write":
                renamed = altered(line, RenameColumn("v", "w"))
                renamed.write(self.rows(renamed, ids))
                altered(renamed, RenameColumn("w", "v"))
            case "compact":
                line.compact(full=self.dice.random() < 0.3)
            case "add" if not line.schema.is_change_log:  # the whole row is its key
                altered(line, AddColumn(f"c{len(self.moves)}", "INT"))
            case "branch" if not has_branch:
                number = self.dice.choice(self.with_own_name())
                # A fast-forward of another engine brings the branch's hint EARLIEST: older snapshots count as expired.
                with contextlib.suppress(*[NotFoundError] * self.is_fast_forwarded):
                    create_branch(in_new_process(self.path), branch, snapshot_id=number)
            case "delete branch" if has_branch:
                delete_branch(in_new_process(self.path), branch)
            case "rollback" | "restore":
                oldest = read_hint(line.file_io, line.paths.earliest_hint) or 0 if verb == "restore" else 0
                # A restore tags its snapshot; before the hint of another engine it counts as expired: docs/limits.md.
                if there := [one for one in self.readable(line) if one.id >= oldest]:
                    target = self.dice.choice(there)
                    (rollback if verb == "rollback" else restore)(line, snapshot_id=target.id)
                    self.check(shown(self.line(name)) == self.states[target.uuid])
            case "rollback of another engine":
                target = self.dice.choice(self.readable(line))
                roll_back_as_others_do(line, target.id)
                self.check(shown(self.line(name)) == self.states[target.uuid])
            case "fast-forward of another engine" if has_branch:
                wanted = shown(self.line(branch))
                fast_forward_as_others_do(in_new_process(self.path), branch)
                self.is_fast_forwarded = True
                self.check(shown(self.line(MAIN)) == wanted)
            case "merge_branch" | "replace_main" | "fast_forward" if has_branch:
                self.take(verb, branch)

    def take(self, verb: str, branch: str) -> None:
        """The table has the branch's rows then. A fast-forward is refused where rows would be lost."""
        before, wanted = shown(self.line(MAIN)), shown(self.line(branch))
        fork = read_fork(in_new_process(self.path), branch)
        try:
            take_over(in_new_process(self.path), verb, branch)
        except ConflictError:
            assert verb == "fast_forward", self.moves
            return
        self.check(shown(self.line(MAIN)) == wanted)
        self.check(verb != "fast_forward" or (fork is not None and before == self.states[fork.commit_uuid]))

    def check(self, holds: bool) -> None:
        self.questions += 1
        assert holds, self.moves

    def ask(self) -> None:
        """Each living snapshot reads as its commit; the newest of two lines, and others, differ as their commits."""
        found: list[TableState] = []
        for name in self.lines():
            line = self.line(name)
            for snapshot in self.readable(line):
                rows = shown(line, snapshot_id=snapshot.id)
                self.check(self.states.setdefault(snapshot.uuid, rows) == rows)
                found.append(TableState(table=line, snapshot=snapshot))
        newest = [TableState(table=line, snapshot=line.snapshots.latest()) for line in map(self.line, self.lines())]
        pairs_of_lines = list(permutations(newest, 2))[:2]
        for before, after in [*pairs_of_lines, *([self.dice.choice(found), self.dice.choice(found)] for _ in range(3))]:
            self.check(self.difference(before, after) == self.wanted(before, after))

    def wanted(self, before: TableState, after: TableState) -> tuple[Rows, Rows]:
        old, new = (self.states[one.snapshot.uuid] for one in (before, after) if one.snapshot is not None)
        return new - old, old - new

    def difference(self, before: TableState, after: TableState) -> tuple[Rows, Rows]:
        fields = [field for field in after.table.schema.fields if field.name in SCHEMA.names]
        added, removed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for one in differences(before, after, fields):
            for rows in (one.added, one.new):
                added += pairs(rows)
            for rows in (one.removed, one.old):
                removed += pairs(rows)
        return added, removed


def pairs(rows: pa.Table) -> Rows:
    return Counter(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))


def shown(table: FileStoreTable, snapshot_id: int | None = None) -> Rows:
    return pairs(table.to_arrow(snapshot_id=snapshot_id))


def run(folder: Path, kind: str, seeds: range) -> int:
    questions = 0
    for seed in seeds:
        history = History(folder / str(seed), kind, seed)
        history.ask()
        for _ in range(history.dice.randint(6, 16)):
            history.any_move()
            history.ask()
        questions += history.questions
    return questions


@pytest.mark.parametrize("kind", OF_THE_GATE)
def test_states_of_lines_with_other_columns_read_and_differ_as_committed(tmp_path: Path, kind: str) -> None:
    assert run(tmp_path, kind, range(len(BEGINNINGS))) > 100


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", KINDS)
def test_many_states_of_lines_with_other_columns_read_and_differ_as_committed(tmp_path: Path, kind: str) -> None:
    seeds = range(100, 100 + in_full(60))
    print(f"{kind}: {len(seeds)} histories, {run(tmp_path, kind, seeds)} questions")
