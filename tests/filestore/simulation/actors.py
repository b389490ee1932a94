"""Who works at the table: writers, a job with batches, a changer, an overwriter, a compactor, an expirer and readers.

Each has a number of things to do. What a process leaves undone when it dies, the next one does not know of; only the
job tries its batch again, as a checkpoint would have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lakelog.common.errors import ConflictError, NotFoundError, UnavailableError, UnknownOutcomeError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.outcomes import CommitOutcome, find_commit
from lakelog.filestore.compact.bucket_work import due_work
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.compact.picking import CompactUnit, pick_level0
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.expire import expiry
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.predicate import parse_where
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import change as change_of
from lakelog.filestore.verbs import changes, delete, drop_partitions, expire_snapshots, restore
from lakelog.filestore.write.assigning import bucket_assigner
from lakelog.filestore.write.changing import update_plan
from lakelog.filestore.write.write import write_rows
from tests.filestore.simulation.file_io import OtherEngine, SimFileIO
from tests.filestore.simulation.kinds import PARTITIONS, Batch, Row, State, kinds_of, rows_of, shown
from tests.filestore.simulation.model import Change, Model, difference, has_overwrite
from tests.filestore.simulation.world import Process, World

HOUR = 3_600_000
REOPEN_SHARE = 0.15
BY_AGE_SHARE = 0.4
LEVEL_MAX = 5
LIKE_NO_SIZE = -100  # percent: no run is as small as the ones before it


@dataclass(slots=True)
class Worker(ABC):
    """What all have in common: a number of things to do, and a table opened by each process anew."""

    world: World
    model: Model
    inner: FileIO
    name: str
    quota: int
    rest_turns: int = 40
    _change_count: int = 0

    def live(self, process: Process) -> None:
        """One process, from its start to its end."""
        file_io = self.file_io(process)
        table: FileStoreTable | None = None
        while not self.is_done():
            self.quota -= 1
            self.world.nap(process, self.rest_turns)
            try:
                if table is None or self.world.rng.random() < REOPEN_SHARE:
                    if (
                        table is not None and table.commit_line.has_kept
                    ):  # the place that its next commit would have had
                        self.world.events["place left behind"] += 1
                    table = FileStoreTable.open(self.model.table.path, file_io)
                self.step(table, process)
            except UnavailableError as error:
                self.world.events["gave up"] += 1
                self.world.tell(f"gave up: {error}")

    def file_io(self, process: Process) -> FileIO:
        """What the process sees files through."""
        return SimFileIO(self.world, process, self.inner, self.model.table.path, self.model)

    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.quota <= 0

    @abstractmethod
    def step(self, table: FileStoreTable, process: Process) -> None:
        """Do one thing. UnavailableError is nothing to worry about."""

    def commit(self, process: Process, change: Change, act: Callable[[], Snapshot | None]) -> bool:
        """Try a change, and compare what is reported with what has happened. True when success is reported."""
        model, world = self.model, self.world
        model.pending[process.name] = change
        world.tell(f"{change.name} begins")
        is_first = change.committed_as is None
        try:
            snapshot = act()
        except UnavailableError as error:
            is_there = change.committed_as is not None
            if isinstance(error, UnknownOutcomeError) and is_first:
                self._find_out(error, change)
            elif is_there and is_first:
                world.violate(
                    f"{change.name} is in snapshot {change.committed_as}; its writer is to try again: {error}"
                )
            world.events["unknown, yet committed" if is_there else "unknown, not committed"] += 1
            raise
        except (ConflictError, NotFoundError) as error:
            world.events[f"write refused: {type(error).__name__}"] += 1
            if change.committed_as is not None:
                world.violate(f"{change.name} is in snapshot {change.committed_as}, but its writer was told: {error}")
            world.tell(f"{change.name} was refused: {error}")
            return False
        if snapshot is not None and change.committed_as != snapshot.id:
            world.violate(f"{change.name} was acknowledged as snapshot {snapshot.id}, is in {change.committed_as}")
        world.events["acknowledged"] += 1
        return True

    def _find_out(self, error: UnknownOutcomeError, change: Change) -> None:
        """Ask what became of a commit, as its user would, and compare."""
        assert error.commit_uuid is not None
        with self.world.as_stranger():
            found = find_commit(self.model.table, error.commit_uuid, snapshot_id=error.snapshot_id)
        self.world.events[f"found out: {found.outcome}"] += 1
        is_right = {
            CommitOutcome.COMMITTED: found.snapshot_id == change.committed_as,
            CommitOutcome.NOT_COMMITTED: change.committed_as is None,
            CommitOutcome.NOT_KNOWABLE: error.snapshot_id not in self.model.living,
        }
        if not is_right[found.outcome]:
            self.world.violate(f"{change.name} is told to be {found}, but is in snapshot {change.committed_as}")

    def next_change(self, apply: Callable[[State], State], *, keeps_order: bool = False) -> Change:
        """A change with a name."""
        self._change_count += 1
        return Change(f"change {self._change_count} of {self.name}", apply, keeps_order)


class Writer(Worker):
    """Adds rows to keys that others write too: every other time those of a reader, which gives them once."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        batch, clock = self.batch(), self.world.clock_of(process)
        change = self.next_change(lambda state: self.folded(state, batch), keeps_order=self.model.kind.has_key)
        rows = batch.table
        given = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()) if self._change_count % 2 else rows
        self.commit(process, change, lambda: table.write(given, kinds=batch.kind_array, clock=clock))

    def batch(self) -> Batch:
        """Rows that tell who wrote them."""
        tag = f"{self.name} {self._change_count}"
        return self.model.kind.batch(self.world.rng, tag, fresh=self.world.fresh)

    def folded(self, state: State, batch: Batch) -> State:
        """The rows after the batch."""
        return self.model.kind.after(state, batch.rows, batch.kinds)


