"""A random history of a table with a log: streams, statements, upkeep, tags, branches, merges, restores, and deaths.

A verb is asked of the table, maybe in a process that dies at some call to files or to Kafka; the model says what every
line and tag must read before and after it. Readers start at some points, read at others, and have the rows in the end.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.logs.statements import logged_table
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.types import RowKind
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.io.fileio import FileIO
from lakelog.protocol.stores.table_states import OtherLogError, read_state
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.kills.dying_process import counting_kafka, fence
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.logs.logged_lines import Kind, Line, Model, Row, Rows, Tagged
from tests.support.logs.promises import log_changes, read_headers
from tests.support.streams.planned_reader import KeyedReader, Reader
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, in_new_process

MAIN = "main"
TAGS = ("t0", "t1", "t2")
BRANCHES = ("b0", "b1")
USERS = ("a", "b")
READERS_MAX = 3
IDS = 12
NO_AGE = timedelta(days=-1)

VERBS = (
    *("batch",) * 8,
    *("write",) * 4,
    *("delete",) * 2,
    *("compact",) * 2,
    *("expire",) * 2,
    *("clean",) * 2,
    *("tag",) * 4,
    *("branch",) * 3,
    *("log",) * 3,
    *("unlog",) * 2,
    "replace tag",
    "untag",
    "rename branch",
    "delete branch",
    *("restore",) * 3,
    *("large restore",) * 2,
    "rollback",
    *("merge",) * 4,
    *("take branch",) * 4,
    *("start reader",) * 3,
    *("read",) * 3,
)


@dataclass(slots=True)
class Planned:
    """What to call, the model after it, whether it must be refused, and whether a call that died is made again."""

    act: Callable[[Table], object]
    wanted: Model
    is_refused: bool = False
    is_made_again: bool = False
    user: str | None = None  # of a batch of a stream


@dataclass
class LoggedHistory:
    """One history of one seed."""

    catalog: Catalog
    kind: Kind
    seed: int
    model: Model = field(init=False)
    readers: list[tuple[int, Reader]] = field(default_factory=list)  # with the number of the line
    happened: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    _written: int = 0
    _lines: int = 0
    _renewed: set[int] = field(default_factory=set)  # lines whose log has ended once
    _loses: set[int] = field(default_factory=set)  # lines of which a reader may have lost what it needs

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        options = {"bucket": "2", "log.system": "kafka", "num-sorted-run.compaction-trigger": "3", **self.kind.options}
        table = self.catalog.create_table("db.t", schema=SCHEMA, primary_keys=self.kind.keys, options=options)
        self.path, self._schema = table.path, table.schema
        self.servers = self.catalog._bootstrap_servers
        self.model = Model({MAIN: Line(0, is_logged=True, was_logged=True)})

    def run(self, steps: int) -> None:
        """Take so many steps, then come to rest and compare everything."""
        try:
            self._take(self._batch(copy.deepcopy(self.model), "a"), "the first batch", None)
            for _ in range(steps):
                self._step()
            self._settle()
        except BaseException as error:
            error.add_note(f"seed {self.seed}:\n" + "\n".join(self.story))
            raise
        self.catalog.drop_table("db.t")

    # One step

    def opened(self, file_io: FileIO = UNSYNCED) -> Table:
        """The table as a new process has it."""
        return Table(in_new_process(self.path, file_io), bootstrap_servers=self.servers)

    def _step(self) -> None:
        verb = self.rng.choice(VERBS)
        if verb in ("start reader", "read"):
            self._read(verb == "start reader")
            return
        fails_at = self.rng.choice((None, None, self.rng.randint(1, 70)))
        if fails_at is not None and verb == "large restore":
            fails_at *= 3
        planned = self._planned(verb, may_die=fails_at is not None)
        if planned is not None:
            self._take(planned, verb, fails_at)

    def _take(self, planned: Planned, verb: str, fails_at: int | None) -> None:
        faulty = FaultyFileIO(UNSYNCED, fails_at=fails_at, after_effect=self.rng.random() < 0.5)
        self.story.append(f"{verb}, dies at {fails_at}")
        self.happened[verb] += 1
        is_refused = False
        try:
            with counting_kafka(faulty):
                planned.act(self.opened(faulty))
        except InjectedCrash as crash:
            self.story[-1] += f": {crash}"
            self.happened["died"] += 1
            if not self._recover(planned):
                self.story[-1] += ", not done"
                return
        except InvalidRequestError as error:
            if not planned.is_refused:
                raise AssertionError(f"{verb} was refused: {error}") from error
            is_refused = True
        assert is_refused == planned.is_refused or faulty.is_dead, f"{verb} was not refused"
        self.model = planned.wanted
        self._take_ids()
        self._compare(self.model.shown(), f"after {verb}")

    def _recover(self, planned: Planned) -> bool:
        """What the next processes find of a verb that died. Gives whether it is done."""
        before, after = self.model.shown(), planned.wanted.shown()
        both = {name: held for name, held in before.items() if after.get(name) == held}  # of a rename that is cut off
        found = self._shown()
        assert found in (before, after, both), f"neither before nor after: {found}\nbefore {before}\nafter {after}"
        for line in self._all_lines():
            fence(line)
        if planned.user is not None:
            return self._recover_batch(planned, is_done=self._shown() == after)
        if planned.is_refused:
            return False
        if planned.is_made_again:
            planned.act(self.opened())
            return True
        for line in self._all_lines():
            if line.log is not None:
                logged_table(line).finish_left_over()
        self._clean(self.opened())
        found = self._shown()
        assert found in (before, after), f"neither before nor after a clean: {found}\nbefore {before}\nafter {after}"
        return found == after

    def _recover_batch(self, planned: Planned, *, is_done: bool) -> bool:
        """Learn from the log which parts of batches are in it: the next writer of the table takes them in."""
        batches = self.model.batches
        if is_done and self.model.shown() != planned.wanted.shown():
            return True
        assert planned.user is not None
        user = planned.user
        batches.rows = planned.wanted.batches.rows
        identifier = batches.pending.setdefault(user, batches.next[user])
        assert (user, identifier) in batches.rows
        await_committed(self.opened())
        logged = [(one.user, one.identifier, bucket) for bucket, one in read_headers(self.opened())]
        batches.tail = [part for part in logged if part[0] in USERS and part not in batches.taken]
        self.happened["a part in the tail"] += bool(batches.tail)
        return False

    # Verbs

    def _planned(self, verb: str, *, may_die: bool) -> Planned | None:
        """A verb with its arguments; None where it cannot be asked for."""
        rng, wanted = self.rng, copy.deepcopy(self.model)
        if verb == "batch":
            return self._batch(wanted, rng.choice(USERS), deletes=not may_die)
        name = rng.choice(sorted(wanted.lines))
        if verb in ("write", "delete", "restore", "large restore", "merge", "take branch"):
            if name == MAIN or verb in ("merge", "take branch"):
                self._finish_batches()
                wanted = copy.deepcopy(self.model)
            change = {
                "write": self._write,
                "delete": self._delete,
                "restore": self._restore,
                "large restore": self._large_restore,
                "merge": self._merge,
                "take branch": self._take_branch,
            }[verb]
            return change(wanted, name)
        if verb in ("branch", "rename branch", "delete branch"):
            return self._branch(wanted, verb)
        if verb in ("log", "unlog", "rollback"):
            return self._branch_log(wanted, verb)
        if verb in ("tag", "replace tag", "untag"):
            return self._tag(wanted, name, verb)
        line = wanted.lines[name]
        if verb == "compact":
            is_full = rng.random() < 0.5
            return Planned(lambda table: table.branch(name).compact(full=is_full), wanted)
        if verb == "expire" and +line.rows:
            if line.number in self._renewed:  # a stream that is in an ended log keeps no snapshot behind that
                self._loses.add(line.number)
            return Planned(lambda table: self._expire(table.branch(name)), wanted)
        return Planned(self._clean, wanted) if verb == "clean" else None

    def _batch(self, wanted: Model, user: str, *, deletes: bool = False) -> Planned:
        """The next batch of a stream, or the one that died; it takes in what others have left in the log."""
        batches, rows = wanted.batches, wanted.lines[MAIN].rows
        identifier = batches.pending.get(user)
        if identifier is None:
            identifier = batches.next[user]
            self._written += 1
            ids = sorted({self.rng.randrange(IDS) for _ in range(4)})
            removed = []
            if deletes and self.kind.deletes_without_log and not batches.pending and self.rng.random() < 0.5:
                removed = [row for row in sorted(+rows) if row[0] not in ids][:1]
            batches.rows[user, identifier] = [(one, self._written) for one in ids], removed
        number = identifier
        given, removed = batches.rows[user, number]
        done = {bucket for one, at, bucket in batches.taken if (one, at) == (user, number)}  # nobody looks there again
        tail = [part for part in batches.tail if part[2] not in done]
        for part in tail:
            self._put(rows, batches.rows[part[:2]], part[2])
        mine = [(user, number, bucket) for bucket in self._buckets([*given, *removed])]
        for part in mine:
            if part not in batches.taken and part not in tail:
                self._put(rows, (given, removed), part[2])
        batches.taken |= {*tail, *mine}
        batches.tail = [part for part in batches.tail if part not in tail]
        batches.pending.pop(user, None)
        batches.next[user] = number + 1

        def act(table: Table) -> object:
            kinds = [RowKind.INSERT] * len(given) + [RowKind.DELETE] * len(removed)
            return LocalWriter(table, user).write(
                number, table_of([*given, *removed]), pa.array([int(one) for one in kinds], pa.int8())
            )

        return Planned(act, wanted, user=user)

    def _put(self, rows: Rows, changes: tuple[Sequence[Row], Sequence[Row]], bucket: int) -> None:
        given, removed = ([row for row in some if self._bucket(row) == bucket] for some in changes)
        self.kind.put(rows, given, removed)

    def _buckets(self, rows: Sequence[Row]) -> list[int]:
        return sorted({self._bucket(row) for row in rows})

    def _bucket(self, row: Row) -> int:
        schema = self._schema
        [bucket] = bucket_of(table_of([row]), schema.bucket_fields, 2, schema.bucket_function)
        return int(bucket)

    def _finish_batches(self) -> None:
        """Batches that died run again."""
        for user in sorted(self.model.batches.pending):
            self._take(self._batch(copy.deepcopy(self.model), user), f"batch of {user} again", None)

    def _write(self, wanted: Model, name: str) -> Planned:
        """A write of main and of a branch: a statement where it has a log."""
        self._written += 1
        rows = [(one, self._written) for one in sorted({self.rng.randrange(IDS) for _ in range(3)})]
        self.kind.put(wanted.lines[name].rows, rows)
        return Planned(lambda table: table.branch(name).write(table_of(rows)), wanted)

    def _delete(self, wanted: Model, name: str) -> Planned | None:
        line = wanted.lines[name]
        if not +line.rows or not (line.is_logged or self.kind.deletes_without_log):
            return None
        number = self.rng.choice(sorted(+line.rows))[0]
        line.rows = Rows({row: count for row, count in line.rows.items() if row[0] != number})
        return Planned(lambda table: table.branch(name).delete(f"id = {number}"), wanted)

    def _restore(self, wanted: Model, name: str, *, renew_log: bool = False) -> Planned | None:
        line = wanted.lines[name]
        if not line.tags:
            return None
        tag = self.rng.choice(sorted(line.tags))
        held = line.tags[tag]
        is_refused = held.is_partial and line.is_logged
        if not is_refused:
            line.rows = Rows(held.rows)
        if renew_log:
            self._renewed.add(line.number)
        return Planned(
            lambda table: table.branch(name).restore(tag=tag, renew_log=renew_log),
            wanted,
            is_refused,
            is_made_again=True,
        )

    def _large_restore(self, wanted: Model, name: str) -> Planned | None:
        return self._restore(wanted, name, renew_log=True)

    def _merge(self, wanted: Model, name: str) -> Planned | None:
        line, main = wanted.lines[name], wanted.lines[MAIN]
        if line.fork is None:
            return None
        if not line.has_lost_base:
            main.rows = self.kind.merged(line.fork, main.rows, line.rows)
            line.fork, line.merged_id = Rows(line.rows), -1
        return Planned(
            lambda table: table.branches.merge(name, on_conflict="branch"),
            wanted,
            line.has_lost_base,
            is_made_again=True,
        )

    def _take_branch(self, wanted: Model, name: str) -> Planned | None:
        """The table gets the rows of a branch, by a statement or by the files with a new topic."""
        line, main = wanted.lines[name], wanted.lines[MAIN]
        if line.fork is None:
            return None
        main.rows = Rows(line.rows)
        line.fork, line.merged_id, line.has_lost_base = Rows(line.rows), -1, False
        renew_log = self.rng.choice((False, True))
        if renew_log:
            self._renewed.add(main.number)
        return Planned(
            lambda table: table.branches.replace_newer(name, renew_log=renew_log, force=True),
            wanted,
            is_made_again=True,
        )

    def _branch(self, wanted: Model, verb: str) -> Planned | None:
        lines, branch = wanted.lines, self.rng.choice(BRANCHES)
        if verb == "branch" and branch not in lines:
            main, tag = lines[MAIN], self.rng.choice(TAGS)
            held = main.tags.get(tag)
            is_refused = wanted.batches.are_partial if held is None else held.is_partial
            if not is_refused:
                self._lines += 1
                rows = main.rows if held is None else held.rows
                lines[branch] = Line(self._lines, Rows(rows), {} if held is None else {tag: held}, Rows(rows))
            name = None if held is None else tag
            return Planned(lambda table: table.branches.create(branch, tag=name), wanted, is_refused)
        if branch not in lines or verb == "branch":
            return None
        if verb == "delete branch":
            del lines[branch]
            return Planned(lambda table: table.branches.delete(branch), wanted)
        new = BRANCHES[1 - BRANCHES.index(branch)]
        if new in lines:
            return None
        lines[new] = lines.pop(branch)
        return Planned(lambda table: table.branches.rename(branch, new), wanted)

    def _branch_log(self, wanted: Model, verb: str) -> Planned | None:
        """A branch gets a log, loses it, or is rolled back, which a line that has had a log is not."""
        name = self.rng.choice(sorted(wanted.lines))
        line = wanted.lines[name]
        if verb == "rollback":
            if not line.tags:
                return None
            target = line.tags[tag := self.rng.choice(sorted(line.tags))]
            if not line.was_logged:
                line.rows = Rows(target.rows)
                line.tags = {one: held for one, held in line.tags.items() if held.snapshot_id <= target.snapshot_id}
                line.has_lost_base |= target.snapshot_id < line.merged_id
                self._loses.add(line.number)
            return Planned(
                lambda table: table.branch(name).upkeep.rollback(tag=tag, force=True), wanted, line.was_logged
            )
        if name == MAIN or line.is_logged is (verb == "log"):
            return None
        line.is_logged, line.was_logged = verb == "log", True
        if verb == "log":
            return Planned(lambda table: self._with_log(table.branch(name)), wanted, is_made_again=True)
        self._renewed.add(line.number)
        return Planned(lambda table: without_log(table.branch(name)), wanted, is_made_again=True)

    def _with_log(self, line: Table) -> object:
        options = {key: text for key, text in self.kind.options.items() if key.startswith("log.")}
        try:
            return line.log_store.add(options)
        except InvalidRequestError as error:  # a call that died behind its last step
            if "has a log already" in str(error):
                return None
            raise

    def _tag(self, wanted: Model, name: str, verb: str) -> Planned | None:
        line, tag = wanted.lines[name], self.rng.choice(TAGS)
        if (tag in line.tags) is (verb == "tag") or not +line.rows:
            return None
        if verb == "untag":
            del line.tags[tag]
            return Planned(lambda table: table.tags.delete(tag, branch=name), wanted)
        line.tags[tag] = Tagged(0, Rows(line.rows), name == MAIN and wanted.batches.are_partial)
        self.happened["a tag of a part"] += line.tags[tag].is_partial
        return Planned(lambda table: table.tags.create(tag, branch=name, replace=verb != "tag"), wanted)

    def _take_ids(self) -> None:
        """A tag, and a branch that was merged now, are at the snapshots that the table says."""
        table = self.opened()
        for name, line in self.model.lines.items():
            if line.merged_id < 0:
                newest = table.branch(name).snapshot()
                line.merged_id = 0 if newest is None else newest.id
            for tag, held in line.tags.items():
                if held.snapshot_id == 0:
                    found = table.tags.get(tag, branch=name).snapshot.id
                    line.tags[tag] = Tagged(found, held.rows, held.is_partial)

    # Readers

    def _read(self, starts: bool) -> None:
        """Let another reader of some line start, or one that there is read on."""
        names = {line.number: name for name, line in self.model.lines.items() if line.was_logged}
        self.readers = [one for one in self.readers if one[0] in names]
        if starts and len(self.readers) < READERS_MAX:
            number = self.rng.choice(sorted(names))
            self.readers.append((number, self._new_reader(names[number])))
        for number, reader in self.rng.sample(self.readers, min(1, len(self.readers))):
            self._read_on(number, reader)

    def _new_reader(self, name: str) -> Reader:
        line = open_table(self.path, branch=name)
        return KeyedReader(line) if self.kind.keys else Reader(line)

    def _read_on(self, number: int, reader: Reader) -> None:
        """Read to the end of the table; a query that ends with an error is started again."""
        [(name, line)] = [(name, line) for name, line in self.model.lines.items() if line.number == number]
        reader.branch = name
        self.story.append(f"a reader of {name} reads on")
        self.happened["read"] += 1
        lines = [one for one in self._all_lines() if one.store.branch == name and one.log is not None]
        for one in lines:
            fence(one)
            await_committed(one)
        try:
            self._read_to_end(reader)
        except LakelogError as error:
            if number not in self._loses:
                raise AssertionError(f"a reader of {name} lost what it needs: {error}") from error
            self.happened["a reader started anew"] += 1
            fresh = self._new_reader(name)
            reader.__dict__.update(fresh.__dict__)
            self._read_to_end(reader)
        if not self.model.batches.tail or name != MAIN:
            extra, missing = reader.rows - line.rows, line.rows - reader.rows
            assert +reader.rows == +line.rows, f"a reader of {name} has beyond the rows {extra}, lacks {missing}"

    def _read_to_end(self, reader: Reader) -> None:
        try:
            reader.read()
        except LakelogError as error:
            self.story[-1] += f", starts again after {type(error).__name__}"
            self.happened["a query was started again"] += 1
            reader.start()
        reader.start()
        reader.read()

    # The end

    def _settle(self) -> None:
        """Batches run again, what was cancelled goes; then lines, readers, log and files are the model's."""
        self.story.append("the end")
        self._finish_batches()
        for number, reader in self.readers:
            if number in {line.number for line in self.model.lines.values()}:
                self._read_on(number, reader)
        for line in self._all_lines():
            if line.log is not None:
                check_log_is_files(line, self.kind)
                logged = logged_table(line)
                logged.finish_left_over()  # also those of an ended log
                for name, _, _ in logged.unfinished():
                    logged.cancel(name)
            self._expire(line)
        self._clean(self.opened())
        self._compare(self.model.shown(), "in the end")
        assert files_on_disk(self.path) == referenced_files(self.path)

    def _all_lines(self) -> list[Table]:
        table = self.opened()
        return [table.branch(name) for name in (MAIN, *(branch.name for branch in table.branches.list()))]

    def _shown(self) -> dict[str, tuple[Rows, dict[str, Rows]]]:
        return {
            line.store.branch: (
                rows_in(line),
                {tag.name: rows_in(line, tag=tag.name) for tag in line.tags.list() if tag.name in TAGS},
            )
            for line in self._all_lines()
        }

    def _compare(self, expected: dict[str, tuple[Rows, dict[str, Rows]]], when: str) -> None:
        found = self._shown()
        assert found == expected, f"{when}: {found}\nexpected {expected}"

    def _expire(self, line: Table) -> None:
        line.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")

    def _clean(self, table: Table) -> None:
        table.upkeep.remove_orphan_files(older_than=NO_AGE, dry_run=False, allow_young=True)


