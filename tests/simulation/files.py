"""The file store of a simulated table, as tasks and drivers see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.snapshots.users import CommitUser, PropertyKey
from lakelog.filestore.metadata.tables.state_keeping import StateKeeper
from lakelog.filestore.metadata.tables.unnamed_files import AGE_MILLIS_MIN
from lakelog.filestore.schema.paths import TablePaths
from lakelog.protocol.state.header import BucketFile, StagedPart
from lakelog.protocol.state.ports import Decide, PartBase, PreparedBucket
from lakelog.protocol.state.prepared import PreparedCommit, user_of, without_ended_statements
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.state.writer_marks import with_marks
from tests.simulation.kinds import SILENT, Key, Operation, Row, Value
from tests.simulation.log import SimLog
from tests.simulation.world import SOURCES, Line, Rows, SimSnapshot, World

ORPHAN_SECONDS = AGE_MILLIS_MIN / 1000


@dataclass(frozen=True, slots=True)
class SimFiles:
    """The file store port of a task; a bucket's rows are made anew by each attempt."""

    world: World

    def newest(self) -> TableState:
        return self.world.newest()

    def first_missing(self, bucket: int, files: Iterable[BucketFile]) -> str | None:
        world = self.world
        world.pause()
        names = (file.meta.file_name for file in files)
        return next((name for name in names if name in world.removed or name not in world.contents), None)

    def prepare(self, bucket: int, rows: Rows, base: PartBase) -> PreparedBucket[tuple[Operation, ...]]:
        world, started = self.world, self.world.now
        world.pause()
        operations = rows()
        is_silent = operations[0] == SILENT
        staying, logged = world.kind.prepared(
            operations[is_silent:], base.first_sequence, lambda: self._old_rows(bucket, base)
        )
        if is_silent:
            logged = []
            world.events["a part without records"] += 1
        files = []
        if staying:
            meta = world.write_file(staying)
            world.written[meta.file_name] = world.now
            files.append(BucketFile(partition=b"", meta=meta))
            world.volatile.add(meta.file_name)
        else:
            world.events["a part without files"] += 1
        world.pause()
        return PreparedBucket(
            files=tuple(files),
            changelog=(),
            record_count=len(logged) or len(files),
            size_bytes=10 * len(logged) + bucket,
            payload=tuple(logged),
            age_seconds=lambda: world.now - started,
            make_durable=lambda: self._make_durable(files),
        )

    def _make_durable(self, files: Iterable[BucketFile]) -> None:
        self.world.pause()
        self.world.volatile.difference_update(file.meta.file_name for file in files)

    def _old_rows(self, bucket: int, base: PartBase) -> dict[Key, Value]:
        """What the bucket has before a part: the files of the snapshot, and those that the tail adds."""
        world = self.world
        world.pause()
        if base.snapshot_id < world.first_snapshot:
            world.events["old rows had expired"] += 1
            raise NotFoundError(f"snapshot {base.snapshot_id} has expired")
        tail = [file for header in base.tail for file in header.files]
        rows = world.rows([*world.snapshots[base.snapshot_id].files[bucket], *tail])
        return world.kind.fold((key, value) for key, _, value in sorted(rows, key=lambda row: row[1]))

    def prepare_staged(
        self, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
    ) -> PreparedBucket[tuple[Operation, ...]]:
        """A staged part as it is; made again where the bucket has moved, and always of a table that is merged."""
        world, started = self.world, self.world.now
        world.pause()
        if part.removed:
            return self._take_out(bucket, part, base, has_moved=has_moved)
        logged = [(key, value) for key, _, value in world.rows(part.files)]
        files = part.files
        if has_moved:
            world.events["a statement was prepared again"] += 1
        if has_moved or world.kind.is_merged:
            if world.kind.is_merged:
                before = self._old_rows(bucket, base)
            else:
                before = values_at(world, bucket, base.snapshot_id, [file for one in base.tail for file in one.files])
            files, logged = stage(world, logged, base.first_sequence, before)
            world.pause()
        return PreparedBucket(
            files=files,
            changelog=(),
            record_count=len(logged),
            size_bytes=10 * len(logged) + bucket,
            payload=tuple(logged),
            age_seconds=lambda: 0.0 if files == part.files else world.now - started,  # staged ones are listed
        )

    def _take_out(
        self, bucket: int, part: StagedPart, base: PartBase, *, has_moved: bool
    ) -> PreparedBucket[tuple[Operation, ...]]:
        """The part of a statement that takes rows out of an append-only table: those that are still there."""
        world, started = self.world, self.world.now
        rows, removed = counts_of(world, part.removed), part.removed
        if has_moved:
            left = rows & counts_at(world, bucket, base)
            if left != rows:
                world.events["a statement deleted rows that another one had deleted"] += 1
                rows, removed = left, stage_rows(world, left)
        return PreparedBucket(
            files=(),
            changelog=(),
            record_count=len(rows),
            size_bytes=10 * len(rows) + bucket,
            payload=tuple((row, -count) for row, count in rows.items()),
            removed=removed,
            age_seconds=lambda: 0.0 if removed == part.removed else world.now - started,
        )


