"""A process that writes without Spark, runs statements, or follows a table, until a SIGKILL at a random moment ends it.

Run by `tests.filestore.processes.zygote`. What is acknowledged, and what a follower was given, are lines in files of
their own, synced to the disk.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

from lakelog.catalog import Catalog, Table
from lakelog.protocol.statements import branch_merging, statements
from tests.support.jobs.interval_process import BASES, SCHEMA, Death, acknowledge, acknowledged, write_batches
from tests.support.jobs.interval_process import rows_of as rows_of_batch

__all__ = ["BASES", "FOLLOWERS", "HOT", "SCHEMA", "SOURCES", "WRITERS", "base_of", "followed", "main", "rows_of_batch"]

WRITERS = ("p", "q", "r", "s")
SOURCES = 2  # of each writer, a thread each
FOLLOWERS = ("token", "consumer")
HOT = 9_999  # the key that each write of a source changes
_FIRST = 100_000


def main(folder: str, servers: str, who: str, last: str, dies: str) -> None:
    """Do what `who` does until `last` is acknowledged; a follower ends with what is there, where `last` is 0.

    `who` is a writer and the milliseconds of its linger, `p@20`; the stream and its interval, `a@2000`; `statements`;
    `token` or `consumer`. `servers` is `-` for a table without a log. `dies` is as `interval_process` takes it.
    """
    for module in (statements, branch_merging):
        setattr(module, "GRACE_MILLIS", 0)  # noqa: B010  # imported by value
    name, _, millis = who.partition("@")
    die = Death.of(dies)
    table = Catalog(f"{folder}/lake", bootstrap_servers=None if servers == "-" else servers).load_table("db.t")
    if name in FOLLOWERS:
        follow(table, Path(folder), name, die, is_last=last == "0")
    elif name in WRITERS:
        write(table, Path(folder), name, linger=f"{millis} ms", last=int(last), die=die)
    else:
        numbers = range(acknowledged(Path(folder), name) + 1, int(last) + 1)

        def done(number: int) -> None:
            acknowledge(folder, name, number)
            die.comes_nearer()

        if name == "a":
            write_batches(table, name, int(millis), numbers, done)
        for number in numbers if name == "statements" else ():
            table.write(rows_of_batch(name, number))
            done(number)


def base_of(name: str, source: int) -> int:
    """The first key of a source of a writer."""
    return _FIRST * (1 + SOURCES * WRITERS.index(name) + source)


def write(table: Table, folder: Path, name: str, *, linger: str, last: int, die: Death) -> None:
    """A thread for each source; each goes on behind what is in, and cuts its source anew."""
    lock, failed = threading.Lock(), list[BaseException]()
    with table.writer(name, linger=linger) as writer:

        def run(source: int) -> None:
            known = f"{name}-{source}"
            try:
                found = writer.last_identifier(known)
                assert (-1 if found is None else found) >= acknowledged(folder, known), "an acknowledged write is lost"
                number = 0 if found is None else found + 1
                while number <= last:
                    end = min(last + 1, number + random.randint(1, 4))
                    base = base_of(name, source)
                    rows = [{"id": base + one, "batch": one} for one in range(number, end)]
                    writer.write([*rows, {"id": base + HOT, "batch": end - 1}], source=known, identifier=end - 1)
                    with lock:
                        acknowledge(str(folder), known, end - 1)
                        die.comes_nearer()
                    number = end
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=run, args=(source,)) for source in range(SOURCES)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    if failed:
        raise failed[0]


def follow(table: Table, folder: Path, name: str, die: Death, *, is_last: bool) -> None:
    """Follow from the position that stands beside the output, or by a named consumer."""
    out = folder / f"followed-{name}"
    kept = list(followed(folder, name))
    if out.exists():
        text = out.read_bytes()
        os.truncate(out, text.rfind(b"\n") + 1)  # a line in part was not committed
    start = kept[-1][1] if kept and name == "token" else "snapshot"
    consumer = name if name == "consumer" else None
    until = "latest" if is_last else None
    with table.follow(start=start, consumer=consumer, until=until) as changes, out.open("a", encoding="utf-8") as file:
        for batch in changes:
            rows = [[one["_row_kind"], one["id"], one["batch"]] for one in batch.to_arrow().to_pylist()]
            print(json.dumps([rows, str(batch.position)]), file=file, flush=True)
            os.fsync(file.fileno())
            die.comes_nearer()


def followed(folder: Path, name: str) -> Iterator[tuple[list[tuple[str, int, int]], str]]:
    """The changes of each batch that a follower was given, and the position behind it."""
    out = folder / f"followed-{name}"
    text = out.read_text("utf-8") if out.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            rows, position = json.loads(line)
            yield [(kind, key, batch) for kind, key, batch in rows], position
