"""One random history of streaming writers over one table, and the promises checked against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from lakelog.common.errors import (
    ConflictError,
    InvalidRequestError,
    LakelogError,
    StalledError,
    TransactionTimeoutError,
    UnknownOutcomeError,
)
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.users import CommitUser
from lakelog.logstore.consumer import can_hold_nothing
from lakelog.logstore.errors import LogTruncatedError
from lakelog.protocol import driver, log_expiry
from lakelog.protocol.header import BucketFile
from lakelog.protocol.kept import KeptProducers
from lakelog.protocol.state import Batch
from lakelog.protocol.steps import silent
from lakelog.protocol.task import BucketAnswer, BucketTask, OldFilesError, write_bucket
from tests.simulation.world import (
    TABLE_UUID,
    TWO_USERS,
    Actor,
    Key,
    Operation,
    Operations,
    Rows,
    SimFiles,
    SimLog,
    SimSnapshot,
    SimSnapshots,
    Value,
    World,
    remove_orphans,
    start,
)

KILL_SHARE = 0.004
ZOMBIE_SHARE = 0.004
STOP_SHARE = 0.004
STOPPED_TURNS_MAX = 150
SPECULATE_SHARE = 0.1
COMPACT_SHARE = 0.3
EXPIRE_SHARE = 0.03
FOREIGN_SHARE = 0.01
READ_SHARE = 0.03
PROCESS_LOST_SHARE = 0.3
CHANGED_SHARE = 0.15
UPKEEP_SHARE = 0.01
STEPS_MAX = 20_000
ATTEMPTS_MAX = 400
RUNNABLE_MAX = 16

Pool = KeptProducers[tuple[Operation, ...]]


@dataclass(slots=True)
class Stream:
    """A streaming query: its batches in order, and the one it is at.

    A batch whose checkpoint was lost is planned again from other source offsets: `plans` counts up. The table may
    refuse that; then the older checkpoint is found again, or the stream is `abandoned_at` that batch.
    """

    user: str
    batches: list[Mapping[int, Operations]]
    position: int = 0
    plans: Counter[int] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    refused_plans: set[tuple[int, int]] = field(default_factory=set)
    abandoned_at: int | None = None
    attempt: Actor | None = None
    is_first_attempt: bool = True
    pools: list[Pool] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """Runs a seed to its end; `violations` then names the promises that were broken."""

    world: World
    streams: list[Stream]
    violations: Counter[str] = field(default_factory=Counter)
    runnable: list[Actor] = field(default_factory=list)
    stopped: list[tuple[int, Actor]] = field(default_factory=list)  # and for how many more turns of others
    graveyard: list[Actor] = field(default_factory=list)
    attempts: int = 0
    has_foreign_policy: bool = False
    is_stopped: bool = False
    readers: list[Reader] = field(default_factory=list)


@dataclass(slots=True)
class Reader:
    """A stream that follows the log from where a snapshot ends, with a lease on it, and keeps what it has read."""

    start: dict[int, int]
    lease: dict[int, int]
    read: list[list[tuple[Key, Value | None]]]


def simulate(seed: int, *, has_foreign_policy: bool = False) -> History:
    """The history of `seed`: one to three streams of three batches over three buckets, readers beside them, and expiry.

    With `has_foreign_policy` Kafka deletes records as it likes, too: the first error that tells it ends the history.
    """
    world = World(seed, bucket_count=3)
    streams = [Stream(user, _batches(world, user)) for user in ("a", "b", "c")[: 1 + seed % 3]]
    history = History(world, streams, has_foreign_policy=has_foreign_policy)
    _run(history)
    if not history.is_stopped:
        _settle(history)
        for reader in history.readers:
            _read_on(history, reader)
    _check(history)
    history.violations = +history.violations
    return history


def _batches(world: World, user: str) -> list[Mapping[int, Operations]]:
    return [
        {bucket: _operations(world, user, number) for bucket in range(world.bucket_count) if world.rng.random() < 0.7}
        for number in range(3)
    ]


def source_digest(user: str, number: int, plan: int) -> str:
    """What stands for the source offsets that a batch was planned from."""
    return f"{user}-{number}-{plan}"


def _operations(world: World, user: str, number: int) -> Operations:
    """Changes of a few contended keys, and one key that only this batch writes here.

    Every call gives values of its own, as a query without deterministic values would: log = files must hold even then.
    """
    rng = world.rng
    keys = [rng.choice("xyz") for _ in range(rng.randint(1, 3))]
    deleted = [rng.random() < 0.25 for _ in keys]
    calls = [0]

    def make(plan: int) -> list[Operation]:
        calls[0] += 1
        operations: list[Operation] = [
            (key, None if is_deleted else (user, number, calls[0]))
            for key, is_deleted in zip(keys, deleted, strict=True)
        ]
        return [*operations, (marker(user, number), plan)]

    return make


def marker(user: str, number: int) -> Key:
    """The key that only this batch writes in a bucket."""
    return ("marker", user, number)


def _run(history: History) -> None:
    """Let everybody take turns until each stream has seen its last batch committed."""
    world, rng = history.world, history.world.rng
    for _ in range(STEPS_MAX):
        for stream in history.streams:
            _advance(history, stream)
        if history.is_stopped or all(stream.position == len(stream.batches) for stream in history.streams):
            return
        _let_outsiders_act(history)
        actor = rng.choice(history.runnable)
        chance = rng.random()
        if chance < KILL_SHARE:
            _kill(history, actor)
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


def _let_outsiders_act(history: History) -> None:
    """Expiry, readers and, where there is one, a policy of somebody else's, at any time."""
    rng = history.world.outsiders
    if rng.random() < EXPIRE_SHARE:
        _expire(history.world)
    if rng.random() < UPKEEP_SHARE:
        history.world.upkeep_by_others()
    if rng.random() < READ_SHARE:
        if len(history.readers) < 2:
            history.readers.append(_new_reader(history.world))
        _read_on(history, rng.choice(history.readers))
    if history.has_foreign_policy and rng.random() < FOREIGN_SHARE:
        bucket = rng.randrange(history.world.bucket_count)
        first, end = history.world.log_starts[bucket], len(history.world.log[bucket])
        history.world.log_starts[bucket] = rng.choice((end, rng.randint(first, end)))
        history.world.events["deleted by a foreign policy"] += 1


