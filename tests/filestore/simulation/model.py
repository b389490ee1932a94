"""What must be in the table: the rows of every snapshot, as the writes say that it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.common.errors import LakelogError
from lakelog.filestore.index.index_manifest import read_index
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.snapshots.live_state import LiveFiles
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.consumers import STATE_CONSUMER
from lakelog.filestore.refs import create_branch, delete_branch
from lakelog.filestore.refs.restore.restore_tags import RESTORE_TAG_PREFIX
from lakelog.filestore.schema.paths import CONSUMER_PREFIX, SNAPSHOT_PREFIX, TAG_PREFIX
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from tests.filestore.simulation.kinds import Row, State, TableKind, kinds_of, rows_of, shown
from tests.filestore.simulation.world import START_MILLIS, MachineClock, Process, World
from tests.support.tables.taken_over import take_over


@dataclass(slots=True)
class Change:
    """One write of an actor, maybe tried by several processes: `apply` tells what it makes of the rows."""

    name: str
    apply: Callable[[State], State]
    keeps_order: bool = False  # its rows must be younger than all that is there
    committed_as: int | None = None


@dataclass(slots=True)
class Committed:
    """A snapshot as the model has it."""

    rows: list[Row]
    state: State
    time_millis: int
    files: frozenset[str]  # data files, manifests and lists that it needs
    changelog_files: frozenset[str]
    changed_by: CommitKind
    told: State  # what a reader of all changelogs up to here has


@dataclass(slots=True)
class Model:
    """Sees everything that changes the table; says what a read may give."""

    world: World
    kind: TableKind
    table: FileStoreTable  # without faults
    snapshots: dict[int, Committed] = field(default_factory=dict)
    living: set[int] = field(default_factory=set)
    doomed: int = 0  # an expiry has begun to delete the files of snapshots up to this one
    newest: int = 0
    tags: dict[str, int] = field(default_factory=dict)
    expired_count: int = 0
    pending: dict[str, Change] = field(default_factory=dict)  # by process
    may_be_created_behind: set[int] = field(default_factory=set)
    _live: LiveFiles = field(default_factory=LiveFiles)

    def state(self, snapshot_id: int) -> State:
        """The rows of a snapshot; none before the first."""
        return self.snapshots[snapshot_id].state if snapshot_id else {}

    def shown_rows(self, snapshot_id: int) -> list[str]:
        """What a read of a snapshot gives."""
        return shown(self.snapshots[snapshot_id].rows) if snapshot_id else []

    def tag_newest(self) -> None:
        """Keep the newest snapshot under a name, as other engines do: its file is copied."""
        if self.newest:
            name = f"t{len(self.tags)}"
            content = self.table.file_io.read_bytes(self.table.paths.snapshot(self.newest))
            self.table.file_io.write_bytes(self.table.paths.tag(name), content)
            self.tags[name] = self.newest
            self.world.tell(f"tag {name} keeps snapshot {self.newest}")

    def take_branch(self, action: str) -> None:
        """Make a branch of the newest snapshot, and give it the table's place."""
        if self.newest:
            with self.world.as_stranger():
                table = FileStoreTable.open(self.table.path, self.table.file_io)
                create_branch(table, "taken")
                take_over(table, action, "taken")
                if action != "replace_main":
                    delete_branch(table, "taken")
            self.world.events["branch taken over"] += 1
            self.world.tell(f"{action} of a branch of snapshot {self.newest}")

    def times(self, newest: int | None = None) -> dict[int, int | None]:
        """By when each snapshot up to one was committed, as far as dates tell that can be right."""
        times: dict[int, int | None] = {}
        behind: int | None = None
        for number in sorted(self.snapshots, reverse=True):
            if newest is None or number <= newest:
                date = self.snapshots[number].time_millis
                behind = date if self._can_be_right(date) else behind
                times[number] = behind
        return times

    def newest_at(self, moment_millis: int, newest: int) -> int:
        """The snapshot that was the newest at a time, when `newest` is the newest that there is; 0 for none."""
        times = self.times(newest)
        if all(time is None or time <= moment_millis for time in times.values()):
            return newest
        return max((number for number, time in times.items() if time is not None and time <= moment_millis), default=0)

    def _can_be_right(self, date_millis: int) -> bool:
        return START_MILLIS <= date_millis <= self.world.now_millis

    # What happens to the table

    def created(self, process: Process, path: str) -> None:
        """A process created a file: if it is a snapshot, it must be the next one, and hold what its writer wanted."""
        name = path.rpartition("/")[2]
        if "/snapshot/" not in path or not name.startswith(SNAPSHOT_PREFIX):
            return
        number = int(name.removeprefix(SNAPSHOT_PREFIX))
        if number in self.snapshots:
            # Its predecessor of this number has expired: harmless while no caller knows of it, and until it is deleted.
            self.world.events["created behind an expiry"] += 1
            self.may_be_created_behind.add(number)
            return
        if number != self.newest + 1:
            self.world.violate(f"snapshot {number} was created, after {self.newest}")
            return
        with self.world.as_stranger():
            self._take_in(process, self.table.snapshots.get(number))

    def deleting(self, process: Process, path: str) -> None:
        """A process deletes a file: no living snapshot may need it, but the oldest one when it expires."""
        name = path.rpartition("/")[2]
        if "/snapshot/" in path and name.startswith(SNAPSHOT_PREFIX):
            self._delete_snapshot(process, int(name.removeprefix(SNAPSHOT_PREFIX)))
            return
        is_expiry = process.name.startswith("expirer")
        for tag, number in self.tags.items():
            if name in self.snapshots[number].files:
                self.world.violate(f"{process.name} deletes {name}, which tag {tag} of snapshot {number} needs")
                return
        for number in self.living:
            if name in self.snapshots[number].files | self.snapshots[number].changelog_files:
                if not is_expiry or number != min(self.living) or number == self.newest:
                    self.world.violate(f"{process.name} deletes {name}, which snapshot {number} needs")
                    return
                self.doomed = max(self.doomed, number)
                self.expired_count += 1

    def _delete_snapshot(self, process: Process, number: int) -> None:
        if number in self.may_be_created_behind and Path(self.table.paths.snapshot(number)).exists():
            self.may_be_created_behind.discard(number)
            return
        if number not in self.living:
            return
        if number != min(self.living) or number == self.newest or not process.name.startswith("expirer"):
            self.world.violate(f"{process.name} deletes snapshot {number} of {sorted(self.living)}")
            return
        self.living.discard(number)
        self.expired_count += 1

    def _take_in(self, process: Process, snapshot: Snapshot) -> None:
        change = self.pending.get(process.name)
        state = self.state(self.newest)
        if snapshot.commit_kind is not CommitKind.COMPACT:
            if change is None:
                self.world.violate(f"{process.name} committed snapshot {snapshot.id} without a change")
                return
            if change.committed_as is not None:
                self.world.violate(f"{change.name} is in snapshot {change.committed_as}, and again in {snapshot.id}")
                return
            change.committed_as = snapshot.id
            state = change.apply(state)
        self.world.tell(f"  snapshot {snapshot.id}: {snapshot.commit_kind} of {change and change.name}")
        self._survey(process, snapshot, state, change)

    # What a stranger finds

    def _survey(self, process: Process, snapshot: Snapshot, state: State, change: Change | None) -> None:
        """Read the new snapshot as a process that remembers nothing, and compare."""
        table = FileStoreTable(path=self.table.path, file_io=self.table.file_io, schema=self.table.schema)
        try:
            live = table.live_files.of(snapshot)
            rows = rows_of(table.planned(snapshot_id=snapshot.id).batches())
            files = referenced(table, snapshot, live)
        except LakelogError as error:
            self.world.violate(f"snapshot {snapshot.id} cannot be read: {error}")
            return
        if self.kind.shows_compacted:
            self._check_shown(snapshot, state, rows)
        elif shown(rows) != shown(state.values()):
            self.world.violate(f"snapshot {snapshot.id} {difference(shown(state.values()), shown(rows))}")
        counted = sum(entry.file.row_count for entry in live.entries())
        if snapshot.total_record_count != counted:
            self.world.violate(f"snapshot {snapshot.id} counts {snapshot.total_record_count} records of {counted}")
        self._check_date(process, snapshot)
        if snapshot.commit_kind is CommitKind.APPEND and change is not None and change.keeps_order:
            self._check_order(table, snapshot)
        told = self._after_changelog(table, snapshot)
        self._live = live
        self.newest = snapshot.id
        self.living.add(snapshot.id)
        self.snapshots[snapshot.id] = Committed(
            rows, state, snapshot.time_millis, files, _changelog_files(table, snapshot), snapshot.commit_kind, told
        )

    def _check_date(self, process: Process, snapshot: Snapshot) -> None:
        """A clock that is right gives a right date, not before that of the snapshot before, if that is right."""
        before = self.snapshots.get(self.newest)
        if process.clock is MachineClock.RIGHT and not self._can_be_right(snapshot.time_millis):
            self.world.violate(
                f"snapshot {snapshot.id} is dated wrongly: {snapshot.time_millis} by a clock that is right"
            )
        is_known = before is not None and self._can_be_right(before.time_millis)
        if before is not None and is_known and snapshot.time_millis < before.time_millis:
            self.world.violate(f"snapshot {snapshot.id} is older than the one before")

    def _after_changelog(self, table: FileStoreTable, snapshot: Snapshot) -> State:
        """What a reader of changelogs has after the snapshot's, whose old values must be those that it had before."""
        before = self.snapshots[self.newest].told if self.newest else {}
        if not self.kind.tells_old_values:
            return before
        found = list(changes(table, after=snapshot.id - 1, up_to=snapshot.id))
        try:
            return self.kind.after_changes(before, rows_of(found), kinds_of(found))
        except ValueError as error:
            self.world.violate(f"the changelog of snapshot {snapshot.id} does not fit: {error}")
            return before

    def _check_shown(self, snapshot: Snapshot, state: State, rows: list[Row]) -> None:
        """Where level 0 is left out, a write changes nothing yet, and a compaction brings keys to where they were."""
        before = self.snapshots[self.newest].rows if self.newest else []
        allowed = [before]
        if snapshot.commit_kind is CommitKind.COMPACT:  # of what was there when it began
            allowed += [list(one.state.values()) for one in self.snapshots.values()]
        for key in {row[:2] for row in (*rows, *before, *state.values())}:
            found = shown(row for row in rows if row[:2] == key)
            if found not in [shown(row for row in some if row[:2] == key) for some in allowed]:
                self.world.violate(
                    f"snapshot {snapshot.id} shows {found} of key {key}, which no writer wrote like that"
                )

    def _check_order(self, table: FileStoreTable, snapshot: Snapshot) -> None:
        """New rows have larger sequence numbers than all that were in their bucket."""
        for entry in table.manifests.read_entries(table.manifests.read_list(snapshot.delta_manifest_list)):
            first_sequence = self._live.next_sequence(entry.bucket_id)
            if entry.kind is FileKind.ADD and entry.file.min_sequence_number < first_sequence:
                self.world.violate(f"snapshot {snapshot.id} adds {entry.file.file_name}, older than what is there")

    def check_all(self) -> None:
        """Read every living snapshot, as a new process, and count the files that have no name anywhere."""
        with self.world.as_stranger():
            table = FileStoreTable.open(self.table.path, self.table.file_io)
            ids = [number for number in table.snapshots.ids() if number not in self.may_be_created_behind]
            if ids != sorted(self.living):
                self.world.violate(f"snapshots {ids} are there, not {sorted(self.living)}")
                return
            newest = table.snapshots.latest_id() or 0
            if newest != self.newest:
                self.world.violate(f"the newest snapshot is {newest}, not {self.newest}")
            on_disk = {path.name for path in Path(self.table.path).rglob("*")}
            for number in ids:
                missing = self.snapshots[number].files - on_disk
                if number > self.doomed and missing:
                    self.world.violate(f"snapshot {number} lacks {sorted(missing)}")
            for tag, number in self.tags.items():
                if self.snapshots[number].files - on_disk:
                    self.world.violate(f"tag {tag} lacks {sorted(self.snapshots[number].files - on_disk)}")
            if ids and not self.world.violations:
                self._check_read(table, ids[-1])
            self._count_orphans()
            if ids and self.kind.shows_compacted and not self.world.violations:
                self._check_all_is_shown(table)
            if ids and self.kind.tells_old_values and not self.world.violations:
                self._check_all_is_told(table)

    def _check_all_is_shown(self, table: FileStoreTable) -> None:
        """After a full compaction all rows are shown."""
        table.compact(full=True)
        expected, found = shown(self.state(self.newest).values()), shown(rows_of(table.planned().batches()))
        if found != expected:
            self.world.violate(f"after a full compaction the table {difference(expected, found)}")

    def _check_all_is_told(self, table: FileStoreTable) -> None:
        """After a full compaction the changelogs have given all rows."""
        last = table.compact(full=True)
        told = self._after_changelog(table, last) if last is not None else self.snapshots[self.newest].told
        expected, found = shown(self.state(self.newest).values()), shown(told.values())
        if found != expected:
            self.world.violate(f"all changelogs together tell other rows: {difference(expected, found)}")

    def _check_read(self, table: FileStoreTable, number: int) -> None:
        try:
            rows = rows_of(table.planned(snapshot_id=number).batches())
        except LakelogError as error:
            self.world.violate(f"snapshot {number} can no longer be read: {error}")
            return
        expected = shown(self.snapshots[number].rows)
        if shown(rows) != expected:
            self.world.violate(f"snapshot {number} has changed: {difference(expected, shown(rows))}")

    def _count_orphans(self) -> None:
        """Files that no living snapshot names may be left by crashes and unknown outcomes alone."""
        named = {name for number in self.living for name in self.snapshots[number].files}
        shown_by_tags = self.tags.values()  # with the lists of their changelogs
        named |= {name for number in shown_by_tags for name in self.snapshots[number].files}
        named |= {f"{TAG_PREFIX}{tag}" for tag in self.tags}
        named |= {name for number in (*self.living, *shown_by_tags) for name in self.snapshots[number].changelog_files}
        for tag in self.table.snapshots.tags():
            if tag.startswith(RESTORE_TAG_PREFIX):
                named |= {f"{TAG_PREFIX}{tag}", *self.snapshots[self.table.snapshots.tagged(tag).id].files}
        named |= {f"{CONSUMER_PREFIX}{STATE_CONSUMER}", "state"}
        named |= {path.name for path in Path(self.table.path, "lakelog").glob("main-change-*")}  # kept for a day
        named |= {"EARLIEST", "LATEST", "schema-0", *(f"{SNAPSHOT_PREFIX}{number}" for number in self.living)}
        orphans = [path for path in Path(self.table.path).rglob("*") if path.is_file() and path.name not in named]
        self.world.events["orphans"] += len(orphans)
        in_line = [path for path in orphans if path.parent.name == "line"]
        if len(in_line) <= self.world.events["place left behind"]:
            orphans = [path for path in orphans if path not in in_line]
        # An expiry spares the files of a tag in the making, which is given up where it came too late.
        is_calm = not self.world.events["gave up"] and not self.world.events["restore refused"]
        if orphans and not self.world.fault_rate and is_calm:
            self.world.violate(f"files are left although nothing failed: {sorted(path.name for path in orphans)}")


