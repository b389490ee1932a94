"""Batch statements on logged tables: any process that finds one finishes it, or cancels it before it begins.

A statement is prepared: its files are written and listed in a prepared commit. Then it is finished: logged in every
bucket that lacks it, and taken into one snapshot, all buckets or none. The first bucket that is logged decides that it
happens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.filestore.metadata.origins import clears_properties
from lakelog.filestore.metadata.snapshots import CommitUser, PropertyKey, later_users, parse_users, with_user
from lakelog.protocol.state.batch_lineage import lineage_of
from lakelog.protocol.state.header import CommitHeader, LostFilesError
from lakelog.protocol.state.ports import SnapshotChange, Snapshots, StatementList
from lakelog.protocol.state.prepared import ADDED_USERS_KEY, PreparedCommit, user_of
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.state.writes import batch_of, is_write, prepared_write
from lakelog.protocol.statements.statement_task import CancelledError
from lakelog.protocol.statements.write_gaps import lost_write, missing_write
from lakelog.protocol.writing.attempts import FILES_AGE_SECONDS_MAX, BucketAnswer, OldFilesError, is_young
from lakelog.protocol.writing.driver import (
    AnswerDecision,
    BucketConflictError,
    Clock,
    commit_once,
    compare_and_set,
    take_answers,
)

logger = logging.getLogger("lakelog.protocol")

GRACE_MILLIS = 5_000  # how long other processes leave a prepared statement to its own driver
_POLL_SECONDS = 0.1
ROUNDS_MAX = 200  # each round begins because another writer's snapshot or statement came first
_LOOKS_MAX = 3  # at a log that lacks a write
ABANDONED_MILLIS = 3_600_000  # a prepared commit that has not begun for this long no longer has a driver

LogIn = Callable[[Mapping[str, PreparedCommit], Iterable[int], str | None], Sequence[BucketAnswer]]
"""Logs statements, by their names, in buckets, by `statement_task.log_statements`; the third is the caller's own."""
Look = Callable[[Iterable[int], bool], Mapping[int, Sequence[str]]]
"""The unfinished statements in the tails of buckets; the second says whether to fence them first."""


Behind = Callable[[], tuple[Sequence[int], Sequence[CommitHeader]]]
"""The buckets whose log is longer than the newest snapshot says, and the headers there that can be read now."""


