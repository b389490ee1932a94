"""The procedures of released Flink with Paimon 2.0, on tables of lakelog: both read and write on after each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError
from tests.support.servers.flink import Flink, running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1_800)]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
KINDS = {"keyed": ["id"], "append": []}
Row = tuple[str, str]
A, B, C, DEV, AFTER, HELD = ("1", "a"), ("2", "b"), ("3", "c"), ("7", "dev"), ("9", "after"), ("10", "held")
ALL = (A, B, C)
TABLE = "`table` => 'db.t'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call, and the rows of the table behind it.

    `kinds` are those of the tables that Flink accepts in it. A call that `changes_layout` writes files for another
    number of buckets than the table's option says: every writer is refused until the table is rescaled.
    """

    text: str
    rows: tuple[Row, ...] = ALL
    kinds: tuple[str, ...] = tuple(KINDS)
    changes_layout: bool = False


# Left out: functions and views, which a catalog of files does not have, `migrate_*` and `repair`, which are of Hive,
# and indexes for search.
CALLS = {
    "alter_column_default_value": Call(text=f"{TABLE}, `column` => 'v', default_value => 'x'"),
    "clear_consumers": Call(text=TABLE),
    "clone": Call(
        text="database => 'db', `table` => 't', target_database => 'db', target_table => 'copy', parallelism => 1, "
        "clone_from => 'paimon', catalog_conf => '{conf}', target_catalog_conf => '{conf}'"
    ),
    "compact": Call(text=TABLE),
    "compact_database": Call(text="including_databases => 'db', including_tables => 'db.t'"),
    "compact_manifest": Call(text=TABLE),
    "copy_files": Call(
        text="warehouse => '{warehouse}', database => 'db', `table` => 't', target_warehouse => '{warehouse}', "
        "target_database => 'db', target_table => 'copy', parallelism => 1"
    ),
    "create_branch": Call(text="'db.t', 'theirs', 'first'"),
    "create_tag": Call(text=f"{TABLE}, tag => 'theirs'"),
    "create_tag_from_timestamp": Call(text=f"{TABLE}, tag => 'theirs', `timestamp` => CAST(1 AS BIGINT)"),
    "delete_branch": Call(text="'db.t', 'dev'"),
    "delete_tag": Call(text=f"{TABLE}, tag => 'first'"),
    "expire_changelogs": Call(text=f"{TABLE}, retain_max => 1, retain_min => 1"),
    "expire_snapshots": Call(text=f"{TABLE}, retain_max => 1, retain_min => 1"),
    "expire_tags": Call(text=f"{TABLE}, older_than => '2020-01-01 00:00:00'"),
    "fast_forward": Call(text="'db.t', 'dev'", rows=(A, DEV)),
    "merge_branch": Call(text="'db.t', 'dev'", rows=(*ALL, DEV), kinds=("append",)),
    "merge_into": Call(
        text="target_table => 'db.t', source_table => 'db.s', merge_condition => 't.id = s.id', "
        "matched_upsert_setting => 'v = s.v'",
        rows=(A, ("2", "merged"), C),
        kinds=("keyed",),
    ),
    "purge_files": Call(text=TABLE, rows=()),
    "remove_orphan_files": Call(text=f"{TABLE}, older_than => '2020-01-01 00:00:00'"),
    "remove_unexisting_files": Call(text=TABLE),
    "remove_unexisting_manifests": Call(text="'db.t'"),
    "rename_branch": Call(text="'db.t', 'dev', 'other'"),
    "rename_tag": Call(text="'db.t', 'first', 'other'"),
    "replace_tag": Call(text=f"{TABLE}, tag => 'first', snapshot_id => CAST(2 AS BIGINT)"),
    "rescale": Call(text=f"{TABLE}, bucket_num => 2", kinds=("keyed",), changes_layout=True),
    "reset_consumer": Call(text=f"{TABLE}, consumer_id => 'c', next_snapshot_id => CAST(1 AS BIGINT)"),
    "rewrite_file_index": Call(text=TABLE),
    "rollback_to": Call(text=f"{TABLE}, snapshot_id => CAST(2 AS BIGINT)", rows=(A, B)),
    "rollback_to_as_latest": Call(text=f"{TABLE}, snapshot_id => CAST(2 AS BIGINT)", rows=(A, B)),
    "rollback_to_timestamp": Call(text=f"{TABLE}, `timestamp` => CAST({{millis}} AS BIGINT)", rows=(A, B)),
    "trigger_tag_automatic_creation": Call(text=TABLE),
}


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with running_flink(tmp_path_factory.mktemp("flink"), is_batch=True) as started:
        started.environment.getConfig().set("table.dml-sync", "true")  # a call returns when its job has ended
        yield started


