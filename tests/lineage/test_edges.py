"""What the snapshots of a table say of where its batches come from: one row a source, in the snapshot that is whole."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import (
    ForeignSource,
    LogRange,
    ReadMode,
    TableSource,
    TableVersion,
    UnknownSource,
)
from lakelog.lineage.tables.edge_columns import EDGE_SCHEMA
from tests.support.lineage.lineage_records import commit_batch, commit_job, commit_text, entry, lineage, table_source
from tests.support.lineage.living_edges import edges_of


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path).create_table("db.t", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1"})


def _rows(table: Table) -> list[dict[str, object]]:
    found = edges_of(table)
    assert found.schema == EDGE_SCHEMA
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def test_a_table_without_snapshots_has_no_edges(table: Table) -> None:
    assert _rows(table) == []


def test_a_source_is_one_row_with_all_that_the_record_says(table: Table) -> None:
    source = TableSource(
        table="db.a",
        uuid="ua",
        path="/lake/db.db/a",
        branch="b",
        mode=ReadMode.STREAM,
        start=TableVersion(snapshot_id=3, commit="c3"),
        end=TableVersion(snapshot_id=5, commit="c5"),
        is_exact=True,
        log=LogRange(topic_id="t", start={0: 1}, end={0: 9}),
    )
    snapshot = commit_batch(table, "user", 7, entry("user", 7, lineage(7, source)))

    (row,) = _rows(table)

    times = edges_of(table)["sink_time"].cast("int64").to_pylist()
    assert times == [snapshot.time_millis]
    assert {key: value for key, value in row.items() if value is not None and key != "sink_time"} == {
        "job": "job",
        "query_id": "query-1",
        "run_id": "run-1",
        "sink_uuid": table.uuid,
        "sink_table": "db.t",
        "sink_snapshot": snapshot.id,
        "sink_commit": snapshot.uuid,
        "user": "user",
        "identifier": 7,
        "barrier_id": 7,
        "source_kind": "table",
        "source_uuid": "ua",
        "source_table": "db.a",
        "source_branch": "b",
        "source_path": "/lake/db.db/a",
        "mode": "stream",
        "source_from": 3,
        "source_from_commit": "c3",
        "source_to": 5,
        "source_to_commit": "c5",
        "exact": True,
        "source_log": '{"topic": "t", "from": {"0": 1}, "to": {"0": 9}}',
    }


def test_each_source_of_a_batch_is_a_row(table: Table) -> None:
    foreign = ForeignSource(format="kafka", name="orders", start="{}", end='{"orders":{"0":4}}')
    commit_job(table, 0, table_source("db.a"), table_source("db.b"), foreign, UnknownSource(why="an RDD"))

    rows = _rows(table)

    assert [(row["source_kind"], row["source_table"], row["foreign_to"], row["why"]) for row in rows] == [
        ("table", "db.a", None, None),
        ("table", "db.b", None, None),
        ("foreign", "kafka:orders", '{"orders":{"0":4}}', None),
        ("unknown", None, None, "an RDD"),
    ]


def test_a_batch_without_sources_is_a_row_without_a_source(table: Table) -> None:
    commit_job(table, 4)

    (row,) = _rows(table)

    assert (row["job"], row["barrier_id"], row["sink_snapshot"], row["source_kind"]) == ("job", 4, 1, None)


def test_a_write_that_records_nothing_has_no_edge(table: Table) -> None:
    table.write(pa.table({"id": [1]}))

    assert _rows(table) == []


def test_a_batch_taken_in_by_parts_has_its_edges_in_the_snapshot_where_it_is_whole(table: Table) -> None:
    part = entry("a", 12, lineage(12, table_source()))
    commit_batch(table, "b", 4, entry("b", 4, lineage(4, job="other")), part)
    commit_batch(table, "c", 5, entry("c", 5, lineage(5, job="third")), part)
    whole = commit_batch(table, "a", 12, part)

    rows = [row for row in _rows(table) if row["user"] == "a"]

    assert [row["sink_snapshot"] for row in rows] == [whole.id]


def test_a_batch_of_which_only_parts_are_in_has_no_edge(table: Table) -> None:
    commit_batch(table, "a", 11, entry("a", 11, lineage(11)))
    commit_batch(table, "b", 4, entry("b", 4, lineage(4)), entry("a", 12, lineage(12, table_source())))

    assert [(row["user"], row["identifier"]) for row in _rows(table)] == [("a", 11), ("b", 4)]


def test_parts_that_read_other_states_of_a_table_are_edges_too(table: Table) -> None:
    first, second = (table_source("db.static", end=end, mode=ReadMode.BATCH) for end in (3, 4))
    commit_batch(table, "b", 4, entry("b", 4, lineage(4)), entry("a", 12, lineage(12, first, run="run-1")))
    commit_batch(table, "a", 12, entry("a", 12, lineage(12, second, run="run-2")))

    rows = [row for row in _rows(table) if row["user"] == "a"]

    assert [(row["source_to"], row["run_id"], row["sink_snapshot"]) for row in rows] == [
        (4, "run-2", 2),
        (3, "run-2", 2),
    ]


def test_a_record_that_is_not_readable_is_an_unknown_source(table: Table) -> None:
    commit_batch(table, "other", 3)
    commit_text(table, "{")

    (row,) = _rows(table)

    assert (row["user"], row["identifier"], row["sink_snapshot"], row["source_kind"]) == ("other", 3, 2, "unknown")
    assert "lakelog.lineage of snapshot 2 is not readable" in str(row["why"])


def test_a_branch_has_the_edges_of_its_own_snapshots(table: Table) -> None:
    commit_job(table, 0, table_source(end=1))
    table.branches.create("trial")
    commit_job(table, 1, table_source(end=2))
    branch = table.branch("trial")
    commit_job(branch, 1, table_source(end=3))

    rows = [(row["sink_table"], row["sink_branch"], row["sink_snapshot"], row["source_to"]) for row in _rows(table)]

    assert rows == [("db.t", None, 1, 1), ("db.t", None, 2, 2), ("db.t", "trial", 2, 3)]
    assert [(row["sink_table"], row["source_to"]) for row in _rows(branch)] == [("db.t", 3)]


def test_a_renamed_table_keeps_its_uuid(table: Table, tmp_path: Path) -> None:
    commit_job(table, 0, table_source())

    (row,) = _rows(Catalog(tmp_path).rename_table("db.t", "db.u"))

    assert (row["sink_uuid"], row["sink_table"]) == (table.uuid, "db.u")
