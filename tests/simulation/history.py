"""One random history of streaming writers over one table, and the promises checked against it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from lakelog.common.errors import LakelogError, StalledError
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.logstore.errors import LogTruncatedError
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.state.ports import BucketTail
from lakelog.protocol.state.state import Batch, LogPosition, TableState
from lakelog.protocol.state.steps import silent
from lakelog.protocol.state.writer_marks import NOTHING_LEFT, LeftBatches, WriterMark
from lakelog.protocol.statements.statements import ABANDONED_MILLIS, finish, unfinished_in
from lakelog.protocol.writing import driver
from lakelog.protocol.writing.attempts import (
    FENCINGS_MAX,
    FENCINGS_MAX_BESIDE_WRITERS,
    BucketAnswer,
    OvertakenError,
)
from lakelog.protocol.writing.kept_producers import ReportedTail
from lakelog.protocol.writing.lost_batches import LATE_SECONDS, check_acknowledged, check_newest
from lakelog.protocol.writing.pending import PendingBatches, commit_pending
from lakelog.protocol.writing.task import BucketTask, write_bucket
from tests.simulation.checks import check
from tests.simulation.files import SimFiles, SimSnapshots, remove_orphan_files
from tests.simulation.kinds import LAST_WRITE, Row, TableKind
from tests.simulation.lake import PlacedTable
from tests.simulation.log import SimLog
from tests.simulation.model import (
    RECORDS_LOST,
    RUNNABLE_MAX,
    TAIL_LOST,
    Driver,
    History,
    Pool,
    Stream,
    expect,
    forget,
    is_about_source,
    kill,
    random_batches,
    source_digest,
)
from tests.simulation.outsiders import let_outsiders_act, read_on
from tests.simulation.statements import check_ended, finish_left_over, let_statements_act, ports_of
from tests.simulation.world import SOURCES, Actor, Line, Operations, Rows, World, start
from tests.simulation.writers import Writers, check_writers

KILL_SHARE = 0.004
ZOMBIE_SHARE = 0.004
STOP_SHARE = 0.004
STOPPED_TURNS_MAX = 150
SPECULATE_SHARE = 0.1
COMPACT_SHARE = 0.3
TIMER_SHARE = 0.02
LOSS_SHARE = 0.5
PROCESS_LOST_SHARE = 0.3
ROWLESS_SHARE = 0.15
CHANGED_SHARE = 0.15
STEPS_MAX = 60_000  # statements that fence each other wait for long, turn by turn
ATTEMPTS_MAX = 400


def simulate(
    seed: int,
    *,
    kind: TableKind = LAST_WRITE,
    has_foreign_policy: bool = False,
    snapshot_share: float = 1.0,
    loses_tails: bool = False,
    batch_count: int | None = None,
    writer_count: int = 0,
) -> History:
    """The history of `seed`: one to three streams of three batches over three buckets, readers beside them, and expiry.

    With `has_foreign_policy` Kafka deletes records as it likes, too: the first error that tells it ends the history.
    With a `snapshot_share` below 1 snapshots come by interval, and streams have twice as many batches, if their number
    is not given. `writer_count` names of writers write beside them.
    """
    world = World(seed, bucket_count=3, kind=kind)
    streams = [
        Stream(world, user, random_batches(world, user, count=batch_count or (6 if snapshot_share < 1 else 3)))
        for user in ("a", "b", "c")[: 1 + seed % 3]
    ]
    history = History(world, streams, has_foreign_policy=has_foreign_policy, snapshot_share=snapshot_share)
    history.loses_tails = loses_tails
    if snapshot_share < 1:
        _leave_out_rows(history)
    writers = Writers(history, writer_count)
    history.has_writers = writer_count > 0
    _run(history, writers)
    if not history.is_stopped:
        _settle(history)
        writers.end()
        for reader in history.readers:
            read_on(history, reader)
    check_ended(history)
    check(history)
    check_writers(writers)
    history.violations = +history.violations
    return history


def _leave_out_rows(history: History) -> None:
    """Some batches have read on in their sources, and have no rows."""
    rowless = random.Random(f"rowless {history.world.seed}")
    for stream in history.streams:
        for number in range(len(stream.batches)):
            if rowless.random() < ROWLESS_SHARE:
                stream.batches[number] = {}


def _run(history: History, writers: Writers) -> None:
    """Let everybody take turns until each stream has seen its last batch committed."""
    world, rng = history.world, history.world.rng
    for _ in range(STEPS_MAX * (1 + len(writers.all))):
        for stream in history.streams:
            _advance(history, stream)
        are_done = all(stream.position == len(stream.batches) for stream in history.streams)
        if history.is_stopped or (are_done and writers.are_done):
            return
        writers.act()
        let_outsiders_act(history)
        let_statements_act(history)
        _let_timers_act(history)
        if not history.runnable:  # all were stopped to move the folder
            _wake(history)
            continue
        actor = rng.choice(history.runnable)
        chance = rng.random()
        if chance < KILL_SHARE:
            kill(history, actor)
        elif chance < KILL_SHARE + ZOMBIE_SHARE:
            _let_loose(history, actor)
        elif chance < KILL_SHARE + ZOMBIE_SHARE + STOP_SHARE:
            _stop(history, actor)
        else:
            _turn(history, actor)
        _wake(history)
        if history.attempts > ATTEMPTS_MAX:
            break
    history.violations["livelock"] += 1
    world.events["livelock"] += 1


def _turn(history: History, actor: Actor) -> None:
    actor.greenlet.switch()
    if actor.is_done:
        history.runnable.remove(actor)
        parent = actor.parent
        if parent is not None and parent.waits and has_answers(parent):
            parent.waits = False
            history.runnable.append(parent)


def has_answers(parent: Actor) -> bool:
    """Whether each task of a driver has an attempt that succeeded, or none that still runs."""
    by_bucket: dict[int | None, list[Actor]] = {}
    for task in parent.children:
        by_bucket.setdefault(task.bucket, []).append(task)
    return all(
        any(one.is_done and one.error is None for one in attempts) or all(one.is_done for one in attempts)
        for attempts in by_bucket.values()
    )


def _advance(history: History, stream: Stream) -> None:
    """Start the attempt that the stream needs next, as Spark would."""
    attempt = stream.attempt
    if attempt is not None and attempt.is_done:
        if attempt.error is None:
            stream.position += 1
        else:
            expect(history, attempt.error, stream.world)
            stream.is_first_attempt = True
            if is_about_source(attempt.error):
                _give_in(history, stream)
        stream.attempt = None
    if stream.attempt is None and stream.position < len(stream.batches):
        history.attempts += 1
        if history.snapshot_share < 1 and (stream.is_first_attempt or stream.driver is None):
            if stream.position and history.loses_tails:
                _lose_tail(history)
            stream.driver = Driver(stream.user)
            history.drivers.append(stream.driver)
        is_first = stream.is_first_attempt
        stream.is_first_attempt = False
        number = stream.position
        if is_first and stream.attempts[number] and history.world.rng.random() < CHANGED_SHARE:
            stream.plans[number] = 1 - stream.plans[number]
            history.world.events["changed"] += 1
        stream.attempts[number] += 1
        stream.attempt = _start_attempt(history, stream, number, visits_all=is_first)


def _give_in(history: History, stream: Stream) -> None:
    """Find the checkpoint again that goes with the table; where parts of both plans are in it, give the stream up."""
    number = stream.position
    stream.refused_plans.add((number, stream.plans[number]))
    stream.plans[number] = 1 - stream.plans[number]
    history.world.events["changed, refused"] += 1
    if (number, stream.plans[number]) in stream.refused_plans:
        stream.abandoned_at = number
        stream.position = len(stream.batches)
        history.world.events["changed, abandoned"] += 1


def _start_attempt(history: History, stream: Stream, number: int, *, visits_all: bool) -> Actor:
    world = stream.world
    pool = stream.pools.pop() if stream.pools and world.rng.random() > PROCESS_LOST_SHARE else Pool()
    plan = stream.plans[number]
    digest = source_digest(stream.user, number, plan)
    batch = Batch(user=stream.user, identifier=number, source_digest=digest, lineage={SOURCES: [number]})
    rows = {bucket: partial(operations, plan) for bucket, operations in stream.batches[number].items()}

    one = stream.driver

    def body() -> None:
        if one is None:
            _attempt(history, actor, batch, rows, pool, visits_all=visits_all)
        else:
            _attempt_by_interval(history, actor, one, batch, rows, pool=pool)
        stream.pools.append(pool)

    actor = start(world, f"{stream.user}{number}", body)
    actor.pool = pool
    history.runnable.append(actor)
    return actor


def _attempt(
    history: History, me: Actor, batch: Batch, rows: Mapping[int, Rows], pool: Pool, *, visits_all: bool
) -> None:
    """What the driver of a query does with one micro-batch."""
    world = me.world
    snapshots = SimSnapshots(world)
    while True:
        state = snapshots.newest()
        PlacedTable(world.path, world.table_uuid, world.site.lake).check_no_copy(state.place)
        finish_left_over(world)
        if driver.check_identity(state, batch) is driver.Verdict.REPLAY:
            world.events["replay"] += 1
            return
        visited = world.patience().keep_trying(partial(_unread_buckets, world, Line(world))) if visits_all else set()
        answers = _run_tasks(history, me, batch, {b: rows.get(b) for b in visited | set(rows)}, pool)
        met = unfinished_in(answers)
        if met:
            world.events["a batch met a statement"] += 1
            finish(met, ports_of(world))
            continue
        try:
            driver.commit_batch(batch, answers, snapshots=snapshots, observe=silent, clock=lambda: world.seed)
            break
        except driver.BucketConflictError:
            world.events["conflict"] += 1
    _compact(world, batch)


def _lose_tail(history: History) -> None:
    """What an unclean election takes, once: records behind the newest snapshot."""
    world = history.world
    if world.events[RECORDS_LOST] or history.timer.random() > LOSS_SHARE:
        return
    bucket = history.timer.randrange(world.bucket_count)
    entries, first = world.log[bucket], world.snapshots[-1].state.logged.position(bucket).offset
    at = history.timer.randint(first, len(entries))
    gone = [one for one in entries[at:] if one is not None and one.state == "committed"]
    if not gone or any(one is not None and one.state == "open" for one in entries):
        return
    if entries[at] is None:  # the marker of the transaction before
        at += 1
    del entries[at:]
    world.events[RECORDS_LOST] += 1
    acknowledged = {(one.user, number) for one in history.streams for number in range(one.position)}
    if any((one.header.user, one.header.identifier) in acknowledged for one in gone):
        world.events[TAIL_LOST] += 1


def _attempt_by_interval(
    history: History, me: Actor, one: Driver, batch: Batch, rows: Mapping[int, Rows], *, pool: Pool
) -> None:
    """What a driver does with a batch where snapshots come by interval."""
    world, pending = me.world, one.pending
    while one.is_busy:  # with a timer
        world.pause()
    one.is_busy = True
    while True:
        state = SimSnapshots(world).newest()
        PlacedTable(world.path, world.table_uuid, world.site.lake).check_no_copy(state.place)
        finish_left_over(world)
        if driver.check_identity(state, batch) is driver.Verdict.REPLAY:
            world.events["replay"] += 1
            one.is_busy = False
            return
        visited, left, began = set[int](), NOTHING_LEFT, world.now
        if pending.is_blind:
            left = _left_behind(world, batch, state)
            visited = world.patience().keep_trying(partial(_unread_buckets, world, Line(world)))
        parts = {b: rows.get(b) for b in visited | set(rows)}
        answers = _run_tasks(
            history, me, batch, parts, pool, reported=pending.reported(with_headers=world.kind.is_merged)
        )
        world.events["an answer went on"] += sum(one.goes_on for one in answers)
        met = unfinished_in(answers)
        if met:
            world.events["a batch met a statement"] += 1
            pending.forget()
            finish(met, ports_of(world))
            continue
        world.events["a batch without rows"] += not rows
        world.pause()
        if pending.is_blind or world.now - began > LATE_SECONDS:
            check_newest(world.mark_of(batch.user), batch)
        pending.add(batch, answers, SimSnapshots(world), left=left)
        world.acknowledged[batch.user] = pending.mark(world.table_uuid, world.topic_id)
        world.pause()
        if world.rng.random() >= history.snapshot_share:
            world.events["a batch without a snapshot"] += 1
            break
        try:
            _commit_pending(world, pending)
            _compact(world, batch)
            break
        except driver.BucketConflictError:
            world.events["conflict"] += 1
    one.is_busy = False


def _left_behind(world: World, batch: Batch, state: TableState) -> LeftBatches:
    """What earlier runs have acknowledged, and the log does not say."""
    world.pause()
    mark = world.mark_of(batch.user)
    if mark is None:
        return NOTHING_LEFT
    check_acknowledged(mark, snapshots=SimSnapshots(world), tails=partial(_tails, world))
    world.events["a mark was looked for"] += 1
    return LeftBatches.of(mark, batch, state)


def _tails(world: World, state: TableState, fences: bool) -> dict[int, list[CommitHeader]]:
    """What is readable behind a snapshot, by bucket."""

    def read(log: SimLog, bucket: int) -> list[CommitHeader]:
        with suppress(StalledError):
            return [one.header for one in log.read_tail(bucket, state.logged.position(bucket)).transactions]
        return []

    def look(bucket: int) -> list[CommitHeader]:
        if fences:
            world.patience().keep_trying(partial(SimLog(world, Line(world)).fence, bucket, patience=0))
        try:
            return world.patience().keep_trying(partial(read, SimLog(world, Line(world)), bucket))
        except LogTruncatedError as error:
            if world.newest().logged.position(bucket).offset == state.logged.position(bucket).offset:
                raise
            raise OvertakenError from error

    return {bucket: look(bucket) for bucket in range(world.bucket_count)}


def _commit_pending(world: World, pending: PendingBatches) -> None:
    def read_on(bucket: int, offset: int, _state: TableState) -> BucketTail | None:
        try:
            return SimLog(world, Line(world)).read_stable(bucket, LogPosition(offset=offset))
        except LakelogError:
            return None

    def marks() -> list[WriterMark]:
        world.pause()
        return [mark for user in world.acknowledged if (mark := world.mark_of(user)) is not None]

    commit_pending(
        pending,
        holds=partial(_holds, world),
        snapshots=SimSnapshots(world),
        observe=silent,
        clock=lambda: world.seed,
        marks=marks,
        read_on=read_on,
    )


def _holds(world: World, bucket: int, transactions: Sequence[tuple[CommitHeader, int]]) -> bool:
    """Whether the log has these transactions, each up to its end."""
    world.pause()
    entries = world.log[bucket]
    found = [entries[end - 1] if end <= len(entries) else None for _, end in transactions]
    return all(
        one is not None and one.state == "committed" and one.header == header
        for one, (header, _) in zip(found, transactions, strict=True)
    )


def _let_timers_act(history: History) -> None:
    """A snapshot without a batch, at any time when no batch is written: also of a driver that was superseded."""
    if not history.drivers or history.timer.random() >= TIMER_SHARE or len(history.runnable) >= RUNNABLE_MAX:
        return
    one = history.timer.choice(history.drivers)
    if one.is_busy or not one.pending:
        return
    one.is_busy = True

    def body() -> None:
        try:
            _commit_pending(history.world, one.pending)
            history.world.events["a timer made a snapshot"] += 1
        except driver.BucketConflictError:
            history.world.events["a timer came too late"] += 1
        one.is_busy = False

    history.runnable.append(start(history.world, f"timer of {one.user}", body))


def _compact(world: World, batch: Batch) -> None:
    if world.rng.random() < COMPACT_SHARE:
        units = list(_pick_compactions(world))
        world.pause()
        if units:
            driver.commit_compaction(batch, units, snapshots=SimSnapshots(world), observe=silent)


def _unread_buckets(world: World, line: Line) -> set[int]:
    ends = {bucket: line.ask_offset(len(entries)) for bucket, entries in enumerate(world.log)}
    log = world.snapshots[-1].state.logged
    return {bucket for bucket, end in ends.items() if end != log.position(bucket).offset}


def _run_tasks(
    history: History,
    me: Actor,
    batch: Batch,
    rows: Mapping[int, Rows | None],
    pool: Pool,
    *,
    reported: Mapping[int, ReportedTail] = MappingProxyType({}),
) -> list[BucketAnswer]:
    world = me.world

    def body_of(bucket: int, pool: Pool) -> Callable[[], BucketAnswer]:
        task = BucketTask(
            table_uuid=world.table_uuid,
            schema_id=0,
            batch=batch,
            bucket=bucket,
            rows=rows[bucket],
            log=SimLog(world, Line(world)),
            files=SimFiles(world),
            kept=pool,
            observe=silent,
            patience=world.patience(),
            reported=reported.get(bucket),
            fencings_max=FENCINGS_MAX_BESIDE_WRITERS if history.has_writers else FENCINGS_MAX,
        )
        return lambda: write_bucket(task)

    tasks = []
    for bucket in rows:
        tasks.append(start(world, f"{me.name}/{bucket}", body_of(bucket, pool)))
        tasks[-1].bucket = bucket
        if world.rng.random() < SPECULATE_SHARE:  # in another worker; it may be the first, or the only one to succeed
            tasks.append(start(world, f"{me.name}/{bucket}'", body_of(bucket, Pool())))
            tasks[-1].bucket = bucket
            world.events["speculated"] += 1
    me.children = tasks
    for one in tasks:
        one.parent = me
    history.runnable.extend(tasks)
    if tasks:
        history.runnable.remove(me)  # until its tasks have answered
        me.waits = True
        world.pause()
    return [_answer_of(world, [task for task in tasks if task.bucket == bucket]) for bucket in rows]


def _answer_of(world: World, attempts: list[Actor]) -> BucketAnswer:
    """The answer of an attempt that succeeded; the error of the last one when none did."""
    answers = [one.result for one in attempts if one.is_done and one.error is None]
    if not answers:
        error = attempts[-1].error
        assert error is not None
        raise error
    if any(one.error is not None for one in attempts):
        world.events["an attempt lost against another one"] += 1
    answer = world.rng.choice(answers)
    assert isinstance(answer, BucketAnswer)
    return answer


def _pick_compactions(world: World) -> Iterator[CompactResult]:
    """Full compactions, and ones of the youngest files alone, which must keep their deletes."""
    for bucket, files in enumerate(world.snapshots[-1].files):
        skip = 0 if world.rng.random() < 0.6 else 1
        inputs = sorted(files, key=lambda file: file.meta.max_sequence_number)[skip:]
        if len(inputs) < 2 or world.rng.random() < 0.4:
            continue
        rows = world.kind.compacted(_by_sequence(world, inputs), keeps_deletes=skip > 0)
        after = (world.write_file(rows),) if rows else ()
        yield CompactResult(bucket_id=BucketId(b"", bucket), before=tuple(file.meta for file in inputs), after=after)


def _by_sequence(world: World, files: list[BucketFile]) -> list[Row]:
    return sorted(world.rows(files), key=lambda row: row[1])


def _stop(history: History, actor: Actor) -> None:
    """SIGSTOP: hours go by before the actor takes its next step. Meanwhile others run, and orphans are removed."""
    world = history.world
    history.runnable.remove(actor)
    history.stopped.append((world.rng.randint(1, STOPPED_TURNS_MAX), actor))
    world.sleep()
    for one in history.worlds:
        one.abort_old()
    if len(history.runnable) < RUNNABLE_MAX:
        history.runnable.append(start(world, "remover", lambda: remove_orphan_files(world)))


def _wake(history: History, *, all_of_them: bool = False) -> None:
    """Let processes go on that were stopped for long enough, or all when no other is left to run."""
    is_over = all_of_them or not history.runnable
    history.runnable += [actor for turns, actor in history.stopped if turns <= 0 or is_over]
    history.stopped = [] if is_over else [(turns - 1, actor) for turns, actor in history.stopped if turns > 0]


def _let_loose(history: History, actor: Actor) -> None:
    """The stream starts over elsewhere while the old attempt's processes go on: zombies."""
    if len(history.runnable) < RUNNABLE_MAX:
        history.world.events["zombie"] += 1
        root = actor.parent or actor
        for stream in history.streams:
            if stream.attempt is root and root.pool is not None:
                stream.pools.append(root.pool)  # the worker process lives on, and serves the next attempt too
        forget(history, root)


def _settle(history: History) -> None:
    """Zombies run out; at last a quiet writer takes in what they left, and cancels statements that nobody began."""
    _wake(history, all_of_them=True)
    _run_out(history)
    history.world.site.away_until = 0
    history.world.site.now += 2 * ABANDONED_MILLIS / 1000
    history.is_over = True
    for world in history.worlds:
        _settle_table(history, world)


def _run_out(history: History) -> None:
    for _ in range(STEPS_MAX):
        if not history.runnable:
            break
        _turn(history, history.world.rng.choice(history.runnable))


def _settle_table(history: History, world: World) -> None:
    quiet = Stream(world, "quiet", [dict[int, Operations]() for _ in range(4)])
    for number in range(4):
        actor = _start_attempt(history, quiet, number, visits_all=True)
        _run_out(history)
        if actor.error is not None:
            expect(history, actor.error, world)