@dataclass(slots=True)
class Job(Writer):
    """A streaming query: its batches in order, each tried until it is acknowledged, and sometimes once more."""

    identifier: int = 0
    open_batch: tuple[Batch, Change] | None = None

    def step(self, table: FileStoreTable, process: Process) -> None:
        if self.open_batch is None:
            batch = self.batch()
            change = self.next_change(lambda state: self.folded(state, batch), keeps_order=self.model.kind.has_key)
            self.open_batch = batch, change
        else:
            self.world.events["batch tried again"] += 1
        batch, change = self.open_batch
        try:
            newest = table.snapshots.latest()
            live = table.live_files.of(newest)
            assigner = bucket_assigner(table, newest)
            written = write_rows(
                table, batch.table, batch.kind_array, first_sequence=live.next_sequence, assigner=assigner
            )
            hashes = None if assigner is None else assigner.write_index()
        except NotFoundError:  # the newest snapshot expired while it was looked at
            return

        def append() -> Snapshot | None:
            return append_commit(
                table,
                user=self.name,
                identifier=self.identifier,
                digest=str(self.identifier),
                entries=written.entries,
                changelog=written.changelog,
                hashes=hashes,
                clock=self.world.clock_of(process),
            )

        def discard() -> None:
            made = [*written.entries, *written.changelog]
            discard_files(table, (table.data_path(one.bucket_id, one.file) for one in made))
            of_index = [] if hashes is None else [one.file_name for one in hashes.files.values()]
            discard_files(table, map(table.paths.index, of_index))

        is_repeated = change.committed_as is not None
        if not self.commit(process, change, append):  # others were first, with younger rows or other buckets
            discard()
        else:
            if is_repeated:  # the files of this attempt are in no snapshot
                discard()
            if change.committed_as is None:
                self.world.violate(f"{change.name} was acknowledged, and is not there")
            if self.world.rng.random() < 0.7:  # else the checkpoint was not written: the batch comes again
                self.identifier += 1
                self.open_batch = None

    def is_done(self) -> bool:
        return self.quota <= 0 and self.open_batch is None


