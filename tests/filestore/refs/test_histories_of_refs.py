"""Random histories of a table with tags and branches, cut off at any call: what is named is kept, and nothing else.

The model is a dict of dicts: of each line (the table and its branches) the rows, and of each tag its snapshot and rows;
and of each commit that was ever seen its rows, whatever number it has now. Lines are rolled back, take each other's
place, and are rolled back, fast-forwarded and expired by another engine, while handles that were opened before go on
reading and writing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakelog.catalog.verbs.table import Table
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.forks import Fork, read_fork
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import remove_orphan_files
from tests.support.examples import examples, in_full
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.foreign_engine import (
    expire_as_others_do,
    fast_forward_as_others_do,
    foreign_snapshot,
    roll_back_as_others_do,
)
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, in_new_process, make_table

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
    commit: str | None = None


@dataclass
class Line:
    """What one of the table and its branches holds."""

    rows: Rows = field(default_factory=dict)
    tags: dict[str, Tagged] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)  # of the table: branch id -> the commit that was merged last
    is_rolled_back: bool = False  # of a branch: what was merged of it may be on it no more

    def tagged(self) -> Tagged:
        """A tag of the line as it is; its snapshot is known once it was made."""
        return Tagged(0, dict(self.rows))


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
    verb=st.integers(0, 46),
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
        self.has_changes_at_once = "changelog-producer" not in options
        self.keeps_changes = any(key.startswith("changelog.num-retained") for key in options)
        self.written = 0
        self.earlier: list[Rows] = []  # what the table has shown
        self.states: dict[str, Rows] = {}  # the rows of every commit
        self.merged_at: dict[str, dict[str, str]] = {}  # what the table had merged at a commit
        self.held: list[Table] = []  # handles that stay open
        self.questions = 0
        self.is_fast_forwarded = False  # by another engine: then a snapshot may be behind one of another line

    def opened(self, file_io: FileIO = UNSYNCED) -> Table:
        return Table(in_new_process(self.path, file_io))

    def shown(self) -> dict[str, tuple[Rows, dict[str, Rows]]]:
        table = self.opened()
        names = [MAIN, *(branch.name for branch in table.branches.list())]
        return {name: (rows_of(table.branch(name)), tagged_rows(table.branch(name))) for name in names}

    def run(self, step: Step) -> None:
        act, wanted = self.planned(step)
        faulty = FaultyFileIO(UNSYNCED, fails_at=step.fails_at, after_effect=step.after_effect)
        before, after = expected(self.model), expected(wanted)
        try:
            try:
                act(self.opened(faulty))
            except InjectedCrash:
                if self.verb_of(step) not in ("expire", "rollback"):
                    raise
                act(
                    self.opened()
                )  # the next call finishes it: in between one snapshot is half deleted, or an older one shown
        except (ConflictError, InvalidRequestError, NotFoundError) as error:
            self.check_refusal(step, error)
            wanted, after = self.model, before
        except InjectedCrash:
            # Of a rename that is cut off, the branch has neither name until the next call.
            both = {name: held for name, held in before.items() if after.get(name) == held}
            found = self.shown()
            if self.verb_of(step) in TAKING and found[MAIN][0] in self.earlier:
                found[MAIN] = before[MAIN]  # a table whose newest snapshots are deleted, one by one, shows earlier ones
            assert found in (before, after, both), f"{step}: neither before nor after"
            clean(self.opened())  # what was cut off is finished, or taken back
            if (found := self.shown()) == before != after:
                self.take_commits()
                return
            assert found == after, f"{step}: neither before nor after a clean"
        self.model = wanted
        self.earlier.append(wanted[MAIN].rows)
        self.take_commits()
        self.take_tag_ids()
        assert self.shown() == after, f"{step}"
        self.ask_handles(step)

    def check_refusal(self, step: Step, error: LakelogError) -> None:
        """A refusal is one of those that must be: anything else is a verb that does not do its work."""
        verb, branch = self.verb_of(step), BRANCHES[step.other % len(BRANCHES)]
        if verb == "merge":
            assert self.model[branch].is_rolled_back or "has expired" in str(error), f"{step}: {error}"
        elif verb in TAKING:
            is_clash = "both have a tag" in str(error)
            assert isinstance(error, ConflictError), f"{step}: {error}"
            assert not is_clash or self.has_clash(branch), f"{step}: {error}"
            assert is_clash or verb == "fast_forward", f"{step}: {error}"
        else:
            assert verb == "rollback", f"{step}: {error}"
            assert "Use restore" in str(error), f"{step}: {error}"

    def take_commits(self) -> None:
        """The rows of the commits that the last step made."""
        table = self.opened()
        for name, line in self.model.items():
            for snapshot in table.branch(name).snapshots():
                assert snapshot.uuid is not None
                self.states.setdefault(snapshot.uuid, dict(line.rows))
                self.merged_at.setdefault(snapshot.uuid, dict(line.merged))

    def ask_handles(self, step: Step) -> None:
        """What handles from before read, of the table's newest snapshot and of one of its others."""
        newest = self.opened()
        living = [one for one in newest.snapshots() if one.uuid is not None]
        for handle in self.held if living else ():
            at = living[step.name % len(living)]
            found = handle.to_arrow(snapshot_id=at.id)
            assert at.uuid is not None
            assert as_rows(found) == self.states[at.uuid], f"{step}: snapshot {at.id}, in a handle from before"
            assert rows_of(handle) == self.model[MAIN].rows, f"{step}: in a handle from before"
            self.questions += 2
        if step.line == 0:
            self.held = [*self.held[-1:], newest]
            rows_of(newest)

    def check_every_snapshot(self) -> None:
        """Each living snapshot of each line reads as its commit, and its changes lead there or are refused.

        With a changelog producer they come with the next compaction.
        """
        for name in self.model:
            line = self.opened().branch(name)
            living = list(line.snapshots())
            for snapshot in living:
                assert snapshot.uuid is not None
                shown = as_rows(line.to_arrow(snapshot_id=snapshot.id))
                assert shown == self.states[snapshot.uuid], f"{name}, snapshot {snapshot.id}"
                self.questions += 1
            numbers = {one.id for one in living}
            expired = [one for one in changes_of_expired(line) if one.id not in numbers]
            known = sorted([*living, *expired], key=lambda one: one.id)
            for earlier, later in pairwise(known if self.has_changes_at_once else ()):
                assert earlier.uuid is not None
                assert later.uuid is not None
                led = followed(line, self.states[earlier.uuid], earlier.id, later.id)
                is_refused = led is None and name == MAIN and self.is_fast_forwarded
                assert is_refused or later.id == earlier.id + 1, f"{name}: {earlier.id} and {later.id} have a gap"
                assert is_refused or led == self.states[later.uuid], f"{name}, changes {earlier.id}..{later.id}"
                self.questions += 1

    def verb_of(self, step: Step) -> str:
        return VERBS[step.verb % len(VERBS)]

    def take_tag_ids(self) -> None:
        """A tag is of the snapshot that the table says."""
        table = self.opened()
        for name, line in self.model.items():
            for tag, held in line.tags.items():
                if held.snapshot_id == 0:
                    found = table.tags.get(tag, branch=name).snapshot
                    line.tags[tag] = replace(held, snapshot_id=found.id, commit=found.uuid)

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
            return lambda table: table.branch(name).upkeep.expire_snapshots(
                retain_min=1 + step.other % 3, retain_max=1 + step.other % 3, older_than="0 s"
            ), wanted
        if verb == "clean":
            return clean, wanted
        if verb == "tag" and tag not in line.tags and line.rows:
            line.tags[tag] = line.tagged()
            return lambda table: table.tags.create(tag, branch=name), wanted
        if verb == "replace tag" and tag in line.tags:
            line.tags[tag] = line.tagged()
            return lambda table: table.tags.replace(tag, branch=name), wanted
        if verb == "untag" and tag in line.tags:
            del line.tags[tag]
            return lambda table: table.tags.delete(tag, branch=name), wanted
        if verb == "branch" and branch not in wanted:
            main = wanted[MAIN]
            if tag in main.tags:
                held = main.tags[tag]
                wanted[branch] = Line(dict(held.rows), {tag: held})
                return lambda table: table.branches.create(branch, tag=tag), wanted
            wanted[branch] = Line(dict(main.rows), {})
            return lambda table: table.branches.create(branch), wanted
        if verb == "rename branch" and branch in wanted and (new := BRANCHES[(step.other + 1) % 2]) not in wanted:
            wanted[new] = wanted.pop(branch)
            return lambda table: table.branches.rename(branch, new), wanted
        if verb == "delete branch" and branch in wanted:
            del wanted[branch]
            return lambda table: table.branches.delete(branch), wanted
        if verb == "restore" and tag in line.tags:
            line.rows = dict(line.tags[tag].rows)
            return lambda table: table.branch(name).restore(tag=tag), wanted
        if verb == "rollback" and (living := list(self.opened().branch(name).snapshots())):
            return self.roll_back(wanted[name], name, tag, living[step.other % len(living)]), wanted
        if verb == "rollback of another engine" and (living := list(self.opened().branch(name).snapshots())):
            return self.roll_back_as_others(wanted[name], name, tag, living[step.other % len(living)]), wanted
        if verb == "expiry of another engine" and line.rows and not self.keeps_changes:
            return lambda _: kept_in_order_by_others(in_new_process(self.path).on_branch(name)), wanted
        if verb == "merge" and branch in wanted:
            return self.merge(wanted, branch), wanted
        if verb in TAKING and branch in wanted and self.opened().branch(branch).snapshot() is not None:
            self.take(wanted, branch, verb)
            return lambda table: self.taken(table, verb, branch), wanted
        if (
            verb == "fast-forward of another engine"
            and branch in wanted
            and self.opened().branch(branch).snapshot() is not None
        ):
            self.take_as_others(wanted, branch)
            return lambda _: fast_forward_as_others_do(in_new_process(self.path), branch), wanted
        if verb == "by a handle" and self.held:
            handle = self.held[0]
            if step.other % 2:
                return lambda _: handle.compact(full=True), wanted
            write = self.write(wanted[MAIN], MAIN, step)
            return lambda _: write(handle), wanted
        return self.write(line, name, step), wanted

    def roll_back(self, line: Line, name: str, tag: str, living: Snapshot) -> Callable[[Table], object]:
        """To a tag, or to a living snapshot where there is no such tag."""
        target = line.tags.get(tag)
        commit, number = (living.uuid, living.id) if target is None else (target.commit, target.snapshot_id)
        self.go_back(line, commit, number)
        if target is None:
            return lambda table: table.branch(name).upkeep.rollback(snapshot_id=number, force=True)
        return lambda table: table.branch(name).upkeep.rollback(tag=tag, force=True)

    def roll_back_as_others(self, line: Line, name: str, tag: str, living: Snapshot) -> Callable[[Table], object]:
        """To a tag, or to a living snapshot: also where the number of the tag's snapshot is another commit's now."""
        target = line.tags.get(tag)
        at = living if target is None else self.opened().branch(name).store.snapshots.find(target.snapshot_id)
        self.go_back(line, *((at.uuid, at.id) if at else (line.tags[tag].commit, line.tags[tag].snapshot_id)))
        to = living.id if target is None else tag
        branch = None if name == MAIN else name
        return lambda _: roll_back_as_others_do(in_new_process(self.path).on_branch(branch), to)

    def go_back(self, line: Line, commit: str | None, number: int) -> None:
        assert commit is not None
        line.rows = dict(self.states[commit])
        line.tags = {one: held for one, held in line.tags.items() if held.snapshot_id <= number}
        line.merged = dict(self.merged_at[commit])
        line.is_rolled_back = True

    def taken(self, table: Table, verb: str, branch: str) -> None:
        """Call it: a fast-forward takes no row away, and is not refused where the table is what the branch began at."""
        fork = self.fork_of(branch)
        base = {} if fork is None or fork.commit_uuid is None else self.states[fork.commit_uuid]
        newest = self.opened().snapshot()
        is_untouched = newest is not None and fork is not None and newest.uuid == fork.commit_uuid
        goes_on = fork is not None and any(
            one.uuid == fork.commit_uuid for one in self.opened().branch(branch).snapshots()
        )
        try:
            if verb == "fast_forward":
                table.branches.fast_forward(branch)
            elif verb == "merge_branch":
                table.branches.replace_newer(branch, force=True)
            else:
                table.branches.replace_main(branch, force=True)
        except ConflictError:
            assert verb != "fast_forward" or self.has_clash(branch) or not (is_untouched and goes_on)
            raise
        assert verb != "fast_forward" or self.model[MAIN].rows == base, f"{branch}: a fast-forward took rows away"

    def fork_of(self, branch: str) -> Fork | None:
        return read_fork(in_new_process(self.path), branch)

    def is_one_line(self, branch: str) -> bool:
        """Whether the table lives up to the fork of a branch, and the branch from there on."""
        fork, table = self.fork_of(branch), self.opened()
        if fork is None or fork.snapshot_id is None:
            return False
        ours, theirs = ({one.id: one.uuid for one in table.branch(name).snapshots()} for name in (MAIN, branch))
        at, commit = fork.snapshot_id, fork.commit_uuid
        if ours.get(at) != commit:
            return False
        is_behind = at not in theirs and at + 1 in theirs and not self.model[branch].is_rolled_back
        return theirs.get(at) == commit or is_behind

    def tags_taken(self, branch: str) -> dict[str, Tagged]:
        """The tags of the branch that come with it: those of its base and since, or all with its whole line."""
        fork, tags = self.fork_of(branch), self.model[branch].tags
        at = 0 if fork is None else fork.snapshot_id or 0
        return {tag: held for tag, held in tags.items() if held.snapshot_id >= at or not self.is_one_line(branch)}

    def has_clash(self, branch: str) -> bool:
        ours, theirs = self.model[MAIN].tags, self.tags_taken(branch)
        return any(ours[tag].commit != theirs[tag].commit for tag in ours.keys() & theirs.keys())

    def take(self, wanted: Model, branch: str, verb: str) -> None:
        """The table has the branch's rows, and its tags since it began beside those up to there."""
        main, other = wanted[MAIN], wanted[branch]
        fork = self.fork_of(branch)
        at = 0 if fork is None else fork.snapshot_id or 0
        first = min(one.id for one in self.opened().branch(branch).snapshots())
        end = at + 1 if self.is_one_line(branch) else min(at, first)
        commit = None if fork is None else fork.commit_uuid
        older = {
            tag: held for tag, held in main.tags.items() if held.snapshot_id < end or (at and held.commit == commit)
        }
        main.rows = dict(other.rows)
        main.tags = self.tags_taken(branch) | older  # equal commits where both have a name
        main.merged = {}
        self.merged_at |= {one.uuid: {} for one in self.opened().branch(branch).snapshots() if one.uuid is not None}
        other.is_rolled_back = False
        if verb == "replace_main":
            del wanted[branch]

    def take_as_others(self, wanted: Model, branch: str) -> None:
        """What the table has from the branch's first snapshot on goes, also tags; all of the branch comes."""
        main, other = wanted[MAIN], wanted[branch]
        first = min(one.id for one in self.opened().branch(branch).snapshots())
        main.rows = dict(other.rows)
        older = {tag: held for tag, held in main.tags.items() if held.snapshot_id < first}
        main.tags = older | other.tags
        main.merged = {}
        self.merged_at |= {one.uuid: {} for one in self.opened().branch(branch).snapshots() if one.uuid is not None}
        self.is_fast_forwarded = True

    def merge(self, wanted: Model, branch: str) -> Callable[[Table], object]:
        """What the branch changed since its fork, or since the last merge, is taken; the branch wins a conflict."""
        main, other = wanted[MAIN], wanted[branch]
        fork = self.fork_of(branch)
        assert fork is not None
        base = self.base_of(branch, fork)
        for key in {*other.rows, *base}:
            if other.rows.get(key) != base.get(key):
                main.rows.pop(key, None)
                if key in other.rows:
                    main.rows[key] = other.rows[key]
        newest = self.opened().branch(branch).snapshot()
        if newest is not None and newest.uuid is not None:
            main.merged[fork.branch_id] = newest.uuid
        return lambda table: table.branches.merge(branch, on_conflict="branch")

    def base_of(self, branch: str, fork: Fork) -> Rows:
        """The rows that both come from: the fork, or what was merged last, or what both lines have one by one since."""
        ours, theirs = ({one.id: one.uuid for one in self.opened().branch(line).snapshots()} for line in (MAIN, branch))
        commit = self.model[MAIN].merged.get(fork.branch_id, fork.commit_uuid)
        at = next((number for number, one in theirs.items() if one == commit), fork.snapshot_id or 0)
        shared = {number for number in ours.keys() & theirs.keys() if ours[number] == theirs[number]}
        while at + 1 in shared:
            at, commit = at + 1, theirs[at + 1]
        return {} if commit is None else self.states[commit]

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
    *("compact",) * 2,
    *("expire",) * 2,
    *("clean",) * 2,
    *("tag",) * 4,
    *("branch",) * 4,
    "replace tag",
    "untag",
    "untag",
    "rename branch",
    "delete branch",
    "restore",
    *("rollback",) * 3,
    *("rollback of another engine",) * 2,
    *("merge",) * 3,
    *TAKING * 2,
    *("fast-forward of another engine",) * 2,
    *("by a handle",) * 3,
    *("expiry of another engine",) * 2,
)


