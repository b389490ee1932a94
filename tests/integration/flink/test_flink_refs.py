"""Released Flink with Paimon 2.0 and lakelog tag, branch, expire and go back in one table, and read the same of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.support.servers.flink import Flink, running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
KINDS = {"keyed": ["id"], "append": []}
Row = tuple[int, str]


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with running_flink(tmp_path_factory.mktemp("flink"), is_batch=True) as started:
        yield started


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, flink: Flink, tmp_path: Path) -> Iterator[Table]:
    """A table of lakelog's, which is `t` in the catalog that Flink uses."""
    keys = KINDS[request.param]
    made = Catalog(tmp_path).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, options={"bucket": "1"} if keys else None
    )
    flink.run(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}')")
    flink.run("USE CATALOG lake")
    flink.run("USE db")
    yield made
    flink.run("USE CATALOG default_catalog")
    flink.run("DROP CATALOG lake")


def write(table: Table, *rows: Row) -> None:
    table.write(pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA))


def ours(table: Table, **which: object) -> list[tuple[str, ...]]:
    rows = table.to_arrow(**which).to_pylist()  # type: ignore[arg-type]
    return sorted(tuple(map(str, row.values())) for row in rows)


def read_by(flink: Flink, name: str, **options: str) -> list[tuple[str | None, ...]]:
    hints = ", ".join(
        f"'{key.replace('_', '-').replace('scan-', 'scan.')}' = '{value}'" for key, value in options.items()
    )
    hint = f" /*+ OPTIONS({hints}) */" if hints else ""
    return sorted((row for _kind, row in flink.run(f"SELECT * FROM `{name}`{hint}")), key=str)


def insert(flink: Flink, name: str, *rows: Row) -> None:
    values = ", ".join(f"(CAST({key} AS BIGINT), '{value}')" for key, value in rows)
    flink.execute(f"INSERT INTO `{name}` VALUES {values}")