class Changer(Worker):
    """Deletes rows of a table without key, or gives them another value or partition: in the files that have them."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        rng, clock = self.world.rng, self.world.clock_of(process)
        chosen, least = rng.randrange(PARTITIONS), rng.randrange(100)
        where = f"p = {chosen} AND a >= {least}"

        def meets(row: Row) -> bool:
            return row[1] == chosen and row[2] is not None and row[2] >= least

        if rng.random() < 0.5:
            change = self.next_change(lambda state: {key: row for key, row in state.items() if not meets(row)})
            self.commit(process, change, lambda: delete(table, where, clock=clock))
            return
        to = rng.randrange(PARTITIONS)

        def changed(state: State) -> State:
            new = ((row[0], to, row[2], "changed") if meets(row) else row for row in state.values())
            return {row[:2]: row for row in new}

        plan = update_plan(table, {"p": to, "b": "changed"}, parse_where(where))
        self.commit(process, self.next_change(changed), lambda: change_of(table, "UPDATE", plan, clock=clock))


class Overwriter(Writer):
    """Replaces the table or partitions of it, or drops partitions."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        batch, clock = self.batch(), self.world.clock_of(process)
        what = self.world.rng.choice(("everything", "written", "where", "drop"))
        if not self.model.kind.is_partitioned or what == "everything":
            change = self.next_change(lambda _: self.folded({}, batch))
            self.commit(
                process, change, lambda: table.write(batch.table, mode="overwrite", kinds=batch.kind_array, clock=clock)
            )
            return
        chosen = batch.rows[0][1]
        if what == "drop":
            change = self.next_change(lambda state: without(state, {chosen}))
            self.commit(process, change, lambda: drop_partitions(table, f"p = {chosen}", clock=clock))
            return
        if what == "written":
            deleted = {row[1] for row in batch.rows}
            change = self.next_change(lambda state: self.folded(without(state, deleted), batch))
            self.commit(
                process,
                change,
                lambda: table.write(batch.table, mode="overwrite-partitions", kinds=batch.kind_array, clock=clock),
            )
            return
        inside = [(row, kind) for row, kind in zip(batch.rows, batch.kinds, strict=True) if row[1] == chosen]
        fitting = Batch(rows=[row for row, _ in inside], kinds=[kind for _, kind in inside])
        change = self.next_change(lambda state: self.folded(without(state, {chosen}), fitting))
        self.commit(
            process,
            change,
            lambda: table.write(
                fitting.table, mode="overwrite", where=f"p = {chosen}", kinds=fitting.kind_array, clock=clock
            ),
        )


@dataclass(slots=True)
class Compactor(Worker):
    """Merges files; no row changes, which the model looks at. Its snapshots may be those of another engine."""

    is_foreign: bool = False

    def file_io(self, process: Process) -> FileIO:
        sim = SimFileIO(self.world, process, self.inner, self.model.table.path, self.model)
        return cast("FileIO", OtherEngine(sim)) if self.is_foreign else sim

    def compact(self, table: FileStoreTable, process: Process) -> Snapshot | None:
        """Merge what is due, or all, or level 0 alone: files are too small here for sizes to keep runs apart."""
        chance, clock = self.world.rng.random(), self.world.clock_of(process)
        if chance < 0.7 or not table.schema.primary_keys:
            return table.compact(full=chance < 0.4, clock=clock)

        def pick(_: BucketId, files: Sequence[DataFileMeta], __: object) -> CompactUnit | None:
            return pick_level0(runs_of(files, table.key_types), percent=LIKE_NO_SIZE, level_max=LEVEL_MAX)

        work = due_work(table, table.snapshots.latest(), None, pick)
        results = [result for one in work if (result := compact_bucket(table, one)) is not None]
        return commit_results(table, results, clock=clock) if results else None

    def step(self, table: FileStoreTable, process: Process) -> None:
        self.model.pending.pop(process.name, None)
        try:
            done = self.compact(table, process)
            self.world.events["nothing to compact" if done is None else "compacted"] += 1
        except ConflictError:
            self.world.events["compaction dropped"] += 1
        except NotFoundError as error:
            self.world.events["compaction without its files"] += 1
            self.world.tell(f"{error}")