def _expire(world: World) -> None:
    """What an expiry of snapshots and log does: keep some of the newest, and delete what nobody needs."""
    rng, newest = world.outsiders, len(world.snapshots) - 1
    world.first_snapshot = max(world.first_snapshot, min(newest - rng.choice((0, 1, 3)), world.carrier()))
    states = [world.snapshots[at].state.logged for at in (world.first_snapshot, newest)]
    for bucket in range(world.bucket_count):
        since = rng.choice((None, None, rng.randint(0, len(world.log[bucket]))))
        needed = log_expiry.first_needed(bucket, snapshots=states, leases=world.leases, since=since)
        kept = min(needed, len(world.log[bucket]))
        if kept > world.log_starts[bucket]:
            world.log_starts[bucket] = kept
            world.events["records expired"] += 1


def _new_reader(world: World) -> Reader:
    """Somebody starts to follow the log behind a snapshot that is there."""
    snapshot = world.snapshots[world.outsiders.randint(world.first_snapshot, len(world.snapshots) - 1)]
    start = {bucket: snapshot.state.logged.position(bucket).offset for bucket in range(world.bucket_count)}
    reader = Reader(start, dict(start), [[] for _ in range(world.bucket_count)])
    world.leases.append(reader.lease)
    return reader


def _read_on(history: History, reader: Reader) -> None:
    """Read each bucket up to its last stable offset, and let the lease follow."""
    world = history.world
    for bucket, offset in reader.lease.items():
        entries = world.log[bucket]
        stable = next((at for at, one in enumerate(entries) if one is not None and one.state == "open"), len(entries))
        if stable <= offset:
            continue
        first = world.log_starts[bucket]
        is_after_record = offset == reader.start[bucket] and offset > 0
        if first > offset and not can_hold_nothing(offset, first, len(entries), is_after_record=is_after_record):
            _expect(history, LogTruncatedError(f"a reader of bucket {bucket} stands at {offset}, it starts at {first}"))
            return
        for one in entries[max(offset, first) : stable]:
            if one is not None and one.state == "committed":
                reader.read[bucket].extend(one.operations)
        reader.lease[bucket] = stable


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
            _expect(history, attempt.error)
            stream.is_first_attempt = True
            if isinstance(attempt.error, InvalidRequestError):
                _give_in(history, stream)
        stream.attempt = None
    if stream.attempt is None and stream.position < len(stream.batches):
        history.attempts += 1
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


def _expect(history: History, error: Exception) -> None:
    """An attempt may fail with an error that names a conflict, an unavailable store or a batch that changed.

    Anything else is a bug.
    """
    history.world.events[f"attempt failed: {type(error).__name__}"] += 1
    if not isinstance(error, LakelogError):
        raise error
    if isinstance(error, LogTruncatedError) and history.has_foreign_policy:
        history.is_stopped = True  # somebody is told, as must be
        return
    is_changed = isinstance(error, InvalidRequestError) and "other source offsets" in str(error)
    is_expected = isinstance(
        error, (ConflictError, UnknownOutcomeError, StalledError, TransactionTimeoutError, OldFilesError)
    )
    if not is_changed and not is_expected:
        history.violations[f"attempt failed: {error}"] += 1


