"""How long a commit takes while many processes commit to one table, beside busy loops: median, p99, and refusals.

There are 16 processes and 4 busy loops, or as many as `--processes` and `--busy` say. Each process commits its batches
one after the other, a row of its own in each; where another commit came first and the rows are older than its rows,
they are written again, as a stream does. The time of a commit ends with the snapshot. The table is in a folder, or in
S3 (moto, in a process of its own on the same machine).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

import pyarrow as pa

from lakelog.common.errors import ConflictError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.conflicts import OvertakenError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import write_rows
from tests.support.servers.s3_server import running_s3

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, COMMITS, BUSY = 16, 50, 4
SMALL_PROCESSES, SMALL_COMMITS, SMALL_BUSY = 3, 3, 1
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("batch", pa.int32())])
KINDS: Mapping[str, Sequence[str]] = {"keyed": ["id"], "append": []}


def row_of(user: int, batch: int) -> pa.Table:
    """A row that no other process and no other batch has."""
    return pa.table([pa.array([user * 1_000 + batch], pa.int64()), pa.array([batch], pa.int32())], schema=SCHEMA)


def commit_rows(table: FileStoreTable, user: int, batch: int) -> None:
    """Commit the row of a batch."""
    row = row_of(user, batch)
    while True:
        first = table.live_files.of(table.snapshots.latest()).next_sequence
        entries = write_rows(table, row, first_sequence=first).entries
        try:
            append_commit(table, user=str(user), identifier=batch, digest=None, entries=entries)
        except OvertakenError:
            continue
        return


def race(path: str, options: Mapping[str, str], user: int, *, commits: int, start: Barrier, answer: Path) -> None:
    """What each process does: its commits, with the seconds of each, None for a refused one."""
    table = FileStoreTable.open(path, options=dict(options))
    write_rows(table, row_of(user, commits), first_sequence=lambda _: 0)  # not committed: loads what a write needs
    start.wait()
    seconds: list[float | None] = []
    for batch in range(commits):
        begun = time.perf_counter()
        try:
            commit_rows(table, user, batch)
        except ConflictError:
            seconds.append(None)
        else:
            seconds.append(time.perf_counter() - begun)
    answer.write_text(json.dumps(seconds))


def spin() -> None:
    """One busy loop. It ends by itself where the benchmark was killed."""
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():
        pass


def run(folder: Path, store: str, kind: str, *, processes: int, commits: int, busy: int) -> dict[str, object]:
    """The figures of one race."""
    with ExitStack() as stack:
        path, options = f"{folder}/{kind}", dict[str, str]()
        if store == "s3":
            server = stack.enter_context(running_s3(ROOT / ".venvs" / "moto" / "bin" / "python"))
            path, options = f"s3://{server.new_bucket()}/{kind}", server.options
        keys = KINDS[kind]
        schema = build_schema(SCHEMA, primary_keys=keys, options={"bucket": "2"} if keys else {})
        table = FileStoreTable.create(path, schema, options=options)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        start = context.Barrier(processes)
        loops = [context.Process(target=spin, daemon=True) for _ in range(busy)]
        answers = [folder / f"{store}-{kind}-{user}.json" for user in range(processes)]
        racers = [
            context.Process(
                target=race, args=(path, options, user), kwargs={"commits": commits, "start": start, "answer": answer}
            )
            for user, answer in enumerate(answers)
        ]
        begun = time.perf_counter()
        for process in (*loops, *racers):
            process.start()
        for process in racers:
            process.join()
        lasted = time.perf_counter() - begun
        for process in loops:
            process.kill()
        seconds = [one for answer in answers for one in json.loads(answer.read_text())]
        newest = table.snapshots.latest_id()
    done = sorted(one for one in seconds if one is not None)
    assert newest == len(done)
    middle, late = median(done), done[len(done) * 99 // 100]
    return {
        f"{store}_{kind}_processes": processes,
        f"{store}_{kind}_commits": len(seconds),
        f"{store}_{kind}_refused": len(seconds) - len(done),
        f"{store}_{kind}_p50_ms": round(middle * 1_000),
        f"{store}_{kind}_p99_ms": round(late * 1_000),
        f"{store}_{kind}_longest_ms": round(done[-1] * 1_000),
        f"{store}_{kind}_p99_by_p50": round(late / middle, 1),
        f"{store}_{kind}_seconds": round(lasted, 1),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench races", description=__doc__)
    parser.add_argument(
        "--small", action="store_true", help="few commits, to see that it runs: its ratios mean nothing"
    )
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--store", choices=("local", "s3"), action="append", help="where; both by default")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="the kind of table; both by default")
    parser.add_argument("--processes", type=int, help=f"the number of writers; {PROCESSES} by default")
    parser.add_argument("--commits", type=int, help=f"of each process; {COMMITS} by default")
    parser.add_argument("--busy", type=int, help=f"the number of busy loops; {BUSY} by default")
    given = parser.parse_args()
    sizes = (SMALL_PROCESSES, SMALL_COMMITS, SMALL_BUSY) if given.small else (PROCESSES, COMMITS, BUSY)
    processes, commits = given.processes or sizes[0], given.commits or sizes[1]
    busy = sizes[2] if given.busy is None else given.busy
    summary: dict[str, object] = {"benchmark": "races"}
    for store in given.store or (("local",) if given.small else ("local", "s3")):
        for kind in given.kind or sorted(KINDS):
            with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
                found = run(Path(folder), store, kind, processes=processes, commits=commits, busy=busy)
            for name, value in found.items():
                print(f"{name:28} {value:>12,}" if isinstance(value, int) else f"{name:28} {value!s:>12}", flush=True)
            summary |= found
    if given.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
