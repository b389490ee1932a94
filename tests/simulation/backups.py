"""A table's folder that is restored from a backup, older than its log: `cp -r` at some point, and back in its place.

All processes of the table end when the folder is exchanged. What the log holds behind the backup names files that the
folder may lack: then writers are refused, until the folder that was set aside comes back. Where something was logged
meanwhile, neither folder goes with the log, and the table goes on with another identity alone: the history ends there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.writer_marks import WriterMark
from tests.simulation.kinds import Row
from tests.simulation.model import REFUSED_FOLDER, stop_all
from tests.simulation.world import SimConsumers, SimSnapshot, World

if TYPE_CHECKING:
    from tests.simulation.model import History

BACKUP_SHARE = 0.01
RESTORE_SHARE = 0.0002
RESOLVE_SHARE = 0.1
PUT_BACK_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Backup:
    """The files of a table's folder at one time. Leases of readers are not among them: readers renew theirs."""

    snapshots: tuple[SimSnapshot, ...]
    first_snapshot: int
    contents: dict[str, tuple[Row, ...]]
    written: dict[str, float]
    removed: frozenset[str]
    consumers: dict[str, bytes]
    appended: Counter[tuple[str, int]]
    prepared: dict[str, PreparedCommit]
    marks: frozenset[str]
    acknowledged: dict[str, WriterMark]

    @classmethod
    def of(cls, world: World) -> Backup:
        """What the folder holds now."""
        return cls(
            snapshots=tuple(world.snapshots),
            first_snapshot=world.first_snapshot,
            contents=dict(world.contents),
            written=dict(world.written),
            removed=frozenset(world.removed),
            consumers=dict(world.consumers.files),
            appended=Counter(world.appended),
            prepared=dict(world.prepared),
            marks=frozenset(world.marks),
            acknowledged=dict(world.acknowledged),
        )

    def restore(self, world: World) -> None:
        """Put these files in the place of those that are there."""
        world.snapshots = list(self.snapshots)
        world.first_snapshot = self.first_snapshot
        world.contents, world.written = dict(self.contents), dict(self.written)
        world.removed = set(self.removed)
        world.consumers = SimConsumers(dict(self.consumers))
        world.appended = Counter(self.appended)
        world.prepared, world.marks = dict(self.prepared), set(self.marks)
        world.acknowledged = dict(self.acknowledged)


def let_backups_come_back(history: History) -> None:
    """Take a backup of the table, restore it once, and after a writer was refused decide what becomes of the table."""
    world, rng = history.world, history.restorer
    if history.has_foreign_policy:
        return
    if history.is_restored:
        if history.refused_at != world.events[REFUSED_FOLDER] and rng.random() < RESOLVE_SHARE:
            _resolve(history)
        return
    chance = rng.random()
    if history.backup is None:
        history.backup = Backup.of(world) if chance < BACKUP_SHARE else None
    elif chance < RESTORE_SHARE:
        history.set_aside = Backup.of(world)
        history.is_restored = True
        _exchange(history, history.backup)
        world.events["restored"] += 1


def _resolve(history: History) -> None:
    """Put the folder back that was set aside; or leave the table, which goes on with a new identity, to its user."""
    world = history.world
    newer, history.set_aside = history.set_aside, None
    history.refused_at = world.events[REFUSED_FOLDER]
    if newer is None or history.restorer.random() > PUT_BACK_SHARE:
        history.is_stopped = True
        world.events["restored, left to its user"] += 1
        return
    _exchange(history, newer)
    world.events["restored, put back"] += 1


def _exchange(history: History, files: Backup) -> None:
    world = history.world
    stop_all(history)
    for stream in history.streams:
        if stream.world is world:
            stream.is_first_attempt = True
    files.restore(world)
