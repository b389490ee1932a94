"""The system tables of lineage: what is fed into them, once, whatever happens in between."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, CorruptDataError, InvalidRequestError
from lakelog.filestore.metadata.origins.record import ForeignSource, ReadMode
from lakelog.lineage import feed, known_edges, rebuild
from lakelog.warehouse.system_database import SystemDatabase
from tests.support.lineage.lineage_records import (
    commit_batch,
    commit_job,
    entry,
    lineage,
    make_sink,
    sorted_rows,
    system_rows,
    table_source,
)
from tests.support.lineage.living_edges import edges_of


def test_a_job_with_its_tables_and_snapshots_is_in_the_tables_of_the_proposal(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    snapshot = commit_job(table, 3, table_source("db.a", start=4, end=5), table_source("db.b", end=9), job="flights")

    feed(catalog)

    assert system_rows(catalog, "source_job_lineage", "job", "database", "table") == [
        ("flights", "db", "a"),
        ("flights", "db", "b"),
    ]
    assert system_rows(catalog, "sink_job_lineage", "job", "database", "table") == [("flights", "db", "t")]
    columns = ("job", "barrier_id", "database", "table", "snapshot_id")
    assert system_rows(catalog, "source_snapshot_lineage", *columns) == [
        ("flights", 3, "db", "a", 5),
        ("flights", 3, "db", "b", 9),
    ]
    assert system_rows(catalog, "sink_snapshot_lineage", *columns) == [("flights", 3, "db", "t", snapshot.id)]


def test_all_edges_are_known_when_they_were_fed(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    foreign = ForeignSource(format="kafka", name="orders", end="{}")
    for batch in range(3):
        commit_job(table, batch, table_source(start=batch, end=batch + 1), foreign)
    commit_job(table, 3)
    before = edges_of(table)
    assert sorted_rows(known_edges(catalog)) == sorted_rows(before)

    feed(catalog)

    assert sorted_rows(known_edges(catalog)) == sorted_rows(before)
    assert len(system_rows(catalog, "snapshot_edges")) == before.num_rows == 7


def test_edges_of_expired_snapshots_are_known(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    for batch in range(4):
        commit_job(table, batch, table_source(end=batch + 1))
    before = known_edges(catalog)
    feed(catalog)

    assert table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)

    assert edges_of(table).num_rows == 1
    assert sorted_rows(known_edges(catalog)) == sorted_rows(before)


def test_feeding_again_changes_nothing(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    commit_job(table, 0, table_source())
    feed(catalog)
    stored = Catalog(catalog.warehouse).load_table("lakelog_sys.snapshot_edges")
    before = [snapshot.id for snapshot in stored.snapshots()]

    assert feed(catalog).batches == 0
    assert [snapshot.id for snapshot in stored.snapshots()] == before


def test_a_feed_commits_once_a_table_for_many_batches(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    for batch in range(20):
        commit_job(table, batch, table_source(end=batch))

    assert feed(catalog).batches == 20

    stored = catalog.load_table("lakelog_sys.snapshot_edges")
    assert [snapshot.commit_kind.value for snapshot in stored.snapshots()] == ["APPEND"]


def test_without_the_options_nothing_is_made(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    commit_job(make_sink(catalog, "db.t"), 0, table_source())

    with pytest.raises(InvalidRequestError, match="both table-lineage and data-lineage are false"):
        feed(catalog)

    assert known_edges(catalog).num_rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["db.db"]
    assert catalog.list_databases() == ["db"]
    assert system_rows(catalog, "sink_snapshot_lineage") == []


def test_options_are_kept_in_the_warehouse(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    commit_job(table, 0, table_source())
    feed(catalog)
    commit_job(table, 1, table_source())
    later = Catalog(catalog.warehouse)

    assert feed(later).batches == 1
    assert system_rows(later, "catalog_options") == [
        ("data-lineage", "true"),
        ("table-lineage", "true"),
        ("warehouse", catalog.warehouse),
    ]


@pytest.mark.parametrize(
    ("option", "made"), [("table-lineage", "sink_job_lineage"), ("data-lineage", "snapshot_edges")]
)
def test_each_option_makes_its_tables(tmp_path: Path, option: str, made: str) -> None:
    catalog = Catalog(tmp_path, options={option: "true"})
    commit_job(make_sink(catalog, "db.t"), 0, table_source())

    feed(catalog)

    names = catalog.list_tables("lakelog_sys")
    assert made in names
    assert ("sink_job_lineage" in names) != ("snapshot_edges" in names)


def test_the_tables_are_shown_under_sys(catalog: Catalog) -> None:
    make_sink(catalog, "db.t")
    feed(catalog)

    assert catalog.list_databases() == ["db", "sys"]
    assert {"catalog_options", "tables", "source_job_lineage", "source_table_lineage"} <= {*catalog.list_tables("sys")}


def test_the_views_have_paimons_columns(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    first = commit_job(table, 0, table_source("db.a"))
    commit_job(table, 1, table_source("db.a"))
    feed(catalog)

    found = catalog.system_table("sys.source_table_lineage").to_arrow()

    assert found.schema.names == ["database_name", "table_name", "job_name", "create_time"]
    assert found.schema.field("create_time").type == pa.timestamp("us")
    assert found.drop_columns("create_time").to_pylist() == [
        {"database_name": "db", "table_name": "a", "job_name": "job"}
    ]
    assert found["create_time"].cast("int64").to_pylist() == [first.time_millis * 1_000]
    assert system_rows(catalog, "sink_table_lineage", "database_name", "table_name", "job_name") == [("db", "t", "job")]


def test_a_batch_write_has_its_commit_time_as_its_barrier(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    source = table_source("db.a", mode=ReadMode.BATCH)
    snapshot = commit_batch(table, "w", 0, entry("w", 0, lineage(None, source, job="nightly")))
    feed(catalog)

    for name in ("source_snapshot_lineage", "sink_snapshot_lineage"):
        assert system_rows(catalog, name, "job", "barrier_id") == [("nightly", snapshot.time_millis)]


def test_of_two_reads_of_one_table_the_stream_counts(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    commit_job(table, 0, table_source("db.a", end=5), table_source("db.a", end=7, mode=ReadMode.BATCH))
    feed(catalog)

    assert system_rows(catalog, "source_snapshot_lineage", "snapshot_id") == [(5,)]
    assert known_edges(catalog).num_rows == 2


def test_a_branch_is_named_as_other_engines_name_it(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    commit_job(table, 0, table_source("db.a"))
    table.branches.create("trial")
    commit_job(table.branch("trial"), 1, table_source("db.a"))
    before = edges_of(table)

    feed(catalog)

    assert system_rows(catalog, "sink_job_lineage", "table") == [("t$branch_trial",), ("t",)]
    assert sorted_rows(known_edges(catalog)) == sorted_rows(before)


def test_a_name_that_two_queries_use_keeps_the_edges_of_both(catalog: Catalog) -> None:
    for name, query in (("db.t", "q1"), ("db.u", "q2")):
        of_batch = lineage(0, table_source("db.a"))
        fields = {**entry(query, 0, of_batch), "query": query}
        commit_batch(make_sink(catalog, name), query, 0, fields)

    feed(catalog)

    assert sorted(known_edges(catalog)["query_id"].to_pylist()) == ["q1", "q2"]


def test_the_tables_follow_a_renamed_table(catalog: Catalog) -> None:
    source = make_sink(catalog, "db.a")
    table = make_sink(catalog, "db.t")
    of_source = table_source("db.a").to_json() | {"uuid": source.uuid}
    commit_batch(table, "job", 0, {**entry("job", 0, lineage(0)), "sources": [of_source]})
    feed(catalog)
    catalog.rename_table("db.t", "db.u")
    catalog.rename_table("db.a", "other.b")
    assert [(row["sink_table"], row["source_table"]) for row in known_edges(catalog).to_pylist()] == [
        ("db.u", "other.b")
    ]

    feed(catalog)

    assert system_rows(catalog, "sink_job_lineage", "database", "table") == [("db", "u")]
    assert system_rows(catalog, "source_snapshot_lineage", "database", "table", "snapshot_id") == [("other", "b", 5)]
    assert system_rows(catalog, "snapshot_edges", "sink_table", "source_table") == [("db.u", "other.b")]


def test_the_lineage_of_a_dropped_table_goes_with_it(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    commit_job(table, 0, table_source("db.a"))
    commit_job(make_sink(catalog, "db.u"), 0, table_source("db.a"), job="other")
    feed(catalog)

    catalog.drop_table("db.t")

    for name in ("sink_job_lineage", "sink_snapshot_lineage"):
        assert system_rows(catalog, name, "job", "table") == [("other", "u")]
    assert known_edges(catalog)["sink_table"].to_pylist() == ["db.u"]


def test_the_rows_of_a_dropped_source_do_not_come_back(catalog: Catalog) -> None:
    source, table = make_sink(catalog, "db.a"), make_sink(catalog, "db.t")
    of_source = table_source("db.a").to_json() | {"uuid": source.uuid}
    commit_batch(table, "job", 0, {**entry("job", 0, lineage(0)), "sources": [of_source]})
    feed(catalog)
    assert system_rows(catalog, "source_job_lineage", "table") == [("a",)]

    catalog.drop_table("db.a")
    rebuild(catalog)

    for name in ("source_job_lineage", "source_snapshot_lineage"):
        assert system_rows(catalog, name, "table") == []
    assert known_edges(catalog)["source_table"].to_pylist() == ["db.a"]


def test_an_expiry_does_not_feed_the_rows_of_a_dropped_source(catalog: Catalog) -> None:
    source, table = make_sink(catalog, "db.a"), make_sink(catalog, "db.t")
    feed(catalog)
    of_source = table_source("db.a").to_json() | {"uuid": source.uuid}
    for batch in range(2):
        commit_batch(table, "job", batch, {**entry("job", batch, lineage(batch)), "sources": [of_source]})
    catalog.drop_table("db.a")

    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    feed(catalog)

    for name in ("source_job_lineage", "source_snapshot_lineage"):
        assert system_rows(catalog, name, "table") == []
    assert known_edges(catalog)["source_table"].to_pylist() == ["db.a", "db.a"]


def test_a_drop_that_was_cut_off_is_finished_by_the_next_feed(catalog: Catalog) -> None:
    kept, table = make_sink(catalog, "db.kept"), make_sink(catalog, "db.t")
    for one in (kept, table):
        commit_job(one, 0, table_source("db.a"), job=one.name)
    feed(catalog)
    database = SystemDatabase.of(catalog)
    for one in (kept, table):  # both drops began; one has deleted the files
        database.note_drop(one.uuid, "db", "t")
    shutil.rmtree(table.path)

    feed(catalog)

    assert system_rows(catalog, "sink_snapshot_lineage", "table") == [("kept",)]
    assert known_edges(catalog)["sink_table"].to_pylist() == ["db.kept"]


def test_a_rolled_back_table_is_fed_again(catalog: Catalog) -> None:
    table = make_sink(catalog, "db.t")
    for batch in range(3):
        commit_job(table, batch, table_source(end=batch))
    feed(catalog)
    table.upkeep.rollback(snapshot_id=1, force=True)
    again = commit_job(table, 3, table_source(end=30))
    assert again.id == 2

    feed(catalog)

    found = [(row["sink_snapshot"], row["source_to"]) for row in known_edges(catalog).to_pylist()]
    assert sorted(found) == [(1, 0), (2, 1), (2, 30), (3, 2)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_table_that_another_engine_rolled_back_is_fed_again(catalog: Catalog, count: int) -> None:
    table = make_sink(catalog, "db.t")
    for batch in range(3):
        commit_job(table, batch, table_source(end=batch))
    feed(catalog)
    folder = Path(table.path) / "snapshot"
    for number in (3, 2):
        (folder / f"snapshot-{number}").unlink()
    (folder / "LATEST").write_text("1")
    for batch in range(count):
        commit_job(table, batch, table_source(end=30 + batch), job="again")

    feed(catalog)

    found = [row for row in known_edges(catalog).to_pylist() if row["job"] == "again"]
    assert sorted(row["source_to"] for row in found) == [30 + batch for batch in range(count)]


def test_a_damaged_table_keeps_no_other_from_being_fed(catalog: Catalog) -> None:
    damaged, whole = make_sink(catalog, "db.a"), make_sink(catalog, "db.t")
    for table in (damaged, whole):
        commit_job(table, 0, table_source("db.x"), job=table.name)
    (Path(damaged.path) / "snapshot" / "snapshot-1").write_text("{")

    with pytest.raises(CorruptDataError, match="snapshot-1"):
        feed(catalog)

    assert system_rows(catalog, "sink_snapshot_lineage", "job") == [("db.t",)]