@dataclass(slots=True)
class Expirer(Worker):
    """Keeps a few snapshots. One process at a time. As another engine it knows consumers, and no properties."""

    keeps_max: int = 3
    is_foreign: bool = False

    def step(self, table: FileStoreTable, process: Process) -> None:
        rng = self.world.rng
        is_by_age = rng.random() < BY_AGE_SHARE
        retention = Retention(
            count_min=1,
            count_max=1_000 if is_by_age else rng.randint(1, self.keeps_max),
            age_millis=rng.randrange(self.world.turn + 1) if is_by_age else HOUR,
            limit=1_000 if is_by_age else rng.choice((1, 3, 100)),
        )
        before, oldest, now = self.model.newest, min(self.model.living, default=0), self.world.now_millis
        if self.is_foreign:
            gone = self._expire_as_others_do(table, retention)
            self.world.events["expired by another engine"] += len(gone)
        else:
            gone = expire_snapshots(table, retention=retention, now_millis=now).snapshot_ids
        self.world.events["expired"] += len(gone)
        kept = [number for number in self.model.living if number <= before]
        if set(gone) & set(kept):
            self.world.violate(f"snapshots {gone} are told to be gone, {kept} are there")
        if is_by_age and oldest and not self.is_foreign:
            self.world.events["expired by age"] += len(gone)
            self._check_ages(range(oldest, before), kept, now - retention.age_millis)

    def _check_ages(self, ids: Iterable[int], kept: Collection[int], before_millis: int) -> None:
        """A snapshot goes when the one behind it is old enough, by the clocks that are right."""
        times = self.model.times()
        for number in ids:
            behind = times[number + 1]
            is_due = behind is not None and behind < before_millis
            if is_due is (number in kept):
                state = "stays" if is_due else "is gone"
                self.world.violate(f"snapshot {number} {state}: it was the newest until {behind}, not {before_millis}")

    def _expire_as_others_do(self, table: FileStoreTable, retention: Retention) -> tuple[int, ...]:
        newest, earliest = table.snapshots.latest(), table.snapshots.earliest_id()
        if newest is None or earliest is None:
            return ()
        wanted = min(
            (consumer.next_snapshot for consumer in ConsumerManager(table.file_io, table.paths).readable()),
            default=None,
        )
        return _ExpiryOfOthers(table, retention, newest, self.world.now_millis, wanted).expire_snapshots(earliest)


class _ExpiryOfOthers(expiry._Expiry):
    """Looks for no snapshot whose properties must stay."""

    def _carrier(self) -> int | None:
        return None


class Tagger(Worker):
    """Keeps snapshots by name."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        self.model.tag_newest()


class BranchTaker(Worker):
    """Makes a branch without commits of its own the table's line: nothing changes."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        self.model.take_branch(self.world.rng.choice(("fast_forward", "merge_branch", "replace_main")))


