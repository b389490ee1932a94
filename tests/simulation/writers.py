"""Writers in plain Python in a simulated table: processes of a few names that are killed, and begin anew.

A writer has one source of numbered rows. Its process asks for the last identifier, cuts the rest into writes as it
likes, and acknowledges each. After a kill another process goes on, and the old one may still run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any  # Any: what is done in each bucket is the caller's

from lakelog.common.errors import ConflictError
from lakelog.protocol.state.header import BucketFile, CommitHeader, StagedPart
from lakelog.protocol.state.ports import PartBase
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import silent
from lakelog.protocol.state.writer_marks import WriterMark
from lakelog.protocol.state.writes import digest_of_sources, write_name, writer_user
from lakelog.protocol.statements.owned_log import LogPorts, Mark, OwnedLog, Part
from lakelog.protocol.statements.write_log import NumberedWrite, OpenedLog, WriteLog
from lakelog.protocol.writing.tail_checks import next_sequence
from tests.simulation.files import SimFiles, stage, values_at
from tests.simulation.kinds import Key, Operation
from tests.simulation.lake import PlacedTable
from tests.simulation.log import SimLog
from tests.simulation.model import RECORDS_LOST, RUNNABLE_MAX, History, expect
from tests.simulation.statements import marker, ports_of
from tests.simulation.world import Actor, AwayError, Line, World, start

SOURCE = "s"
BEGIN_SHARE = 0.1
SECOND_SHARE = 0.002
SECONDS_MAX = 3
JOINED_MAX = 3
SNAPSHOT_SHARE = 0.3
TURN_SECONDS = 300.0  # of the time of the world, in which a pause takes one
BACK_OFF_PAUSES_MAX = 32
FOREIGN_TURN_SHARE = 0.05  # of writes before which a process gives its ownership up

Changes = Mapping[int, Sequence[Operation]]  # by bucket


@dataclass(slots=True, eq=False)
class SimWriter:
    """A name: the changes of its rows, the last row that was acknowledged, and the process that has the name."""

    user: str
    rows: Sequence[Changes]
    acknowledged: int = -1
    run: int = 0
    seconds: int = 0  # processes that began while an older one ran
    actor: Actor | None = None
    is_done: bool = False


@dataclass(slots=True)
class SimTurns:
    """Turns that lapse: one process after the other, where it is not slow."""

    world: World
    last: list[tuple[SimTurns, float]]  # who has the turn, and until when; shared by all processes

    def begin(self) -> None:
        while self.last and self.last[0][0] is not self and self.last[0][1] > self.world.now:
            self.world.pause()
        self.renew()

    def began(self) -> None: ...
    def renew(self) -> None:
        self.last[:] = [(self, self.world.now + TURN_SECONDS)]

    def is_over(self) -> bool:
        return self.world.silences.random() < 0.2

    def end(self) -> None:
        if self.last and self.last[0][0] is self:
            self.last.clear()


@dataclass(slots=True)
class Writers:
    """The writers of a history."""

    history: History
    names: int
    rng: random.Random = field(init=False)
    all: list[SimWriter] = field(default_factory=list)
    turns: list[tuple[SimTurns, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose what they write."""
        self.rng = random.Random(f"writers {self.history.world.seed}")
        self.all = [self._writer(writer_user("pqr"[number])) for number in range(self.names)]

    @property
    def are_done(self) -> bool:
        """Whether each row of each writer was acknowledged."""
        return all(one.is_done for one in self.all)

    def act(self) -> None:
        """Begin processes, also of names whose older process still runs."""
        for one in self.all:
            is_there = one.actor is not None and not one.actor.is_done and one.actor in self._alive()
            chance = BEGIN_SHARE if not is_there else SECOND_SHARE * (one.seconds < SECONDS_MAX)
            if one.is_done or len(self.history.runnable) >= RUNNABLE_MAX or self.rng.random() > chance:
                continue
            self._check_ended(one)
            if is_there:
                self.history.world.events["a writer has two processes"] += 1
                one.seconds += 1
            one.run += 1
            run = one.run
            one.actor = start(self.history.world, f"{one.user}#{run}", partial(self._work, one, run))
            self.history.runnable.append(one.actor)

    def end(self) -> None:
        """Name what processes ended with that they should not."""
        for one in self.all:
            self._check_ended(one)

    def _alive(self) -> list[Actor]:
        return [*self.history.runnable, *(actor for _, actor in self.history.stopped)]

    def _check_ended(self, one: SimWriter) -> None:
        if one.actor is not None and one.actor.is_done and one.actor.error is not None:
            expect(self.history, one.actor.error, self.history.world)
            one.actor = None

    def _writer(self, user: str) -> SimWriter:
        world = self.history.world
        rows = []
        for number in range(self.rng.randint(3, 8)):
            buckets = [bucket for bucket in range(world.bucket_count) if self.rng.random() < 0.6] or [0]
            row = f"{user}-{number}"
            rows.append({bucket: world.kind.statement(self.rng, row, marker(row)) for bucket in buckets})
        return SimWriter(user=user, rows=rows)

    def _check_logged(self, one: SimWriter, numbers: Iterable[int]) -> None:
        """Name a row that is acknowledged, and is not in the log."""
        world = self.history.world
        if not (self.history.is_stopped or self.history.is_restored or world.events[RECORDS_LOST]):
            missing = [
                number
                for number in numbers
                for bucket in one.rows[number]
                if not _times(world, bucket, marker(f"{one.user}-{number}"))
            ]
            self.history.violations["a write was acknowledged too early"] += len(missing)

    def _work(self, one: SimWriter, run: int) -> None:
        """What a process does."""
        world, rng = self.history.world, self.rng

        def check_run() -> None:
            world.pause()
            if one.run != run:
                world.events["an older process was sent away"] += 1
                raise ConflictError("the name is that of another process now")

        log = WriteLog(
            user=one.user,
            opened=partial(opened, world, Line(world)),
            check_run=check_run,
            turns=SimTurns(world, self.turns),
            wait=partial(_back_off, world),
        )
        log.begin()
        last = log.sources.get(SOURCE, -1)
        if last < one.acknowledged:
            self.history.violations["an acknowledged write is forgotten"] += 1
        while last + 1 < len(one.rows):
            end = min(last + rng.randint(1, JOINED_MAX), len(one.rows) - 1)
            if rng.random() < FOREIGN_TURN_SHARE:
                log.release()
            log.write(_joined(one.rows[last + 1 : end + 1]), {SOURCE: end})
            world.events["a write was acknowledged"] += 1
            self._check_logged(one, range(last + 1, end + 1))
            one.acknowledged, last = max(one.acknowledged, end), end
            if rng.random() < SNAPSHOT_SHARE:
                world.events["a writer made a snapshot"] += log.take_in()
            log.pause(is_idle=False)
        if rng.random() < 0.7:
            log.take_in()
        log.close()
        one.is_done = True