def without_log(line: Table) -> object:
    """Take the log of a branch away."""
    return line.log_store.remove(force=True) if line.log is not None else None


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a writer gives them."""
    ids, values = zip(*rows, strict=True)
    return pa.table([pa.array(ids, pa.int64()), pa.array(values, pa.int32())], schema=SCHEMA)


def rows_in(table: Table, tag: str | None = None) -> Rows:
    """The rows of a table or of a tag, as often as they are there."""
    found = table.to_arrow(tag=tag)
    return Rows(zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True))


def check_log_is_files(line: Table, kind: Kind) -> None:
    """Promise 2: from the oldest snapshot of the log on, the records up to a snapshot's offsets make its rows."""
    assert line.log is not None
    states = []
    manager = line.store.snapshots
    begun = manager._hint(manager._paths.earliest_hint) or 0  # an expiry that was cut off has begun with those below
    for snapshot in line.snapshots():
        if snapshot.id < begun:
            continue
        try:
            states.append((snapshot, read_state(line.store, snapshot, topic_id=line.log.topic_id).logged))
        except OtherLogError:
            states.clear()
    changes = [change for bucket in range(line.log.bucket_count) for change in log_changes(line, bucket)]
    (first, start), *_ = states
    base = Rows(map(tuple, (row.values() for row in line.to_arrow(snapshot_id=first.id).to_pylist())))
    for snapshot, state in states:
        rows = Rows(base)
        for bucket, offset, code, row in changes:
            if start.position(bucket).offset <= offset < state.position(bucket).offset:
                one = (row["id"][0].as_py(), row["batch"][0].as_py())
                if RowKind(code).is_add:
                    kind.put(rows, [one])
                elif kind.keys:
                    for old in [old for old in rows if old[0] == one[0]]:
                        del rows[old]
                else:
                    rows[one] -= 1
        found = Rows(map(tuple, (row.values() for row in line.to_arrow(snapshot_id=snapshot.id).to_pylist())))
        assert +rows == found, f"log and files differ at snapshot {snapshot.id}"
