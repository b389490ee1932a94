"""What `tainted` says behind forks, rollbacks and expiry, and which changes by hand it takes for a mend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.cleared_rows import Cleared
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.lineage import downstream, feed, made_from, mended, tainted, upstream
from tests.support.lineage.lineage_jobs import commit_rows, read_of

SCHEMA = pa.schema(
    [pa.field("part", pa.int64(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse whose lineage is fed before it is deleted."""
    found = Catalog(tmp_path, options={"data-lineage": "true"})
    feed(found)
    return found


def make(catalog: Catalog, name: str) -> Table:
    options = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
    return catalog.create_table(
        f"db.{name}", schema=SCHEMA, primary_keys=["part", "id"], partition_keys=["part"], options=options
    )


def rows(*ids: int, part: int = 0) -> pa.Table:
    return pa.table({"part": [part] * len(ids), "id": list(ids), "v": list(ids)}, schema=SCHEMA)


def copy(source: Table, sink: Table) -> None:
    found = source.snapshot()
    assert found is not None
    made_from(sink, f"{source.name}@{found.id}", job="copy").write(source.to_arrow())


def reached(catalog: Catalog, table: str, snapshot_id: int) -> dict[str, bool]:
    """The tables with tainted snapshots, and whether they hold tainted rows."""
    found = tainted(catalog, table, snapshot_id).tables.to_pylist()
    return {row["table"]: row["holds_tainted_rows"] for row in found}


@pytest.fixture
def tables(catalog: Catalog) -> tuple[Table, Table]:
    """Table b is made of a; snapshot 2 of a is wrong, in partition 1."""
    a, b = make(catalog, "a"), make(catalog, "b")
    a.write(rows(1))
    b.write(rows(100))
    a.write(rows(2, part=1))
    copy(a, b)
    return a, b