def referenced(table: FileStoreTable, snapshot: Snapshot, live: LiveFiles) -> frozenset[str]:
    """The names of all files that a snapshot needs."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    manifests = (one.file_name for name in lists for one in table.manifests.read_list(name))
    name = snapshot.index_manifest
    index = [] if name is None else [name, *(one["_FILE_NAME"] for one in read_index(table, name))]
    return frozenset([*lists, *manifests, *index, *(entry.file.file_name for entry in live.entries())])


def _changelog_files(table: FileStoreTable, snapshot: Snapshot) -> frozenset[str]:
    """What only the changes of a snapshot need."""
    name = snapshot.changelog_manifest_list
    if name is None:
        return frozenset()
    manifests = table.manifests.read_list(name)
    entries = table.manifests.read_entries(manifests)
    return frozenset([name, *(one.file_name for one in manifests), *(entry.file.file_name for entry in entries)])


def difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """What is missing, and what is too much."""
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return f"lacks {list(missing.elements())}, has beyond them {list(extra.elements())}"


def has_overwrite(model: Model, after: int, up_to: int) -> bool:
    """Whether a range of snapshots cannot be given as changes."""
    kinds = [model.snapshots[number].changed_by for number in range(after + 1, up_to + 1)]
    return CommitKind.OVERWRITE in kinds