def _start_attempt(history: History, stream: Stream, number: int, *, visits_all: bool) -> Actor:
    world = history.world
    pool = stream.pools.pop() if stream.pools and world.rng.random() > PROCESS_LOST_SHARE else Pool()
    plan = stream.plans[number]
    batch = Batch(user=stream.user, identifier=number, source_digest=source_digest(stream.user, number, plan))
    rows = {bucket: partial(operations, plan) for bucket, operations in stream.batches[number].items()}

    def body() -> None:
        _attempt(history, actor, batch, rows, pool, visits_all=visits_all)
        stream.pools.append(pool)

    actor = start(world, f"{stream.user}{number}", body)
    actor.pool = pool
    history.runnable.append(actor)
    return actor


def _attempt(
    history: History, me: Actor, batch: Batch, rows: Mapping[int, Rows], pool: Pool, *, visits_all: bool
) -> None:
    """What the driver of a query does with one micro-batch."""
    world = history.world
    snapshots = SimSnapshots(world)
    state = snapshots.newest()
    if driver.check_identity(state, batch) is driver.Verdict.REPLAY:
        world.events["replay"] += 1
        return
    while True:
        visited = _unread_buckets(world) if visits_all else set()
        answers = _run_tasks(history, me, batch, {b: rows.get(b) for b in visited | set(rows)}, pool)
        try:
            driver.commit_batch(batch, answers, snapshots=snapshots, observe=silent, clock=lambda: world.seed)
            break
        except driver.BucketConflictError:
            world.events["conflict"] += 1
    if world.rng.random() < COMPACT_SHARE:
        units = list(_pick_compactions(world))
        world.pause()
        if units:
            driver.commit_compaction(batch, units, snapshots=snapshots, observe=silent)


def _unread_buckets(world: World) -> set[int]:
    log = world.snapshots[-1].state.logged
    return {b for b in range(world.bucket_count) if len(world.log[b]) != log.position(b).offset}