def write(table: Table, *rows: Row) -> None:
    table.write(pa.table([[int(row[0]) for row in rows], [row[1] for row in rows]], schema=SCHEMA))


def ours(table: Table, **which: object) -> list[tuple[str, ...]]:
    rows = table.to_arrow(**which).to_pylist()  # type: ignore[arg-type]
    return sorted(tuple(map(str, row.values())) for row in rows)


def theirs(flink: Flink, name: str = "t") -> list[tuple[str | None, ...]]:
    return sorted((row for _kind, row in flink.run(f"SELECT * FROM `{name}`")), key=str)


@pytest.fixture
def catalog(flink: Flink, tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path)
    source = made.create_table("db.s", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    write(source, ("2", "merged"))
    flink.run(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}')")
    flink.run("USE CATALOG lake")
    flink.run("USE db")
    yield made
    flink.run("USE CATALOG default_catalog")
    flink.run("DROP CATALOG lake")


def make_table(catalog: Catalog, kind: str) -> Table:
    """Three snapshots of a row each, the tag `first` of the first one, and the branch `dev` from it."""
    keys = KINDS[kind]
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options={"bucket": "1"} if keys else None)
    write(table, A)
    table.tags.create("first")
    table.branches.create("dev", tag="first")
    write(table, B)
    write(table, C)
    write(table.branch("dev"), DEV)
    return table


def check_clone(flink: Flink, catalog: Catalog, kind: str) -> None:
    """Flink puts the rows of a keyed table into postponed buckets, which no reader shows before Flink compacts them."""
    table = catalog.load_table("db.copy")
    if kind == "keyed":
        assert ours(table) == theirs(flink, "copy") == []
        flink.run("CALL sys.compact(`table` => 'db.copy')")
    assert ours(table) == theirs(flink, "copy") == list(ALL)
    assert table.uuid == catalog.load_table("db.t").uuid
    renewed = table.upkeep.new_identity()
    assert renewed.uuid != catalog.load_table("db.t").uuid
    assert ours(renewed) == theirs(flink, "copy") == list(ALL)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, call in CALLS.items() for kind in call.kinds])
def test_a_table_is_read_and_written_on_after_a_procedure(
    flink: Flink, catalog: Catalog, tmp_path: Path, name: str, kind: str
) -> None:
    held = make_table(catalog, kind)
    assert ours(held) == list(ALL)
    millis = list(held.snapshots())[1].time_millis
    warehouse = f"file://{tmp_path}"
    text = CALLS[name].text.format(millis=millis, conf=f"warehouse={warehouse}", warehouse=warehouse)
    flink.run(f"CALL sys.{name}({text})")

    table, expected = catalog.load_table("db.t"), list(CALLS[name].rows)
    assert theirs(flink) == ours(table) == ours(held) == expected
    if name == "clone":
        check_clone(flink, catalog, kind)
    if name == "copy_files":
        assert ours(catalog.load_table("db.copy")) == theirs(flink, "copy") == expected
    if CALLS[name].changes_layout:
        for handle in (held, table):
            with pytest.raises(ConflictError, match="rescale the table to the wanted number of buckets"):
                write(handle, AFTER)
        table.upkeep.rescale(2)
        held = table = catalog.load_table("db.t")
    write(table, AFTER)
    write(held, HELD)
    expected = sorted([*expected, AFTER, HELD])
    assert theirs(flink) == ours(table) == ours(held) == expected

    table.compact(full=True)
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    assert theirs(flink) == ours(catalog.load_table("db.t")) == expected
    for tag in table.tags.list():
        assert ours(table, tag=tag.name)[:1] == [A]
    for branch in table.branches.list():
        assert ours(table.branch(branch.name))[:1] == [A]


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_that_copy_properties_may_follow_each_other(flink: Flink, catalog: Catalog, kind: str) -> None:
    table = make_table(catalog, kind)
    flink.run(f"CALL sys.compact_manifest({TABLE})")
    flink.run(f"CALL sys.rollback_to_as_latest({TABLE}, tag => 'first')")
    flink.run(f"CALL sys.compact_manifest({TABLE})")
    assert theirs(flink) == ours(table) == [A]
    write(table, B)
    flink.run(f"CALL sys.rollback_to_as_latest({TABLE}, snapshot_id => CAST(4 AS BIGINT))")
    assert theirs(flink) == ours(table) == list(ALL)
    table.restore(tag="first")
    assert theirs(flink) == ours(table) == [A]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fast_forward_behind_a_gap_is_seen_by_handles_from_before(flink: Flink, catalog: Catalog, kind: str) -> None:
    table = make_table(catalog, kind)
    table.branches.delete("dev")
    table.tags.create("third")
    table.branches.create("dev", tag="third")
    branch = table.branch("dev")
    write(branch, DEV)
    branch.tags.delete("third")
    branch.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    table.upkeep.rollback(snapshot_id=1, force=True)
    held = catalog.load_table("db.t")
    assert ours(held) == [A]
    flink.run("CALL sys.fast_forward('db.t', 'dev')")

    expected = [*ALL, DEV]
    assert 3 not in [one.id for one in held.snapshots()]
    assert theirs(flink) == ours(held) == expected
    write(held, AFTER)
    flink.run(f"CALL sys.repair_earliest_snapshot({TABLE}, snapshot_id => CAST(4 AS BIGINT))")
    assert theirs(flink) == ours(held) == ours(catalog.load_table("db.t")) == [*expected, AFTER]
    held.upkeep.remove_orphan_files(dry_run=False)
    held.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    assert theirs(flink) == ours(held) == ours(catalog.load_table("db.t")) == [*expected, AFTER]
    assert len(list(held.snapshots())) == 1


