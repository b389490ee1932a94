"""A branch a night: it is written by a stream, merged and deleted. What it brought does not stay a reader for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.row_sources import RowSources
from lakelog.filestore.metadata.origins.sources_property import READERS_MAX
from lakelog.lineage import consistent_snapshots, feed
from lakelog.lineage.answers.consistent import NotConsistentError
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, read_of

Make = Callable[[str], Table]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def make(catalog: Catalog) -> Make:
    return lambda name: catalog.create_table(
        f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1", "write-only": "true"}
    )


def grow(table: Table) -> int:
    table.write(pa.table({"id": pa.array([0], pa.int64())}))
    newest = table.store.snapshots.latest_id()
    assert newest is not None
    return newest


def night(table: Table, source: Table, number: int, *, user: str, start: int | None, job: str | None = None) -> int:
    """A branch whose stream reads a source from a snapshot on, merged and deleted; gives the snapshot it has read."""
    table.branches.create(f"night{number}")
    end = source.store.snapshots.latest_id()
    assert end is not None
    branch = table.branch(f"night{number}")
    rows = pa.table({"id": pa.array([number], pa.int64())})
    commit_rows(branch, rows, read_of(source, start=start, end=end), user=user, batch=number, job=job)
    table.branches.merge(f"night{number}")
    table.branches.delete(f"night{number}")
    return end


def newest(*tables: Table) -> dict[str, int | None]:
    return {str(table.identifier): table.store.snapshots.latest_id() for table in tables}


def readers(table: Table) -> list[str]:
    latest = table.store.snapshots.latest()
    assert latest is not None
    found = RowSources.of(latest.properties)
    assert found is not None
    return [name for source in found.sources.values() for name in source.readers]


@pytest.mark.parametrize("job", [None, "nightly"])
def test_a_branch_a_night_that_goes_on_from_the_last_one_shows_the_newest_version(
    catalog: Catalog, make: Make, job: str | None
) -> None:
    source, a, b = make("s"), make("a"), make("b")
    two = StreamJob(b, [source], user="two")
    read = grow(source)
    commit_rows(a, pa.table({"id": pa.array([0], pa.int64())}), read_of(source, end=1), user="stream0", job=job)
    two.run()
    for number in range(1, 6):
        grow(source)
        user = "stream0" if job is None else f"stream{number}"
        read = night(a, source, number, user=user, start=read, job=job)
        two.run()
        assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)

    assert len(readers(a)) <= 3  # the table's own, the last night's, and the one that the next merge settles
    for table in (a, b, source):
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)


def test_more_nights_than_readers_are_kept_stay_consistent(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    two = StreamJob(b, [source], user="two")
    grow(a)
    read: int | None = None
    for number in range(READERS_MAX + 4):
        grow(source)
        read = night(a, source, number, user="nightly", start=read)
        assert len(readers(a)) <= 2
    two.run()

    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)


def test_the_tables_own_stream_that_reads_past_the_night_is_what_the_table_shows(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    for number in range(1, 5):
        grow(source)
        night(a, source, number, user="one", start=number)
        one.run()
        two.run()
        assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)
    assert len(readers(a)) <= 3
    grow(source)
    one.run()
    two.run()
    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)


def test_a_night_that_reads_the_source_anew_by_another_job_is_another_version(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    two = StreamJob(b, [source], user="two")
    grow(source)
    StreamJob(a, [source], user="one").run()
    two.run()
    grow(source)
    night(a, source, 1, user="trial", start=1)
    two.run()

    assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == {"db.a": 1, "db.b": 1}


def test_a_night_that_missed_changes_is_no_version(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    grow(source)
    grow(source)
    night(a, source, 1, user="one", start=2)
    two.run()

    with pytest.raises(NotConsistentError):
        consistent_snapshots(catalog, ["db.a", "db.b"], at={"db.s": 3})


def test_a_late_merge_of_a_deleted_branch_is_not_passed_by_what_the_table_had_read(
    catalog: Catalog, make: Make
) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    a.branches.create("late")
    grow(source)
    commit_rows(
        a.branch("late"),
        pa.table({"id": pa.array([9], pa.int64())}),
        read_of(source, start=1, end=2),
        user="one",
        batch=1,
    )
    grow(source)
    one.run()
    two.run()
    a.branches.merge("late")  # it may bring rows of version 2 in the place of those of version 3
    a.branches.delete("late")
    with pytest.raises(NotConsistentError, match="several versions at once"):
        consistent_snapshots(catalog, ["db.a", "db.b"], at={"db.a": 3})

    night(a, source, 2, user="other", start=None)  # a merge, whose commit carries it on
    a.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(NotConsistentError, match="several versions at once"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_fed_merges_that_have_expired_settle_alike(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"data-lineage": "true"})
    source, a, b = (
        catalog.create_table(f"db.{name}", schema="id BIGINT", options={"bucket": "1", "write-only": "true"})
        for name in "sab"
    )
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    read = 1
    for number in range(1, 4):
        grow(source)
        read = night(a, source, number, user="one", start=read)
        two.run()
        feed(catalog)
        a.upkeep.expire_snapshots(retain_max=1, retain_min=1)
        assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])) == newest(a, b)
