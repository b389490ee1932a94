"""Random histories of a table with tags and branches, cut off at any call: what is named is kept, and nothing else.

The model is a dict of dicts: of each line (the table and its branches) the rows, and of each tag its snapshot and rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakelog.catalog.table import Table
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.snapshot import CommitKind
from lakelog.filestore.table import FileStoreTable
from tests.support.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.referenced import files_on_disk, referenced_files
from tests.support.small_tables import SCHEMA, UNSYNCED, in_new_process, make_table

DAY = 24 * 3_600_000
MAIN = "main"
TAGS = ("t0", "t1", "t2")
BRANCHES = ("b0", "b1")
TAKING = ("fast_forward", "merge_branch", "replace_main")
Rows = dict[int, int]


@dataclass(frozen=True)
class Tagged:
    snapshot_id: int
    rows: Rows


@dataclass
class Line:
    """What one of the table and its branches holds."""

    rows: Rows = field(default_factory=dict)
    tags: dict[str, Tagged] = field(default_factory=dict)
    fork: Rows | None = None  # of a branch: what it had in common with the table last


Model = dict[str, Line]


@dataclass(frozen=True)
class Step:
    """One verb, its choices, and the call at which its process dies."""

    verb: int
    line: int
    name: int
    other: int
    fails_at: int | None
    after_effect: bool


steps = st.builds(
    Step,
    verb=st.integers(0, 63),
    line=st.integers(0, 7),
    name=st.integers(0, 7),
    other=st.integers(0, 7),
    fails_at=st.none() | st.integers(1, 60),
    after_effect=st.booleans(),
)


class History:
    """A table, and what it must hold."""

    def __init__(self, folder: str, options: dict[str, str]) -> None:
        self.path = make_table(folder, options=options).path
        self.model: Model = {MAIN: Line()}
        self.written = 0
        self.earlier: list[Rows] = []  # what the table has shown

    def opened(self, file_io: FileIO = UNSYNCED) -> Table:
        return Table(in_new_process(self.path, file_io))

    def shown(self) -> dict[str, tuple[Rows, dict[str, Rows]]]:
        table = self.opened()
        names = [MAIN, *(branch.name for branch in table.branches())]
        return {name: (rows_of(table.branch(name)), tagged_rows(table.branch(name))) for name in names}

    def run(self, step: Step) -> None:
        act, wanted = self.planned(step)
        faulty = FaultyFileIO(UNSYNCED, fails_at=step.fails_at, after_effect=step.after_effect)
        before, after = expected(self.model), expected(wanted)
        try:
            act(self.opened(faulty))
        except InjectedCrash:
            # Of a rename that is cut off, the branch has neither name until the next call.
            both = {name: held for name, held in before.items() if after.get(name) == held}
            found = self.shown()
            if self.verb_of(step) in TAKING and found[MAIN][0] in self.earlier:
                found[MAIN] = before[MAIN]  # a table whose newest snapshots are deleted, one by one, shows earlier ones
            assert found in (before, after, both), f"{step}: neither before nor after"
            clean(self.opened())  # what was cut off is finished, or taken back
            if (found := self.shown()) == before != after:
                return
            assert found == after, f"{step}: neither before nor after a clean"
        self.model = wanted
        self.earlier.append(wanted[MAIN].rows)
        self.take_tag_ids()
        assert self.shown() == after, f"{step}"

    def verb_of(self, step: Step) -> str:
        return VERBS[step.verb % len(VERBS)]

    def take_tag_ids(self) -> None:
        """A tag is of the snapshot that the table says."""
        table = self.opened()
        for name, line in self.model.items():
            for tag, held in line.tags.items():
                if held.snapshot_id == 0:
                    line.tags[tag] = Tagged(table.tag(tag, branch=name).snapshot.id, held.rows)

    def planned(self, step: Step) -> tuple[Callable[[Table], object], Model]:
        """What to call, and the model after it. A verb that cannot be asked for is a write."""
        wanted = copy.deepcopy(self.model)
        name = sorted(wanted)[step.line % len(wanted)]
        line = wanted[name]
        tag, branch = TAGS[step.name % len(TAGS)], BRANCHES[step.other % len(BRANCHES)]
        verb = self.verb_of(step)
        if verb == "compact":
            return lambda table: table.branch(name).compact(full=step.other % 2 == 0), wanted
        if verb == "expire" and line.rows:
            return lambda table: table.branch(name).expire_snapshots(
                retain_min=1, retain_max=1, older_than="0 s"
            ), wanted
        if verb == "clean":
            return clean, wanted
        if verb == "tag" and tag not in line.tags and line.rows:
            line.tags[tag] = Tagged(0, dict(line.rows))
            return lambda table: table.create_tag(tag, branch=name), wanted
        if verb == "replace tag" and tag in line.tags:
            line.tags[tag] = Tagged(0, dict(line.rows))
            return lambda table: table.replace_tag(tag, branch=name), wanted
        if verb == "untag" and tag in line.tags:
            del line.tags[tag]
            return lambda table: table.delete_tag(tag, branch=name), wanted
        if verb == "branch" and branch not in wanted:
            main = wanted[MAIN]
            if tag in main.tags:
                held = main.tags[tag]
                wanted[branch] = Line(dict(held.rows), {tag: held}, dict(held.rows))
                return lambda table: table.create_branch(branch, tag=tag), wanted
            wanted[branch] = Line(dict(main.rows), {}, dict(main.rows))
            return lambda table: table.create_branch(branch), wanted
        if verb == "rename branch" and branch in wanted and (new := BRANCHES[(step.other + 1) % 2]) not in wanted:
            wanted[new] = wanted.pop(branch)
            return lambda table: table.rename_branch(branch, new), wanted
        if verb == "delete branch" and branch in wanted:
            del wanted[branch]
            return lambda table: table.delete_branch(branch), wanted
        if verb == "restore" and tag in line.tags:
            line.rows = dict(line.tags[tag].rows)
            return lambda table: table.branch(name).restore(tag=tag), wanted
        if verb == "rollback" and tag in line.tags:
            target = line.tags[tag]
            line.rows = dict(target.rows)
            line.tags = {one: held for one, held in line.tags.items() if held.snapshot_id <= target.snapshot_id}
            return lambda table: table.branch(name).rollback(tag=tag), wanted
        if verb == "merge" and branch in wanted and wanted[branch].fork is not None:
            return self.merge(wanted, branch), wanted
        if verb in TAKING and branch in wanted and self.may_take(verb, branch):
            self.take(wanted, branch, verb)
            return lambda table: getattr(table, verb)(branch), wanted
        return self.write(line, name, step), wanted

    def may_take(self, verb: str, branch: str) -> bool:
        """A branch without snapshots gives nothing; a fast-forward is of a table that has no row since."""
        table = self.opened()
        [fork] = [one.snapshot_id or 0 for one in table.branches() if one.name == branch]
        newer = [one for one in table.snapshots() if one.id > fork and one.commit_kind is not CommitKind.COMPACT]
        return table.branch(branch).snapshot() is not None and (verb != "fast_forward" or not newer)

    def take(self, wanted: Model, branch: str, verb: str) -> None:
        """The table has the branch's rows, and its tags since it began beside those up to there."""
        main, other = wanted[MAIN], wanted[branch]
        [fork] = [one.snapshot_id or 0 for one in self.opened().branches() if one.name == branch]
        main.rows = dict(other.rows)
        older = {tag: held for tag, held in main.tags.items() if held.snapshot_id <= fork}
        main.tags = older | {tag: held for tag, held in other.tags.items() if held.snapshot_id > fork}
        other.fork = dict(other.rows)
        if verb == "replace_main":
            del wanted[branch]

    def merge(self, wanted: Model, branch: str) -> Callable[[Table], object]:
        """What the branch changed since its fork, or since the last merge, is taken; the branch wins a conflict."""
        main, other = wanted[MAIN], wanted[branch]
        for key in {*other.rows, *(other.fork or {})}:
            if other.rows.get(key) != (other.fork or {}).get(key):
                main.rows.pop(key, None)
                if key in other.rows:
                    main.rows[key] = other.rows[key]
        other.fork = dict(other.rows)
        return lambda table: table.merge_changes(branch, on_conflict="branch")

    def write(self, line: Line, name: str, step: Step) -> Callable[[Table], object]:
        self.written += 1
        if step.other == 7 and step.name in line.rows:
            del line.rows[step.name]
            return lambda table: table.branch(name).delete(f"id = {step.name}")
        rows = dict.fromkeys({step.name, step.other, 10 + self.written % 3}, self.written)
        line.rows |= rows
        return lambda table: table.branch(name).write(pa.table([list(rows), list(rows.values())], schema=SCHEMA))