class Fate(Enum):
    """How an unfinished statement ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    DECIDED_BEFORE = "finished or cancelled before"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPorts:
    """The ports of one table for finishing and cancelling."""

    snapshots: Snapshots
    prepared: StatementList
    log_in: LogIn
    look: Look
    observe: StepObserver
    clock: Clock
    bucket_count: int
    behind: Behind
    wait: Callable[[float], None] = time.sleep


def put_prepared(create: Callable[[], str], prepared: StatementList, *, age_seconds: Callable[[], float]) -> str:
    """Create a prepared commit by `create`, which gives its name, while its files cannot be taken for orphans.

    `age_seconds` gives the time since the first file was begun. Raises OldFilesError; then the statement is cancelled.
    """
    name = create()
    if not is_young(age_seconds()):  # now they are listed; a removal that has not seen that began earlier
        prepared.delete(name)
        raise OldFilesError(
            f"the first file of a batch statement was written {age_seconds():.0f} s before the last one, at most "
            f"{FILES_AGE_SECONDS_MAX:.0f} s are allowed: the files may be removed as orphans. The machine was asleep, "
            "or the statement is too large; nothing of it is in the table"
        )
    return name


def finish(names: Iterable[str], ports: StatementPorts, *, own: str | None = None, base: int = 0) -> None:
    """Log statements where they are missing, take them into a snapshot, and delete their prepared commits.

    It is for the statement's own driver, which names it `own`, with the snapshot `base` on which it was planned, and
    for any driver that has found one in a tail. Raises CancelledError when its own was cancelled by another process,
    and like `write_bucket`.
    """
    wanted, lacking = set(names), 0
    for _ in range(ROUNDS_MAX):
        state = ports.snapshots.newest()
        left = [name for name in wanted if not state.holds(*batch_of(name))]
        if not left:
            _delete(wanted, ports)
            return
        statements = _read(left, ports, own, base)
        if statements.keys() != set(left):
            wanted -= set(left) - statements.keys()
            continue
        if own is None and _may_be_at_work(statements, ports):
            ports.wait(_POLL_SECONDS)
            continue
        try:
            buckets = {bucket for one in statements.values() for bucket in one.parts}
            if any(map(is_write, statements)):  # the user of a write stands for all that it has written before
                buckets |= set(ports.behind()[0])
            answers = ports.log_in(statements, sorted(buckets), own)
        except CancelledError:
            if own is not None and cancel(own, ports) is Fate.CANCELLED:
                raise
            continue
        met = unfinished_in(answers)
        if met:
            wanted |= met
            continue
        gap = missing_write(state, answers)
        if gap is not None:
            lacking += 1
            if lacking > _LOOKS_MAX:
                raise lost_write(*gap)
            continue
        try:
            _commit(statements, answers, ports)
        except BucketConflictError as error:
            logger.debug("statements are logged again where needed: %s", error)
            continue
        _delete(wanted, ports)
        return
    raise ConflictError(
        f"batch statements were not finished in {ROUNDS_MAX} rounds, because other writers came first each time; the "
        "next writer goes on with them"
    )


def unfinished_in(answers: Iterable[BucketAnswer]) -> set[str]:
    """The unfinished statements that tasks have found: they must be finished before the batch is run again."""
    return {name for answer in answers for name in answer.unfinished}


def _delete(names: Iterable[str], ports: StatementPorts) -> None:
    for name in (one for one in names if not is_write(one)):
        ports.observe(Step.DELETE_PREPARED, user_of(name), 0, None)
        ports.prepared.delete(name)


def _may_be_at_work(statements: Mapping[str, PreparedCommit], ports: StatementPorts) -> bool:
    """Whether a statement was prepared so recently that its own driver is probably finishing it."""
    return any(0 <= ports.clock() - one.time_millis < GRACE_MILLIS for one in statements.values())


def _read(names: Sequence[str], ports: StatementPorts, own: str | None, base: int) -> dict[str, PreparedCommit]:
    """The prepared commits of unfinished statements, without those that were finished and deleted meanwhile.

    Raises CancelledError for `own` if it was not finished, and LostFilesError for a commit that the log names but the
    folder lacks.
    """
    found: dict[str, PreparedCommit] = {}
    writes = {name for name in names if is_write(name)}
    if writes:
        headers = (header for header in ports.behind()[1] if header.parts and header.statement in writes)
        found = {str(header.statement): prepared_write(header) for header in headers}
    for name in names:
        if name in writes:
            continue
        try:
            found[name] = ports.prepared.read(name)
        except NotFoundError as error:
            if user_of(name) in ports.snapshots.newest().users:
                continue
            if name == own:
                taken_in = ports.snapshots.took_in(user_of(name), after=base)
                if taken_in:
                    continue
                unless = ", unless snapshots that have expired meanwhile have it: look for its rows first"
                raise CancelledError(
                    f"the statement {user_of(name)} was cancelled; nothing of it is in the table"
                    + (unless if taken_in is None else "")
                ) from error
            # It was finished before and its user is forgotten, or the folder is older than the log.
            if any(name in tail for tail in ports.look(range(ports.bucket_count), False).values()):
                raise LostFilesError.of(f"the prepared commit {name}", where="the tail of a bucket") from error
    return found


def _commit(statements: Mapping[str, PreparedCommit], answers: Sequence[BucketAnswer], ports: StatementPorts) -> None:
    """Make one snapshot with all tails, or none. Raises BucketConflictError to read again."""
    batch = statements[min(statements)].batch

    def decide(state: TableState) -> SnapshotChange | None:
        held = [name for name in statements if state.holds(*batch_of(name))]
        if len(held) == len(statements):
            return None
        if held:
            raise BucketConflictError(f"{held[0]} was finished by another process meanwhile")
        return take_statements(state, statements, answers, now_millis=ports.clock())

    commit_once(batch, decide, ports.snapshots, ports.observe)


def take_statements(
    state: TableState, statements: Mapping[str, PreparedCommit], answers: Sequence[BucketAnswer], *, now_millis: int
) -> SnapshotChange:
    """The snapshot that takes statements in, with everything before them in the log. Pure.

    All buckets are taken in, or none: raises BucketConflictError when another snapshot has moved one of them.
    """
    for answer in answers:
        decision = compare_and_set(state.logged.position(answer.bucket), answer)
        if decision is AnswerDecision.DROP and answer.base != answer.end:
            raise BucketConflictError(f"bucket {answer.bucket} of a batch statement was taken in by another snapshot")
    last_of = {statements[name].user: name for name in sorted(statements)}  # of a user with several writes
    first, *others = last_of.values()
    change = take_answers(state, statements[first].batch, answers, now_millis=now_millis)
    users = change.users
    lineage = list(change.lineage)
    for name in others:
        batch = statements[name].batch
        last = CommitUser(identifier=batch.identifier, digest=batch.source_digest, time_millis=now_millis)
        users = with_user(users, batch.user, last)
        if not any(entry["user"] == batch.user for entry in lineage):
            lineage.append(lineage_of(batch.user, batch.identifier, batch.lineage))
    assert change.log is not None
    properties = {key: text for name in sorted(statements) for key, text in statements[name].properties.items()}
    if len(statements) > 1 and PropertyKey.BASE in properties:  # rows that another of them has written may be left
        properties |= clears_properties(None, None)
    log = change.log.pruned(users)
    if properties.pop(ADDED_USERS_KEY, None) is not None:
        for one in statements.values():
            if ADDED_USERS_KEY in one.properties:
                users = later_users(users, parse_users({PropertyKey.USERS: one.properties[ADDED_USERS_KEY]}))
    return replace(change, users=users, log=log, lineage=lineage, properties=properties)


def cancel(name: str, ports: StatementPorts) -> Fate:
    """Cancel a statement that has not begun; a statement that has begun is finished.

    After mark and fence, its own driver can no longer begin it.
    """
    user = user_of(name)
    try:
        prepared = ports.prepared.read(name)
    except NotFoundError:
        ports.prepared.delete(name)  # its mark may still exist
        return Fate.FINISHED if user in ports.snapshots.newest().users else Fate.DECIDED_BEFORE
    if user not in ports.snapshots.newest().users:
        ports.observe(Step.CANCEL, user, 0, None)
        ports.prepared.mark_cancelled(name)
        tails = ports.look(sorted(prepared.parts), True)
        if any(name in found for found in tails.values()):
            finish([name], ports)
            return Fate.FINISHED
        if user not in ports.snapshots.newest().users:
            # Its user is not forgotten while the commit exists: if it does, the statement was in no snapshot.
            is_decided = not ports.prepared.exists(name)
            ports.observe(Step.DELETE_PREPARED, user, 0, None)
            ports.prepared.delete(name)
            return Fate.DECIDED_BEFORE if is_decided else Fate.CANCELLED
    ports.prepared.delete(name)
    return Fate.FINISHED


def finish_left_over(ports: StatementPorts, *, is_foreign: Callable[[PreparedCommit], bool]) -> dict[str, Fate]:
    """Finish statements that other processes have begun, and cancel those that have not begun for a long time.

    Every driver calls it before a batch: one listing if there are none. A statement of another identity of the table is
    deleted.
    """
    fates: dict[str, Fate] = {}
    begun: list[str] = []
    for name in ports.prepared.names():
        try:
            prepared = ports.prepared.read(name)
        except NotFoundError:
            continue
        if is_foreign(prepared) or prepared.user in ports.snapshots.newest().users:
            ports.prepared.delete(name)
        elif any(name in found for found in ports.look(sorted(prepared.parts), False).values()):
            begun.append(name)
        elif ports.clock() - prepared.time_millis > ABANDONED_MILLIS:
            fates[name] = cancel(name, ports)
    if begun:
        finish(begun, ports)
    for name in begun:
        fates[name] = Fate.FINISHED
    for name, fate in fates.items():
        logger.warning("the unfinished batch statement %s of another process was %s", user_of(name), fate.value)
    return fates
