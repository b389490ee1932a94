"""Where streams of several tables go next together, over real tables of small jobs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import TableSource, TableVersion, batches_of
from lakelog.filestore.metadata.tables.identity import identity_of
from lakelog.lineage.answers.advancing import ConsistentAdvance
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
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


def grow(table: Table, times: int = 1) -> None:
    for number in range(times):
        table.write(pa.table({"id": pa.array([number], pa.int64())}))


class Group:
    """The positions of streams of tables."""

    def __init__(self, catalog: Catalog, *tables: Table) -> None:
        self._advance = ConsistentAdvance(catalog)
        self._tables = {identity_of(table.store): table.store for table in tables}
        self._at: Mapping[str, TableVersion] | None = None

    def next(self, *, steps: int | None = 1, heads: Mapping[str, int] | None = None) -> tuple[int, ...] | None:
        """The snapshots at which the next batch ends, table by table."""
        newest = {key: (heads or {}).get(one.name, one.snapshots.latest_id() or 0) for key, one in self._tables.items()}
        found = self._advance(self._tables, self._at, newest, steps=steps)
        if found is None or isinstance(found, NotConsistentError):
            return None
        self._at = found
        return tuple(found[key].snapshot_id for key in self._tables)


def test_each_version_of_a_common_source_is_one_batch(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    group = Group(catalog, a, b)
    grow(source, 4)
    for number in (1, 2, 3, 4):
        one.run({"db.s": number})
    two.run({"db.s": 1})

    assert group.next() == (1, 1)
    assert group.next() is None  # b is behind
    two.run({"db.s": 3})  # took two versions at once
    two.run({"db.s": 4})
    assert [group.next(), group.next(), group.next()] == [(3, 2), (4, 3), None]


def test_a_batch_takes_as_many_versions_as_it_may(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    jobs = [StreamJob(table, [source], user=table.name) for table in (a, b)]
    grow(source, 7)
    for number in range(1, 8):
        for job in jobs:
            job.run({"db.s": number})
    group = Group(catalog, a, b)

    assert group.next(heads={"db.a": 1, "db.b": 2}) == (1, 1)
    assert group.next(steps=2) == (3, 3)
    assert group.next(steps=None, heads={"db.a": 5, "db.b": 6}) == (5, 5)
    assert group.next(steps=9) == (7, 7)


def test_tables_without_a_common_source_go_on_in_the_order_of_their_commits(catalog: Catalog, make: Make) -> None:
    a, b = make("a"), make("b")
    grow(a)
    grow(b)
    group = Group(catalog, a, b)
    assert group.next() == (1, 1)
    grow(b)
    grow(a)
    grow(b)

    assert [group.next(), group.next(), group.next(), group.next()] == [(1, 2), (2, 2), (2, 3), None]


def test_a_table_and_one_that_is_made_from_it_go_on_together(catalog: Catalog, make: Make) -> None:
    source, derived = make("s"), make("d")
    job = StreamJob(derived, [source], user="job")
    grow(source)
    job.run()
    group = Group(catalog, source, derived)
    assert group.next() == (1, 1)
    grow(source, 2)
    assert group.next() is None
    job.run({"db.s": 2})
    job.run({"db.s": 3}, rows=0)  # nothing to write, and the version is shown all the same

    assert [group.next(), group.next(), group.next()] == [(2, 2), (3, 3), None]


def test_a_compaction_is_no_batch(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    for _ in range(2):
        grow(source)
        one.run()
        two.run()
    group = Group(catalog, a, b)
    assert group.next() == (2, 2)
    a.compact(full=True)  # its snapshot 3
    grow(source)
    one.run()
    two.run()
    a.compact(full=True)

    assert [group.next(), group.next()] == [(4, 3), None]


def test_a_group_does_not_wait_for_what_no_batch_will_mend(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    two.run()
    group = Group(catalog, a, b)
    assert group.next() == (1, 1)
    grow(source)
    one.run()
    commit_rows(b, pa.table({"id": pa.array([99], pa.int64())}), user="hand")  # rows of no source

    with pytest.raises(NotConsistentError, match=r"db\.b shows db\.s at no version since its snapshot 2"):
        group.next()


def test_a_batch_that_ends_between_snapshots_is_waited_for(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one = StreamJob(a, [source], user="one")
    grow(source, 3)
    for number in (1, 2, 3):
        one.run({"db.s": number})
    row = pa.table({"id": pa.array([1], pa.int64())})
    commit_rows(b, row, read_of(source, end=1), user="two", batch=0)
    group = Group(catalog, a, b)
    assert group.next() == (1, 1)
    commit_rows(b, row, read_of(source, start=1, end=2, is_exact=False), user="two", batch=1)
    assert group.next() is None
    commit_rows(b, row, read_of(source, start=2, end=3), user="two", batch=2)

    assert group.next() == (3, 3)


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.full) for one in range(2, 60))])
def test_a_group_stops_at_every_agreement_of_two_jobs_in_order(seed: int, catalog: Catalog, make: Make) -> None:
    """Against a model: the versions of the source that both jobs have ended a batch at."""
    chance = random.Random(seed)
    source, a, b = make("s"), make("a"), make("b")
    jobs = {"a": StreamJob(a, [source], user="one"), "b": StreamJob(b, [source], user="two")}
    ends: dict[str, list[int]] = {"a": [], "b": []}
    group, stops = Group(catalog, a, b), []
    for _ in range(30):
        match chance.choice(("grow", "a", "b", "next", "compact")):
            case "grow":
                grow(source)
            case "compact":
                chance.choice((source, a, b)).compact(full=True)
            case "next" if all(ends.values()) and set(ends["a"]) & set(ends["b"]):
                stops.append(group.next())
            case name if name in jobs:
                newest = source.store.snapshots.latest_id() or 0
                versions = [one for one in range((ends[name] or [0])[-1] + 1, newest + 1) if changes_rows(source, one)]
                if versions:
                    ends[name].append(chance.choice(versions))
                    jobs[name].run({"db.s": ends[name][-1]})
    common = sorted(set(ends["a"]) & set(ends["b"]))
    while common and (found := group.next()) is not None:
        stops.append(found)

    reached = [version_shown(a, stop[0]) for stop in stops if stop is not None]
    assert reached == common[common.index(reached[0]) :] if reached else not common
    for stop in stops:
        assert stop is None or version_shown(a, stop[0]) == version_shown(b, stop[1])
    if reached:
        assert dict(consistent_snapshots(catalog, ["db.a", "db.b"])).keys() == {"db.a", "db.b"}


def changes_rows(table: Table, number: int) -> bool:
    return table.store.snapshots.get(number).commit_kind.value == "APPEND"


def version_shown(table: Table, number: int) -> int:
    """The version of the source that a snapshot shows, by the record of the newest batch; compactions have none."""
    found = (batches_of(table.store.snapshots.get(one)) for one in range(number, 0, -1))
    (batch,) = next(batches for batches in found if batches)
    (source,) = batch.lineage.sources
    assert isinstance(source, TableSource)
    assert source.end is not None
    return source.end.snapshot_id