VERBS = (
    *("write",) * 6,
    *("compact",) * 3,
    *("expire",) * 3,
    *("clean",) * 2,
    *("tag",) * 4,
    *("branch",) * 3,
    "replace tag",
    "untag",
    "untag",
    "rename branch",
    "delete branch",
    "restore",
    "restore",
    "rollback",
    *("merge",) * 3,
    *TAKING,
    "merge_branch",
)


def rows_of(table: Table, tag: str | None = None) -> Rows:
    rows = table.to_arrow(tag=tag)
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def tagged_rows(table: Table) -> dict[str, Rows]:
    return {tag.name: rows_of(table, tag.name) for tag in table.tags() if tag.name in TAGS}


def expected(model: Model) -> dict[str, tuple[Rows, dict[str, Rows]]]:
    return {name: (line.rows, {tag: held.rows for tag, held in line.tags.items()}) for name, line in model.items()}


def expire(table: Table) -> None:
    table.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")


def clean(table: Table) -> None:
    files = FileStoreTable.open(table.path, table._files.file_io)
    files.remove_orphan_files(older_than_millis=-DAY, dry_run=False, allow_young=True)


KINDS: dict[str, dict[str, str]] = {"merged": {}, "changelog": {"changelog-producer": "lookup"}}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a history is shrunk for minutes, and read as it is found
histories = st.lists(steps, min_size=6, max_size=24)


def run_history(kind: str, history: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        run = History(folder, KINDS[kind])
        for step in history:
            run.run(step)
        for name in run.model:  # also what an expiry has begun
            expire(run.opened().branch(name))
        clean(run.opened())
        assert run.shown() == expected(run.model)
        assert files_on_disk(run.path) == referenced_files(run.path)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, phases=PHASES)
@given(history=histories)
def test_every_line_and_tag_reads_what_it_read_and_no_file_is_lost_or_left(kind: str, history: list[Step]) -> None:
    run_history(kind, history)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=250, phases=PHASES)
@given(history=histories)
def test_many_histories_of_tags_and_branches(kind: str, history: list[Step]) -> None:
    run_history(kind, history)