def _joined(rows: Iterable[Changes]) -> Changes:
    found: dict[int, list[Operation]] = {}
    for row in rows:
        for bucket, changes in row.items():
            found.setdefault(bucket, []).extend(changes)
    return found


def _back_off(world: World, _seconds: float) -> None:
    for _ in range(world.silences.randint(0, BACK_OFF_PAUSES_MAX)):
        world.pause()


def opened(world: World, line: Line) -> OpenedLog[Changes, tuple[Operation, ...]]:
    """The ports of a process, with a connection of its own."""
    from tests.simulation.history import _holds  # noqa: PLC0415

    def check_place(state: TableState) -> None:
        PlacedTable(world.path, world.table_uuid, world.site.lake).check_no_copy(state.place)

    ports = LogPorts(
        table_uuid=world.table_uuid,
        table_name="t",
        bucket_count=world.bucket_count,
        log=SimLog(world, line),
        files=SimFiles(world),
        statements=ports_of(world),
        holds=partial(_holds, world),
        in_each=partial(_in_each, world),
        observe=silent,
        check_place=check_place,
        put_mark=partial(_put_mark, world),
        find_mark=partial(_find_mark, world),
        patience=world.patience,
    )
    return OpenedLog(ports=ports, make=partial(_make, world))


def _put_mark(world: World, mark: Mark) -> None:
    world.pause()
    world.acknowledged[mark.user] = WriterMark(
        table_uuid=world.table_uuid,
        topic_id=world.topic_id,
        user=mark.user,
        identifier=mark.number,
        digest=mark.digest,
        ends={bucket: (end, mark.number) for bucket, end in mark.ends.items()},
    )
    world.pause()


