"""`Table.writer` of logged tables, on a real broker: each write is whole or not there, whoever finds it."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.tables.writers import _Opened, rows_of
from lakelog.common.errors import ConflictError, UnsupportedError
from lakelog.filestore.write import checked_changes, row_source
from lakelog.protocol.state.steps import Step, StepObserver, silent
from lakelog.protocol.state.writes import writer_user
from lakelog.streams.log_writes import LogWrites
from tests.support.examples import examples
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

KINDS = {
    "upsert": {"log.changelog-mode": "upsert"},
    "all": {"log.changelog-mode": "all"},
    "lookup": {"log.changelog-mode": "all", "changelog-producer": "lookup"},
    "sum": {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"},
    "append-only": {},
}
BUCKETS = 3
STEPS = (Step.PREPARE, Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT)


class Died(BaseException):
    """The process ends here."""


def made(folder: Path, servers: str, kind: str = "upsert", **options: str) -> Table:
    keys = () if kind == "append-only" else ("id",)
    more = {"bucket-key": "id"} if kind == "append-only" else {}
    return Catalog(folder, bootstrap_servers=servers).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=keys,
        options={"bucket": str(BUCKETS), "log.system": "kafka"} | KINDS[kind] | options | more,
    )


def opened_again(table: Table) -> Table:
    """The table as another process opens it."""
    return open_table(table.path, options={f"kafka.{key}": value for key, value in table.kafka.items()})


def contents(table: Table) -> Counter[tuple[int, int]]:
    return Counter((row["id"], row["batch"]) for row in opened_again(table).to_arrow().to_pylist())


def logged(table: Table) -> Counter[tuple[int, int]]:
    """What a reader of the log alone makes of it."""
    await_committed(table)
    has_key = bool(table.schema.primary_keys)
    state: dict[int, int] = {}
    sums: Counter[tuple[int, int]] = Counter()
    for batch in opened_again(table).log_store.tail(start="earliest", follow=False):
        for row in batch.to_pylist():
            is_added = row["_row_kind"] in ("+I", "+U")
            sums[row["id"], row["batch"]] += 1 if is_added else -1
            if is_added:
                state[row["id"]] = row["batch"]
            else:
                state.pop(row["id"], None)
    return Counter(state.items()) if has_key else +sums


@dataclass
class Model:
    """What a table holds after changes, by the rules of its kind."""

    kind: str
    state: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, ids: list[int], value: int) -> None:
        for one in ids:
            old = next((batch for known, batch in self.state if known == one), None)
            if self.kind == "append-only":
                self.state[one, value] += 1
                continue
            if old is not None:
                del self.state[one, old]
            self.state[one, value if old is None or self.kind != "sum" else old + value] = 1


def write_log(table: Table, name: str = "a", observe: StepObserver = silent) -> LogWrites:
    """The writes of a process that may die at a step."""
    return LogWrites(writer_user(name), _Opened(opened_again(table)), check_run=lambda: None, observe=observe)


def rows(ids: list[int], value: int) -> list[dict[str, int]]:
    return [{"id": one, "batch": value} for one in ids]


def put(log: LogWrites, table: Table, ids: list[int], value: int) -> None:
    log.write(checked_changes(table.store, row_source(rows_of(table.store, rows(ids, value))), None), {"s": value})


def dying(at: Step, number: int) -> StepObserver:
    """Dies at a step, the time that it comes for the `number`th time."""
    count = itertools.count()

    def observe(step: Step, *_about: object) -> None:
        if step is at and next(count) == number:
            raise Died

    return observe


def finish_by_writer(table: Table) -> None:
    log = write_log(table, "b")
    log.begin()
    log.close()


def finish_by_stream(table: Table) -> None:
    LocalWriter(opened_again(table), "stream").write(0, pa.table({"id": [], "batch": []}, schema=SCHEMA), None)


def finish_by_statement(table: Table) -> None:
    opened_again(table).write(pa.table({"id": [], "batch": []}, schema=SCHEMA))


def finish_by_settling(table: Table) -> None:
    opened_again(table).log_store.settle()


FINISHERS = (finish_by_writer, finish_by_stream, finish_by_statement, finish_by_settling)


def until_death(
    log: LogWrites, table: Table, model: Model, dice: random.Random, value: int
) -> tuple[Counter[tuple[int, int]], int]:
    """Write until the process dies; returns what the table held before the last write, and its value."""
    while True:
        value += 1
        ids = dice.sample(range(12), 6)
        before = Counter(model.state)
        model.add(ids, value)
        try:
            put(log, table, ids, value)
            if value % 2:
                log.take_in()
        except Died:
            return before, value


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_dies_at_any_step_leaves_each_write_whole_or_not_there(
    tmp_path: Path, bootstrap_servers: str, kind: str
) -> None:
    """Whoever comes next finishes it: its own name, another writer, a stream, a statement, settle."""
    deaths = [(step, number) for step in STEPS for number in range(BUCKETS)]
    dice = random.Random(kind)
    table, model = made(tmp_path, bootstrap_servers, kind), Model(kind)
    value = 0
    for at, number in dice.sample(deaths, examples(6)):
        log = write_log(table, observe=dying(at, number))
        before, value = until_death(log, table, model, dice, value)
        log.close()
        if dice.random() < 0.7:
            dice.choice(FINISHERS)(table)
        again = write_log(table)
        again.begin()
        done = again.sources.get("s", 0)
        assert done in (value, value - 1)
        if done != value:  # nothing of it is there
            model.state = before
            value = done
        again.close()
        assert contents(table) == model.state, (at, number)
        assert logged(table) == model.state, (at, number)


def test_a_write_of_which_one_bucket_is_logged_is_shown_by_no_read(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    log = write_log(table)
    put(log, table, list(range(12)), 1)
    log.close()
    half = write_log(table, observe=dying(Step.COMMIT, 1))
    half._writing._threads._max_workers = 1  # one bucket after the other
    with pytest.raises(Died):
        put(half, table, list(range(12)), 2)
    half.close()
    await_committed(table)
    again = opened_again(table)
    assert set(again.to_arrow(fresh=True)["batch"].to_pylist()) == {1}
    for number in range(12):  # reads only the log of the bucket of its key
        assert again.lookup({"id": number}, fresh=True).to_pylist() == rows([number], 1)
    finish_by_settling(table)
    assert set(contents(table)) == {(number, 2) for number in range(12)}


def test_reads_show_a_write_once_it_returns(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    with table.writer("a", snapshot_interval="10 min") as writer:
        for value in range(1, 6):
            position = writer.write(rows(list(range(12)), value))
            assert set(opened_again(table).to_arrow(fresh=True, at_least=position)["batch"].to_pylist()) == {value}
        assert (table.store.snapshots.latest_id() or 0) <= 1
    assert contents(table) == Counter({(number, 5): 1 for number in range(12)})


def test_an_acknowledged_write_is_in_the_fresh_reads_of_others_at_once(tmp_path: Path, bootstrap_servers: str) -> None:
    """Kafka acknowledges a commit before a partition shows it."""
    table = made(tmp_path, bootstrap_servers)
    others = opened_again(table)
    with table.writer("a", snapshot_interval="10 min") as writer:
        for value in range(200):
            writer.write(rows([value], value))
            assert others.lookup({"id": value}, fresh=True).to_pylist() == rows([value], value)


def test_statements_see_what_waits_for_its_snapshot(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    with table.writer("a", snapshot_interval="10 min") as writer:
        writer.write(rows([1, 2, 3, 4], 1))
        opened_again(table).update({"batch": 9}, where="id < 3")
        writer.write(rows([2], 7))
        opened_again(table).delete("batch = 1")
    assert contents(table) == Counter({(1, 9): 1, (2, 7): 1})
    assert logged(table) == contents(table)


def test_several_writers_a_stream_and_statements_beside_each_other(tmp_path: Path, bootstrap_servers: str) -> None:
    """Each of them fences the others; all that was acknowledged is there, and the log says the same."""
    table = made(tmp_path, bootstrap_servers)
    stop = threading.Event()
    counts: Counter[str] = Counter()

    def write(name: str) -> None:
        with opened_again(table).writer(name, linger="5 ms") as writer:
            for number in range(15):
                ids = [100 * int(name) + number, 1000 + number]
                writer.write(rows(ids, number), source="s", identifier=number)
                counts[name] += 1

    def statements() -> None:
        while not stop.wait(0.3):
            opened_again(table).write(pa.table({"id": [5000 + counts["statement"]], "batch": [0]}, schema=SCHEMA))
            counts["statement"] += 1

    with ThreadPoolExecutor(4) as pool:
        beside = pool.submit(statements)
        for one in [pool.submit(write, name) for name in "123"]:
            one.result()
        stop.set()
        beside.result()
    found = contents(table)
    expected = {100 * name + number for name in (1, 2, 3) for number in range(15)} | {1000 + n for n in range(15)}
    expected |= {5000 + number for number in range(counts["statement"])}
    assert {one for one, _ in found} == expected
    assert found == logged(table)


def test_a_second_process_with_the_name_stops_the_first_one(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers)
    with table.writer("a") as old:
        old.write(rows([1], 1), source="s", identifier=1)
        with opened_again(table).writer("a") as new:
            assert new.last_identifier("s") == 1
            new.write(rows([1], 2), source="s", identifier=2)
            with pytest.raises(ConflictError, match=r"writer 'a' of table db\.t is that of another process now"):
                old.write(rows([1, 2], 3))
    assert contents(table) == Counter({(1, 2): 1})


def test_a_write_that_changes_nothing_is_known_by_its_identifier(tmp_path: Path, bootstrap_servers: str) -> None:
    """A caller that begins anew does not do it again, when it may change something."""
    table = made(tmp_path, bootstrap_servers)
    nothing = pa.table({"id": [], "batch": []}, schema=SCHEMA)
    with table.writer("a") as writer:
        writer.write(rows([1], 1), source="s", identifier=1)
        writer.write(nothing, source="s", identifier=5)
        writer.write(nothing)
    with opened_again(table).writer("a") as writer:
        assert writer.last_identifier("s") == 5
        writer.write(rows([1], 9), source="s", identifier=5)
    assert contents(table) == logged(table) == Counter({(1, 1): 1})


def test_an_eventual_log_has_no_writers(tmp_path: Path, bootstrap_servers: str) -> None:
    table = made(tmp_path, bootstrap_servers, **{"log.consistency": "eventual"})
    with pytest.raises(UnsupportedError, match="eventual"):
        table.writer("a")


PROGRAM = """
import json, random, sys, threading
from lakelog.catalog import open_table
path, name, out, seed, linger, threads = sys.argv[1:]
dice = random.Random(int(seed))
with open_table(path).writer(name, linger=linger) as writer, open(out, "a") as file:
    lock = threading.Lock()
    def run(source):
        last = writer.last_identifier(source)
        number = 0 if last is None else last + 1
        with lock:
            print(json.dumps({"begin": last, "source": source}), file=file, flush=True)
        while True:
            end = number + dice.randint(1, 4)
            rows = [{"id": int(source) * 100_000 + n, "batch": n} for n in range(number, end)]
            rows.append({"id": int(source) * 100_000 + 99_999, "batch": end - 1})
            writer.write(rows, source=source, identifier=end - 1)
            with lock:
                print(json.dumps({"done": end - 1, "source": source}), file=file, flush=True)
            number = end
    all = [threading.Thread(target=run, args=(str(number),)) for number in range(int(threads))]
    for one in all:
        one.start()
    for one in all:
        one.join()
