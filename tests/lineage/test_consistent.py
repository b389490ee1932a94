"""Snapshots of several tables that are made from the same versions of what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.record import ForeignSource, ReadMode, UnknownSource
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.write.write import write_rows
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import NotConsistentError, consistent_snapshots
from lakelog.lineage.lines.line_steps import StepRun
from lakelog.protocol.state.state import LogState, TakenBatch
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, overwrite_rows, read_of
from tests.support.tables.foreign_engine import foreign_snapshot

Make = Callable[[str], Table]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


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


def ids(catalog: Catalog, *tables: str, at: object = None) -> dict[str, int]:
    return dict(consistent_snapshots(catalog, tables, at))  # type: ignore[arg-type]  # tests give wrong ones too


def test_the_faster_of_two_jobs_is_read_where_the_slower_one_is(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    fast, slow = StreamJob(a, [source], user="fast"), StreamJob(b, [source], user="slow")
    for _ in range(3):
        grow(source)
        fast.run()
    slow.run({"db.s": 1})
    slow.run({"db.s": 2})

    found = consistent_snapshots(catalog, ["db.a", "db.b"])

    assert dict(found) == {"db.a": 2, "db.b": 2}
    assert {name: version.snapshot_id for name, version in found.versions.items()} == {"db.s": 2}
    assert found.reasons.keys() == {"db.a"}
    assert "db.a is at snapshot 2, not 3, which shows db.s at snapshot 3: db.b shows db.s" in found.reasons["db.a"]
    assert "job slow wrote it last in snapshot 2" in found.reasons["db.a"]


def test_a_table_made_from_the_other_is_consistent_with_what_it_has_read(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source)
    upper, lower = StreamJob(a, [source], user="upper"), StreamJob(b, [a], user="lower")
    upper.run()
    lower.run()
    grow(source)
    upper.run()

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}
    assert ids(catalog, "db.s", "db.b") == {"db.s": 1, "db.b": 1}


def test_a_join_of_two_derived_tables_is_read_where_both_show_one_source(catalog: Catalog, make: Make) -> None:
    source, five, six, joined = make("s"), make("five"), make("six"), make("joined")
    one, two = StreamJob(five, [source], user="one"), StreamJob(six, [source], user="two")
    join = StreamJob(joined, [five, six], user="three")
    grow(source)
    one.run()
    two.run()
    join.run()
    grow(source)
    one.run()
    join.run()  # five shows 2, six shows 1

    assert ids(catalog, "db.joined") == {"db.joined": 1}
    two.run()
    join.run()
    assert ids(catalog, "db.joined", "db.five") == {"db.joined": 3, "db.five": 2}


def test_a_compaction_is_the_same_version(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 3)
    source.compact(full=True)
    StreamJob(a, [source], user="a").run({"db.s": 3})
    StreamJob(b, [source], user="b").run({"db.s": 4})

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}
    assert ids(catalog, "db.a", "db.s") == {"db.a": 1, "db.s": 4}


def test_a_snapshot_that_expired_while_its_compaction_lives_is_another_version(catalog: Catalog, make: Make) -> None:
    """Nothing that lives tells it from one that was rolled back, and whose number was given to another commit."""
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 3)
    StreamJob(a, [source], user="a").run({"db.s": 3})
    source.compact(full=True)
    StreamJob(b, [source], user="b").run({"db.s": 4})
    assert ids(catalog, "db.a", "db.b", "db.s") == {"db.a": 1, "db.b": 1, "db.s": 4}
    assert source.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)

    assert ids(catalog, "db.b", "db.s") == {"db.b": 1, "db.s": 4}
    with pytest.raises(
        NotConsistentError, match=r"db\.a shows db\.s at snapshot 3; .*db\.s itself lives from snapshot 4"
    ):
        ids(catalog, "db.a", "db.s")


def test_a_batch_without_rows_brings_a_table_to_the_next_version_of_its_source(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    two.run()
    grow(source)
    one.run(rows=0)
    two.run()

    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 2}


def test_a_writer_that_lags_behind_what_has_expired_is_named(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="left"), StreamJob(b, [source], user="right")
    grow(source)
    one.run()
    for _ in range(4):
        grow(source)
        two.run()
    b.upkeep.expire_snapshots(retain_min=2, retain_max=2)

    with pytest.raises(NotConsistentError) as raised:
        consistent_snapshots(catalog, ["db.a", "db.b"])

    (text,) = raised.value.hindrances
    assert "db.a shows db.s at snapshot 1; job left wrote it last in snapshot 1" in text
    assert "db.b shows db.s at snapshots 4 to 5 (its oldest living snapshot is 3)" in text


def test_a_batch_that_ends_between_snapshots_is_named_and_the_next_exact_one_mends_it(
    catalog: Catalog, make: Make
) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 2)
    commit_rows(a, rows(1), read_of(source, end=1, is_exact=False), user="loose")
    StreamJob(b, [source], user="right").run()

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.s at no version: .* ends between .* stream\.align"):
        consistent_snapshots(catalog, ["db.a", "db.b"])
    commit_rows(a, rows(1), read_of(source, start=1, end=2), user="loose", batch=1)
    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}


def test_a_gap_breaks_a_table_for_good(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 4)
    commit_rows(a, rows(1), read_of(source, end=1), user="job")
    commit_rows(a, rows(1), read_of(source, start=2, end=3), user="job", batch=1)
    commit_rows(a, rows(1), read_of(source, start=3, end=4), user="job", batch=2)
    StreamJob(b, [source], user="right").run()

    with pytest.raises(
        NotConsistentError, match=r"since then: .* from snapshot 2, not from snapshot 1.* in its snapshot 2"
    ):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_broken_source_that_is_not_shared_is_no_hindrance(catalog: Catalog, make: Make) -> None:
    source, shared, a, b = make("s"), make("shared"), make("a"), make("b")
    grow(source, 2)
    commit_rows(shared, rows(1), read_of(source, end=1, is_exact=False), user="loose")
    for table in (a, b):
        StreamJob(table, [shared], user="job").run()

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}


def test_rows_deleted_by_hand_break_what_is_shown(catalog: Catalog, make: Make) -> None:
    source = make("s")
    a = catalog.create_table("db.a", schema="id BIGINT NOT NULL", primary_keys="id", options={"bucket": "1"})
    b = make("b")
    grow(source)
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    one.run()
    two.run()
    a.delete("id = 0")

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}
    grow(source)
    one.run()
    two.run()
    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert dict(found) == {"db.a": 1, "db.b": 1}
    assert "change whose sources are not recorded" in found.reasons["db.a"]


def test_an_overwrite_shows_its_own_sources_alone(catalog: Catalog, make: Make) -> None:
    source, other, a, b = make("s"), make("o"), make("a"), make("b")
    grow(source, 2)
    grow(other)
    commit_rows(a, rows(1), read_of(source, end=1, is_exact=False), user="loose")
    StreamJob(b, [source], user="right").run()
    overwrite_rows(a, rows(7), read_of(source, end=2, mode=ReadMode.BATCH))

    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}
    overwrite_rows(a, rows(8), read_of(other, end=1, mode=ReadMode.BATCH))
    assert consistent_snapshots(catalog, ["db.a", "db.o"]).snapshots["db.a"].snapshot_id == 3


def test_a_stream_that_passes_an_overwrite_of_its_source_shows_no_version(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 2)
    early, late = StreamJob(a, [source], user="early"), StreamJob(b, [source], user="late")
    early.run()
    source.write(rows(7), mode="overwrite")
    grow(source)
    early.run()
    late.run()

    with pytest.raises(NotConsistentError, match=r"passed an overwrite of its source.*snapshot 3 of the source"):
        consistent_snapshots(catalog, ["db.a", "db.b"])
    overwrite_rows(a, rows(7, 0), read_of(source, end=4, mode=ReadMode.BATCH))
    assert ids(catalog, "db.a", "db.b") == {"db.a": 3, "db.b": 1}


def test_a_stream_that_writes_on_after_an_overwrite_has_a_gap(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source)
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    one.run()
    two.run()
    overwrite_rows(a, rows(7), read_of(source, end=1, mode=ReadMode.BATCH))
    grow(source)
    one.run()
    two.run()

    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}


def test_a_restored_table_shows_what_the_restored_snapshot_showed(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    for _ in range(2):
        grow(source)
        one.run()
        two.run()
    a.restore(snapshot_id=1)

    assert ids(catalog, "db.a", "db.b") == {"db.a": 3, "db.b": 1}
    assert ids(catalog, "db.b", "db.a") == {"db.a": 2, "db.b": 2}  # the first table is the newest possible
    grow(source)
    one.run()  # its rows of snapshot 2 are missing
    two.run()
    assert ids(catalog, "db.b", "db.a") == {"db.a": 2, "db.b": 2}


def test_a_rolled_back_snapshot_is_not_the_one_that_took_its_number(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source, 2)
    StreamJob(a, [source], user="one").run()
    source.upkeep.rollback(snapshot_id=1, force=True)
    grow(source)
    StreamJob(b, [source], user="two").run()

    with pytest.raises(NotConsistentError, match=r"db\.a shows db\.s at snapshot 2"):
        consistent_snapshots(catalog, ["db.a", "db.b"])


def test_a_static_side_that_moves_is_named(catalog: Catalog, make: Make) -> None:
    source, static, a = make("s"), make("static"), make("a")
    grow(source, 2)
    grow(static)
    for batch in range(2):
        side = read_of(static, end=batch + 1, mode=ReadMode.BATCH)
        commit_rows(a, rows(batch), read_of(source, start=batch or None, end=batch + 1), side, batch=batch)
        grow(static)

    assert ids(catalog, "db.a", "db.s") == {"db.a": 2, "db.s": 2}
    assert ids(catalog, "db.a", "db.static") == {"db.a": 1, "db.static": 1}


def test_two_writers_of_a_table_must_have_read_up_to_the_same_version(catalog: Catalog, make: Make) -> None:
    source, a = make("s"), make("a")
    grow(source)
    one, two = StreamJob(a, [source], user="one"), StreamJob(a, [source], user="two")
    one.run()
    two.run()
    grow(source)
    one.run()

    assert ids(catalog, "db.a", "db.s") == {"db.a": 2, "db.s": 1}
    two.run()
    assert ids(catalog, "db.a", "db.s") == {"db.a": 4, "db.s": 2}


def test_a_foreign_writer_breaks_a_table(catalog: Catalog, make: Make) -> None:
    source, a = make("s"), make("a")
    grow(source)
    StreamJob(a, [source], user="one").run()
    live = a.store.live_files.of(a.snapshot())
    written = write_rows(a.store, rows(9), first_sequence=live.next_sequence)
    foreign_snapshot(a.store, CommitKind.APPEND, entries=written.entries)

    assert ids(catalog, "db.a", "db.s") == {"db.a": 1, "db.s": 1}


def test_a_snapshot_with_a_batch_in_part_is_no_version(catalog: Catalog, make: Make) -> None:
    source, a = make("s"), make("a")
    one = StreamJob(a, [source], user="one")
    for _ in range(3):
        grow(source)
        one.run()
    taken = {0: {"late": TakenBatch(identifier=4, digest=None)}}
    parts = {PropertyKey.LOG_STATE: LogState(topic_id="t", ledger=taken).to_json()}
    whole = {PropertyKey.LOG_STATE: LogState(topic_id="t").to_json()}
    snapshots = [
        replace(snapshot, properties={**snapshot.properties, **state})
        for snapshot, state in zip(a.snapshots(), ({}, parts, whole), strict=True)
    ]

    steps = StepRun(lambda _: False)
    assert [steps.take(snapshot).is_whole for snapshot in snapshots] == [True, False, True]


def test_snapshots_up_to_a_time(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    then = two.run().time_millis
    grow(source)
    later = one.run()
    two.run()
    assert later.time_millis > then

    assert ids(catalog, "db.a", "db.b", at=then) == {"db.a": 1, "db.b": 1}


def test_snapshots_at_an_upstream_version(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    for _ in range(3):
        grow(source)
        one.run()
    two.run({"db.s": 2})
    two.run({"db.s": 3})

    assert ids(catalog, "db.a", "db.b", at={"db.s": 2}) == {"db.a": 2, "db.b": 1}
    with pytest.raises(NotConsistentError, match=r"at snapshot 1 of db\.s: .*db\.b shows db\.s at snapshots 2 to 3"):
        ids(catalog, "db.a", "db.b", at={"db.s": 1})
    with pytest.raises(InvalidRequestError, match=r"at= names db\.x"):
        ids(catalog, "db.a", "db.b", at={"db.x": 1})
    with pytest.raises(NotFoundError, match=r"at= names snapshot 99 of db\.s"):
        ids(catalog, "db.a", "db.b", at={"db.s": 99})


def test_a_version_that_was_asked_for_is_no_matter_of_tables_that_are_not_made_from_it(
    catalog: Catalog, make: Make
) -> None:
    source, other, a, b = make("s"), make("o"), make("a"), make("b")
    grow(source)
    StreamJob(a, [source], user="one").run()
    grow(other, 2)
    StreamJob(b, [other], user="two").run()

    with pytest.raises(NotConsistentError) as raised:
        consistent_snapshots(catalog, ["db.a", "db.b"], at={"db.o": 1})

    (text,) = raised.value.hindrances
    assert text.startswith("db.b shows db.o at snapshot 2; job two wrote it last")


def test_a_version_of_an_asked_table_that_does_not_live_is_named(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [a], user="two")
    grow(source)
    one.run()
    two.run()
    grow(source)
    one.run()
    a.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    with pytest.raises(NotConsistentError) as raised:
        consistent_snapshots(catalog, ["db.a", "db.b"], at={"db.a": 1})

    assert raised.value.hindrances == (
        "db.a has no living snapshot with whole batches of the version that was asked for",
    )


def test_two_paths_that_never_show_one_version_are_named_with_their_source_alone(catalog: Catalog, make: Make) -> None:
    source, middle, a, b = make("s"), make("m"), make("a"), make("b")
    upper = StreamJob(middle, [source], user="upper")
    grow(source)
    upper.run()
    grow(source)
    StreamJob(a, [source, middle], user="join").run()  # the source at 2, the middle of 1
    StreamJob(b, [middle], user="beside").run()  # a second reader of the middle

    with pytest.raises(NotConsistentError) as raised:
        consistent_snapshots(catalog, ["db.a", "db.b"])

    assert raised.value.hindrances == ("db.a is made from db.s over several paths, which never show the same version",)


def test_a_branch_begins_with_what_its_table_showed(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    two.run()
    a.branches.create("trial")
    grow(source)
    one.run()
    two.run()

    assert ids(catalog, "db.a$branch_trial", "db.b") == {"db.a$branch_trial": 1, "db.b": 1}
    trial = StreamJob(a.branch("trial"), [source], user="one")
    trial.batch, trial.read = 1, {"db.s": 1}
    trial.run()
    assert ids(catalog, "db.a$branch_trial", "db.b") == {"db.a$branch_trial": 2, "db.b": 2}


def test_a_table_without_lineage_is_named(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source)
    grow(b)
    StreamJob(a, [source], user="one").run()

    with pytest.raises(NotConsistentError, match=r"table db\.b has no lineage"):
        ids(catalog, "db.a", "db.b")


def test_a_writer_that_does_not_record_what_it_read_is_named(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source)
    commit_rows(a, rows(1), read_of(source, end=1), UnknownSource(why="the plan has an RDD"))
    StreamJob(b, [source], user="two").run()

    with pytest.raises(NotConsistentError, match=r"does not record what it read \(the plan has an RDD\)"):
        ids(catalog, "db.a", "db.b")


def test_a_foreign_source_makes_a_root(catalog: Catalog, make: Make) -> None:
    source, a = make("s"), make("a")
    commit_rows(source, rows(1), ForeignSource(format="kafka", name="orders"))
    StreamJob(a, [source], user="one").run()
    commit_rows(source, rows(2), ForeignSource(format="kafka", name="orders"), batch=1)

    assert ids(catalog, "db.a", "db.s") == {"db.a": 1, "db.s": 1}


def test_a_source_is_found_under_its_new_name_and_in_another_catalog(tmp_path: Path) -> None:
    near, far = Catalog(tmp_path / "near"), Catalog(tmp_path / "far")
    schema = pa.schema({"id": pa.int64()})
    source = near.create_table("db.s", schema=schema)
    a, b = (far.create_table(f"db.{name}", schema=schema) for name in "ab")
    grow(source, 2)
    StreamJob(a, [source], user="one").run({"db.s": 1})
    StreamJob(b, [source], user="two").run({"db.s": 1})
    near.rename_table("db.s", "db.t")

    found = consistent_snapshots(far, ["db.a", "db.b"], catalogs=[near])

    assert (dict(found), {name: one.snapshot_id for name, one in found.versions.items()}) == (
        {"db.a": 1, "db.b": 1},
        {"db.t": 1},
    )


def test_a_dropped_source_is_still_shared(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    two.run()
    grow(source)
    one.run()
    catalog.drop_table("db.s")
    make("s")  # another table of that name

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}


def derive(catalog: Catalog) -> tuple[Table, ...]:
    """`a` is made from snapshot 1 of `m`, which goes on to 3 with its source; `b` is made from all of the source."""
    schema = pa.schema({"id": pa.int64()})
    options = {"bucket": "1", "write-only": "true"}
    source, m, a, b = (catalog.create_table(f"db.{name}", schema=schema, options=options) for name in "smab")
    upper, lower, beside = (
        StreamJob(m, [source], user="upper"),
        StreamJob(a, [m], user="lower"),
        StreamJob(b, [source], user="beside"),
    )
    grow(source)
    upper.run()
    lower.run()
    beside.run()
    for _ in range(2):
        grow(source)
        upper.run()
        beside.run()
    return source, m, a, b


def test_what_an_expired_snapshot_was_made_from_is_known_where_it_was_fed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"table-lineage": "true", "data-lineage": "true"})
    _, m, _, _ = derive(catalog)
    feed(catalog)
    m.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    assert m.store.snapshots.ids() == [3]

    found = consistent_snapshots(catalog, ["db.a", "db.b"])

    assert dict(found) == {"db.a": 1, "db.b": 1}
    assert {name: version.snapshot_id for name, version in found.versions.items()} == {"db.m": 1, "db.s": 1}


def test_an_expired_snapshot_that_was_not_fed_is_named(catalog: Catalog) -> None:
    _, m, _, _ = derive(catalog)
    m.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    assert m.store.snapshots.ids() == [3]

    with pytest.raises(NotConsistentError, match=r"db\.m is shown at a snapshot that has expired .*: snapshot 1"):
        consistent_snapshots(catalog, ["db.a", "db.b"])