OLD_DAY, NEW_DAY = "2020-01-01", "2999-01-01"
OF_PARTITIONS = {
    "drop_partition": (f"'db.p', 'day={OLD_DAY}'", [("2", NEW_DAY)]),
    "expire_partitions": (
        "`table` => 'db.p', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd'",
        [("2", NEW_DAY)],
    ),
    "mark_partition_done": (f"`table` => 'db.p', partitions => 'day={OLD_DAY}'", [("1", OLD_DAY), ("2", NEW_DAY)]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_PARTITIONS)
def test_a_partitioned_table_is_read_and_written_on_after_a_procedure(
    flink: Flink, catalog: Catalog, name: str, kind: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    keys = ["id", "day"] if kind == "keyed" else []
    held = catalog.create_table(
        "db.p",
        schema=schema,
        primary_keys=keys,
        partition_keys=["day"],
        options={"bucket": "1"} if keys else None,
    )
    for number, day in ((1, OLD_DAY), (2, NEW_DAY)):
        held.write(pa.table([[number], [day]], schema=schema))
    assert len(ours(held)) == 2
    text, expected = OF_PARTITIONS[name]
    flink.run(f"CALL sys.{name}({text})")

    table = catalog.load_table("db.p")
    assert theirs(flink, "p") == ours(table) == ours(held) == expected
    held.write(pa.table([[3], [OLD_DAY]], schema=schema))
    table.compact(full=True)
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    assert theirs(flink, "p") == ours(table) == ours(held) == sorted([*expected, ("3", OLD_DAY)])


def test_a_table_with_row_tracking_is_read_after_its_procedures(flink: Flink, catalog: Catalog) -> None:
    flink.run(
        "CREATE TABLE e (id BIGINT, v STRING) WITH ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    for row in ALL:
        flink.execute(f"INSERT INTO e VALUES ({row[0]}, '{row[1]}')")
    held = catalog.load_table("db.e")
    assert ours(held) == list(ALL)
    flink.run(
        "CALL sys.data_evolution_merge_into(target_table => 'db.e', source_table => 'db.s', "
        "merge_condition => 'e.id = s.id', matched_update_set => 'v = s.v', sink_parallelism => 1)"
    )
    expected = [A, ("2", "merged"), C]
    assert theirs(flink, "e") == ours(catalog.load_table("db.e")) == ours(held) == expected
    flink.run("CALL sys.reassign_row_id('db.e')")
    assert theirs(flink, "e") == ours(catalog.load_table("db.e")) == ours(held) == expected


def test_a_warehouse_of_flinks_users_is_read_and_written(flink: Flink, catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, "keyed")
    flink.run("CALL sys.init_file_based_privilege('secret')")
    table = catalog.load_table("db.t")
    write(table, AFTER)
    assert ours(table) == [*ALL, AFTER]
    assert catalog.list_tables("db") == ["s", "t"]
    flink.run(
        f"CREATE CATALOG secured WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}', 'user' = 'root', "
        "'password' = 'secret')"
    )
    rows = flink.run("SELECT * FROM secured.db.t")
    flink.run("DROP CATALOG secured")
    assert sorted(row for _kind, row in rows) == [*ALL, AFTER]
