"""A process that writes batches by interval, or runs statements, until a SIGKILL at a random moment ends it.

Run by `tests.filestore.processes.zygote`. What is acknowledged is a line in a file of its own, synced to the disk.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, UnavailableError
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.writing.interval import IntervalSnapshots
from tests.support.logs.local_writer import LocalWriter

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int32())])
BASES = {"a": 0, "b": 1_000, "statements": 2_000}
BATCH_ROWS, KEYS = 5, 40


def main(folder: str, servers: str, who: str, last: str, dies: str) -> None:
    """Write the batches behind the acknowledged ones up to `last`.

    `who` is the user and the milliseconds between its snapshots: `a@2000`. `dies` is when this process dies: so many
    seconds after so many acknowledged batches, `0.3@2`; `never`.
    """
    user, _, interval_millis = who.partition("@")
    for module in (statements, branch_merging):
        setattr(module, "GRACE_MILLIS", 0)  # noqa: B010  # imported by value
    die = Death.of(dies)
    table = Catalog(f"{folder}/lake", bootstrap_servers=servers).load_table("db.t")
    numbers = range(acknowledged(Path(folder), user) + 1, int(last) + 1)

    def acknowledged_one(number: int) -> None:
        acknowledge(folder, user, number)
        die.comes_nearer()

    if user == "statements":
        for number in numbers:
            table.write(rows_of(user, number))
            acknowledged_one(number)
        return
    write_batches(table, user, int(interval_millis), numbers, acknowledged_one)


@dataclass(slots=True)
class Death:
    """A SIGKILL of this process so many seconds after so many acknowledged batches; never with a count below 0."""

    seconds: float
    batches: int

    @classmethod
    def of(cls, text: str) -> Death:
        """As `main` is given it; one that needs no batch is begun."""
        seconds, _, batches = text.partition("@")
        found = cls(0.0, -1) if text == "never" else cls(float(seconds), int(batches))
        found._begin()
        return found

    def comes_nearer(self) -> None:
        """A batch was acknowledged."""
        self.batches -= 1
        self._begin()

    def _begin(self) -> None:
        if self.batches == 0:
            timer = Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()


def write_batches(
    table: Table, user: str, interval_millis: int, numbers: range, acknowledge: Callable[[int], None]
) -> None:
    """What a stream does, and whoever starts it again after a run that was fenced or got no answer."""
    left = list(numbers)
    while left:
        writer = LocalWriter(table, user, by_interval=IntervalSnapshots.of({}, millis=interval_millis or 1))
        writer.by_interval.take = writer.take_in
        try:
            while left:
                if interval_millis:
                    with writer.by_interval.batch():
                        writer.log(left[0], rows_of(user, left[0]))
                        if writer.by_interval.is_due():
                            writer.take_in()
                else:
                    writer.write(left[0], rows_of(user, left[0]), None)
                acknowledge(left.pop(0))
            writer.by_interval.close()
        except (ConflictError, UnavailableError):
            writer.by_interval.abandon()
            time.sleep(random.random() / 5)  # two that began together would fence each other again


def rows_of(user: str, number: int) -> pa.Table:
    """The rows of a batch: keys that come again some batches later, with the number of the batch."""
    ids = [BASES[user] + (3 * number + at) % KEYS for at in range(BATCH_ROWS)]
    return pa.table([ids, [number] * len(ids)], schema=SCHEMA)


def acknowledge(folder: str, user: str, number: int) -> None:
    """Keep that a batch is acknowledged."""
    with Path(folder, f"acknowledged-{user}").open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())


def acknowledged(folder: Path, user: str) -> int:
    """The last batch that is acknowledged; -1 before the first. A line that a kill cut off does not count."""
    path = folder / f"acknowledged-{user}"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return max((int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")), default=-1)
