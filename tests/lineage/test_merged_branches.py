"""What a branch brings back to its table: what the table shows then, and what its snapshot was made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import ReadMode, UnknownSource, batches_of
from lakelog.lineage import consistent_snapshots, feed, tainted, upstream
from tests.support.lineage.lineage_jobs import StreamJob, overwrite_rows, read_of

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


def ids(catalog: Catalog, *tables: str) -> dict[str, int]:
    return dict(consistent_snapshots(catalog, tables))


def job_in(table: Table, branch: str, *sources: Table, user: str = "trial") -> StreamJob:
    return StreamJob(table.branch(branch), sources, user=user)


def test_a_source_that_the_branch_alone_reads_is_shown_after_the_merge(catalog: Catalog, make: Make) -> None:
    source, other, a, b = make("s"), make("o"), make("a"), make("b")
    grow(source)
    grow(other)
    StreamJob(a, [source], user="one").run()
    two = StreamJob(b, [other], user="two")
    two.run()
    a.branches.create("trial")
    job_in(a, "trial", other).run()

    a.branches.merge("trial")

    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}
    grow(other)
    two.run()
    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}


def test_rows_of_two_versions_are_mixed_until_the_table_is_where_the_branch_was(catalog: Catalog, make: Make) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    two.run()
    a.branches.create("trial")
    trial = job_in(a, "trial", source, user="one")
    trial.batch, trial.read = 1, {"db.s": 1}
    grow(source)
    trial.run()
    two.run()

    a.branches.merge("trial")

    assert ids(catalog, "db.a", "db.b") == {"db.a": 1, "db.b": 1}
    one.run()
    assert ids(catalog, "db.a", "db.b") == {"db.a": 3, "db.b": 2}
    grow(source)
    one.run()
    two.run()
    assert ids(catalog, "db.a", "db.b") == {"db.a": 3, "db.b": 2}
    trial.run()
    a.branches.merge("trial")
    assert ids(catalog, "db.a", "db.b") == {"db.a": 5, "db.b": 3}


def test_a_branch_that_was_changed_by_hand_breaks_what_is_shown_and_the_reason_names_it(
    catalog: Catalog, make: Make
) -> None:
    source, a, b = make("s"), make("a"), make("b")
    grow(source)
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    one.run()
    two.run()
    a.branches.create("trial")
    grow(a.branch("trial"))
    a.branches.merge("trial")
    grow(source)
    one.run()
    two.run()

    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert dict(found) == {"db.a": 1, "db.b": 1}
    assert "by the merge of a branch (db.a$branch_trial: " in found.reasons["db.a"]
    assert "in its snapshot 2" in found.reasons["db.a"]


def test_what_a_branch_brought_is_known_when_the_branch_is_deleted_and_the_merge_has_expired(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"table-lineage": "true", "data-lineage": "true"})
    schema, options = pa.schema({"id": pa.int64()}), {"bucket": "1", "write-only": "true"}
    source, a, b = (catalog.create_table(f"db.{name}", schema=schema, options=options) for name in "sab")
    grow(source)
    StreamJob(b, [source], user="two").run()
    grow(a)
    a.branches.create("trial")
    job_in(a, "trial", source).run()
    a.branches.merge("trial")
    a.branches.delete("trial")
    for _ in range(2):
        a.compact(full=True)
        grow(make_other(catalog))
    assert ids(catalog, "db.a", "db.b")["db.b"] == 1
    newest = a.store.snapshots.latest_id()

    feed(catalog)
    a.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert ids(catalog, "db.a", "db.b") == {"db.a": newest, "db.b": 1}
    assert {row["source_table"] for row in upstream(catalog, "db.a", 2).to_pylist()} == {"db.a", "db.s"}


def make_other(catalog: Catalog) -> Table:
    return catalog.create_table("db.other", schema="id BIGINT", if_not_exists=True)


def test_upstream_of_a_merge_names_the_branch_and_what_it_was_made_from(catalog: Catalog, make: Make) -> None:
    source, a = make("s"), make("a")
    grow(source, 3)
    StreamJob(a, [source], user="one").run({"db.s": 1})
    a.branches.create("trial")
    trial = job_in(a, "trial", source)
    trial.run({"db.s": 2})
    trial.run({"db.s": 3})
    merged = a.branches.merge("trial").snapshot_id
    assert merged is not None

    rows = upstream(catalog, "db.a", merged).to_pylist()

    of_merge = [row for row in rows if row["sink_snapshot"] == merged and row["sink_branch"] is None]
    assert {(row["source_table"], row["source_branch"], row["source_from"], row["source_to"]) for row in of_merge} == {
        ("db.a", "trial", 1, 3),
        ("db.s", None, None, 2),
        ("db.s", None, 2, 3),
    }
    a.branches.delete("trial")
    found = tainted(catalog, "db.s", 3).tables.to_pylist()
    assert [(row["table"], row["first_tainted"]) for row in found] == [("db.s", 3), ("db.a", merged)]


@pytest.mark.parametrize("verb", ["replace_newer", "replace_main"])
def test_a_branch_that_is_taken_as_a_whole_shows_what_it_showed(catalog: Catalog, make: Make, verb: str) -> None:
    source, a, b = make("s"), make("a"), make("b")
    one, two = StreamJob(a, [source], user="one"), StreamJob(b, [source], user="two")
    grow(source)
    one.run()
    a.branches.create("trial")
    trial = job_in(a, "trial", source, user="one")
    trial.batch, trial.read = 1, {"db.s": 1}
    grow(source)
    trial.run()
    two.run()
    grow(source)
    one.run()  # up to 3, which gives way

    getattr(a.branches, verb)("trial", force=True)

    assert ids(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}
    grow(source)
    one.run()
    two.run()
    found = consistent_snapshots(catalog, ["db.a", "db.b"])
    assert dict(found) == {"db.a": 2, "db.b": 1}
    assert "a gap (job one read on from snapshot 3, not from snapshot 2)" in found.reasons["db.a"]


def test_a_merge_whose_handle_records_nothing_else_has_the_branch_as_its_source(make: Make) -> None:
    source, a = make("s"), make("a")
    grow(source)
    grow(a)
    a.branches.create("trial")
    job_in(a, "trial", source).run()
    a.branches.merge("trial")

    (batch,) = batches_of(a.store.snapshots.get(2))

    assert batch.lineage.operation == "MERGE BRANCH"
    assert [one.lineage.job for one in batch.lineage.brought] == ["trial"]
    assert batch.lineage.to_json() == type(batch.lineage).from_json(batch.lineage.to_json()).to_json()


def test_rows_that_an_expired_overwrite_of_the_branch_took_out_are_not_brought(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"table-lineage": "true", "data-lineage": "true"})
    schema, options = pa.schema({"id": pa.int64()}), {"bucket": "1", "write-only": "true"}
    source, other, a = (catalog.create_table(f"db.{name}", schema=schema, options=options) for name in "soa")
    grow(source)
    grow(other)
    grow(a)
    a.branches.create("trial")
    job_in(a, "trial", source).run()
    branch = a.branch("trial")
    overwrite_rows(branch, pa.table({"id": pa.array([7], pa.int64())}), read_of(other, end=1, mode=ReadMode.BATCH))
    grow(other)
    later = job_in(a, "trial", other, user="later")
    later.run()
    feed(catalog)
    branch.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    merged = a.branches.merge("trial").snapshot_id
    assert merged is not None

    (batch,) = batches_of(a.store.snapshots.get(merged))
    assert {one.lineage.job for one in batch.lineage.brought} == {"overwrite", "later"}
    (unknown,) = [one for one in batch.lineage.sources if isinstance(one, UnknownSource)]
    assert unknown.why == "db.a$branch_trial: the branch was overwritten"
