"""How many requests to an object store wait for each other: in a commit, a plan, a read, a lookup, a stream's batch.

A proxy before an S3 server (moto, in a process of its own on the same machine) delays each request by 50 ms. The
figure of an action, `requests_<action>`, is the time that it takes, less the time that it takes without delay, by 50
ms: the requests on its critical path, for those that are sent at once take the time of one. `total_<action>` is the
number of all its requests. Medians of the repeats. `--trace` prints the requests of each action in their order.

Tables have a primary key and 4 buckets, and a compaction is looked for after each write, but none is due. `commit`
writes 10 rows to each bucket and commits them, `commit_step` commits files that are written; `stream` is the driver and
the task of a batch of a stream, without Spark; `logged` is that of a table of one bucket with a log and a snapshot a
batch, `interval` the same between two snapshots of an interval. Reads are of a table with 200,000 compacted rows and 5
young files in each bucket: `plan` and `read` by an open handle, `lookup` opens the table and finds a row by its key in
a process that has done so before, for another key, `lookup_open` by an open handle, `lookup_young` so for a key that is
in the young files, `lookup_catalog` by a catalog, `lookup_cold` in a new process, from the moment that it has loaded
its libraries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.protocol.state import Batch
from lakelog.protocol.stores import DriverSnapshots
from lakelog.protocol.writing import check_identity, commit_files
from lakelog.spark.sink.batch_write import next_sequence
from lakelog.spark.sink.task import FilesWrite
from tests.support.logs.local_writer import LocalWriter
from tests.support.servers.s3_proxy import Request, S3Proxy, s3_proxy
from tests.support.servers.s3_server import S3Server, running_s3

ROOT = Path(__file__).resolve().parents[2]
DELAY_SECONDS = 0.050
REPEATS, SMALL_REPEATS = 9, 1
ROWS, SMALL_ROWS = 200_000, 2_000
BATCH_ROWS = 40
YOUNG = 5
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64()), pa.field("word", pa.string())]
)
# Compactions are looked for after each commit, and none is due while the benchmark runs.
OPTIONS = {"bucket": "4", "num-sorted-run.compaction-trigger": "100000", "num-sorted-run.stop-trigger": "100001"}
COLD = """
import json, sys, time
import obstore, polars, pyarrow.parquet
from lakelog.filestore.table import FileStoreTable
path, options, key = json.loads(sys.argv[1])
begun = time.monotonic()
found = FileStoreTable.open(path, options=options).to_arrow(where=f"id = {key}").num_rows
print(time.monotonic() - begun)
sys.exit(0 if found == 1 else f"the key {key} has {found} rows")
"""
Action = Callable[[], float | None]  # an action that is timed elsewhere gives its seconds


@dataclass(frozen=True, slots=True)
class Place:
    """The warehouse, the options that reach it through the proxy, and the rows of the table that is read."""

    warehouse: str
    options: Mapping[str, str]
    rows: int

    def opened(self, name: str) -> FileStoreTable:
        """A table, opened anew."""
        return FileStoreTable.open(f"{self.warehouse}/db.db/{name}", options=self.options)


def rows_of(first: int, count_: int) -> pa.Table:
    """Rows with the keys from `first` on."""
    ids = np.arange(first, first + count_)
    return pa.table([ids, ids * 7, [f"word {number}" for number in ids]], schema=SCHEMA)


def make_tables(server: S3Server, endpoint: str, rows: int, servers: str) -> Place:
    """The tables: `read` is read, the others are written, `logged` and `interval` through logs at these servers."""
    place = Place(f"s3://{server.new_bucket()}/lake", server.options_at(endpoint), rows)
    catalog = Catalog(place.warehouse, options=place.options)
    for name in ("t", "streamed", "read"):
        catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    logged = Catalog(place.warehouse, options=place.options, bootstrap_servers=servers)
    for name in ("logged", "interval"):
        options = OPTIONS | {"bucket": "1", "log.system": "kafka"}
        logged.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=options).write(rows_of(0, 1))
    place.opened("t").write(rows_of(0, BATCH_ROWS))
    read = place.opened("read")
    read.write(rows_of(0, rows))
    read.compact(full=True)
    for _ in range(YOUNG):
        read.write(rows_of(0, BATCH_ROWS))
    return place


class Keys:
    """Keys of the table that were not asked for before."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._rng = np.random.default_rng(3)

    def next(self, first: int = BATCH_ROWS, end: int | None = None) -> int:
        """One key; by default one that is not in young files."""
        return int(self._rng.integers(first, self._rows if end is None else end))


def check_one(found: pa.Table, key: int) -> None:
    """End the benchmark when a lookup did not find its row."""
    if found.to_pydict() != {"id": [key], "amount": [key * 7], "word": [f"word {key}"]}:
        sys.exit(f"the lookup of {key} found {found.num_rows} rows")


def writes(place: Place, servers: str) -> dict[str, Callable[[], Action]]:
    """The actions that write, by their names: each is prepared, which is not measured, and then done."""
    table, streamed = place.opened("t"), place.opened("streamed")
    numbers, batches = count(1), count()

    def commit() -> Action:
        rows = rows_of(next(numbers) * BATCH_ROWS, BATCH_ROWS)
        return lambda: _done(table.write(rows))

    def step() -> Action:
        first = table.live_files.of(table.snapshots.latest()).next_sequence
        rows, number = rows_of(next(numbers) * BATCH_ROWS, BATCH_ROWS), next(batches)
        entries = write_rows(table, rows, first_sequence=first).entries
        return lambda: _done(append_commit(table, user="bench", identifier=number, digest=None, entries=entries))

    def stream() -> Action:
        rows, number = rows_of(next(numbers) * BATCH_ROWS, BATCH_ROWS), next(batches)
        return lambda: stream_batch(streamed, Batch(user="stream", identifier=number, source_digest=None), rows)

    catalog = Catalog(place.warehouse, options=place.options, bootstrap_servers=servers)
    writers = {name: LocalWriter(catalog.load_table(f"db.{name}"), "stream") for name in ("logged", "interval")}

    def logged() -> Action:
        rows, number = rows_of(next(numbers) * BATCH_ROWS, BATCH_ROWS), next(batches)
        return lambda: _done(writers["logged"].write(number, rows, None))

    def interval() -> Action:
        rows, number = rows_of(next(numbers) * BATCH_ROWS, BATCH_ROWS), next(batches)
        return lambda: writers["interval"].log(number, rows)

    return {"commit": commit, "commit_step": step, "stream": stream, "logged": logged, "interval": interval}