def test_a_branch_begins_with_the_wrong_rows_of_its_table(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    _, b = tables
    c = make(catalog, "c")
    b.branches.create("trial")
    b.branch("trial").write(rows(3))
    copy(b.branch("trial"), c)

    found = {row["table"]: row for row in tainted(catalog, "db.a", 2).tables.to_pylist()}

    assert {name: row["holds_tainted_rows"] for name, row in found.items()} == dict.fromkeys(
        ("db.a", "db.b", "db.b$branch_trial", "db.c"), True
    )
    assert found["db.b$branch_trial"]["last_clean"] is None
    assert "the branch began with tainted rows" in found["db.b$branch_trial"]["why"]
    assert "db.c" in downstream(catalog, "db.a", 2)["sink_table"].to_pylist()
    assert "db.a" in upstream(catalog, "db.c", 1)["source_table"].to_pylist()


def test_a_branch_that_was_deleted_since_is_crossed_too(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    _, b = tables
    c = make(catalog, "c")
    b.branches.create("trial")
    b.branch("trial").write(rows(3))
    copy(b.branch("trial"), c)
    feed(catalog)
    b.branches.delete("trial")

    assert reached(catalog, "db.a", 2)["db.c"]
    assert "db.c" in downstream(catalog, "db.a", 2)["sink_table"].to_pylist()


def test_what_was_made_of_a_snapshot_that_was_rolled_back_stays_tainted(
    catalog: Catalog, tables: tuple[Table, Table]
) -> None:
    _, b = tables
    c = make(catalog, "c")
    copy(b, c)
    b.upkeep.rollback(snapshot_id=1, force=True)
    b.write(rows(7))

    assert reached(catalog, "db.a", 2) == {"db.a": True, "db.b": False, "db.c": True}


def test_a_snapshot_that_was_rolled_back_may_have_rewritten_the_wrong_rows(catalog: Catalog) -> None:
    """Edges name it as a source, and do not say that it was an update: what read its changes counts as tainted."""
    a, b, c = (make(catalog, name) for name in ("a", "b", "c"))
    a.write(rows(1))
    a.update({"v": 7})
    commit_rows(b, rows(1), read_of(a, start=1, end=2), user="stream")
    copy(b, c)
    feed(catalog)
    a.upkeep.rollback(snapshot_id=1, force=True)

    assert reached(catalog, "db.a", 1) == {"db.a": True, "db.b": True, "db.c": True}


def overwrite(table: Table) -> None:
    table.write(rows(9), mode="overwrite")


def truncate(table: Table) -> None:
    table.truncate()
    table.write(rows(9))


def overwrite_of_the_partition(table: Table) -> None:
    table.write(rows(9, part=1), mode="overwrite-partitions")


def drop_of_the_partition(table: Table) -> None:
    table.upkeep.drop_partitions("part = 1")


def overwrite_from_nothing(table: Table) -> None:
    made_from(table).write(rows(9), mode="overwrite")


def restore(table: Table) -> None:
    table.restore(snapshot_id=1)


CLEARING = [overwrite, truncate, overwrite_from_nothing, restore]
OF_PARTITIONS = [overwrite_of_the_partition, drop_of_the_partition]


@pytest.mark.parametrize("mend", [*CLEARING, *OF_PARTITIONS])
def test_a_mend_by_hand_is_believed(
    catalog: Catalog, tables: tuple[Table, Table], mend: Callable[[Table], None]
) -> None:
    mend(tables[0])

    found = tainted(catalog, "db.a", 2)

    assert reached(catalog, "db.a", 2) == {"db.a": False, "db.b": True}
    assert [command for command in found.commands if " db.a " in command] == []


@pytest.mark.parametrize("mend", CLEARING)
def test_a_mend_that_has_expired_is_believed(
    catalog: Catalog, tables: tuple[Table, Table], mend: Callable[[Table], None]
) -> None:
    mend(tables[1])
    tables[1].write(rows(11))
    tables[1].upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert reached(catalog, "db.a", 2) == {"db.a": True, "db.b": False}


def test_a_restore_that_has_expired_brings_wrong_rows_back(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    _, b = tables
    overwrite(b)
    b.restore(snapshot_id=2)
    b.write(rows(11))
    b.upkeep.expire_snapshots(retain_min=1, retain_max=1)

    assert reached(catalog, "db.a", 2) == {"db.a": True, "db.b": True}


def delete(table: Table) -> None:
    table.delete("part = 1")


def update(table: Table) -> None:
    table.update({"v": 0}, where="part = 1")


def overwrite_of_another_partition(table: Table) -> None:
    table.write(rows(9, part=0), mode="overwrite-partitions")


def overwrite_with_its_own_rows(table: Table) -> None:
    newest = table.snapshot()
    assert newest is not None
    made_from(table, f"{table.name}@{newest.id}").write(table.to_arrow(), mode="overwrite")


@pytest.mark.parametrize("change", [delete, update, overwrite_of_another_partition, overwrite_with_its_own_rows])
def test_other_changes_are_no_mend(
    catalog: Catalog, tables: tuple[Table, Table], change: Callable[[Table], None]
) -> None:
    change(tables[0])

    assert reached(catalog, "db.a", 2)["db.a"]


def test_a_person_says_that_a_table_is_mended_of_one_wrong_snapshot(
    catalog: Catalog, tables: tuple[Table, Table]
) -> None:
    a, b = tables
    delete(a)
    snapshot = mended(a, "db.a@2", by="ann")

    assert reached(catalog, "db.a", 2) == {"db.a": False, "db.b": True}
    assert reached(catalog, "db.a", 1) == {"db.a": True, "db.b": True}
    (event,) = Cleared.parsed(snapshot.properties[PropertyKey.CLEARED])
    assert (event.mended_by, event.snapshot_id, event.time_millis) == ("ann", snapshot.id, snapshot.time_millis)
    assert a.to_arrow()["id"].to_pylist() == [1]

    a.write(rows(12))
    a.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    mended(b, "db.a@2")
    assert reached(catalog, "db.a", 2) == {"db.a": False, "db.b": False}
    copy(a, b)
    assert reached(catalog, "db.a", 2) == {"db.a": False, "db.b": False}


def test_a_mend_needs_a_wrong_snapshot(tables: tuple[Table, Table]) -> None:
    with pytest.raises(InvalidRequestError, match=r"needs a wrong snapshot, such as db\.orders@3"):
        mended(tables[0])
    with pytest.raises(InvalidRequestError, match="names no snapshot"):
        mended(tables[0], "db.a")
    with pytest.raises(NotFoundError, match=r"snapshot 99 of db\.a does not exist"):
        mended(tables[0], "db.a@99")


def merged_into(catalog: Catalog, tables: tuple[Table, Table], clear: Callable[[Table], None]) -> None:
    """Table c, into which a branch is merged that read the wrong rows of a, was cleared and written again."""
    a, _ = tables
    c = make(catalog, "c")
    c.write(rows(100))
    c.branches.create("trial")
    trial = c.branch("trial")
    copy(a, trial)
    clear(trial)
    trial.write(rows(3))
    c.branches.merge("trial")


@pytest.mark.parametrize("clear", [overwrite, truncate, restore])
def test_a_merge_does_not_bring_what_the_branch_has_taken_out(
    catalog: Catalog, tables: tuple[Table, Table], clear: Callable[[Table], None]
) -> None:
    merged_into(catalog, tables, clear)

    assert "db.c" not in reached(catalog, "db.a", 2)


@pytest.mark.parametrize("clear", [delete, update])
def test_a_merge_brings_what_may_be_left_of_wrong_rows(
    catalog: Catalog, tables: tuple[Table, Table], clear: Callable[[Table], None]
) -> None:
    merged_into(catalog, tables, clear)

    assert reached(catalog, "db.a", 2)["db.c"]


def test_a_snapshot_that_a_branch_brought_as_a_whole_is_known_by_both_names(
    catalog: Catalog, tables: tuple[Table, Table]
) -> None:
    a, b = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    copy(a, trial)
    mended(trial, "db.b$branch_trial@3", by="ann")
    trial.write(rows(3))
    b.branches.fast_forward("trial")

    by_branch, by_table = (reached(catalog, name, 3) for name in ("db.b$branch_trial", "db.b"))

    assert by_branch == by_table
    assert not by_table["db.b"]
    found = upstream(catalog, "db.b$branch_trial", 3)
    assert "db.a" in found["source_table"].to_pylist()
    assert downstream(catalog, "db.b$branch_trial", 3).num_rows == downstream(catalog, "db.b", 3).num_rows


def test_a_snapshot_that_the_branch_alone_has_still_is_tainted(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    a, b = tables
    copy(a, b)
    b.update({"v": 5}, where="part = 1")
    b.branches.create("trial")
    b.upkeep.rollback(snapshot_id=1, force=True)
    b.write(rows(7))

    found = {row["table"]: row for row in tainted(catalog, "db.a", 2).tables.to_pylist()}
    snapshots = tainted(catalog, "db.a", 2).snapshots.to_pylist()

    assert found["db.b$branch_trial"]["holds_tainted_rows"]
    assert not found["db.b"]["holds_tainted_rows"]
    assert {row["snapshot_id"] for row in snapshots if row["table"].startswith("db.b")} == {2, 3, 4}


def test_a_branch_that_was_deleted_has_no_clean_snapshot(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    a, b = tables
    b.branches.create("trial")
    copy(a, b.branch("trial"))
    b.branch("trial").write(rows(3))
    b.branches.fast_forward("trial")
    b.branches.delete("trial")

    found = {row["table"]: row for row in tainted(catalog, "db.a", 2).tables.to_pylist()}

    assert all(row["last_clean"] is None for name, row in found.items() if "$branch_" in name)


def test_readers_of_a_branch_and_of_the_table_whose_place_it_took_are_known(catalog: Catalog) -> None:
    a, b, c, d = (make(catalog, name) for name in "abcd")
    a.write(rows(1))
    a.branches.create("trial")
    trial = a.branch("trial")
    for number in (2, 3):
        a.write(rows(number))
    commit_rows(b, rows(50), read_of(a, end=3), user="old")
    for number in (12, 13, 14):
        trial.write(rows(number))
    commit_rows(b, rows(51), read_of(trial, start=1, end=4), user="early")
    a.branches.replace_newer("trial", force=True)
    trial.write(rows(15))
    copy(a, c)
    commit_rows(d, rows(52), read_of(a, start=2, end=3), user="late")
    feed(catalog)
    a.branches.delete("trial")

    found = downstream(catalog, "db.a", 3).to_pylist()

    readers = {(row["sink_table"], row["job"]) for row in found if row["operation"] != "BRANCH"}
    assert readers == {("db.b", "early"), ("db.c", "copy"), ("db.d", "late")}


def test_a_branch_that_was_taken_may_bring_wrong_rows_back(catalog: Catalog, tables: tuple[Table, Table]) -> None:
    _, b = tables
    b.branches.create("trial")
    trial = b.branch("trial")
    overwrite(trial)
    b.branches.fast_forward("trial")
    trial.restore(snapshot_id=2)

    found = reached(catalog, "db.a", 2)

    assert (found["db.b"], found["db.b$branch_trial"]) == (False, True)
