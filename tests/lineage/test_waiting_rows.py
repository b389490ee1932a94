"""What waits for a compaction is no version of a table yet: consistent snapshots are those that batch reads show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.compact.buckets import compact_buckets
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.metadata.origins.record import ReadMode, TableVersion
from lakelog.filestore.verbs.upkeep_verbs import merge_due
from lakelog.lineage.answers.advancing import ConsistentAdvance
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from tests.lineage.waiting_histories import Follower, WaitingHistory
from tests.support.examples import rest_in_full
from tests.support.lineage.lineage_jobs import StreamJob, overwrite_rows, read_of
from tests.support.tables.followed_tables import KINDS, rows_of
from tests.support.tables.small_tables import SCHEMA

QUESTIONS = 4  # of one history
HIDING = ("deletion vectors", "deletion vectors, input", "first-row")
GIVING = ("lookup", "full-compaction", "deletion vectors, lookup", "first-row, lookup")
MOVES = 25
Make = Callable[..., Table]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def make(catalog: Catalog) -> Make:
    def made(name: str, kind: str = "none", buckets: int = 1) -> Table:
        options = {"bucket": str(buckets), "write-only": "true", **KINDS[kind].options}
        return catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys="id", options=options)

    return made


def put(table: Table, *ids: int, batch: int = 1) -> None:
    table.write(rows_of(ids, batch))


def compact_bucket(table: Table, number: int) -> None:
    store = table.store
    live = store.live_files.of(store.snapshots.latest())
    merge_due(store, [one for one in live.buckets if one.number == number], is_full=True, clock=None)


def version(catalog: Catalog, names: Sequence[str]) -> int:
    """The version of the source that the tables show."""
    return consistent_snapshots(catalog, names).versions["db.orders"].snapshot_id


def copied(read: Table, orders: Table, snapshot_id: int) -> None:
    """A statement that copies what a batch read shows."""
    rows = orders.to_arrow(snapshot_id=snapshot_id)
    overwrite_rows(read, rows, read_of(orders, end=snapshot_id, mode=ReadMode.BATCH))


@pytest.mark.parametrize("kind", HIDING)
def test_what_streams_have_before_batch_reads_show_it_is_no_version(catalog: Catalog, make: Make, kind: str) -> None:
    orders, a, b, read = make("orders", kind), make("a"), make("b"), make("read")
    put(orders, 1)
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    late.run()
    with pytest.raises(NotConsistentError, match=r"rows that wait for a compaction.*streams have read up to 1\)"):
        consistent_snapshots(catalog, ["db.a", "db.b"])
    assert dict(consistent_snapshots(catalog, ["db.a"])) == {"db.a": 1}

    copied(read, orders, 1)
    with pytest.raises(NotConsistentError):
        consistent_snapshots(catalog, ["db.a", "db.read"])
    orders.compact(full=True)
    copied(read, orders, 2)

    assert version(catalog, ["db.a", "db.b", "db.read"]) == 2


@pytest.mark.parametrize("kind", [*HIDING, *GIVING])
def test_a_compaction_of_some_buckets_shows_the_rows_of_these_alone(catalog: Catalog, make: Make, kind: str) -> None:
    orders, a, b, read = make("orders", kind, buckets=2), make("a"), make("b"), make("read")
    put(orders, *range(10))
    compact_bucket(orders, 0)
    StreamJob(a, [orders], user="stream").run({orders.name: 2})
    copied(read, orders, 2)
    if "lookup" in kind and kind != "lookup":  # both show the rows of this bucket
        assert version(catalog, ["db.a", "db.read"]) == 2
    else:
        with pytest.raises(NotConsistentError):
            consistent_snapshots(catalog, ["db.a", "db.read"])
    compact_bucket(orders, 1)
    StreamJob(b, [orders], user="other").run()
    copied(read, orders, 3)

    assert version(catalog, ["db.b", "db.read"]) == 3


@pytest.mark.parametrize("kind", [*HIDING, *GIVING])
def test_a_compaction_that_began_before_a_write_shows_no_row_of_it(catalog: Catalog, make: Make, kind: str) -> None:
    orders, a, b, read = make("orders", kind), make("a"), make("b"), make("read")
    put(orders, 1)
    store = orders.store
    work = due_work(
        store, store.snapshots.latest(), None, lambda _, files, marked: pick_unit(store, files, is_full=True)
    )
    results = compact_buckets(store, work)
    put(orders, 2, batch=2)
    commit_results(store, results)
    end = 1 if kind in HIDING else 3  # what streams have up to it: the first row alone
    StreamJob(a, [orders], user="first").run({orders.name: end})
    StreamJob(b, [orders], user="all").run({orders.name: 2} if kind in HIDING else None)
    shows_all = kind in {"lookup", "full-compaction"}  # to batch reads, before a compaction
    copied(read, orders, 1 if shows_all else 3)

    assert version(catalog, ["db.a", "db.read"]) == (1 if shows_all else 3)
    if kind in HIDING:
        with pytest.raises(NotConsistentError):
            consistent_snapshots(catalog, ["db.b", "db.read"])
    else:
        assert version(catalog, ["db.b", "db.read"]) == (1 if shows_all else 3)


@pytest.mark.parametrize("kind", ["deletion vectors", "first-row"])
def test_a_table_shows_what_batch_reads_of_it_show(catalog: Catalog, make: Make, kind: str) -> None:
    orders, a, b = make("orders"), make("a", kind), make("b")
    put(orders, 1)
    waits, shows = StreamJob(a, [orders], user="waits"), StreamJob(b, [orders], user="shows")
    waits.run()
    a.compact(full=True)
    shows.run()
    put(orders, 2)
    waits.run()
    shows.run()

    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert dict(found) == {"db.a": 3, "db.b": 1}, "snapshot 3 of a lacks the row of its batch"
    a.compact(full=True)
    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == {"db.a": 4, "db.b": 2}


def test_what_streams_have_read_of_snapshots_that_have_expired_is_not_known_to_be_a_version(
    catalog: Catalog, make: Make
) -> None:
    orders, a, b = make("orders", "deletion vectors"), make("a"), make("b")
    put(orders, 1)
    for number, table in enumerate((a, b)):
        StreamJob(table, [orders], user=f"stream {number}").run()
    put(orders, 2)
    orders.compact(full=True)
    orders.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(NotConsistentError, match="rows that wait for a compaction"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_streams_that_move_together_end_at_compactions_that_give_them_rows(catalog: Catalog, make: Make) -> None:
    orders, a = make("orders", "lookup"), make("a")
    job = StreamJob(a, [orders], user="stream")
    put(orders, 1)
    orders.compact(full=True)
    job.run()
    stores = {table.name: table.store for table in (orders, a)}
    advance = ConsistentAdvance(catalog)
    first = advance(stores, None, {orders.name: 2, a.name: 1}, steps=1)
    assert isinstance(first, dict)
    assert {name: one.snapshot_id for name, one in first.items()} == {orders.name: 2, a.name: 1}

    put(orders, 2)
    orders.compact(full=True)
    job.run()
    found = advance(stores, first, {orders.name: 4, a.name: 2}, steps=2)  # the write of orders gives nothing
    assert isinstance(found, dict)
    assert {name: one.snapshot_id for name, one in found.items()} == {orders.name: 4, a.name: 2}


def test_a_merged_branch_brings_the_rows_that_wait_in_it(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a", "deletion vectors"), make("b")
    put(orders, 1)
    followers = [Follower("job", orders, a, KINDS["none"]), Follower("other", orders, b, KINDS["none"])]
    newest = orders.store.snapshots.get(1)
    for one in followers:
        one.run(newest)
    a.compact(full=True)
    a.branches.create("next")
    put(orders, 2)
    newest = orders.store.snapshots.get(2)
    replace(followers[0], sink=a.branch("next")).run(newest)
    followers[1].run(newest)
    a.branches.merge("next")
    a.branches.delete("next")
    a.compact(full=True)

    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert found.versions["db.orders"] == TableVersion(snapshot_id=2, commit=newest.uuid)
    one, other = (catalog.load_table(name).to_arrow(snapshot_id=number) for name, number in found.items())
    assert sorted(one["id"].to_pylist()) == sorted(other["id"].to_pylist()) == [1, 2]


def check_history(folder: Path, seed: int) -> None:
    history = WaitingHistory(folder, seed)
    history.run(MOVES)
    for _ in range(QUESTIONS):
        names = history.asked()
        found = history.ask(names)
        assert found is None or history.wrong(found) == [], (names, history.source, history.moves)


@pytest.mark.parametrize("seed", rest_in_full(range(16), 6))
def test_batch_reads_of_the_named_snapshots_have_the_rows_of_the_named_versions(tmp_path: Path, seed: int) -> None:
    check_history(tmp_path, seed)


@pytest.mark.full
@pytest.mark.parametrize("part", range(1, 41))
def test_many_more_batch_reads_have_the_rows_of_the_named_versions(tmp_path: Path, part: int) -> None:
    for number in range(10):
        check_history(tmp_path / str(number), 1_000 * part + number)
