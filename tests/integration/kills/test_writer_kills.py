"""SIGKILLs at random moments of writers and followers without Spark, beside a stream by interval and statements.

Each acknowledged write is there once, each other one whole or not there; a follower has each change once by its
positions, and at least once by its consumer. Source: docs/rfcs/0051-writers.md.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from tests.filestore.processes.zygote import zygote
from tests.support.jobs.interval_process import acknowledged
from tests.support.jobs.writer_process import (
    BASES,
    FOLLOWERS,
    HOT,
    SCHEMA,
    SOURCES,
    WRITERS,
    base_of,
    followed,
    rows_of_batch,
)
from tests.support.logs.promises import read_headers
from tests.support.logs.statements import check_folds, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(3600)]

ROUNDS = 20
SECONDS_MAX = 1.0
LINGERS = (0, 20)
NEVER = 1_000_000
LAST_MORE = 3
LAST_MORE_OF_A_WRITER = 4 * ROUNDS  # each of its processes may have left a write that was not acknowledged
KINDS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "keyed": (["id"], {"log.system": "kafka"}),
    "append only": ([], {"log.system": "kafka", "bucket-key": "id"}),
    "all changes": (["id"], {"log.system": "kafka", "log.changelog-mode": "all"}),
    "without a log": (["id"], {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_write_is_whole_once_or_not_there_whoever_is_killed(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    keys, options = KINDS[kind]
    has_log = "log.system" in options
    servers = bootstrap_servers if has_log else "-"
    given = {"bucket": "2", "snapshot.num-retained.min": "1000000", "snapshot.num-retained.max": "1000000", **options}
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers if has_log else None)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=given)
    rng, kills = random.Random(kind), 0
    with zygote("tests.support.jobs.writer_process") as forks:

        def run(who: str, *, last: int = NEVER, dies: str = "never") -> int:
            millis = {"a": rng.choice((0, 2_000))} if who == "a" else {who: rng.choice(LINGERS)}
            name = f"{who}@{millis[who]}" if who in (*WRITERS, "a") else who
            return forks.fork(tmp_path, servers, name, last, dies)

        beside = ("a", "statements") if has_log else ("statements",)
        for number in range(ROUNDS):
            names = (*WRITERS[: 1 + number % len(WRITERS)], *beside, *FOLLOWERS)
            # A follower may wait for changes that come no more.
            running = [
                run(who, dies=f"{rng.uniform(0, SECONDS_MAX):.3f}@{0 if who in FOLLOWERS else rng.randrange(4)}")
                for who in names
            ]
            assert [forks.wait(pid) for pid in running] == [signal.SIGKILL] * len(names)
            kills += len(names)
        ends = {who: last_of(tmp_path, who) + LAST_MORE_OF_A_WRITER for who in WRITERS}
        ends |= {who: last_of(tmp_path, who) + LAST_MORE for who in beside}
        assert [forks.wait(pid) for pid in [run(who, last=end) for who, end in ends.items()]] == [0] * len(ends)
        if has_log:
            catalog.load_table("db.t").log_store.settle()
        assert [forks.wait(pid) for pid in [run(who, last=0) for who in FOLLOWERS]] == [0, 0]
    assert kills >= 100, kills
    table = catalog.load_table("db.t")
    check_rows(table, ends, has_key=bool(keys))
    check_followers(table, tmp_path, ends, has_key=bool(keys))
    if has_log:
        logged = Counter((bucket, header.user, header.identifier) for bucket, header in read_headers(table))
        assert max(logged.values()) == 1, "a write is twice in the log"
        check_folds(table, has_key=bool(keys))
    catalog.drop_table("db.t")


def last_of(folder: Path, who: str) -> int:
    """The last number that any part of a program has had acknowledged."""
    names = [f"{who}-{source}" for source in range(SOURCES)] if who in WRITERS else [who]
    return max(0, *(acknowledged(folder, name) for name in names))


def check_rows(table: Table, ends: Mapping[str, int], *, has_key: bool) -> None:
    """Each source is there without a gap, once, up to where the last process has written."""
    found = rows_in(table)
    for name in WRITERS:
        for source in range(SOURCES):
            base = base_of(name, source)
            own = Counter({row[0] - base: n for row, n in found.items() if base <= row[0] < base + HOT})
            assert own == Counter(range(ends[name] + 1)), (name, source)
            hot = [row[1] for row in found if row[0] == base + HOT]
            assert max(hot) == ends[name]
            assert not has_key or len(hot) == 1
    for name in ends.keys() - set(WRITERS):
        rows = [tuple(row.values()) for one in range(ends[name] + 1) for row in rows_of_batch(name, one).to_pylist()]
        own = Counter({row: n for row, n in found.items() if BASES[name] <= row[0] < BASES[name] + 1_000})
        if has_key:
            assert own == Counter(dict(rows).items()), name
        elif name == "statements":
            assert own >= Counter(rows)  # a caller that was killed does not know whether its statement is in
        else:
            assert own == Counter(rows), name


def check_followers(table: Table, folder: Path, ends: Mapping[str, int], *, has_key: bool) -> None:
    """The changes that each follower was given lead to the table; by positions each of them came once."""
    rows = rows_in(table)
    for name in FOLLOWERS:
        given = [change for changes, _ in followed(folder, name) for change in changes]
        times = Counter((key, batch) for kind, key, batch in given if kind in ("+I", "+U"))
        for writer in WRITERS:
            for source in range(SOURCES):
                base = base_of(writer, source)
                own = {key - base: n for (key, _), n in times.items() if base <= key < base + HOT}
                assert own.keys() == set(range(ends[writer] + 1)), (name, writer, source)
                assert name != "token" or set(own.values()) == {1}, (name, writer, source)
        if has_key:
            state: dict[int, int] = {}
            for kind, key, batch in given:
                if kind in ("+I", "+U"):
                    state[key] = batch
                else:
                    state.pop(key, None)
            assert Counter(state.items()) == rows, name
        elif name == "token":
            assert times == rows
