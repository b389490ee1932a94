"""Commits of 10 rows by `Table.writer`, which stays open, and the floor of a logged one: a bare Kafka transaction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any  # Any: futures of positions

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.files.small_commit_peers import SCHEMA, batch, keys_after, seconds_of
from lakelog.catalog import Catalog, Table, open_table

THREADS = 16
PROCESSES, THREADS_OF_PROCESS = 4, 4
UNANSWERED = 64
LINGER = "5 ms"
FLOOR_BYTES = 2_000
Seconds = list[float]
PROGRAM = """
import json, sys, time
from benchmarks.files.writer_commits import each_answered
from lakelog.catalog import open_table
path, name, threads, writes, first = sys.argv[1:]
with open_table(path).writer(name, linger="5 ms") as writer:
    writer.last_identifier()
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.time()
    seconds = each_answered(writer.write, int(threads), int(writes), first=int(first))
    print(json.dumps({"seconds": seconds, "started": started, "ended": time.time()}), flush=True)
"""


def new_table(folder: Path, servers: str | None, *, is_keyed: bool = True) -> Table:
    """A table with one bucket, with a log where `servers` name its broker."""
    options = {"bucket": "1"} if is_keyed else {}
    if servers is not None:
        options |= {"log.system": "kafka", "log.kafka.bootstrap.servers": servers}
    keys = ["id"] if is_keyed else []
    return Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=keys, options=options)


def one_thread(servers: str | None, folder: Path, commits: int, *, rows: int, is_keyed: bool = True) -> Seconds:
    """Each write answered before the next one."""
    table = new_table(folder, servers, is_keyed=is_keyed)
    with table.writer("bench") as writer:
        return seconds_of(writer.write, commits, rows)


def bare_transaction(servers: str, folder: Path, commits: int, *, rows: int) -> Seconds:
    """The same records in a transaction of Kafka's client, then a small file made durable, with its name."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": str(uuid.uuid4()),
            "linger.ms": 0,
        }
    )
    producer.init_transactions()
    topic = f"bare-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()

    def write(given: Any) -> None:
        producer.begin_transaction()
        for row in given.to_pylist():
            record = json.dumps({"before": None, "after": row, "op": "c"}).encode()
            producer.produce(topic, record, key=json.dumps({"id": row["id"]}).encode())
        producer.commit_transaction()
        path = folder / str(uuid.uuid4())
        for one, data in ((path, os.urandom(FLOOR_BYTES)), (folder, None)):
            descriptor = os.open(one, os.O_RDONLY if data is None else os.O_WRONLY | os.O_CREAT)
            if data is not None:
                os.write(descriptor, data)
            os.fsync(descriptor)
            os.close(descriptor)

    return seconds_of(write, commits, rows)


def each_answered(
    write: Callable[[Any], object], threads: int, writes: int, *, first: int = 0, rows: int = 10
) -> Seconds:
    """Threads that write, each one write at a time; the seconds of each."""

    def run(number: int) -> Seconds:
        seconds = []
        for at in range(writes):
            given = batch(first + number * writes + at, rows)
            started = time.perf_counter()
            write(given)
            seconds.append(time.perf_counter() - started)
        return seconds

    with ThreadPoolExecutor(threads) as pool:
        return [one for found in pool.map(run, range(threads)) for one in found]


def many_threads(servers: str | None, folder: Path, commits: int, *, rows: int) -> tuple[Seconds, float]:
    """16 threads with one write each in flight, joined by `linger`: seconds of each, and rows a second."""
    table = new_table(folder, servers)
    with table.writer("bench", linger=LINGER) as writer:
        each_answered(writer.write, THREADS, 2, first=1_000_000)
        started = time.perf_counter()
        seconds = each_answered(writer.write, THREADS, commits)
        lasted = time.perf_counter() - started
    check(table, commits * THREADS, rows, extra=2 * THREADS)
    return seconds, THREADS * commits * rows / lasted


def unanswered(servers: str | None, folder: Path, commits: int, *, rows: int) -> float:
    """Rows a second of 16 threads with 64 writes unanswered each."""
    table = new_table(folder, servers)
    with table.writer("bench", linger=LINGER) as writer:

        def run(number: int) -> None:
            waiting: list[Future[Any]] = []
            for at in range(commits):
                waiting.append(writer.write_later(batch(number * commits + at, rows)))
                if len(waiting) >= UNANSWERED:
                    waiting.pop(0).result()
            for one in waiting:
                one.result()

        started = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(run, range(THREADS)))
        lasted = time.perf_counter() - started
    check(table, commits * THREADS, rows)
    return THREADS * commits * rows / lasted


def several_processes(servers: str, folder: Path, commits: int, *, rows: int) -> tuple[float, float, float]:
    """Rows a second of 4 processes with 4 threads each, fencings a write, and the longest wait in seconds."""
    table = new_table(folder, servers)
    steps = folder / "steps"
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "LAKELOG_STEP_LOG": str(steps), "PYTHONPATH": str(root)}

    def begun(number: int) -> subprocess.Popen[str]:
        first = number * THREADS_OF_PROCESS * commits
        sizes = [str(one) for one in (THREADS_OF_PROCESS, commits, first)]
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, table.path, f"p{number}", *sizes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    processes = [begun(number) for number in range(PROCESSES)]
    for one in processes:
        assert one.stdout is not None
        one.stdout.readline()
    before = steps.read_text().count('"fence"')
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    found = [json.loads(one.communicate()[0].splitlines()[-1]) for one in processes]
    writes = PROCESSES * THREADS_OF_PROCESS * commits
    lasted = max(one["ended"] for one in found) - min(one["started"] for one in found)
    fencings = steps.read_text().count('"fence"') - before
    check(table, writes, rows)
    return writes * rows / lasted, fencings / writes, max(second for one in found for second in one["seconds"])


def check(table: Table, writes: int, rows: int, *, extra: int = 0) -> None:
    """End the benchmark when a table has other rows than were written."""
    found = open_table(table.path).to_arrow().num_rows
    expected = keys_after(writes, rows) + (keys_after(extra, rows) if extra else 0)
    if found != expected:
        sys.exit(f"a table has {found} rows after {writes} writes, expected {expected}")