def stage(
    world: World, changes: Sequence[Operation], first_sequence: int, before: Mapping[Key, Value | None]
) -> tuple[tuple[BucketFile, ...], list[Operation]]:
    """A file of what a statement's changes come to, numbered from here on, and what is logged of them; none of nothing.

    Remembers the old values that its records will have.
    """
    there = {key: value for key, value in before.items() if value is not None}
    rows, logged = world.kind.staged(changes, first_sequence, lambda: there)
    if not rows:
        return (), logged
    meta = world.write_file(rows)
    world.written[meta.file_name] = world.now
    if world.kind.has_old_values:
        world.befores[meta.file_name] = {key: before.get(key) for key, _ in logged}
    return (BucketFile(partition=b"", meta=meta),), logged


def stage_rows(world: World, rows: Mapping[Key, int]) -> tuple[BucketFile, ...]:
    """A file of rows that a statement takes out of an append-only table; none for no row."""
    if not rows:
        return ()
    meta = world.write_file([(row, 0, count) for row, count in rows.items()])
    world.written[meta.file_name] = world.now
    return (BucketFile(partition=b"", meta=meta),)


def values_at(world: World, bucket: int, snapshot_id: int, tail: Sequence[BucketFile]) -> dict[Key, Value | None]:
    """The values of a bucket's keys in a snapshot, and in files behind it."""
    rows = [*world.rows(world.snapshots[snapshot_id].files[bucket]), *world.rows(tail)]
    return {key: value for key, _, value in sorted(rows, key=lambda row: row[1])}


def counts_of(world: World, files: Sequence[BucketFile]) -> Counter[Key]:
    """The rows of files of an append-only table, as often as they are there."""
    counts: Counter[Key] = Counter()
    for row, _, count in world.rows(files):
        counts[row] += cast("int", count)
    return counts


def counts_at(world: World, bucket: int, base: PartBase) -> Counter[Key]:
    """The rows of a bucket of an append-only table in a snapshot and the tail behind it."""
    there = counts_of(world, world.snapshots[base.snapshot_id].files[bucket])
    there += counts_of(world, [file for header in base.tail for file in header.files])
    return there - counts_of(world, [file for header in base.tail for file in header.removed])


@dataclass(frozen=True, slots=True)
class SimStatements:
    """The prepared commits of a table, file by file."""

    world: World

    def names(self) -> list[str]:
        self.world.pause()
        return sorted(self.world.prepared)

    def read(self, name: str) -> PreparedCommit:
        self.world.pause()
        if name not in self.world.prepared:
            raise NotFoundError(name)
        return self.world.prepared[name]

    def write(self, name: str, prepared: PreparedCommit) -> None:
        self.world.pause()
        self.world.prepared[name] = prepared
        self.world.pause()

    def mark_cancelled(self, name: str) -> None:
        self.world.pause()
        self.world.marks.add(name)
        self.world.pause()

    def is_marked(self, name: str) -> bool:
        self.world.pause()
        return name in self.world.marks

    def exists(self, name: str) -> bool:
        self.world.pause()
        return name in self.world.prepared

    def delete(self, name: str) -> None:
        self.world.pause()
        self.world.prepared.pop(name, None)
        self.world.pause()
        self.world.marks.discard(name)


