"""Branches whose names or files other engines or damages have made odd: they block nothing of their table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, CorruptDataError, Table
from lakelog.lineage import downstream, feed, jobs, known_edges, tainted, unreadable_tables, upstream
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, table_source
from tests.support.lineage.living_edges import edges_of

NAMES = ["a b", "ä", "x$y", "x.y", "12", "a\x1b[31mb", "line\nbreak", "a'b", "-x", "x" * 190]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(tmp_path, options=LINEAGE_ON)
    options = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
    made = catalog.create_table("db.t", schema=pa.schema({"id": pa.int64()}), options=options)
    for number in range(3):
        commit_job(made, number, table_source(end=number + 1))
        made.write(pa.table({"id": [number]}))
    return made


def catalog_of(table: Table) -> Catalog:
    return Catalog(table.warehouse, options=LINEAGE_ON)


@pytest.mark.parametrize("name", NAMES)
def test_a_branch_of_any_name_is_listed_fed_kept_and_deleted(table: Table, name: str) -> None:
    folder = Path(table.path, "branch", f"branch-{name}")
    folder.mkdir(parents=True)
    for part in ("schema", "snapshot"):
        shutil.copytree(Path(table.path, part), folder / part)

    assert [one.name for one in table.branches.list()] == [name]
    assert feed(catalog_of(table)).batches == 3
    table.compact(full=True)
    assert table.upkeep.expire_snapshots(retain_min=1, retain_max=1).snapshot_ids
    table.upkeep.remove_orphan_files(older_than="1 d")
    assert table.branch(name).count() == 3
    assert table.system.table("branches").to_arrow()["branch_name"].to_pylist() == [name]
    table.branches.delete(name)
    assert table.branches.list() == []


@pytest.fixture
def latin(table: Table) -> str:
    """The name of a branch whose folder has the name of another encoding."""
    name = os.fsdecode("café".encode("latin-1"))
    for part in ("schema", "snapshot"):
        shutil.copytree(Path(table.path, part), Path(table.path, "branch", f"branch-{name}", part))
    commit_job(table.branch(name), 9, table_source(end=9), job="latin")
    return name


def test_a_branch_whose_name_is_not_utf8_stops_no_feed_and_is_named(table: Table, latin: str) -> None:
    with unreadable_tables() as unreadable:
        fed = feed(catalog_of(table))

    assert fed.batches == 3
    assert [one.name for one in unreadable] == ["db.t$branch_caf\\udce9"]
    message = str(unreadable[0].error)
    assert "branch 'caf\\udce9' of db.t has a name that is not UTF-8" in message
    assert "delete_branch" in message
    assert message.isprintable()


def test_questions_are_answered_beside_a_branch_whose_name_is_not_utf8(table: Table, latin: str) -> None:
    catalog = catalog_of(table)

    assert known_edges(catalog).num_rows == 3
    assert edges_of(table).num_rows == 3
    assert upstream(catalog, "db.t", 1).num_rows == 1
    assert downstream(catalog, "db.t", 1).num_rows == 0
    assert tainted(catalog, "db.t", 1).tables["table"].to_pylist() == ["db.t"]
    assert [job.name for job in jobs(catalog)] == ["job"]


def test_a_branch_whose_name_is_not_utf8_can_be_listed_and_deleted(table: Table, latin: str) -> None:
    assert table.system.table("branches").to_arrow()["branch_name"].to_pylist() == ["caf\\udce9"]

    table.branches.delete(latin)

    assert table.branches.list() == []


def damaged_fork(branch: Path) -> None:
    (branch / "lakelog" / "fork").write_text("{", encoding="utf-8")


def damaged_snapshot(branch: Path) -> None:
    for path in (branch / "snapshot").glob("snapshot-*"):
        path.write_text("{", encoding="utf-8")


def damaged_schema(branch: Path) -> None:
    for path in (branch / "schema").glob("schema-*"):
        path.write_text("{", encoding="utf-8")


def damaged_consumer(branch: Path) -> None:
    (branch / "consumer").mkdir(exist_ok=True)
    (branch / "consumer" / "consumer-lakelog-lineage").write_text("{", encoding="utf-8")


DAMAGES = [damaged_fork, damaged_snapshot, damaged_schema, damaged_consumer]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_branch_stops_no_feed_and_is_named(table: Table, damage: Callable[[Path], None]) -> None:
    for name in ("bad", "good"):
        table.branches.create(name)
        commit_job(table.branch(name), 3, table_source(end=4), job=name)
    damage(Path(table.path, "branch", "branch-bad"))

    with unreadable_tables() as unreadable:
        fed = feed(catalog_of(table))

    assert fed.batches >= 4
    rows = catalog_of(table).system_table("sys.sink_job_lineage").to_arrow()
    assert {"job", "good"} <= set(rows["job"].to_pylist())
    expected = [] if damage is damaged_schema else ["db.t$branch_bad"]  # a feed reads no schema
    assert sorted({one.name for one in unreadable}) == expected


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_branch_can_be_deleted_and_so_can_others(table: Table, damage: Callable[[Path], None]) -> None:
    for name in ("bad", "good"):
        table.branches.create(name)
    damage(Path(table.path, "branch", "branch-bad"))

    table.branches.delete("good")
    table.branches.delete("bad")

    assert table.branches.list() == []
    table.branches.expire()
    assert [one.name for one in table.tags.list() if one.name.startswith("lakelog-fork-")] == []


def test_a_folder_without_the_name_of_a_branch_blocks_nothing(table: Table) -> None:
    table.branches.create("good")
    Path(table.path, "branch", "branch-").mkdir()

    assert [branch.name for branch in table.branches.list()] == ["good"]
    assert table.upkeep.expire_snapshots(retain_min=1, retain_max=1).snapshot_ids
    assert [line.name for line in table.history()] == ["main", "good"]
    assert table.upkeep.remove_orphan_files(dry_run=True).files == ()
    catalog_of(table).drop_table("db.t")


def test_a_damaged_snapshot_of_a_branch_holds_an_expiry_and_names_the_way_out(table: Table) -> None:
    table.branches.create("b")
    table.write(table.to_arrow())  # the branch began before the snapshot that stays, so it is read
    snapshot = Path(table.path, "branch", "branch-b", "snapshot", "snapshot-3")
    snapshot.write_bytes(b"{")
    with pytest.raises(CorruptDataError, match=r"branch 'b' of db\.t is not needed, delete it"):
        table.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    table.branches.delete("b")
    assert table.upkeep.expire_snapshots(retain_min=1, retain_max=1).snapshot_ids


def test_a_history_with_a_damaged_snapshot_of_a_branch_names_the_branch_and_the_way_out(table: Table) -> None:
    table.branches.create("b")
    line = table.branch("b")
    line.write(line.to_arrow())
    for snapshot in Path(table.path, "branch", "branch-b", "snapshot").glob("snapshot-*"):
        snapshot.write_bytes(b"{")
    with pytest.raises(CorruptDataError, match=r"snapshot-.* is damaged.*branch 'b' of db\.t is not needed, delete it"):
        table.history()
    table.branches.delete("b")
    assert [found.name for found in table.history()] == ["main"]


def with_file_named_as_branch(table: Table) -> Path:
    file = Path(table.path, "branch", "branch-x")
    file.parent.mkdir()
    file.write_bytes(b"notes")
    return file


def test_a_file_with_the_name_of_a_branch_blocks_nothing(table: Table) -> None:
    with_file_named_as_branch(table)
    assert table.branches.list() == []
    assert table.upkeep.expire_snapshots(retain_min=1, retain_max=1).snapshot_ids
    table.upkeep.remove_orphan_files(older_than="1 d")
    table.branches.create("y")
    assert [line.name for line in table.history()] == ["main", "y"]


@pytest.mark.parametrize("verb", ["create", "rename", "delete"])
def test_a_file_in_the_place_of_a_branch_is_named_with_the_way_out(table: Table, verb: str) -> None:
    file = with_file_named_as_branch(table)
    table.branches.create("y")
    verbs: dict[str, Callable[[], object]] = {
        "create": lambda: table.branches.create("x"),
        "rename": lambda: table.branches.rename("y", "x"),
        "delete": lambda: table.branches.delete("x"),
    }
    with pytest.raises(CorruptDataError, match=f"{file} is a file, expected the folder of a branch .* moved away"):
        verbs[verb]()
    assert file.read_bytes() == b"notes"
    assert [branch.name for branch in table.branches.list()] == ["y"]
    file.unlink()
    table.branches.create("x")
    assert [branch.name for branch in table.branches.list()] == ["x", "y"]