def rows_of(table: Table, tag: str | None = None) -> Rows:
    return as_rows(table.to_arrow(tag=tag))


def as_rows(rows: pa.Table) -> Rows:
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def followed(table: Table, rows: Rows, after: int, up_to: int) -> Rows | None:
    """The rows after the changes of a range; None where a snapshot does not continue the one before, or is missing."""
    found = dict(rows)
    try:
        changes = [row for batch in table.changes(after=after, up_to=up_to) for row in batch.to_pylist()]
    except (InvalidRequestError, NotFoundError) as error:
        is_missing = up_to > after + 1 and f"snapshot {after + 1} " in str(error)
        if "does not continue" not in str(error) and not is_missing:
            raise
        return None
    for row in changes:
        if row["_row_kind"] in ("-D", "-U"):
            found.pop(row["id"], None)
        else:
            found[row["id"]] = row["batch"]
    return found


def changes_of_expired(table: Table) -> list[Snapshot]:
    changelogs = ChangelogManager(table.store.file_io, table.store.paths)
    return [found for number in changelogs.ids() if (found := changelogs.find(number)) is not None]


def tagged_rows(table: Table) -> dict[str, Rows]:
    return {tag.name: rows_of(table, tag.name) for tag in table.tags.list() if tag.name in TAGS}