"""


def lines_of(out: Path) -> Iterator[dict[str, int | str | None]]:
    text = out.read_text() if out.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        yield json.loads(line)


@pytest.mark.parametrize("system", ["kafka", "none"])
def test_processes_that_are_killed_lose_nothing_and_write_nothing_twice(
    tmp_path: Path, bootstrap_servers: str, system: str
) -> None:
    """SIGKILLs of processes of two names; each goes on from its last identifiers, and cuts its sources anew."""
    if system == "kafka":
        table = made(tmp_path, bootstrap_servers)
    else:
        table = Catalog(tmp_path).create_table(
            "db.t", schema=SCHEMA, primary_keys=("id",), options={"bucket": str(BUCKETS)}
        )
    dice = random.Random(system)
    environment = {**os.environ, "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}
    outs = {name: tmp_path / name for name in ("p", "q")}
    sources = {"p": 2, "q": 1}

    def begun(name: str) -> subprocess.Popen[bytes]:
        linger = dice.choice(["0 ms", "20 ms"])
        count = str(sources[name])
        program = PROGRAM if name == "p" else PROGRAM.replace("str(number),", "str(number + 5),")
        return subprocess.Popen(
            [sys.executable, "-c", program, table.path, name, str(outs[name]), str(dice.random())[2:9], linger, count],
            env=environment,
        )

    running = {name: begun(name) for name in outs}
    kills = examples(4)
    for _ in range(kills):
        victim = dice.choice(sorted(running))
        known = sum(1 for _ in lines_of(outs[victim]))
        deadline = time.monotonic() + 60
        while sum(1 for _ in lines_of(outs[victim])) < known + 3 and time.monotonic() < deadline:
            assert running[victim].poll() is None, "the process ended by itself"
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 0.5))
        running[victim].send_signal(signal.SIGKILL)
        running[victim].wait()
        running[victim] = begun(victim)
    for process in running.values():
        process.send_signal(signal.SIGKILL)
        process.wait()
    if system == "kafka":
        finish_by_settling(table)
    found = {row["id"]: row["batch"] for row in opened_again(table).to_arrow().to_pylist()}
    for name, out in outs.items():
        with opened_again(table).writer(name) as writer:
            for source in {str(line["source"]) for line in lines_of(out)}:
                last = writer.last_identifier(source)
                own = [line for line in lines_of(out) if line["source"] == source]
                assert last is not None
                assert last >= max((int(line["done"] or 0) for line in own if "done" in line), default=0)
                base = int(source) * 100_000
                there = {one - base for one in found if base <= one < base + 99_999}
                assert there == set(range(last + 1)), (name, source)
                assert found[base + 99_999] == last
    if system == "kafka":
        assert logged(table) == Counter(found.items())
