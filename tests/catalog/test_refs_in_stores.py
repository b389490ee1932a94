"""Tags, branches, merges, restores and rollbacks in an object store and in HDFS: what they are on a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.support.servers.hdfs_server import Hdfs
from tests.support.servers.s3_server import S3Server

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
Rows = dict[int, int]
Shown = dict[str, tuple[Rows, dict[str, Rows]]]


@pytest.fixture(params=["s3", "hdfs"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        return Catalog(f"s3://{s3.new_bucket()}/lake", options=s3.options)
    hdfs: Hdfs = request.getfixturevalue("hdfs")
    return Catalog(f"{hdfs.url}{tmp_path}/lake")


def rows_of(table: Table, tag: str | None = None) -> Rows:
    rows = table.to_arrow(tag=tag)
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def shown(table: Table) -> Shown:
    """The rows of all lines, and of the tags that are no protecting ones."""
    lines = [table.branch(name) for name in ("main", *(branch.name for branch in table.branches.list()))]
    return {
        line.store.branch: (
            rows_of(line),
            {tag.name: rows_of(line, tag.name) for tag in line.tags.list() if not tag.name.startswith("lakelog-")},
        )
        for line in lines
    }


def put(table: Table, **rows: int) -> None:
    ids = [int(name.removeprefix("k")) for name in rows]
    table.write(pa.table([pa.array(ids, pa.int64()), pa.array(list(rows.values()), pa.int64())], schema=SCHEMA))


def expire(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")


def states_of(table: Table) -> Iterator[Shown]:
    """What is shown after each step of a life with every verb, but for those of tables without a log alone."""
    put(table, k1=1, k2=2, k3=3)
    table.tags.create("start")
    put(table, k1=10, k4=4)
    table.branches.create("dev", tag="start")
    table.branches.create("tried")
    dev = table.branch("dev")
    put(dev, k2=20, k5=5)
    dev.delete("id = 3")
    dev.tags.create("cut")
    yield shown(table)
    dev.compact(full=True)
    expire(dev)
    expire(table)
    yield shown(table)
    table.tags.rename("start", "first")
    table.branches.rename("dev", "next")
    assert table.branches.merge("next", on_conflict="branch").conflict_count == 0
    yield shown(table)
    put(table.branch("next"), k6=6)
    table.branches.merge("next")
    table.tags.create("merged")
    table.restore(tag="first")
    yield shown(table)
    table.tags.replace("merged")
    table.tags.delete("first")
    table.branches.delete("tried")
    table.upkeep.remove_orphan_files(older_than=timedelta(days=-1), dry_run=False, allow_young=True)
    yield shown(table)


def states_without_log(table: Table) -> Iterator[Shown]:
    """What is shown after a rollback and after each change of the whole line."""
    yield from states_of(table)
    put(table, k7=7)
    table.upkeep.rollback(tag="merged", force=True)
    yield shown(table)
    for number, verb in enumerate(("fast_forward", "replace_newer", "replace_main")):
        name = f"line{number}"
        table.branches.create(name)
        put(table.branch(name), k8=80 + number)
        if verb != "fast_forward":
            put(table, k9=9)
        getattr(table.branches, verb)(name, **({} if verb == "fast_forward" else {"force": True}))
        yield shown(table)
    expire(table)
    table.upkeep.remove_orphan_files(older_than=timedelta(days=-1), dry_run=False, allow_young=True)
    yield shown(table)


AFTER = [
    {
        "main": ({1: 10, 2: 2, 3: 3, 4: 4}, {"start": {1: 1, 2: 2, 3: 3}}),
        "dev": ({1: 1, 2: 20, 5: 5}, {"start": {1: 1, 2: 2, 3: 3}, "cut": {1: 1, 2: 20, 5: 5}}),
        "tried": ({1: 10, 2: 2, 3: 3, 4: 4}, {}),
    },
]


def made(catalog: Catalog, **options: str) -> Table:
    given = {"bucket": "2"} | {key.replace("_", "."): text for key, text in options.items()}
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=given)


def test_every_verb_leaves_the_rows_that_it_leaves_on_a_local_disk(catalog: Catalog, tmp_path: Path) -> None:
    there = list(states_without_log(made(catalog)))
    assert there[0] == AFTER[0]
    assert there[2]["main"][0] == {1: 10, 2: 20, 4: 4, 5: 5}
    assert there[3]["main"][0] == {1: 1, 2: 2, 3: 3}
    assert there[-1]["main"][0] == {1: 1, 2: 2, 3: 3, 8: 82}
    assert there == list(states_without_log(made(Catalog(tmp_path / "local"))))


@pytest.mark.integration
def test_a_logged_table_keeps_log_and_files_equal_there(catalog: Catalog, bootstrap_servers: str) -> None:
    table = made(catalog, log_system="kafka", log_kafka_bootstrap_servers=bootstrap_servers)
    for _ in states_of(table):
        assert table.log_store.verify().is_equal
    put(table, k1=100)
    topic = None if table.log is None else table.log.topic_id
    assert table.restore(tag="merged", renew_log=True).renews_log
    assert table.log is not None
    assert table.log.topic_id != topic
    branch = table.branch("next").log_store.add({"log.kafka.bootstrap.servers": bootstrap_servers})
    put(branch, k11=11)
    table.branches.merge("next")
    assert table.log_store.verify().is_equal
    assert branch.log_store.verify().is_equal
    assert rows_of(table) == {1: 1, 2: 2, 3: 3, 11: 11}
    catalog.drop_table("db.t")
