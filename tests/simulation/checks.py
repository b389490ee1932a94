"""The promises, checked against what a run has left."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

from lakelog.filestore.metadata.snapshots.users import CommitUser
from tests.simulation.kinds import SILENT, SUMMED, Key, Operation, Row, Value, added, after_statement
from tests.simulation.log import TWO_USERS, Transaction
from tests.simulation.model import RECORDS_LOST, History, Reader, SimStatement, Stream, marker, source_digest
from tests.simulation.world import SimSnapshot, World


def check(history: History) -> None:
    """Count what was broken in `history.violations`."""
    for world in history.worlds:
        _check_table(history, world)
    for reader in history.readers if not history.world.events[RECORDS_LOST] else ():
        for bucket in range(reader.world.bucket_count):
            _check_reader(history, reader, bucket)
    copied = history.copied
    if copied is not None and copied.copied_snapshots not in (None, len(copied.snapshots)):
        history.violations["a copy was written"] += 1
    for statement in history.statements:
        _check_statement(history, history.world, statement)
    for stream in history.streams if not history.is_stopped else ():
        for number in range(stream.first_position, len(stream.batches)):
            _check_batch(history, stream, number, set(stream.batches[number]))
            _check_lineage(history, stream, number)
    history.violations[TWO_USERS] += history.world.events[TWO_USERS]


def _check_table(history: History, world: World) -> None:
    violations = history.violations
    for bucket in range(world.bucket_count):
        _check_bucket(history, world, bucket)
    own = world.snapshots[world.base_snapshot :]
    for before, after in itertools.pairwise(own):
        for bucket in range(world.bucket_count):
            if after.state.logged.position(bucket).offset < before.state.logged.position(bucket).offset:
                violations["an offset went back"] += 1
    if any(times > 1 for times in world.appended.values()):
        violations["a batch has two snapshots"] += 1


def _check_bucket(history: History, world: World, bucket: int) -> None:
    """Promise 2 at every snapshot since the log began, unique sequence numbers, exact counts, no tail at the end."""
    violations = history.violations
    own = world.snapshots[world.base_snapshot :]
    base = [(key, value) for key, _, value in _by_sequence(world, own[0], bucket)]
    committed = [
        (offset, entry)
        for offset, entry in enumerate(world.log[bucket])
        if entry is not None and entry.state == "committed"
    ]
    _check_old_values(history, world, base, [entry for _, entry in committed])
    named = [file.meta.file_name for _, entry in committed for file in entry.header.files]
    if not world.removed.isdisjoint(named):
        violations["a logged file was removed"] += 1
    for snapshot in own:
        if any(file.meta.file_name not in world.contents for file in snapshot.files[bucket]):
            violations["a file that is not in the folder"] += 1
        position = snapshot.state.logged.position(bucket)
        held = [entry for offset, entry in committed if offset < position.offset]
        from_log = world.kind.fold([*base, *(change for entry in held for change in _changes(world, entry))])
        rows = _by_sequence(world, snapshot, bucket)
        from_files = world.kind.fold((key, value) for key, _, value in rows)
        if from_log != from_files:
            violations["log != files"] += 1
        if world.kind.takes_rows_out and any(cast("int", count) < 0 for count in from_log.values()):
            violations["a row was deleted twice"] += 1
        if world.kind is SUMMED and from_files != _sums(history, world, base, bucket, held):
            violations["a merge lost a change"] += 1
        if len({sequence for _, sequence, _ in rows}) != len(rows):
            violations["equal sequence numbers"] += 1
        if position.records != sum(entry.header.record_count for entry in held):
            violations["record count of a position"] += 1
        if position.size_bytes != sum(entry.header.size_bytes for entry in held):
            violations["bytes of a position"] += 1
    end = world.snapshots[-1].state.logged.position(bucket).offset
    if not history.is_stopped and any(offset >= end for offset, _ in committed):
        violations["a tail was left"] += 1


def _changes(world: World, entry: Transaction) -> Sequence[Operation]:
    """What a transaction changes: what it logs, or for a header record what the files hold that it names."""
    return entry.operations or [(key, value) for key, _, value in world.rows(entry.header.files)]


def _sums(
    history: History, world: World, base: Sequence[Operation], bucket: int, held: Sequence[Transaction]
) -> dict[Key, Value]:
    """What the changes of these transactions come to, as streams and statements made them."""
    sums = SUMMED.fold(base)
    for entry in held:
        user, number = entry.header.user, entry.header.identifier
        if entry.header.parts:
            given = [(key, value) for key, _, value in world.rows(entry.header.parts[bucket].files)]
            sums = after_statement(sums, given)
            continue
        if entry.header.statement is not None:
            statement = next(one for one in history.statements if one.user == user)
            sums = after_statement(sums, statement.changes[bucket])
            continue
        stream = next(stream for stream in history.streams if stream.user == user)
        plan = next(plan for plan in (0, 1) if source_digest(user, number, plan) == entry.header.source_digest)
        changes = stream.batches[number][bucket](plan)
        sums |= added(sums, changes[changes[0] == SILENT :])
    return sums


def _by_sequence(world: World, snapshot: SimSnapshot, bucket: int) -> list[Row]:
    return sorted(world.rows(snapshot.files[bucket]), key=lambda row: row[1])


def _check_plan(history: History, world: World, snapshot: SimSnapshot, entry: CommitUser, user: str) -> None:
    """A snapshot that names the source offsets of a batch has the rows that were planned from them, and no others."""
    named = marker(user, entry.identifier)
    plans = {plan for files in snapshot.files for plan in world.kind.plans(world.rows(files), named)}
    if any(source_digest(user, entry.identifier, cast("int", plan)) != entry.digest for plan in plans):
        history.violations["a batch has rows of other source offsets"] += 1


def _check_reader(history: History, reader: Reader, bucket: int) -> None:
    """Promise 3: every committed change behind the snapshot, once, in order."""
    expected = [
        operation
        for offset, entry in enumerate(reader.world.log[bucket])
        if entry is not None and entry.state == "committed" and reader.start[bucket] <= offset < reader.lease[bucket]
        for operation in entry.operations
    ]
    if reader.read[bucket] != expected:
        history.violations["a reader lost or doubled changes"] += 1


def _check_batch(history: History, stream: Stream, number: int, buckets: set[int]) -> None:
    """Promise 1 in the log and in the files; promise 4: a half batch only under a ledger that says so.

    Of a stream that was given up a part may be missing, but nothing may claim that it is there.
    """
    world, violations, user = stream.world, history.violations, stream.user
    own = world.snapshots[world.base_snapshot :]
    is_given_up = stream.abandoned_at is not None and number >= stream.abandoned_at
    for bucket in buckets:
        times = sum(
            entry is not None
            and entry.state == "committed"
            and (entry.header.user, entry.header.identifier) == (user, number)
            for entry in world.log[bucket]
        )
        times += world.base_snapshot > 0 and _has_batch(world, own[0], user, number, bucket)  # of before the copy
        is_unknown = world.base_snapshot > 0 and (user, number, bucket) in world.rowless
        if times > 1 or (not times and not is_given_up and not is_unknown):
            violations[f"a batch is {'twice' if times else 'not'} in the log"] += 1
    for snapshot in own:
        with_rows = [bucket for bucket in sorted(buckets) if (user, number, bucket) not in world.rowless]
        there = [_has_batch(world, snapshot, user, number, bucket) for bucket in with_rows]
        entry = snapshot.state.users.get(user)
        if entry is not None and entry.identifier >= number and not all(there):
            violations["a snapshot claims a batch that it lacks"] += 1
        if entry is not None and entry.identifier == number:
            _check_plan(history, world, snapshot, entry, user)
        if any(there) and not all(there) and snapshot.state.logged.is_whole():
            violations["half a batch under an empty ledger"] += 1


def _check_lineage(history: History, stream: Stream, number: int) -> None:
    """A snapshot, or a mark that a later snapshot takes in, says what an acknowledged batch was made from."""
    world, user = stream.world, stream.user
    is_given_up = stream.abandoned_at is not None and number >= stream.abandoned_at
    if history.snapshot_share == 1 or is_given_up or world is not history.world or history.is_restored:
        return
    mark = world.mark_of(user)
    waiting = () if mark is None else mark.rowless_behind(world.snapshots[-1].state.users)
    is_known = any((user, number) in snapshot.lineage for snapshot in world.snapshots)
    if not is_known and number not in {one.identifier for one in waiting}:
        history.violations["the lineage of a batch is lost"] += 1


def _has_batch(world: World, snapshot: SimSnapshot, user: str, number: int, bucket: int) -> bool:
    return bool(world.kind.plans(world.rows(snapshot.files[bucket]), marker(user, number)))


def _check_old_values(
    history: History, world: World, base: Sequence[Operation], committed: Sequence[Transaction]
) -> None:
    """The old values in the records of statements are those of the log at their place."""
    values: dict[Key, Value | None] = dict(base)
    for entry in committed:
        for file in entry.header.files if entry.header.statement is not None else ():
            for key, before in world.befores.get(file.meta.file_name, {}).items():
                if values.get(key) != before:
                    history.violations["a wrong old value"] += 1
        values |= dict(_changes(world, entry))


def _check_statement(history: History, world: World, statement: SimStatement) -> None:
    """Whole in each snapshot and, at the end, in the log, or not at all; and as its driver was told."""
    violations, user = history.violations, statement.user
    for snapshot in world.snapshots[world.base_snapshot :]:
        there = [_has_statement(world, snapshot, statement, bucket) for bucket in statement.buckets]
        is_begun = any(there) if statement.taker is None else _is_begun(world, snapshot, statement)
        if is_begun and not all(there):
            violations["half a statement in a snapshot"] += 1
        if user in snapshot.state.users and not all(there):
            violations["a snapshot claims a statement that it lacks"] += 1
    logged = {bucket: _logged_by(world, bucket, user) for bucket in statement.buckets}
    if max(map(len, logged.values())) > 1:
        violations["a statement is twice in the log"] += 1
    if any(entries and not _is_asked_for(world, statement, bucket, entries) for bucket, entries in logged.items()):
        violations["a statement logged other changes"] += 1
    if history.is_stopped:
        return
    if statement.taker is None:
        is_whole = all(logged.values())
    else:  # what another statement has deleted before is not logged again
        is_whole = all(_has_statement(world, world.snapshots[-1], statement, one) for one in statement.buckets)
    if any(logged.values()) and not is_whole:
        violations["half a statement is in the log"] += 1
    if statement.is_done and not is_whole:
        violations["a statement was lost"] += 1
    if statement.is_cancelled and any(logged.values()):
        violations["a cancelled statement is in the log"] += 1


def _logged_by(world: World, bucket: int, user: str) -> list[Transaction]:
    return [
        entry
        for entry in world.log[bucket]
        if entry is not None and entry.state == "committed" and entry.header.user == user
    ]


def _has_statement(world: World, snapshot: SimSnapshot, statement: SimStatement, bucket: int) -> bool:
    """Whether a bucket has the marker of a statement, or lacks all rows that it deletes: none of them comes again."""
    rows = world.rows(snapshot.files[bucket])
    if statement.taker is not None:
        return statement.removed.get(bucket, {}).keys().isdisjoint(row for row, _, _ in rows)
    return bool(world.kind.plans(rows, ("statement", statement.user)))


def _is_begun(world: World, snapshot: SimSnapshot, statement: SimStatement) -> bool:
    """Whether a snapshot has taken in a bucket's part of a statement, by its offsets."""
    return any(
        entry is not None and entry.state == "committed" and entry.header.user == statement.user
        for bucket in statement.buckets
        for entry in world.log[bucket][: snapshot.state.logged.position(bucket).offset]
    )


def _is_asked_for(world: World, statement: SimStatement, bucket: int, entries: Sequence[Transaction]) -> bool:
    """Whether the records of a statement are its changes; those of merges are checked by their sums."""
    operations = [operation for entry in entries[:1] for operation in entry.operations]
    if statement.taker is not None:
        wanted = statement.removed[bucket]
        return all(-cast("int", count) <= wanted.get(row, 0) for row, count in operations)
    return world.kind.is_merged or world.kind.fold(operations) == world.kind.fold(statement.changes[bucket])
