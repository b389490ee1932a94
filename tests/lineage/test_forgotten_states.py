"""What rows come from, where the snapshots that say it have expired or were rolled back, or belong to a branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import LineKey, ReadMode
from lakelog.filestore.metadata.origins.row_sources import ALL_READERS, LEFT_MAX, RowSources
from lakelog.filestore.metadata.origins.unseen_changes import unseen_of
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, overwrite_rows, read_of
from tests.support.lineage.lineage_records import LINEAGE_ON
from tests.support.lineage.living_edges import edges_of
from tests.support.tables.foreign_engine import foreign_snapshot

Make = Callable[[str], Table]


@pytest.fixture(params=[False, True], ids=["not fed", "fed"])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> Catalog:
    return Catalog(tmp_path, options=LINEAGE_ON if request.param else {})


@pytest.fixture
def make(catalog: Catalog) -> Make:
    return lambda name: catalog.create_table(
        f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1", "write-only": "true"}
    )


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def grow(table: Table, times: int = 1) -> None:
    for number in range(times):
        table.write(rows(number))


def expire(*tables: Table) -> None:
    for table in tables:
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)


def feed_where_on(catalog: Catalog) -> None:
    if catalog.lineage_options:
        feed(catalog)


def make_several(catalog: Catalog, *names: str) -> tuple[Table, ...]:
    schema, options = pa.schema({"id": pa.int64()}), {"bucket": "1", "write-only": "true"}
    return tuple(catalog.create_table(f"db.{name}", schema=schema, options=options) for name in names)


def run_in_branch(job: StreamJob, name: str) -> None:
    """The job goes on in a branch of its table, which is merged and deleted."""
    table = job.sink
    table.branches.create(name)
    job.sink = table.branch(name)
    job.run()
    job.sink = table
    table.branches.merge(name)
    table.branches.delete(name)


@pytest.mark.parametrize("began_in_branch", [False, True])
def test_a_job_that_goes_on_in_a_branch_has_a_gap_behind_an_overwrite_of_its_table(
    catalog: Catalog, make: Make, began_in_branch: bool
) -> None:
    orders, other, a, b = (make(name) for name in ("orders", "other", "a", "b"))
    grow(orders)
    grow(other)
    whole = read_of(other, end=1, mode=ReadMode.BATCH)
    commit_rows(a, rows(0), whole, user="first", batch=None)
    job = StreamJob(a, [orders], user="job")
    if began_in_branch:
        run_in_branch(job, "monday")
    else:
        job.run()
    overwrite_rows(a, rows(7), whole)
    grow(orders)
    run_in_branch(job, "tuesday")
    StreamJob(b, [orders], user="whole").run()
    feed_where_on(catalog)

    assert consistent_snapshots(catalog, ["db.a", "db.b"])["db.a"] == 3, "the overwrite has no row of orders"
    expire(a)
    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.orders at no version, by a gap"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_branch_says_itself_what_it_began_with_where_its_table_has_forgotten_it(catalog: Catalog, make: Make) -> None:
    orders, a = make("orders"), make("a")
    job = StreamJob(a, [orders], user="job")
    grow(orders)
    job.run()
    a.branches.create("trial")
    grow(orders)
    job.run()
    expire(a)

    found = consistent_snapshots(catalog, ["db.a$branch_trial", "db.orders"])

    assert dict(found) == {"db.a$branch_trial": 1, "db.orders": 1}


def test_a_branch_carries_on_the_overwrite_of_another_engine_at_which_it_began(make: Make) -> None:
    orders = make("orders")
    grow(orders)
    foreign_snapshot(orders.store, CommitKind.OVERWRITE)
    orders.branches.create("next")
    orders.branch("next").write(rows(2))
    newest = orders.branch("next").store.snapshots.latest()

    assert newest is not None
    assert [one.last for one in unseen_of(newest.properties)] == [2]


def test_a_restored_snapshot_of_another_engine_shows_no_version_where_those_before_it_have_expired(
    catalog: Catalog, make: Make
) -> None:
    orders, a, b = (make(name) for name in ("orders", "a", "b"))
    grow(orders)
    job = StreamJob(a, [orders], user="job")
    job.run()
    foreign_snapshot(a.store, CommitKind.OVERWRITE)
    grow(orders)
    job.run()
    StreamJob(b, [orders], user="whole").run()
    feed_where_on(catalog)
    a.upkeep.expire_snapshots(retain_max=2, retain_min=1)
    a.restore(snapshot_id=2)

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.orders at no version"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_branch_from_a_snapshot_of_another_engine_shows_no_version_where_those_before_it_have_expired(
    catalog: Catalog, make: Make
) -> None:
    orders, a = make("orders"), make("a")
    grow(orders)
    job = StreamJob(a, [orders], user="job")
    job.run()
    foreign_snapshot(a.store, CommitKind.OVERWRITE)
    grow(orders)
    job.run()
    a.upkeep.expire_snapshots(retain_max=2, retain_min=1)
    a.branches.create("trial", snapshot_id=2)
    grow(orders)
    StreamJob(a.branch("trial"), [orders], user="other").run()

    with pytest.raises(NotConsistentError, match=r"db\.a\$branch_trial shows db\.orders at no version"):
        consistent_snapshots(catalog, ["db.a$branch_trial", "db.orders"])


def test_a_table_that_is_read_by_two_streams_of_a_batch_has_both_reads(catalog: Catalog, make: Make) -> None:
    orders, a = make("orders"), make("a")
    grow(orders, 3)
    reads = [((None, 2), (None, 1)), ((2, 2), (1, 2)), ((2, 3), (2, 3))]
    for batch, found in enumerate(reads):
        sources = [read_of(orders, start=start, end=end) for start, end in found]
        commit_rows(a, rows(batch), *sources, user="job", batch=batch)

    assert edges_of(a).num_rows == 6
    assert dict(consistent_snapshots(catalog, ["db.a", "db.orders"])) == {"db.a": 3, "db.orders": 3}


def test_whether_an_overwrite_was_passed_is_not_known_of_a_source_that_was_rolled_back(
    catalog: Catalog, make: Make
) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    grow(orders)
    early.run()
    orders.write(rows(2), mode="overwrite")
    grow(orders)
    early.run()
    late.run()
    orders.upkeep.rollback(snapshot_id=1, force=True)

    with pytest.raises(NotConsistentError, match=r"job early has read snapshot 3 of the source, which was rolled back"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_change_by_hand_that_has_expired_is_between_two_versions(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, middle, a = (
        catalog.create_table(f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1"})
        for name in ("orders", "middle", "a")
    )
    grow(orders)
    job = StreamJob(middle, [orders], user="job")
    job.run()
    StreamJob(a, [middle], user="sink").run()
    grow(middle)
    job.run(rows=0)
    feed(catalog)
    expire(middle)

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.middle at snapshot 1"):
        consistent_snapshots(catalog, ["db.a", "db.middle"])


@pytest.mark.parametrize("how", ["overwrite", "by hand", "restore"])
def test_an_expired_version_of_a_table_in_between_is_what_the_living_snapshot_tells(tmp_path: Path, how: str) -> None:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, other, middle, a, b = (
        catalog.create_table(f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1"})
        for name in ("orders", "other", "middle", "a", "b")
    )
    grow(orders)
    grow(other)
    grow(middle)
    job = StreamJob(middle, [orders], user="job")
    job.run()
    match how:
        case "overwrite":
            overwrite_rows(middle, rows(7), read_of(other, end=1, mode=ReadMode.BATCH))
        case "by hand":
            grow(middle)
        case "restore":
            middle.restore(snapshot_id=1)
    grow(orders)
    job.run()
    StreamJob(a, [middle], user="sink").run()
    StreamJob(b, [orders], user="whole").run()
    grow(orders)
    job.run()
    feed(catalog)
    expire(middle)

    with pytest.raises(NotConsistentError, match=r"db\.middle shows db\.orders at no version"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_compaction_lacks_the_rows_of_a_rolled_back_snapshot_whose_number_was_given_again(
    catalog: Catalog, make: Make
) -> None:
    orders, a = make("orders"), make("a")
    grow(orders, 2)
    StreamJob(a, [orders], user="job").run()
    feed_where_on(catalog)
    orders.upkeep.rollback(snapshot_id=1, force=True)
    orders.write(rows(7))
    orders.compact(full=True)
    expire(orders)

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.orders at snapshot 2; .*lives from snapshot 3"):
        consistent_snapshots(catalog, ["db.a", "db.orders"])


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_a_compaction_has_the_rows_of_the_expired_batch_that_it_records_and_of_no_other(
    tmp_path: Path, is_rolled_back: bool
) -> None:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, middle, a = make_several(catalog, "orders", "middle", "a")
    job = StreamJob(middle, [orders], user="job")
    for _ in range(2):
        grow(orders)
        job.run()
    StreamJob(a, [middle], user="sink").run()
    feed(catalog)
    if is_rolled_back:
        middle.upkeep.rollback(snapshot_id=1, force=True)
        grow(middle)
    middle.compact(full=True)
    expire(middle)

    if not is_rolled_back:
        assert dict(consistent_snapshots(catalog, ["db.a", "db.middle"])) == {"db.a": 1, "db.middle": 3}
        return
    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.middle at snapshot 2; .*lives from snapshot 3"):
        consistent_snapshots(catalog, ["db.a", "db.middle"])


def test_rows_that_wait_do_not_hide_the_number_of_a_rolled_back_snapshot(tmp_path: Path) -> None:
    """Batch reads of the living snapshot show the one before it: not the one that edges name under that number."""
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, a = make_several(catalog, "orders", "a")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    options = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}
    middle = catalog.create_table("db.middle", schema=schema, primary_keys=["id"], options=options)
    job = StreamJob(middle, [orders], user="job")
    for _ in range(2):
        grow(orders)
        job.run()
    StreamJob(a, [middle], user="sink").run()
    middle.upkeep.rollback(snapshot_id=1, force=True)
    middle.compact(full=True)
    grow(middle)
    expire(middle)

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.middle at no version, by rows that wait"):
        consistent_snapshots(catalog, ["db.a", "db.middle"])
    with pytest.raises(NotConsistentError, match=r"db\.middle shows db\.orders at no version"):
        consistent_snapshots(catalog, ["db.middle", "db.orders"])


def test_an_expired_snapshot_was_not_made_from_what_took_the_place_of_those_before_it(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, other, middle, a = make_several(catalog, "orders", "other", "middle", "a")
    job = StreamJob(middle, [orders], user="job")
    grow(orders)
    job.run()
    grow(other)
    commit_rows(middle, rows(0), read_of(other, end=1, mode=ReadMode.BATCH), user="first", batch=None)
    grow(orders)
    job.run()
    StreamJob(a, [middle], user="sink").run()
    middle.upkeep.rollback(snapshot_id=1, force=True)
    grow(other)
    commit_rows(middle, rows(0), read_of(other, end=2, mode=ReadMode.BATCH), user="second", batch=None)
    grow(middle, 2)
    expire(middle)

    with pytest.raises(
        NotConsistentError, match=r"db\.middle is shown at a snapshot that has expired or was rolled back"
    ):
        consistent_snapshots(catalog, ["db.a", "db.other"])


@pytest.mark.parametrize("written", [1, 2])
def test_an_expired_snapshot_was_not_made_from_what_was_rolled_back_before_it(tmp_path: Path, written: int) -> None:
    """Edges name a snapshot for each number, but not the change by hand: the oldest living snapshot reports it."""
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    orders, other, middle, a = make_several(catalog, "orders", "other", "middle", "a")
    job = StreamJob(middle, [orders], user="job")
    grow(orders)
    job.run()
    grow(other)
    commit_rows(middle, rows(0), read_of(other, end=1, mode=ReadMode.BATCH), user="first", batch=None)
    middle.upkeep.rollback(snapshot_id=1, force=True)
    grow(middle)
    grow(orders)
    job.run()
    StreamJob(a, [middle], user="sink").run()
    grow(middle, written)
    expire(middle)

    for source in ("db.orders", "db.other"):
        with pytest.raises(NotConsistentError, match=rf"db\.middle shows {source} at no version"):
            consistent_snapshots(catalog, ["db.a", source])


def test_too_many_streams_that_have_left_are_all_streams() -> None:
    key = LineKey("orders")
    found = RowSources(left={(key, f"stream 0 user{number}") for number in range(LEFT_MAX)})

    carried = RowSources.of({PropertyKey.SOURCES: found.to_json()})

    assert carried is not None
    assert carried.left == {(key, ALL_READERS)}
    assert carried.has_left(key, "stream 0 anyone")
    assert not carried.has_left(LineKey("others"), "stream 0 anyone")
