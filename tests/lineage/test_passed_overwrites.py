"""An overwrite of a source by hand is no change for a stream: who has passed it shows no version, for good.

So it is when the snapshots of the source, of the sink, or of both have expired.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.origins.record import ReadMode
from lakelog.filestore.metadata.origins.unseen_changes import UNSEEN_MAX, UnseenChanges, unseen_of
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from lakelog.lineage.lines.line_steps import steps_of_table
from tests.support.lineage.lineage_jobs import StreamJob, overwrite_rows, read_of
from tests.support.lineage.lineage_records import LINEAGE_ON
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


def expire(*tables: Table) -> None:
    for table in tables:
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)


def feed_where_on(catalog: Catalog) -> None:
    if catalog.lineage_options:
        feed(catalog)


@pytest.mark.parametrize("expired", [(), ("orders",), ("a", "b"), ("a", "b", "orders"), ("orders", "a", "b")])
def test_a_stream_that_has_passed_an_overwrite_shows_no_version_when_all_has_expired(
    catalog: Catalog, make: Make, expired: tuple[str, ...]
) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    orders.write(rows(1))
    orders.write(rows(2))
    early.run()
    orders.write(rows(3), mode="overwrite")
    orders.write(rows(4))
    early.run()
    late.run()
    for _ in range(2):
        orders.write(rows(5))
        for job in (early, late):
            job.run()
    feed_where_on(catalog)

    expire(*({"orders": orders, "a": a, "b": b}[name] for name in expired))

    with pytest.raises(NotConsistentError, match=r"passed an overwrite of its source.*snapshot 3 of the source"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_an_overwrite_of_the_sink_ends_what_its_stream_has_missed(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    orders.write(rows(1))
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    orders.write(rows(3), mode="overwrite")
    for job in (early, late):
        job.run()
    overwrite_rows(a, rows(3), read_of(orders, start=None, end=2))
    feed_where_on(catalog)
    expire(orders, a, b)

    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == {"db.a": 3, "db.b": 1}


def test_a_stream_of_a_branch_that_has_passed_an_overwrite_brings_no_version(catalog: Catalog, make: Make) -> None:
    orders, other, a, b = make("orders"), make("other"), make("a"), make("b")
    orders.write(rows(1))
    other.write(rows(1))
    StreamJob(a, [other], user="own").run()
    a.branches.create("trial")
    trial = StreamJob(a.branch("trial"), [orders], user="trial")
    trial.run()
    orders.write(rows(3), mode="overwrite")
    orders.write(rows(4))
    trial.run()
    a.branches.merge("trial")
    StreamJob(b, [orders], user="late").run()
    feed_where_on(catalog)

    assert consistent_snapshots(catalog, ["db.a", "db.b"])["db.a"] == 1, "it has no row of orders"
    expire(orders, a, b)
    with pytest.raises(NotConsistentError, match=r"passed an overwrite of its source.*snapshot 2 of the source"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_the_overwrite_of_another_engine_is_carried_on_by_the_next_commit(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    orders.write(rows(1))
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    foreign_snapshot(orders.store, CommitKind.OVERWRITE)
    orders.write(rows(2))
    early.run()
    late.run()
    feed_where_on(catalog)
    expire(orders, a, b)

    with pytest.raises(NotConsistentError, match=r"snapshot 2 of the source"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_streams_that_began_behind_the_last_overwrite_agree(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    for number in range(UNSEEN_MAX + 3):
        orders.write(rows(number), mode="overwrite")
    jobs = [StreamJob(table, [orders], user=table.name) for table in (a, b)]
    for number in range(2):
        orders.write(rows(number))
        for job in jobs:
            job.run()
    feed_where_on(catalog)
    expire(orders, a, b)

    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == {"db.a": 2, "db.b": 2}


def test_nightly_overwrites_are_bounded_and_none_is_missed(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    orders.write(rows(0))
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    for number in range(UNSEEN_MAX + 3):
        orders.write(rows(number), mode="overwrite")
    early.run()
    late.run()
    feed_where_on(catalog)
    expire(orders, a, b)
    newest = orders.store.snapshots.latest()

    assert newest is not None
    found = unseen_of(newest.properties)
    assert [(one.first, one.last) for one in found] == [(2, 5), *((at, at) for at in range(6, UNSEEN_MAX + 5))]
    with pytest.raises(NotConsistentError, match=r"one of the snapshots 2 to 5 of the source overwrote rows"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_branch_takes_its_overwrites_into_the_table(catalog: Catalog, make: Make) -> None:
    orders, a, b = make("orders"), make("a"), make("b")
    orders.write(rows(1))
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    orders.write(rows(2), mode="overwrite")
    orders.write(rows(3))
    orders.branches.create("next")
    orders.branch("next").write(rows(4), mode="overwrite")
    orders.branches.fast_forward("next")
    early.run()
    late.run()
    feed_where_on(catalog)
    expire(orders, a, b)
    newest = orders.store.snapshots.latest()

    assert newest is not None
    assert [one.last for one in unseen_of(newest.properties)] == [2, 4]
    with pytest.raises(NotConsistentError, match=r"snapshot 2 of the source"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}, {"changelog-producer": "full-compaction"}])
def test_the_newest_snapshot_names_the_living_ones_that_streams_pass(catalog: Catalog, options: dict[str, str]) -> None:
    table = catalog.create_table("db.t", schema="id BIGINT", primary_keys="id", options={"bucket": "1", **options})
    for number in range(3):
        table.write(rows(number))
        table.write(rows(number), mode="overwrite")
        table.compact(full=True)
        table.restore(snapshot_id=1)
    newest = table.store.snapshots.latest()

    assert newest is not None
    passed = [step.version.snapshot_id for step in steps_of_table(table.store) if step.is_unseen]
    assert [one.last for one in unseen_of(newest.properties)] == passed
    assert len(passed) >= 3


def test_a_property_that_is_not_readable_is_an_error() -> None:
    assert UnseenChanges.parsed('{"snapshots":[{"from":2,"snapshot":5}]}') == (UnseenChanges(2, 5),)
    for text in ("[]", '{"snapshots":[{}]}', '{"snapshots":[{"snapshot":"1"}]}', "{"):
        with pytest.raises(CorruptDataError, match=r"lakelog\.unseen is not readable"):
            UnseenChanges.parsed(text)


def by_compaction(table: Table, *ids: int) -> None:
    """Rows, and the compaction that gives them to streams."""
    table.write(rows(*ids))
    table.compact(full=True)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("expires", [False, True])
def test_a_stream_does_not_show_rows_that_no_compaction_has_given(
    catalog: Catalog, make: Make, producer: str, expires: bool
) -> None:
    """Up to a write a stream has the rows of the compaction before it; who reads the snapshot has all."""
    options = {"bucket": "1", "write-only": "true", "changelog-producer": producer}
    orders = catalog.create_table("db.orders", schema="id BIGINT", primary_keys="id", options=options)
    a, b, read = make("a"), make("b"), make("read")
    by_compaction(orders, 1)
    orders.write(rows(2))
    early, late = StreamJob(a, [orders], user="early"), StreamJob(b, [orders], user="late")
    early.run()
    late.run()
    overwrite_rows(read, rows(1, 2), read_of(orders, end=3, mode=ReadMode.BATCH))
    feed_where_on(catalog)
    if expires:
        expire(a, b, read)

    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert {name: version.snapshot_id for name, version in found.versions.items()} == {"db.orders": 2}
    with pytest.raises(NotConsistentError, match=r"db.a shows db.orders at snapshot 1.*db.read shows .* at snapshot 3"):
        consistent_snapshots(catalog, ["db.a", "db.read"])

    orders.compact(full=True)
    early.run()
    feed_where_on(catalog)

    assert consistent_snapshots(catalog, ["db.a", "db.read"]).versions["db.orders"].snapshot_id == 4
    if expires:
        expire(a)
        with pytest.raises(NotConsistentError, match=r"db.a shows db.orders at snapshot 3.*at snapshot 1"):
            consistent_snapshots(catalog, ["db.a", "db.b"])


def test_what_streams_have_read_before_a_table_got_its_changelog_producer_are_versions(
    catalog: Catalog, make: Make
) -> None:
    orders = catalog.create_table("db.orders", schema="id BIGINT", primary_keys="id", options={"write-only": "true"})
    a, b = make("a"), make("b")
    orders.write(rows(1))
    StreamJob(a, [orders], user="early").run()
    orders.write(rows(2))
    StreamJob(b, [orders], user="late").run()
    place = Path(orders.path) / "schema"  # as ALTER TABLE of another engine; ours refuses it
    schema = json.loads((place / "schema-0").read_text(encoding="utf-8"))
    schema = {key: value for key, value in schema.items() if not key.startswith("lakelog")}
    changed = {**schema, "id": 1, "options": {**schema["options"], "changelog-producer": "lookup"}}
    (place / "schema-1").write_text(json.dumps(changed), encoding="utf-8")

    with pytest.raises(NotConsistentError, match=r"at snapshot 1.*at snapshot 2"):
        consistent_snapshots(catalog, ["db.a", "db.b"])
