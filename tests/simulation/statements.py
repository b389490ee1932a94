"""Batch statements in a history: their drivers, and those who cancel them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakelog.common.errors import NotFoundError
from lakelog.protocol.state.header import BucketFile, CommitHeader, StagedPart
from lakelog.protocol.state.prepared import PreparedCommit, user_of
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import silent
from lakelog.protocol.statements import statement_task, statements
from lakelog.protocol.statements.statement_task import CancelledError, StatementTask
from lakelog.protocol.statements.statements import Fate, StatementPorts
from lakelog.protocol.writing.attempts import BucketAnswer
from tests.simulation.files import (
    SimFiles,
    SimSnapshots,
    SimStatements,
    counts_of,
    stage,
    stage_rows,
    values_at,
)
from tests.simulation.kinds import Key, Operation
from tests.simulation.lake import PlacedTable
from tests.simulation.log import SimLog
from tests.simulation.model import RUNNABLE_MAX, SimStatement, expect
from tests.simulation.world import Line, World, start

if TYPE_CHECKING:
    from tests.simulation.model import History

STATEMENT_SHARE = 0.004
CANCEL_SHARE = 0.004
LATE_SHARE = 0.004
LATE_PAUSES_MAX = 400
DELETE_SHARE = 0.5
STATEMENTS_MAX = 3
CANCELLERS_MAX = 4  # at a time: a dozen that fence each other end, but in more steps than a history has
BACK_OFF_PAUSES_MAX = 256  # longer than a transaction takes, as it is in reality
STATEMENT_MARKER = "statement"
NOT_BEGUN = "a statement was cancelled"


def ports_of(world: World) -> StatementPorts:
    """What a driver needs to finish and to cancel."""
    return StatementPorts(
        snapshots=SimSnapshots(world),
        prepared=SimStatements(world),
        log_in=partial(_log_in, world),
        look=partial(_look, world),
        observe=silent,
        clock=lambda: world.millis,
        bucket_count=world.bucket_count,
        behind=partial(_behind, world),
        wait=lambda _seconds: world.pause(),
    )


def finish_left_over(world: World) -> dict[str, Fate]:
    """What a driver does before a batch."""
    fates = statements.finish_left_over(
        ports_of(world), is_foreign=lambda prepared: prepared.table_uuid != world.table_uuid
    )
    world.events["a left over statement was finished"] += Fate.FINISHED in fates.values()
    return fates


def _task(
    world: World, bucket: int, found: Mapping[str, PreparedCommit], own: str | None
) -> StatementTask[tuple[Operation, ...]]:
    return StatementTask(
        table_uuid=world.table_uuid,
        schema_id=0,
        bucket=bucket,
        statements=found,
        own=own,
        log=SimLog(world, Line(world)),
        files=SimFiles(world),
        prepared=SimStatements(world),
        observe=silent,
        patience=world.patience(),
        back_off=partial(_back_off, world),
    )


def _back_off(world: World, fencings: int) -> None:
    for _ in range(world.silences.randint(0, min(2**fencings, BACK_OFF_PAUSES_MAX))):
        world.pause()


def _log_in(
    world: World, found: Mapping[str, PreparedCommit], buckets: Iterable[int], own: str | None
) -> list[BucketAnswer]:
    """Bucket by bucket, in any order: a kill is between any two."""
    ordered = list(buckets)
    world.silences.shuffle(ordered)
    return [statement_task.log_statements(_task(world, bucket, found, own)) for bucket in ordered]


def _behind(world: World) -> tuple[list[int], list[CommitHeader]]:
    """The buckets with a tail, and the headers there that can be read now."""
    world.pause()
    log = world.newest().logged
    buckets = [bucket for bucket, entries in enumerate(world.log) if len(entries) > log.position(bucket).offset]
    found: list[CommitHeader] = []
    for bucket in buckets:
        task = _task(world, bucket, {}, None)
        found += task.patience.keep_trying(partial(statement_task.readable_headers, task))
    return buckets, found


def _look(world: World, buckets: Iterable[int], fences: bool) -> dict[int, tuple[str, ...]]:
    return {bucket: statement_task.look(_task(world, bucket, {}, None), fences=fences) for bucket in buckets}


def let_statements_act(history: History) -> None:
    """Begin statements, and cancel them, at any time."""
    rng, world = history.stater, history.world
    if len(history.runnable) >= RUNNABLE_MAX:
        return
    chance = rng.random()
    if chance < STATEMENT_SHARE and len(history.statements) < STATEMENTS_MAX:
        _begin(history)
    elif chance < STATEMENT_SHARE + CANCEL_SHARE + LATE_SHARE and world.prepared:
        name = rng.choice(sorted(world.prepared))
        if sum(not other.is_done for other in history.others) >= CANCELLERS_MAX:
            return
        one = next(one for one in history.statements if name.startswith(one.user))
        if chance < STATEMENT_SHARE + CANCEL_SHARE:
            other = start(world, f"cancel {name}", lambda: _cancel(world, name, one))
        else:
            other = start(world, f"find {name} late", lambda: _find_late(world, name))
        history.others.append(other)
        history.runnable.append(other)


def _begin(history: History) -> None:
    rng, world = history.stater, history.world
    number = len(history.statements)
    user = f"statement-{number:036x}"
    buckets = [bucket for bucket in range(world.bucket_count) if rng.random() < 0.75] or [0]
    one = SimStatement(user=user, buckets=tuple(buckets))
    if world.kind.takes_rows_out and rng.random() < DELETE_SHARE:
        one.taker = random.Random(f"deletes {world.seed} {user}")
    else:
        one.changes = {bucket: world.kind.statement(rng, user, marker(user)) for bucket in buckets}
    one.actor = start(world, user, lambda: _run(world, one))
    history.statements.append(one)
    history.runnable.append(one.actor)


def marker(user: str) -> Key:
    """The key that only this statement writes in a bucket."""
    return (STATEMENT_MARKER, user)


def _run(world: World, one: SimStatement) -> None:
    """What the driver of a statement does."""
    PlacedTable(world.path, world.table_uuid, world.site.lake).check_no_copy(SimSnapshots(world).newest().place)
    finish_left_over(world)
    state, began = world.newest(), world.now
    parts = _staged_parts(world, one, state)
    if not parts:
        world.events["a statement had nothing to do"] += 1
        return
    prepared = PreparedCommit(
        table_uuid=world.table_uuid,
        topic_id=world.topic_id,
        user=one.user,
        operation="MERGE",
        schema_id=0,
        base_snapshot_id=state.snapshot_id,
        time_millis=world.millis,
        row_count=1,
        parts=parts,
    )
    name = f"{one.user}-blake2b-{0:032x}"
    commits = SimStatements(world)

    def create() -> str:
        commits.write(name, prepared)
        return name

    statements.put_prepared(create, commits, age_seconds=lambda: world.now - began)
    try:
        statements.finish([name], ports_of(world), own=name, base=state.snapshot_id)
    except CancelledError as error:
        one.is_cancelled = "expired" not in str(error)
        world.events[NOT_BEGUN] += 1
        return
    one.is_done = True
    world.events["a statement was done"] += 1


def _staged_parts(world: World, one: SimStatement, state: TableState) -> dict[int, StagedPart]:
    """The changes in each bucket, in files; of a delete the rows are chosen among those of the snapshot."""
    parts: dict[int, StagedPart] = {}
    for bucket in one.buckets:
        position = state.logged.position(bucket)
        files: tuple[BucketFile, ...] = ()
        removed: tuple[BucketFile, ...] = ()
        if one.taker is None:
            files = _stage_changes(world, one.changes[bucket], bucket, state)
        else:
            there = counts_of(world, world.snapshots[state.snapshot_id].files[bucket])
            chosen = {row: count for row, count in there.items() if is_deletable(row) and one.taker.random() < 0.8}
            removed = stage_rows(world, chosen)
            if removed:
                one.removed[bucket] = chosen
        if files or removed:
            parts[bucket] = StagedPart(offset=position.offset, files=files, removed=removed)
        world.pause()
    return parts


def _stage_changes(
    world: World, changes: Sequence[Operation], bucket: int, state: TableState
) -> tuple[BucketFile, ...]:
    """The changes as they are: a merge comes behind the fence."""
    sequence = state.logged.position(bucket).sequence
    if world.kind.is_merged:
        meta = world.write_file([(key, sequence + place, value) for place, (key, value) in enumerate(changes)])
        world.written[meta.file_name] = world.now
        return (BucketFile(partition=b"", meta=meta),)
    files, _ = stage(world, changes, sequence, values_at(world, bucket, state.snapshot_id, ()))
    return files


def is_deletable(row: Key) -> bool:
    """Whether statements may delete a row of an append-only table: all but the markers of batches and statements."""
    assert isinstance(row, tuple)
    return not isinstance(row[0], tuple)


def _cancel(world: World, name: str, one: SimStatement) -> None:
    fate = statements.cancel(name, ports_of(world))
    one.is_cancelled |= fate is Fate.CANCELLED
    world.events[f"cancel: {fate.value}"] += 1


def _find_late(world: World, name: str) -> None:
    """Finish a statement that was found unfinished, a while after others have finished and perhaps forgotten it."""
    if world.newest().users.get(user_of(name)) is None:
        statements.finish([name], replace(ports_of(world), prepared=LateStatements(world)))


@dataclass(frozen=True, slots=True)
class LateStatements(SimStatements):
    """The prepared commits of a process that is slow to go on with what it has read of them."""

    def read(self, name: str) -> PreparedCommit:
        world = self.world
        found = world.prepared.get(name)
        if found is None:
            raise NotFoundError(name)
        for _ in range(LATE_PAUSES_MAX):
            world.pause()
            if name not in world.prepared and user_of(name) not in world.state_of(len(world.snapshots) - 1).users:
                world.events["a finder came after a statement was forgotten"] += 1
                break
        return found


def check_ended(history: History) -> None:
    """Drivers of statements, and those who cancel, may only end with errors that name a conflict or a silent broker."""
    for actor in [*(one.actor for one in history.statements), *history.others]:
        if actor is not None and actor.is_done and actor.error is not None:
            expect(history, actor.error, actor.world)
