"""SIGKILLs at random moments of writers by interval, statements and brokers: what was acknowledged is there, once."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.logstore.broker.broker import EmbeddedBroker
from tests.filestore.processes.zygote import Zygote, zygote
from tests.support.jobs.interval_process import SCHEMA, acknowledged, rows_of
from tests.support.logs.promises import read_headers
from tests.support.logs.statements import check_folds, rows_in
from tests.support.tables.foreign_engine import foreign_snapshot

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1800)]

WRITERS = ("a", "b")
USERS = (*WRITERS, "statements")
INTERVALS = (0, 2_000, 30_000)
SECONDS_MAX = 1.0
ROUNDS = 11
NEVER = 1_000_000
KINDS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "keyed": (["id"], {}),
    "append only": ([], {}),
    "all changes": (["id"], {"log.changelog-mode": "all"}),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "kafka")
    yield broker
    broker.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_acknowledged_is_there_once_whoever_is_killed(
    kind: str, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    servers = broker.start().bootstrap_servers
    keys, options = KINDS[kind]
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=servers)
    given = {"bucket": "2", "log.system": "kafka", "snapshot.num-retained.min": "1000000", **options}
    given |= {"snapshot.num-retained.max": "1000000"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=given)
    rng, kills = random.Random(kind), 0
    with zygote("tests.support.jobs.interval_process") as forks:

        def run(user: str, *, last: int = NEVER, dies: str = "never") -> int:
            return forks.fork(tmp_path, servers, f"{user}@{rng.choice(INTERVALS)}", last, dies)

        for number in range(ROUNDS):
            running = [run(user, dies=f"{rng.uniform(0, SECONDS_MAX):.3f}@{rng.randrange(4)}") for user in USERS]
            if number % 3 == 1:
                _kill(broker)
                kills += 1
            assert [forks.wait(pid) for pid in running] == [signal.SIGKILL] * len(USERS)
            kills += len(USERS)
            broker.start()
            with suppress(AssertionError):  # another commit came first, or the table has no snapshot
                foreign_snapshot(table.store)
        _finish(forks, tmp_path, run)
    assert kills >= 3 * ROUNDS
    catalog.load_table("db.t").log_store.settle()
    _check(catalog.load_table("db.t"), tmp_path, has_key=bool(keys))
    catalog.drop_table("db.t")


def _kill(broker: EmbeddedBroker) -> None:
    running = broker.status()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    broker.start()


def _finish(forks: Zygote, folder: Path, run: object) -> None:
    """Each writer writes one batch more, and ends."""
    assert callable(run)
    for user in USERS:
        assert forks.wait(run(user, last=acknowledged(folder, user) + 1)) == 0


def _check(table: Table, folder: Path, *, has_key: bool) -> None:
    ends = {user: acknowledged(folder, user) for user in USERS}
    assert min(ends.values()) > 0, "nothing was written between the kills"
    found = rows_in(table)
    for user in WRITERS:
        wanted = _expected(user, ends[user], has_key=has_key)
        assert {row: count for row, count in found.items() if _is_of(row[0], user)} == wanted
    statements = Counter({row: count for row, count in found.items() if _is_of(row[0], "statements")})
    wanted = _expected("statements", ends["statements"], has_key=has_key)
    assert statements >= Counter(wanted) if not has_key else statements == Counter(wanted)
    logged = Counter((bucket, header.user, header.identifier) for bucket, header in read_headers(table))
    assert max(logged.values()) == 1, "a batch is twice in the log"
    check_folds(table, has_key=has_key)
    recorded = {
        (one["user"], one["identifier"])
        for snapshot in map(table.store.snapshots.get, table.store.snapshots.ids())
        for one in json.loads(snapshot.properties.get(PropertyKey.LINEAGE, '{"batches": []}'))["batches"]
    }
    assert {(user, number) for user in WRITERS for number in range(ends[user] + 1)} <= recorded


def _expected(user: str, last: int, *, has_key: bool) -> dict[tuple[int, int], int]:
    rows = [tuple(row.values()) for number in range(last + 1) for row in rows_of(user, number).to_pylist()]
    return dict(Counter(dict(rows).items())) if has_key else dict(Counter(rows))


def _is_of(key: int, user: str) -> bool:
    return key // 1_000 == ("a", "b", "statements").index(user)
