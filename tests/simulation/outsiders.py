"""Who else acts on a table beside its writers: expiry, readers, other engines, and who changes its folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.consumer import can_hold_nothing
from lakelog.protocol.life.identity_renewal import restarted_log
from lakelog.protocol.upkeep import log_expiry
from tests.simulation.backups import let_backups_come_back
from tests.simulation.lake import PlacedTable
from tests.simulation.model import History, Reader, Stream, expect, random_batches, stop_all
from tests.simulation.world import AwayError, Line, SimSnapshot, World

EXPIRE_SHARE = 0.03
FOREIGN_SHARE = 0.01
READ_SHARE = 0.03
UPKEEP_SHARE = 0.01
AWAY_SHARE = 0.0015
COPY_SHARE = 0.001
MOVE_SHARE = 0.0005
NEW_IDENTITY_SHARE = 0.04
READERS_MAX = 2  # of each table
COPY_PATH = "sim://lake/copy"
MOVED_PATH = "sim://lake/moved"


def let_outsiders_act(history: History) -> None:
    """Expiry, readers, copies and, where there is one, a foreign policy, at any time."""
    rng, world = history.world.outsiders, history.world
    if rng.random() < AWAY_SHARE:
        world.send_broker_away()
    if rng.random() < EXPIRE_SHARE:
        _expire(rng.choice([world, history.copied or world]))
    if rng.random() < UPKEEP_SHARE:
        rng.choice(history.worlds).upkeep_by_others()
    if rng.random() < READ_SHARE:
        _let_somebody_read(history, rng.choice(history.worlds))
    if history.has_foreign_policy and rng.random() < FOREIGN_SHARE:
        bucket = rng.randrange(world.bucket_count)
        first, end = world.log_starts[bucket], len(world.log[bucket])
        world.log_starts[bucket] = rng.choice((end, rng.randint(first, end)))
        world.events["deleted by a foreign policy"] += 1
    _let_folders_change(history)
    let_backups_come_back(history)


def _let_folders_change(history: History) -> None:
    """Copy the table's folder, move it, or give the copy a log of its own after its writer was refused.

    A table that was moved records its place with its next snapshot. A copy that is made, or is without an identity of
    its own, while the table is elsewhere than its newest snapshot says is taken for moved too: the two look the same.
    """
    world, copied, rng = history.world, history.copied, history.world.outsiders
    if copied is not None and copied.copied_snapshots is not None:
        if world.events["a writer of a copy was refused"] and rng.random() < NEW_IDENTITY_SHARE:
            _give_identity(copied)
        return
    chance = rng.random()
    if chance < COPY_SHARE and copied is None and history.snapshot_share == 1:
        if world.snapshots[-1].state.place == world.path:
            _copy(history)
    elif COPY_SHARE < chance < COPY_SHARE + MOVE_SHARE and world.path != MOVED_PATH:
        _move(history)


def _copy(history: History) -> None:
    """Copy the folder while everybody is at work, and start a writer on it, maybe with a copied checkpoint."""
    world = history.world
    world.events["copied"] += 1
    history.copied = world.copied_to(COPY_PATH)
    one = world.outsiders.choice(history.streams)
    if one.position == len(one.batches) or world.outsiders.random() < 0.4:
        history.streams.append(Stream(history.copied, "d", random_batches(world, "d")))
        return
    world.events["copied with a checkpoint"] += 1
    copied = replace(one, world=history.copied, plans=Counter(one.plans), attempts=Counter(one.attempts))
    copied.refused_plans, copied.attempt, copied.pools = set(one.refused_plans), None, []
    copied.first_position, copied.is_first_attempt = one.position, True
    history.streams.append(copied)


def _move(history: History) -> None:
    """Stop whoever works on the table, and move its folder."""
    world = history.world
    stop_all(history)
    world.move_to(MOVED_PATH)
    world.events["moved"] += 1


def _give_identity(world: World) -> None:
    """What `new_identity` does: a uuid, a topic, and, where there are snapshots, one with which the new log begins."""
    count, newest = len(world.snapshots), world.snapshots[-1]
    state = world.state_of(count - 1)
    sequences = {
        bucket: max((file.meta.max_sequence_number + 1 for file in files), default=0)
        for bucket, files in enumerate(newest.files)
    }
    world.table_uuid, world.topic_id = "the-copy", "the-topic-of-the-copy"
    world.begin_log()
    log = restarted_log(state.logged, sequences, topic_id=world.topic_id)
    state = replace(state, log=log, place=world.path)
    if count == 1:
        world.snapshots[0] = SimSnapshot(state, newest.files)
    else:
        world.snapshots.append(SimSnapshot(replace(state, snapshot_id=count), newest.files))
        world.base_snapshot = count
    world.copied_snapshots = None
    world.site.lake.put_table(world.path, world.table_uuid)
    world.events["a copy got an identity"] += 1


def _expire(world: World) -> None:
    """What an expiry of snapshots and log does: keep some of the newest, and delete what is not needed."""
    rng, newest = world.outsiders, len(world.snapshots) - 1
    world.first_snapshot = max(world.first_snapshot, min(newest - rng.choice((0, 1, 3)), world.carrier()))
    oldest, last = (world.snapshots[at].state for at in (world.first_snapshot, newest))
    states = [oldest.logged, last.logged]
    is_copy = PlacedTable(world.path, world.table_uuid, world.site.lake).is_copy(last.place)
    if is_copy or world.is_broker_away or any(state.topic_id != world.topic_id for state in states):
        return
    try:
        starts = [Line(world).ask_offset(start) for start in world.log_starts]
    except AwayError:
        return
    for bucket in range(world.bucket_count):
        since = rng.choice((None, None, rng.randint(0, len(world.log[bucket]))))
        needed = log_expiry.first_needed(bucket, snapshots=states, leases=world.leases, since=since)
        kept = min(needed, len(world.log[bucket]))
        if kept > starts[bucket]:
            world.log_starts[bucket] = kept
            world.events["records expired"] += 1


def _let_somebody_read(history: History, world: World) -> None:
    readers = [reader for reader in history.readers if reader.world is world]
    if len(readers) < READERS_MAX:
        readers.append(_new_reader(world))
        history.readers.append(readers[-1])
    read_on(history, world.outsiders.choice(readers))


def _new_reader(world: World) -> Reader:
    """A reader starts to follow the log behind a snapshot that is there."""
    first = max(world.first_snapshot, world.base_snapshot)
    snapshot = world.snapshots[world.outsiders.randint(first, len(world.snapshots) - 1)]
    start = {bucket: snapshot.state.logged.position(bucket).offset for bucket in range(world.bucket_count)}
    reader = Reader(world, start, dict(start), [[] for _ in range(world.bucket_count)])
    world.leases.append(reader.lease)
    return reader


def read_on(history: History, reader: Reader) -> None:
    """Read each bucket up to its last stable offset, and let the lease follow.

    The broker may go away between two buckets; then the reader goes on later, where it was.
    """
    world = reader.world
    for bucket, offset in reader.lease.items():
        if world.is_broker_away:
            world.events["a reader waited for the broker"] += 1
            return
        if not history.is_over and world.outsiders.random() < AWAY_SHARE:
            world.send_broker_away()
        entries = world.log[bucket]
        stable = next((at for at, one in enumerate(entries) if one is not None and one.state == "open"), len(entries))
        if stable <= offset:
            continue
        first = world.log_starts[bucket]
        is_after_record = offset == reader.start[bucket] and offset > 0
        if first > offset and not can_hold_nothing(offset, first, len(entries), is_after_record=is_after_record):
            text = f"a reader of bucket {bucket} stands at {offset}, it starts at {first}"
            expect(history, LogTruncatedError(text), world)
            return
        for one in entries[max(offset, first) : stable]:
            if one is not None and one.state == "committed":
                reader.read[bucket].extend(one.operations)
        reader.lease[bucket] = stable
