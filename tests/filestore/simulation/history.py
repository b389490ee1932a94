"""One history of one table: a seed drives who works at it, in which order, and what fails."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.table import FileStoreTable
from tests.filestore.simulation.actors import (
    BranchTaker,
    Changer,
    Compactor,
    Expirer,
    Job,
    Overwriter,
    Reader,
    Restorer,
    Tagger,
    Worker,
    Writer,
)
from tests.filestore.simulation.kinds import KINDS, TableKind
from tests.filestore.simulation.model import Model
from tests.filestore.simulation.world import Actor, Fault, World

CALM_EVERY = 7  # every seventh history is one without faults: races alone leave nothing behind
FOREIGN_EVERY = 4  # every fourth history has another engine that compacts and expires
RESTORES_EVERY = 5  # every fifth history has someone who restores older states
BRANCHES_EVERY = 6  # every sixth history has someone who gives branches the table's place
FAULT_RATE = 0.04
TRACE_LINES_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How a history went. `violations` names the promises that were broken, the first one ends it."""

    seed: int
    kind: str
    violations: list[str]
    trace: list[str]
    events: Mapping[str, int]

    @property
    def crash_points(self) -> int:
        """Calls that failed, were cut off, or were the last of their process."""
        return sum(self.events.get(fault, 0) for fault in Fault)

    def report(self, *, lines: int = TRACE_LINES_SHOWN) -> str:
        """What a person needs to see first."""
        head = f"seed {self.seed}, {self.kind}: {'; '.join(self.violations) or 'every promise was kept'}"
        return "\n".join([head, *self.trace[-lines:]])


def simulate(seed: int) -> History:
    """The history of a seed: the same, call by call, each time."""
    chance = random.Random(f"setting of {seed}")
    kind = KINDS[seed % len(KINDS)]
    world = World(seed, fault_rate=0 if seed % CALM_EVERY == 0 else FAULT_RATE * chance.choice((0.5, 1, 2)))
    one_thread = patch("lakelog.common.threads.os.cpu_count", return_value=1)  # an actor is a greenlet of one thread
    with one_thread, tempfile.TemporaryDirectory(dir=_fast_folder()) as folder, world.owned():
        inner = LocalFileIO(sync_data=False)
        table = FileStoreTable.create(f"{folder}/t", kind.schema(_options(chance)), inner)
        world.root = f"{folder}/"
        model = Model(world, kind, table)
        for worker in _workers(world, model, inner, kind, chance):
            world.actors.append(Actor(worker.name, worker.live, worker.is_done))
        world.run()
        if not world.violations:
            model.check_all()
        _count(world, model)
    return History(seed=seed, kind=kind.name, violations=world.violations, trace=world.trace, events=dict(world.events))


def _options(chance: random.Random) -> dict[str, str]:
    return {
        "write-only": chance.choice(("true", "false")),
        "compaction.max-size-amplification-percent": chance.choice(("200", "100000")),
        "num-sorted-run.compaction-trigger": chance.choice(("2", "3")),
        "manifest.merge-min-count": chance.choice(("2", "5")),
        "target-file-size": chance.choice(("1 b", "128 mb", "128 mb")),
    }


def _workers(world: World, model: Model, inner: LocalFileIO, kind: TableKind, chance: random.Random) -> list[Worker]:
    quota = chance.randint
    is_foreign = world.seed % FOREIGN_EVERY == FOREIGN_EVERY - 1
    restores = world.seed % RESTORES_EVERY == RESTORES_EVERY - 1 and not kind.shows_compacted
    takes_branches = world.seed % BRANCHES_EVERY == BRANCHES_EVERY - 1
    return [
        Writer(world, model, inner, "writer-a", quota(4, 7)),
        Writer(world, model, inner, "writer-b", quota(4, 7)),
        Job(world, model, inner, "job", quota(2, 4)),
        Overwriter(
            world,
            model,
            inner,
            "overwriter",
            0 if kind.tells_old_values or kind.shows_compacted else quota(0, 2),
            rest_turns=200,
        ),
        *([] if kind.has_key else [Changer(world, model, inner, "changer", quota(2, 4), rest_turns=100)]),
        Compactor(world, model, inner, "compactor", quota(3, 5), rest_turns=200, is_foreign=is_foreign),
        Expirer(
            world,
            model,
            inner,
            "expirer",
            quota(0, 6),
            rest_turns=250,
            keeps_max=chance.choice((1, 3)),
            is_foreign=is_foreign,
        ),
        Tagger(world, model, inner, "tagger", quota(0, 2), rest_turns=300),
        Reader(world, model, inner, "reader", quota(4, 8), rest_turns=120),
        *([Restorer(world, model, inner, "restorer", quota(1, 3), rest_turns=200)] if restores else []),
        *([BranchTaker(world, model, inner, "taker", quota(2, 4), rest_turns=200)] if takes_branches else []),
    ]


def _count(world: World, model: Model) -> None:
    world.events["snapshots"] += len(model.snapshots)
    world.events["lives"] += sum(actor.lives for actor in world.actors)


def _fast_folder() -> str | None:
    """A folder in memory, where there is one."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None
