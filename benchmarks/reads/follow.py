"""Milliseconds until `Table.follow` has a change, beside a plain Kafka consumer, and how fast it reads a snapshot.

A writer logs 60 transactions of 10 rows, a tenth of a second apart. Two processes hear of them: one follows the table,
one is a consumer of its topic. `follow` and `consumer` are the medians from the end of a transaction's commit on,
`ratio_consumer` their relation. `snapshot` is the time of the first rows of a stream, 4,000,000 in a table without a
log, `batches` that of `to_batches`; `ratio_batches` is the speed of the first in relation to the second, `peak` the
memory of a process that does nothing else.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.command import run_command
from benchmarks.measuring import in_turns, measured, median_wall_s
from benchmarks.reads.follow_reader import FIRST
from lakelog.catalog import Catalog, Table
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.protocol.state.steps import Step
from tests.support.logs.local_writer import LocalWriter

ROOT = Path(__file__).resolve().parents[2]
BATCHES, BATCH_ROWS, PAUSE_SECONDS = 60, 10, 0.1
ROWS, REPEATS = 4_000_000, 5
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int32())])


def reader(way: str, work: Path, name: str, last: int) -> subprocess.Popen[str]:
    """A process that reads; see `follow_reader`."""
    command = [sys.executable, "-m", "benchmarks.reads.follow_reader", way, str(work), name, str(last)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def latency(work: Path, batches: int) -> dict[str, object]:
    """How long after the commit of a transaction each process hears of it."""
    options = {"bucket": "1", "log.system": "kafka", "snapshot.interval": "10 min"}
    table = Catalog(work).create_table("db.logged", schema=SCHEMA, primary_keys=["id"], options=options)
    committed: dict[int, float] = {}

    def note(step: Step, _user: str, identifier: int, _bucket: int | None) -> None:
        if step is Step.AFTER_COMMIT:
            committed[identifier] = time.time()

    writer, readers = LocalWriter(table, "bench", observe=note), ("follow", "consumer")
    writer.log(0, rows(0, FIRST, BATCH_ROWS))
    processes = {way: reader(way, work, table.name, batches) for way in readers}
    number = 0
    while not all(map(is_heard, processes.values())):  # what is written before a process listens is not heard
        number += 1
        writer.log(number, rows(0, FIRST, BATCH_ROWS))
        time.sleep(PAUSE_SECONDS)
    for batch in range(1, batches + 1):
        writer.log(number + batch, rows(batch, batch, BATCH_ROWS))
        time.sleep(PAUSE_SECONDS)
    found: dict[str, float] = {}
    for way, process in processes.items():
        output, _ = process.communicate(timeout=120)
        seen = dict(map(json.loads, filter(None, output.splitlines())))
        late = [1000 * (at - committed[number + batch]) for batch, at in seen.items() if batch > 0]
        assert len(late) == batches, f"{way} heard of {len(late)} of {batches}"
        found[way] = median(late)
    summary: dict[str, object] = {f"{way}_ms": round(millis, 1) for way, millis in found.items()}
    return summary | {"ratio_consumer": round(found["follow"] / found["consumer"], 2)}


def is_heard(process: subprocess.Popen[str]) -> bool:
    """Whether a process has heard of something: then it has printed a line, which stays in the pipe."""
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0)[0])


def rows(first: int, batch: int, count: int) -> pa.Table:
    """Rows of one batch."""
    ids = np.arange(first * count, (first + 1) * count)
    return pa.table([ids, np.full(count, batch, np.int32)], schema=SCHEMA)


def snapshot(work: Path, count: int, repeats: int) -> dict[str, object]:
    """The first rows of a stream, beside a plain read."""
    table = Catalog(work).create_table("db.large", schema=SCHEMA, primary_keys=["id"], options={"bucket": "4"})
    table.write(rows(0, 0, count))
    table.compact(full=True)
    ways: dict[str, Callable[[], object]] = {
        "batches": lambda: sum(map(len, table.to_batches())),
        "snapshot": lambda: followed(table),
    }
    rounds = in_turns({name: partial(measured, run) for name, run in ways.items()}, repeats=repeats)
    taken = {name: median_wall_s(ones) for name, ones in rounds.items()}
    summary: dict[str, object] = {f"{name}_s": round(seconds, 3) for name, seconds in taken.items()}
    summary["ratio_batches"] = round(taken["batches"] / taken["snapshot"], 2)
    for way in ways:
        read, peak = json.loads(reader(way, work, table.name, 0).communicate()[0])
        assert read == count
        summary[f"peak_{way}_mb"] = round(peak)
    return summary


def followed(table: Table) -> int:
    """The number of rows that a stream begins with."""
    with table.follow(until="latest") as changes:
        return sum(map(len, changes))


def run_all(work: Path, is_small: bool) -> dict[str, object]:
    """The figures."""
    try:
        found = latency(work, 5 if is_small else BATCHES)
    finally:
        EmbeddedBroker(work).stop()
    return (
        {"benchmark": "follow"} | found | snapshot(work, ROWS // 100 if is_small else ROWS, 1 if is_small else REPEATS)
    )


def main() -> None:
    """Print the figures."""
    run_command(__doc__, run_all)


if __name__ == "__main__":
    main()