def test_flink_reads_a_tag_of_ours_whose_snapshot_has_expired(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    table.tags.create("first", time_retained="30 d")
    write(table, (2, "bb"), (3, "c"))
    flink.run("CALL sys.expire_snapshots(`table` => 'db.t', retain_max => 1, retain_min => 1)")

    assert read_by(flink, "t", scan_tag_name="first") == [("1", "a"), ("2", "b")]
    [(_, (name, snapshot, *_rest))] = flink.run("SELECT * FROM `t$tags`")
    assert (name, snapshot) == ("first", "1")
    assert ours(table, tag="first") == [("1", "a"), ("2", "b")]


def test_a_tag_that_flink_deletes_takes_nothing_that_is_read(flink: Flink, table: Table) -> None:
    write(table, (1, "a"))
    table.tags.create("first")
    write(table, (2, "b"))
    table.tags.create("second")
    table.compact(full=True)
    flink.run("CALL sys.expire_snapshots(`table` => 'db.t', retain_max => 1, retain_min => 1)")
    flink.run("CALL sys.delete_tag(`table` => 'db.t', tag => 'first')")

    assert [tag.name for tag in table.tags.list()] == ["second"]
    assert ours(table, tag="second") == ours(table) == [("1", "a"), ("2", "b")]


def test_we_delete_a_tag_of_flink_and_the_others_are_read(flink: Flink, table: Table) -> None:
    write(table, (1, "a"))
    flink.run("CALL sys.create_tag(`table` => 'db.t', tag => 'first', snapshot_id => 1)")
    write(table, (2, "b"))
    flink.run("CALL sys.create_tag(`table` => 'db.t', tag => 'second', snapshot_id => 2)")
    table.compact(full=True)
    table.tags.delete("first")
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")

    assert read_by(flink, "t", scan_tag_name="second") == [("1", "a"), ("2", "b")]
    assert read_by(flink, "t") == [("1", "a"), ("2", "b")]


def test_flink_reads_and_writes_a_branch_of_ours(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    table.branches.create("dev")
    write(table, (9, "main"))
    write(table.branch("dev"), (3, "ours"))
    insert(flink, "t$branch_dev", (4, "theirs"))
    write(table.branch("dev"), (5, "ours again"))

    expected = [("1", "a"), ("2", "b"), ("3", "ours"), ("4", "theirs"), ("5", "ours again")]
    assert read_by(flink, "t$branch_dev") == expected
    assert ours(table.branch("dev")) == expected
    assert read_by(flink, "t") == ours(table) == [("1", "a"), ("2", "b"), ("9", "main")]
    assert [row[0] for _kind, row in flink.run("SELECT * FROM `t$branches`")] == ["dev"]


def test_a_branch_of_ours_survives_the_expiry_of_flink_in_table_and_branch(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    table.branches.create("dev")
    for number in range(3, 6):
        write(table, (number, "main"))
        table.compact(full=True)
    flink.run("CALL sys.expire_snapshots(`table` => 'db.t', retain_max => 1, retain_min => 1)")
    assert read_by(flink, "t$branch_dev") == ours(table.branch("dev")) == [("1", "a"), ("2", "b")]

    write(table.branch("dev"), (7, "dev"))
    table.branch("dev").compact(full=True)
    flink.run("CALL sys.expire_snapshots(`table` => 'db.t$branch_dev', retain_max => 1, retain_min => 1)")
    assert read_by(flink, "t") == ours(table)
    assert read_by(flink, "t$branch_dev") == ours(table.branch("dev")) == [("1", "a"), ("2", "b"), ("7", "dev")]


def test_we_read_and_write_a_branch_that_flink_makes_while_we_write(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    flink.run("CALL sys.create_tag(`table` => 'db.t', tag => 'base', snapshot_id => 1)")
    write(table, (3, "c"))
    flink.run("CALL sys.create_branch('db.t', 'dev', 'base')")
    write(table, (4, "d"))
    insert(flink, "t$branch_dev", (5, "theirs"))
    write(table.branch("dev"), (6, "ours"))
    flink.run("CALL sys.delete_tag(`table` => 'db.t', tag => 'base')")
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")

    expected = [("1", "a"), ("2", "b"), ("5", "theirs"), ("6", "ours")]
    assert ours(table.branch("dev")) == read_by(flink, "t$branch_dev") == expected
    assert ours(table) == read_by(flink, "t") == [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")]


def test_we_go_on_in_a_table_that_flink_has_fast_forwarded_to_a_branch(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    table.tags.create("base")
    table.branches.create("dev", tag="base")
    write(table, (9, "given up"))
    insert(flink, "t$branch_dev", (3, "theirs"))
    write(table.branch("dev"), (4, "ours"))
    flink.run("CALL sys.fast_forward('db.t', 'dev')")
    write(table, (5, "after"))

    expected = [("1", "a"), ("2", "b"), ("3", "theirs"), ("4", "ours"), ("5", "after")]
    assert ours(table) == read_by(flink, "t") == expected
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    assert read_by(flink, "t$branch_dev") == ours(table.branch("dev")) == expected[:-1]
    assert read_by(flink, "t", scan_tag_name="base") == ours(table, tag="base") == [("1", "a"), ("2", "b")]


def test_we_go_on_in_a_table_that_flink_has_rolled_back(flink: Flink, table: Table) -> None:
    write(table, (1, "a"))
    table.tags.create("base")
    write(table, (2, "rolled back"))
    flink.run("CALL sys.rollback_to(`table` => 'db.t', tag => 'base')")
    write(table, (3, "after"))

    assert ours(table) == read_by(flink, "t") == [("1", "a"), ("3", "after")]


def test_flink_reads_a_table_that_we_have_fast_forwarded_restored_and_rolled_back(flink: Flink, table: Table) -> None:
    write(table, (1, "a"))
    table.tags.create("base")
    table.branches.create("dev", tag="base")
    write(table.branch("dev"), (2, "dev"))
    insert(flink, "t$branch_dev", (3, "theirs"))
    table.branches.fast_forward("dev")
    assert read_by(flink, "t") == ours(table) == [("1", "a"), ("2", "dev"), ("3", "theirs")]

    table.restore(tag="base")
    assert read_by(flink, "t") == ours(table) == [("1", "a")]
    insert(flink, "t", (4, "after the restore"))
    assert read_by(flink, "t") == ours(table) == [("1", "a"), ("4", "after the restore")]

    table.upkeep.rollback(tag="base", force=True)
    insert(flink, "t", (5, "after the rollback"))
    write(table, (6, "ours"))
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    expected = [("1", "a"), ("5", "after the rollback"), ("6", "ours")]
    assert read_by(flink, "t") == ours(table) == expected
    assert read_by(flink, "t$branch_dev") == [("1", "a"), ("2", "dev"), ("3", "theirs")]


def test_flink_reads_a_merge_of_a_branch_that_it_made(flink: Flink, table: Table) -> None:
    write(table, (1, "a"), (2, "b"))
    flink.run("CALL sys.create_tag(`table` => 'db.t', tag => 'base', snapshot_id => 1)")
    flink.run("CALL sys.create_branch('db.t', 'dev', 'base')")
    insert(flink, "t$branch_dev", (3, "theirs"))
    write(table, (4, "main"))
    table.branches.merge("dev", base="base")

    expected = [("1", "a"), ("2", "b"), ("3", "theirs"), ("4", "main")]
    assert read_by(flink, "t") == ours(table) == expected