def _find_mark(world: World, user: str) -> int | None:
    world.pause()
    found = world.mark_of(user)
    return None if found is None else found.identifier


def _in_each(world: World, work: Callable[[int], Any], buckets: Iterable[int]) -> list[Any]:
    """Bucket by bucket, in any order: a kill is between any two."""
    asked = list(buckets)
    found: dict[int, Any] = {}
    errors = []
    for bucket in world.silences.sample(asked, len(asked)):
        try:
            found[bucket] = work(bucket)
        except AwayError:  # it says for how long, up to now
            raise
        except Exception as error:  # noqa: BLE001  # raised below
            errors.append(error)
    if errors:
        raise errors[-1]
    return [found[bucket] for bucket in asked]


def _make(
    world: World, log: OwnedLog[tuple[Operation, ...]], write: NumberedWrite[Changes]
) -> dict[int, Part[tuple[Operation, ...]]]:
    """The parts of a write, each on what its bucket has; the files of all are there before any is logged."""
    made, began = {}, world.now
    staged: dict[int, StagedPart] = {}
    for bucket, changes in write.changes.items():
        headers = tuple(header for header, _ in log.buckets[bucket].logged)
        first = next_sequence(log.state, bucket, list(headers))
        base = PartBase(first_sequence=first, snapshot_id=log.state.snapshot_id, tail=headers)
        if world.kind.is_merged:
            meta = world.write_file([(key, first + place, value) for place, (key, value) in enumerate(changes)])
            world.written[meta.file_name] = world.now
            files: tuple[BucketFile, ...] = (BucketFile(partition=b"", meta=meta),)
        else:
            tail = [file for header in headers for file in header.files]
            files, _ = stage(world, changes, first, values_at(world, bucket, base.snapshot_id, tail))
        staged[bucket] = StagedPart(offset=log.buckets[bucket].end, files=files)
        part = SimFiles(world).prepare_staged(bucket, staged[bucket], base, has_moved=False)
        made[bucket] = replace(part, age_seconds=lambda: world.now - began)  # nothing lists its files yet
    return {
        bucket: (
            part,
            CommitHeader(
                table_uuid=world.table_uuid,
                user=write.user,
                identifier=write.number,
                source_digest=digest_of_sources(write.sources),
                schema_id=0,
                base_snapshot_id=log.state.snapshot_id,
                record_count=part.record_count,
                size_bytes=part.size_bytes,
                files=part.files,
                statement=write_name(write.user, write.number),
                parts=staged,
            ),
        )
        for bucket, part in made.items()
    }


def check_writers(writers: Writers) -> None:
    """Each acknowledged row once; each write and each row in all its buckets, or in none, in each snapshot and log."""
    history, world = writers.history, writers.history.world
    violations, own = history.violations, world.snapshots[world.base_snapshot :]
    for one in writers.all:
        for number, row in enumerate(one.rows):
            key = marker(f"{one.user}-{number}")
            for snapshot in own if not history.is_restored else ():  # a restored folder lacks files of the log
                there = [bool(world.kind.plans(world.rows(snapshot.files[bucket]), key)) for bucket in row]
                if any(there) and not all(there):
                    violations["half a row of a writer in a snapshot"] += 1
            counts = [_times(world, bucket, key) for bucket in row]
            if max(counts) > 1:
                violations["a row of a writer is twice in the log"] += 1
            if history.is_stopped or history.is_restored or world.events[RECORDS_LOST]:
                continue
            if any(counts) and not all(counts):
                violations["half a row of a writer in the log"] += 1
            if number <= one.acknowledged and not all(counts):
                violations["an acknowledged row of a writer is not in the log"] += 1
            last = own[-1]
            if number <= one.acknowledged and not all(
                world.kind.plans(world.rows(last.files[bucket]), key) for bucket in row
            ):
                violations["an acknowledged row of a writer is not in the files"] += 1


def _times(world: World, bucket: int, key: Key) -> int:
    """In how many transactions of a bucket a marker is."""
    committed = (one for one in world.log[bucket] if one is not None and one.state == "committed")
    return sum(any(_is_marker(named, key) for named, _ in entry.operations) for entry in committed)


def _is_marker(named: Key, key: Key) -> bool:
    return named == key or (isinstance(named, tuple) and named[0] == key)