@dataclass(frozen=True, slots=True)
class SimSnapshots:
    """The snapshot port of a driver: decide, then create-new, again when another writer was faster."""

    world: World

    def _keeper(self) -> StateKeeper:
        return StateKeeper(cast("FileIO", self.world.consumers), TablePaths("t"))

    def newest(self) -> TableState:
        return self.world.newest()

    def took_in(self, user: str, *, after: int) -> bool | None:
        world = self.world
        world.pause()
        if any(user in one.state.users for one in world.snapshots[max(after + 1, world.first_snapshot) :]):
            return True
        return False if world.first_snapshot <= after + 1 else None

    def append(self, batch: Batch, decide: Decide) -> int | None:
        world = self.world
        while True:
            count = len(world.snapshots)
            latest = world.snapshots[-1]
            change = decide(world.state_of(count - 1))
            if change is None:
                return None
            change = with_marks(change, world.mark_of, now_millis=world.seed)
            files = [list(bucket) for bucket in latest.files]
            for bucket, file in change.files:
                files[bucket].append(file)
            for bucket in {bucket for bucket, _ in change.removed}:
                taken = [file for at, file in change.removed if at == bucket]
                files[bucket] = without_rows(world, files[bucket], taken)
            users = forget_statements(world, batch, change.users)
            state = TableState(snapshot_id=count, users=users, log=change.log, place=world.path)
            keeper, properties = self._keeper(), {PropertyKey.LOG_STATE: "positions"}
            if not latest.state.snapshot_id:
                keeper.before_commit(count, properties, carried={})
            known = frozenset(
                (str(one["user"]), number)
                for one in change.lineage
                for number in cast("list[int]", one.get(SOURCES, []))
            )
            if self._create(count, SimSnapshot(state, tuple(map(tuple, files)), lineage=known)):
                keeper.after_commit(count, properties, now_millis=0)
                world.appended[batch.user, batch.identifier] += 1
                return count

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        while True:
            count = len(self.world.snapshots)
            latest = self.world.snapshots[-1]
            files = list(latest.files)
            for one in buckets:
                merged = {meta.file_name for meta in one.before}
                live = {file.meta.file_name for file in files[one.bucket_id.number]}
                if not merged <= live:
                    self.world.events["compaction dropped"] += 1
                    raise ConflictError("an input is missing")
                added = tuple(BucketFile(partition=b"", meta=meta) for meta in one.after)
                kept = tuple(file for file in files[one.bucket_id.number] if file.meta.file_name not in merged)
                files[one.bucket_id.number] = added + kept
            state = replace(self.world.state_of(count - 1), snapshot_id=count)
            if self._create(count, SimSnapshot(state, tuple(files))):
                self.world.events["compacted"] += 1
                return count

    def _create(self, snapshot_id: int, snapshot: SimSnapshot) -> bool:
        self.world.pause()
        if len(self.world.snapshots) != snapshot_id:
            self.world.events["snapshot race lost"] += 1
            return False
        self.world.snapshots.append(snapshot)
        self.world.pause()
        return True


def without_rows(world: World, files: Sequence[BucketFile], removed: Sequence[BucketFile]) -> list[BucketFile]:
    """The files of an append-only bucket without the rows of others. Raises CorruptDataError for a row it lacks."""
    wanted = counts_of(world, removed)
    kept: list[BucketFile] = []
    for file in files:
        rows = world.contents.get(file.meta.file_name, ())
        if wanted.keys().isdisjoint(row for row, _, _ in rows):
            kept.append(file)
            continue
        staying: list[Row] = []
        for row, sequence, count in rows:
            taken = min(wanted[row], cast("int", count))
            wanted[row] -= taken
            if cast("int", count) > taken:
                staying.append((row, sequence, cast("int", count) - taken))
        world.events["a file was written again without rows"] += 1
        if staying:
            kept.append(BucketFile(partition=b"", meta=world.write_file(staying)))
    if +wanted:
        raise CorruptDataError(f"a bucket lacks rows that its log says were deleted: {+wanted}")
    return kept


def forget_statements(world: World, batch: Batch, users: Mapping[str, CommitUser]) -> dict[str, CommitUser]:
    """The users without the statements that have ended."""
    kept, _ = without_ended_statements(users, own=batch.user, held=held_users(world))
    world.events["a statement was forgotten"] += len(users) - len(kept)
    return kept


def held_users(world: World) -> Callable[[], set[str]]:
    """The users of prepared commits that are there."""
    return lambda: {user_of(name) for name in world.prepared}


def remove_orphan_files(world: World) -> None:
    """What `remove_orphan_files` does to a table with a log, at the youngest age: list, ask log and snapshots, delete.

    Files of compactions stay: what bounds their age is not the broker.
    """
    old = [name for name, at in world.written.items() if at < world.now - ORPHAN_SECONDS and name not in world.removed]
    named = {name for one in world.prepared.values() for name in one.file_names}
    world.pause()
    log = world.newest().logged
    for bucket in range(world.bucket_count):
        tail = SimLog(world, Line(world)).read_tail(bucket, log.position(bucket))
        headers = [one.header for one in tail.transactions]
        named |= {file.meta.file_name for one in headers for file in (*one.files, *one.removed)}
        named |= {file.meta.file_name for one in headers for part in one.parts.values() for file in part.files}
    world.pause()
    named |= {file.meta.file_name for one in world.snapshots for files in one.files for file in files}
    for name in old:
        world.pause()
        if name not in named:
            world.removed.add(name)
            world.events["an orphan was removed"] += 1
