"""Milliseconds of commits of 10 rows by one writer without Spark, beside delta-rs, pypaimon and DuckLake.

Half of the keys of a commit are new. The tables are in a local folder, with one bucket. lakelog makes files durable
before a snapshot names them, and compacts as it goes; neither delta-rs nor pypaimon does either. `ducklake_inlined`
keeps the rows in the catalog. `lakelog_logged` writes to a table with a log too, by `Table.write`, which is a batch
statement (embedded broker, or the one that LAKELOG_TEST_BOOTSTRAP_SERVERS names). `disk_ms` is the floor: to make one
file of 2 KB durable, and its name. All take turns, and make the same number of commits, since a commit of a peer takes
longer the more there are before it. `<name>_ms` are medians of commits, rows a second are of all.

`writer_append`, `writer_keyed` and `writer_logged` are those of `Table.writer`, which stays open; `bare` is a bare
transaction of Kafka's client with the same records and one small durable file. `writer_threads_*` are 16 threads with
one write each in flight and a linger of 5 ms, `writer_unanswered_*` 16 threads with 64 writes unanswered each,
`writer_processes_*` 4 processes with 4 threads each.

`ratio_best_peer` is the rows a second of the writer by those of the best peer with upserts by key, `ratio_best_append`
that without keys, inlined rows left out; `ratio_bare` the milliseconds of a logged write by those of `bare`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.command import run_command
from benchmarks.files.small_commit_peers import KEYED, PEERS, SCHEMA, WARM, keys_after, seconds_of
from benchmarks.files.writer_commits import (
    bare_transaction,
    many_threads,
    one_thread,
    several_processes,
    unanswered,
)
from benchmarks.logs.log import some_broker
from benchmarks.measuring import in_turns
from lakelog.catalog import Catalog
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

ROOT = Path(__file__).resolve().parents[2]
ROWS = 10
ROUNDS, COMMITS, LOGGED_COMMITS = 3, 100, 20
FLOOR_BYTES = 2_000
Seconds = list[float]


def run_lakelog(folder: Path, commits: int, *, is_keyed: bool) -> Seconds:
    """Commits to a table without a log."""
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"}) if is_keyed else build_schema(SCHEMA)
    table = FileStoreTable.create(folder / "t", schema)
    seconds = seconds_of(table.write, commits, ROWS)
    check_rows(table.to_arrow().num_rows, commits, is_keyed=is_keyed)
    return seconds


def run_logged(servers: str, folder: Path, commits: int) -> Seconds:
    """Commits to a table with a log."""
    options = {"bucket": "1", "log.system": "kafka", "log.kafka.bootstrap.servers": servers}
    catalog = Catalog(folder)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    seconds = seconds_of(table.write, commits, ROWS)
    check_rows(table.to_arrow().num_rows, commits, is_keyed=True)
    catalog.drop_table("db.t")
    return seconds


def run_peer(name: str, folder: Path, commits: int) -> Seconds:
    """Commits of a peer, in its environment."""
    python = ROOT / ".venvs" / PEERS[name][0] / "bin" / "python"
    script = Path(__file__).with_name("small_commit_peers.py")
    command: list[str | Path] = [python, "-X", "faulthandler", script, name, str(folder), str(commits), str(ROWS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=folder)
    found = json.loads(done.stdout.splitlines()[-1])
    check_rows(found["rows"], commits, is_keyed=name in KEYED)
    return [float(one) for one in found["seconds"]]


def run_floor(folder: Path, commits: int) -> Seconds:
    """One small file made durable, with its name, again and again."""
    seconds = []
    for number in range(commits):
        started = time.perf_counter()
        for path, data in ((folder / str(number), os.urandom(FLOOR_BYTES)), (folder, None)):
            descriptor = os.open(path, os.O_RDONLY if data is None else os.O_WRONLY | os.O_CREAT)
            if data is not None:
                os.write(descriptor, data)
            os.fsync(descriptor)
            os.close(descriptor)
        seconds.append(time.perf_counter() - started)
    return seconds


def check_rows(found: int, commits: int, *, is_keyed: bool) -> None:
    """End the benchmark when a table has other rows than were written."""
    all_commits = WARM + commits
    expected = keys_after(all_commits, ROWS) if is_keyed else all_commits * ROWS
    if found != expected:
        sys.exit(f"a table has {found} rows after {all_commits} commits, expected {expected}")


def run(folder: Path, *, rounds: int, commits: int, logged_commits: int) -> dict[str, object]:
    """The figures."""
    environments = sorted({environment for environment, _ in PEERS.values()})
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", *environments], check=True, stdout=sys.stderr)

    def in_folder(work: Callable[[Path, int], Seconds], count: int) -> Seconds:
        place = folder / "work"
        place.mkdir()
        try:
            return work(place, count)
        finally:
            shutil.rmtree(place)

    with some_broker() as servers:
        contenders: dict[str, tuple[Callable[[Path, int], Seconds], int]] = {
            "disk": (run_floor, commits),
            "lakelog_append": (partial(run_lakelog, is_keyed=False), commits),
            "lakelog_keyed": (partial(run_lakelog, is_keyed=True), commits),
            "lakelog_logged": (partial(run_logged, servers), logged_commits),
            "writer_append": (partial(one_thread, None, rows=ROWS, is_keyed=False), commits),
            "writer_keyed": (partial(one_thread, None, rows=ROWS), commits),
            "writer_logged": (partial(one_thread, servers, rows=ROWS), commits),
            "bare": (partial(bare_transaction, servers, rows=ROWS), commits),
            **{name: (partial(run_peer, name), commits) for name in PEERS},
        }
        found = in_turns(
            {name: partial(in_folder, work, count) for name, (work, count) in contenders.items()}, repeats=rounds
        )
        together = joined_writes(folder, servers, commits)
    summary: dict[str, object] = {"benchmark": "small-commits", "rows_per_commit": ROWS}
    rates: dict[str, float] = {}
    for name, ones in found.items():
        summary[f"{name}_ms"] = round(median(second for one in ones for second in one) * 1_000, 2)
        if name != "disk":
            rates[name] = median(ROWS * len(one) / sum(one) for one in ones)
            summary[f"{name}_rows_per_s"] = round(rates[name])
    best_append = max(rate for name, rate in rates.items() if name.endswith("_append") and name in PEERS)
    summary |= together
    summary["ratio_best_peer"] = round(rates["writer_keyed"] / max(rates[name] for name in KEYED), 2)
    summary["ratio_best_append"] = round(rates["writer_append"] / best_append, 2)
    logged, bare = (median(second for one in found[name] for second in one) for name in ("writer_logged", "bare"))
    summary["ratio_bare"] = round(logged / bare, 2)
    summary["commit_ms"] = summary["lakelog_keyed_ms"]
    return summary


def joined_writes(folder: Path, servers: str, commits: int) -> dict[str, object]:
    """The figures of writes of many threads and processes."""
    figures: dict[str, object] = {}

    def place(name: str) -> Path:
        made = folder / name
        made.mkdir()
        return made

    for name, at in (("logged", servers), ("files", None)):
        seconds, rate = many_threads(at, place(f"threads-{name}"), commits, rows=ROWS)
        figures[f"writer_threads_{name}_ms"] = round(median(seconds) * 1_000, 2)
        figures[f"writer_threads_{name}_rows_per_s"] = round(rate)
        rate = unanswered(at, place(f"unanswered-{name}"), 4 * commits, rows=ROWS)
        figures[f"writer_unanswered_{name}_rows_per_s"] = round(rate)
    rate, fencings, longest = several_processes(servers, place("processes"), commits, rows=ROWS)
    figures["writer_processes_rows_per_s"] = round(rate)
    figures["writer_processes_fencings_per_write"] = round(fencings, 3)
    figures["writer_processes_longest_s"] = round(longest, 2)
    return figures


def main() -> None:
    """Print the figures."""

    def run_sized(folder: Path, is_small: bool) -> dict[str, object]:
        if is_small:
            return run(folder, rounds=1, commits=3, logged_commits=2)
        return run(folder, rounds=ROUNDS, commits=COMMITS, logged_commits=LOGGED_COMMITS)

    run_command(__doc__, run_sized)


if __name__ == "__main__":
    main()