def reads(place: Place) -> dict[str, Callable[[], Action]]:
    """The actions that read."""
    table, keys = place.opened("read"), Keys(place.rows)

    def lookup(opened: Callable[[], FileStoreTable | Table], *, end: int | None = None) -> Action:
        key = keys.next() if end is None else keys.next(0, end)
        return lambda: check_one(opened().to_arrow(where=f"id = {key}"), key)

    def cold() -> Action:
        command = [sys.executable, "-c", COLD, json.dumps([table.path, dict(place.options), keys.next()])]
        return lambda: float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    return {
        "plan": lambda: lambda: _done(table.planned()),
        "read": lambda: lambda: _check_count(table.to_arrow(columns=["id"]).num_rows, place.rows),
        "lookup": lambda: lookup(lambda: place.opened("read")),
        "lookup_open": lambda: lookup(lambda: table),
        "lookup_young": lambda: lookup(lambda: table, end=BATCH_ROWS),
        "lookup_catalog": lambda: lookup(lambda: Catalog(place.warehouse, options=place.options).load_table("db.read")),
        "lookup_cold": cold,
    }


def stream_batch(table: FileStoreTable, batch: Batch, rows: pa.Table) -> None:
    """What the driver and one task do for a batch of a stream into a table without a log."""
    state = DriverSnapshots(table, None).newest()
    check_identity(state, batch)
    task = FilesWrite(table=table, first_sequence=next_sequence(table, state), is_overwrite=False, index=None)
    files = task.write(rows.to_batches(), 0).files
    _done(commit_files(table, batch, files, observe=lambda *_: None).snapshot_id)


def _done(result: object) -> None:
    assert result is not None


def _check_count(found: int, expected: int) -> None:
    if found != expected:
        sys.exit(f"a read found {found} rows, expected {expected}")


@contextmanager
def delayed(proxy: S3Proxy, seconds: float) -> Iterator[None]:
    """Delay requests meanwhile."""
    proxy.delay_seconds = seconds
    try:
        yield
    finally:
        proxy.delay_seconds = 0.0


def timed(proxy: S3Proxy, action: Action, delay_seconds: float) -> tuple[float, list[Request]]:
    """The seconds of an action, and its requests in the order of their start."""
    proxy.requests.clear()
    with delayed(proxy, delay_seconds):
        begun = time.monotonic()
        lasted = action()
        if lasted is None:
            lasted = time.monotonic() - begun
    return lasted, sorted(proxy.requests, key=lambda one: one.started_seconds)


def show(name: str, requests: list[Request]) -> None:
    """Print the requests of an action with the milliseconds since the first."""
    print(f"-- {name}")
    for one in requests:
        since = (one.started_seconds - requests[0].started_seconds) * 1_000
        print(f"{since:8.0f} ms  {one.method:6} {one.answer_bytes:>9,}  {one.path.partition('/lake/')[2] or one.path}")


def run(*, rows: int, repeats: int, only: list[str] | None, has_trace: bool) -> dict[str, object]:
    """The figures."""
    summary: dict[str, object] = {"benchmark": "store-latency", "delay_ms": round(DELAY_SECONDS * 1_000)}
    with (
        TemporaryDirectory() as folder,
        running_s3(ROOT / ".venvs" / "moto" / "bin" / "python") as server,
        s3_proxy(server.endpoint) as proxy,
        ExitStack() as stack,
    ):
        broker = EmbeddedBroker(Path(folder))
        servers = broker.start().bootstrap_servers
        stack.callback(broker.stop)
        place = make_tables(server, proxy.endpoint, rows, servers)
        for name, prepared in {**writes(place, servers), **reads(place)}.items():
            if only and name not in only:
                continue
            timed(proxy, prepared(), 0.0)  # what is loaded and connected only once
            slow, fast, totals = [], [], []
            for repeat in range(repeats):
                fast.append(timed(proxy, prepared(), 0.0)[0])
                lasted, requests = timed(proxy, prepared(), DELAY_SECONDS)
                slow.append(lasted)
                totals.append(len(requests))
                if has_trace and repeat == repeats - 1:
                    show(name, requests)
            summary[f"requests_{name}"] = round((median(slow) - median(fast)) / DELAY_SECONDS, 1)
            summary[f"total_{name}"] = int(median(totals))
            summary[f"{name}_ms"] = round(median(slow) * 1_000)
    return summary


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench store-latency", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its figures mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--trace", action="store_true", help="print the requests of each action")
    parser.add_argument("--only", action="append", help="the name of an action; all by default")
    given = parser.parse_args()
    size = (SMALL_ROWS, SMALL_REPEATS) if given.small else (ROWS, REPEATS)
    summary = run(rows=size[0], repeats=size[1], only=given.only, has_trace=given.trace)
    for name, value in summary.items():
        print(f"{name:28} {value!s:>12}")
    if given.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