def expected(model: Model) -> dict[str, tuple[Rows, dict[str, Rows]]]:
    return {name: (line.rows, {tag: held.rows for tag, held in line.tags.items()}) for name, line in model.items()}


def expire(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")


def kept_in_order_by_others(table: FileStoreTable) -> None:
    """Another engine makes a snapshot, and expires what no consumer wants."""
    foreign_snapshot(table, CommitKind.ANALYZE)
    expire_as_others_do(table)


def clean(table: Table) -> None:
    files = FileStoreTable.open(table.path, table.store.file_io)
    remove_orphan_files(files, older_than_millis=-DAY, dry_run=False, allow_young=True)


KINDS: dict[str, dict[str, str]] = {
    "merged": {},
    "changelog": {"changelog-producer": "lookup"},
    "kept changes": {"changelog.num-retained.min": "1000", "changelog.num-retained.max": "1000"},
    "kept changelog": {
        "changelog-producer": "lookup",
        "changelog.num-retained.min": "4",
        "changelog.num-retained.max": "4",
    },
}
KEEPS_DELTAS, KEEPS_CHANGELOG = "kept changes", "kept changelog"
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a history is shrunk for minutes, and read as it is found
WRITE, BRANCH, ROLLBACK = VERBS.index("write"), VERBS.index("branch"), VERBS.index("rollback")
TAKEN_BY_OTHERS = VERBS.index("fast-forward of another engine")
BY_OTHERS = ("rollback of another engine", "fast-forward of another engine", "expiry of another engine")
MOVES = ("write", "write", "rollback", "rollback", *TAKING, *BY_OTHERS, "by a handle", "merge")
moves = st.builds(
    Step,
    verb=st.sampled_from([VERBS.index(verb) for verb in MOVES]),
    line=st.integers(0, 7),
    name=st.integers(0, 7),
    other=st.integers(0, 7),
    fails_at=st.none(),
    after_effect=st.just(False),
)


def first_steps() -> list[Step]:
    """Three writes, a handle that stays open, and two branches with a write each: the base of many a history."""
    verbs = [(WRITE, 1), (WRITE, 1), (WRITE, 0), (BRANCH, 0), (BRANCH, 1), (WRITE, 0), (WRITE, 1)]
    return [Step(verb, line, at, line if verb == BRANCH else at, None, False) for at, (verb, line) in enumerate(verbs)]


def steps_to_a_gap() -> list[Step]:
    """The table is rolled back to its first snapshot, and gets a branch whose first one is its fourth."""
    main, branch = 2, 0  # places among the sorted lines
    return [*first_steps(), *(Step(verb, main, 0, branch, None, False) for verb in (ROLLBACK, TAKEN_BY_OTHERS))]


def steps_to_another_line() -> list[Step]:
    """The table has compacted files away that a branch still has, which takes the place of what comes behind."""
    acts = [
        *[("write", 1, number) for number in range(3)],
        ("branch", 0, 0),
        ("compact", 1, 0),
        ("write", 0, 1),
        ("write", 0, 2),
        ("expire", 0, 0),
        ("fast-forward of another engine", 0, 0),
        ("delete branch", 0, 0),
        ("expire", 0, 1),  # all but two snapshots: one of each line
    ]
    return [Step(VERBS.index(verb), line, other, other, None, False) for verb, line, other in acts]


whole = st.lists(steps, min_size=6, max_size=24)
of_lines = st.lists(moves, min_size=3, max_size=12).map(lambda found: [*first_steps(), *found])
behind_gaps = st.lists(moves, min_size=1, max_size=8).map(lambda found: [*steps_to_a_gap(), *found])
behind_others = st.lists(moves, max_size=8).map(lambda found: [*steps_to_another_line(), *found])
histories = whole | of_lines | behind_gaps


def run_history(kind: str, history: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        run = History(folder, KINDS[kind])
        for step in history:
            run.run(step)
        run.check_every_snapshot()
        for name in run.model:  # also what an expiry has begun
            expire(run.opened().branch(name))
        clean(run.opened())
        assert run.shown() == expected(run.model)
        found, needed = files_on_disk(run.path), referenced_files(run.path, keeps_deltas=kind == KEEPS_DELTAS)
        # With a producer, deltas that another line needed stay as long as the changelogs that name them.
        assert found >= needed if kind == KEEPS_CHANGELOG else found == needed


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(5), phases=PHASES)
@given(history=histories)
def test_every_line_and_tag_reads_what_it_read_and_no_file_is_lost_or_left(kind: str, history: list[Step]) -> None:
    run_history(kind, history)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(5), phases=PHASES)
@given(history=behind_others)
def test_both_lines_keep_their_files_whichever_snapshot_of_the_older_one_expires(
    kind: str, history: list[Step]
) -> None:
    run_history(kind, history)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=in_full(100), phases=PHASES)
@given(history=behind_others | behind_gaps)
def test_many_histories_of_two_lines(kind: str, history: list[Step]) -> None:
    run_history(kind, history)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=in_full(250), phases=PHASES)
@given(history=histories)
def test_many_histories_of_tags_and_branches(kind: str, history: list[Step]) -> None:
    run_history(kind, history)