def _run_tasks(
    history: History, me: Actor, batch: Batch, rows: Mapping[int, Rows | None], pool: Pool
) -> list[BucketAnswer]:
    world = history.world

    def body_of(bucket: int, pool: Pool) -> Callable[[], BucketAnswer]:
        task = BucketTask(
            table_uuid=TABLE_UUID,
            schema_id=0,
            batch=batch,
            bucket=bucket,
            rows=rows[bucket],
            log=SimLog(world),
            files=SimFiles(world),
            kept=pool,
            observe=silent,
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
        last = {key: (sequence, value) for key, sequence, value in _by_sequence(world, inputs)}
        rows = [(key, sequence, value) for key, (sequence, value) in last.items() if skip or value is not None]
        after = (world.write_file(rows),) if rows else ()
        yield CompactResult(partition=b"", bucket=bucket, before=tuple(file.meta for file in inputs), after=after)


def _by_sequence(world: World, files: list[BucketFile]) -> list[tuple[Key, int, Value | None]]:
    return sorted(world.rows(files), key=lambda row: row[1])


def _kill(history: History, actor: Actor) -> None:
    """SIGKILL: neither the driver of an attempt nor its tasks ever take another step."""
    root = actor.parent or actor
    for member in [root, *root.children]:
        if member in history.runnable:
            history.runnable.remove(member)
        history.stopped = [one for one in history.stopped if one[1] is not member]
        history.graveyard.append(member)  # alive there: a greenlet that is let go of would run its clean-up
    history.world.events["killed"] += 1
    _forget(history, root)


def _stop(history: History, actor: Actor) -> None:
    """SIGSTOP: hours go by before the actor takes its next step. Meanwhile others run, and orphans are removed."""
    world = history.world
    history.runnable.remove(actor)
    history.stopped.append((world.rng.randint(1, STOPPED_TURNS_MAX), actor))
    world.sleep()
    if len(history.runnable) < RUNNABLE_MAX:
        history.runnable.append(start(world, "remover", lambda: remove_orphans(world)))


def _wake(history: History, *, all_of_them: bool = False) -> None:
    """Let go on who has been stopped for long enough, or everybody when nobody else is left to run."""
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
        _forget(history, root)


def _forget(history: History, root: Actor) -> None:
    for stream in history.streams:
        if stream.attempt is root:
            stream.attempt = None
            stream.is_first_attempt = True


def _settle(history: History) -> None:
    """Zombies run out; at last a quiet writer takes in what they left."""
    _wake(history, all_of_them=True)
    for _ in range(STEPS_MAX):
        if not history.runnable:
            break
        _turn(history, history.world.rng.choice(history.runnable))
    quiet = Stream("quiet", [dict[int, Operations]() for _ in range(4)])
    for number in range(4):
        actor = _start_attempt(history, quiet, number, visits_all=True)
        for _ in range(STEPS_MAX):
            if not history.runnable:
                break
            _turn(history, history.world.rng.choice(history.runnable))
        if actor.error is not None:
            _expect(history, actor.error)


def _check(history: History) -> None:
    world, violations = history.world, history.violations
    for bucket in range(world.bucket_count):
        _check_bucket(history, bucket)
        for reader in history.readers:
            _check_reader(history, reader, bucket)
    for stream in history.streams if not history.is_stopped else ():
        for number, rows in enumerate(stream.batches):
            _check_batch(history, stream, number, set(rows))
    for before, after in zip(world.snapshots, world.snapshots[1:], strict=False):
        for bucket in range(world.bucket_count):
            if after.state.logged.position(bucket).offset < before.state.logged.position(bucket).offset:
                violations["an offset went back"] += 1

    violations[TWO_USERS] += world.events[TWO_USERS]
    if any(times > 1 for times in world.appended.values()):
        violations["a batch has two snapshots"] += 1


def _check_bucket(history: History, bucket: int) -> None:
    """Promise 2 at every snapshot, unique sequence numbers, exact counts, and no tail left at the end."""
    world, violations = history.world, history.violations
    committed = [
        (offset, entry)
        for offset, entry in enumerate(world.log[bucket])
        if entry is not None and entry.state == "committed"
    ]
    named = [file.meta.file_name for _, entry in committed for file in entry.header.files]
    if not world.removed.isdisjoint(named):
        violations["a logged file was removed"] += 1
    for snapshot in world.snapshots:
        position = snapshot.state.logged.position(bucket)
        held = [entry for offset, entry in committed if offset < position.offset]
        from_log = {key: value for entry in held for key, value in entry.operations}
        rows = world.rows(list(snapshot.files[bucket]))
        from_files = {key: value for key, _, value in sorted(rows, key=lambda row: row[1])}
        if _present(from_log) != _present(from_files):
            violations["log != files"] += 1
        if len({sequence for _, sequence, _ in rows}) != len(rows):
            violations["equal sequence numbers"] += 1
        if position.records != sum(entry.header.record_count for entry in held):
            violations["record count of a position"] += 1
        if position.size_bytes != sum(entry.header.size_bytes for entry in held):
            violations["bytes of a position"] += 1
    end = world.snapshots[-1].state.logged.position(bucket).offset
    if not history.is_stopped and any(offset >= end for offset, _ in committed):
        violations["a tail was left"] += 1


def _check_plan(history: History, snapshot: SimSnapshot, entry: CommitUser, user: str) -> None:
    """A snapshot that names the source offsets of a batch has the rows that were planned from them, and no others."""
    plans = {
        value
        for files in snapshot.files
        for key, _, value in history.world.rows(list(files))
        if key == marker(user, entry.identifier)
    }
    if any(source_digest(user, entry.identifier, cast("int", plan)) != entry.digest for plan in plans):
        history.violations["a batch has rows of other source offsets"] += 1


def _check_reader(history: History, reader: Reader, bucket: int) -> None:
    """Promise 3: every committed change behind the snapshot, once, in order."""
    expected = [
        operation
        for offset, entry in enumerate(history.world.log[bucket])
        if entry is not None and entry.state == "committed" and reader.start[bucket] <= offset < reader.lease[bucket]
        for operation in entry.operations
    ]
    if reader.read[bucket] != expected:
        history.violations["a reader lost or doubled changes"] += 1


def _present(rows: Mapping[Key, Value | None]) -> dict[Key, Value]:
    return {key: value for key, value in rows.items() if value is not None}


def _check_batch(history: History, stream: Stream, number: int, buckets: set[int]) -> None:
    """Promise 1 in the log and in the files; promise 4: a half batch only under a ledger that says so.

    Of a stream that was given up a part may be missing, but nothing may claim that it is there.
    """
    world, violations, user = history.world, history.violations, stream.user
    is_given_up = stream.abandoned_at is not None and number >= stream.abandoned_at
    for bucket in buckets:
        times = sum(
            entry is not None
            and entry.state == "committed"
            and (entry.header.user, entry.header.identifier) == (user, number)
            for entry in world.log[bucket]
        )
        if times > 1 or (not times and not is_given_up):
            violations[f"a batch is {'twice' if times else 'not'} in the log"] += 1
    for snapshot in world.snapshots:
        there = [
            any(key == marker(user, number) for key, _, _ in world.rows(list(snapshot.files[bucket])))
            for bucket in sorted(buckets)
        ]
        entry = snapshot.state.users.get(user)
        if entry is not None and entry.identifier >= number and not all(there):
            violations["a snapshot claims a batch that it lacks"] += 1
        if entry is not None and entry.identifier == number:
            _check_plan(history, snapshot, entry, user)
        if any(there) and not all(there) and snapshot.state.logged.is_whole():
            violations["half a batch under an empty ledger"] += 1