class Restorer(Worker):
    """Brings the state of an older snapshot or of a tag back."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        model, clock = self.model, self.world.clock_of(process)
        places = [("", number) for number in sorted(model.living)] + sorted(model.tags.items())
        if not places:
            return
        tag, target = self.world.rng.choice(places)
        change = self.next_change(lambda _: model.state(target))

        def act() -> Snapshot | None:
            if tag:
                return restore(table, tag=tag, clock=clock).snapshot
            return restore(table, snapshot_id=target, clock=clock).snapshot

        is_done = self.commit(process, change, act)
        self.world.events["restored" if is_done else "restore refused"] += 1


class Reader(Worker):
    """Reads the newest rows, those of a snapshot, those of a time, and changes."""

    def step(self, table: FileStoreTable, process: Process) -> None:
        model = self.model
        start, expired_before = model.newest, model.expired_count
        how = self.world.rng.choice((self._newest, self._snapshot, self._moment, self._tag, self._changes))
        try:
            how(table, start)
        except NotFoundError as error:
            self.world.events["read of what is expired"] += 1
            self.world.tell(f"was told: {error}")
            has_expired = model.expired_count > expired_before or len(model.living) < len(model.snapshots)
            if not has_expired and not model.doomed:
                self.world.violate(f"{process.name} was told {error}, and nothing had expired")

    def _newest(self, table: FileStoreTable, start: int) -> None:
        rows = shown(rows_of(table.planned().batches()))
        self._compare(rows, range(start, self.model.newest + 1), "the newest rows")

    def _snapshot(self, table: FileStoreTable, start: int) -> None:
        if start:
            number = self.world.rng.randint(max(1, start - 5), start)
            self._compare(shown(rows_of(table.planned(snapshot_id=number).batches())), [number], f"snapshot {number}")

    def _tag(self, table: FileStoreTable, start: int) -> None:
        for tag, number in list(self.model.tags.items())[-1:]:
            try:
                rows = shown(rows_of(table.planned(tag=tag).batches()))
            except NotFoundError as error:
                self.world.violate(f"tag {tag} of snapshot {number} cannot be read: {error}")
                return
            self._compare(rows, [number], f"the rows of tag {tag}")

    def _moment(self, table: FileStoreTable, start: int) -> None:
        if not self.model.living:
            return
        oldest = min(self.model.living)
        first = self.model.times()[oldest] or self.world.now_millis
        at_millis = first + self.world.rng.randrange(self.world.turn + 1)

        def answers() -> set[int]:
            return {self.model.newest_at(at_millis, newest) for newest in range(start, self.model.newest + 1)}

        try:
            rows = shown(rows_of(table.planned(timestamp=at_millis).batches()))
        except NotFoundError:
            if 0 in answers():  # the date of the only snapshot is wrong: the next one tells that it is younger
                return
            raise
        if answers() <= self.model.living | {0}:  # else it expired beside the read, which may show the oldest state
            self._compare(rows, answers(), f"the rows at {at_millis}")

    def _changes(self, table: FileStoreTable, start: int) -> None:
        """What was there before, and the changes since, are what is there now."""
        model = self.model
        living = sorted(number for number in model.living if number <= start)
        if len(living) < 2:
            return
        after, up_to = sorted(self.world.rng.sample(living, 2))
        found = list(changes(table, after=after, up_to=up_to))
        if model.kind.tells_old_values:
            told = model.kind.after_changes(model.snapshots[after].told, rows_of(found), kinds_of(found))
            if told != model.snapshots[up_to].told:
                self.world.violate(f"the changes from {after} to {up_to} are not those that were committed")
        elif not has_overwrite(model, after, up_to):
            state = model.kind.after(model.state(after), rows_of(found), kinds_of(found))
            if shown(state.values()) != shown(model.state(up_to).values()):
                self.world.violate(f"the changes from {after} to {up_to} are not those that were committed")

    def _compare(self, rows: list[str], candidates: Iterable[int], what: str) -> None:
        states = {number: self.model.shown_rows(number) for number in candidates}
        self.world.events["read"] += 1
        if rows not in states.values():
            number, expected = max(states.items(), default=(0, list[str]()))
            found = difference(expected, rows)
            self.world.violate(f"{what} are those of no snapshot of {list(states)}; compared with {number}: {found}")


def without(state: State, partitions: set[int]) -> State:
    """The rows of other partitions."""
    return {key: row for key, row in state.items() if row[1] not in partitions}
