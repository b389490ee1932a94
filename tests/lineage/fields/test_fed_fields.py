"""The lineage of fields in the system tables, fed from the commits of tables, and gathered again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import AddColumn, Catalog, RenameColumn, Table
from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.origins.record import BatchLineage
from lakelog.lineage import delete_job, feed
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.field_store import document_path, put_document
from lakelog.lineage.records.sources import with_lineage
from lakelog.lineage.tables.feeding import feed_catalog
from lakelog.lineage.tables.warehouse_lineage import known_fields
from lakelog.warehouse.lineage_tables import FIELD_EDGES, LINEAGE_OPERATIONS, LINEAGE_RUNS, OF_FIELDS
from lakelog.warehouse.system_database import SystemDatabase

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])
ROWS = pa.table({"id": [1], "a": [2]}, schema=SCHEMA)
SOURCE = Dataset("db", "source")


def lineage(kind: EdgeKind = EdgeKind.IDENTITY, *, sql: str = "a") -> FieldLineage:
    edge = FieldEdge(SourceField(SOURCE, ("a",)), kind)
    chosen = FieldEdge(SourceField(SOURCE, ("id",)), EdgeKind.FILTER)
    fields = (OutputField(name="a", edges=frozenset([edge]), description=sql), OutputField(name="id"))
    return FieldLineage(fields=fields, dataset=frozenset([chosen]))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path / "lake", options={"data-lineage": "true"})
    for name in ("db.source", "db.target"):
        catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
    return catalog


def commit(
    table: Table, found: FieldLineage, *, job: str = "nightly", run: str = "r1", batch: int | None = None
) -> str:
    """Commit a batch that names the lineage of its fields; returns its checksum."""
    document = FieldDocument(lineage=found, ids={"a": 1, "id": 0})
    checksum = put_document(table.store, document)
    record = BatchLineage(job=job, run_id=run, batch_id=batch, fields=(checksum,))
    with_lineage(table, record).write(ROWS)
    return checksum


def rows(catalog: Catalog) -> dict[str, list[dict[str, object]]]:
    database = SystemDatabase.of(catalog)
    return {table.name: sorted(database.found(table), key=repr) for table in OF_FIELDS}


def test_batches_of_one_program_are_one_run(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    for batch in range(3):
        checksum = commit(table, lineage(), batch=batch)
    other = commit(table, lineage(EdgeKind.TRANSFORMATION, sql="a + 1"), batch=3)
    before = known_fields(catalog)
    feed(catalog)
    assert known_fields(catalog) == before
    found = {run.checksum: run for run in before.runs}
    assert found.keys() == before.documents.keys() == {checksum, other}
    assert (found[checksum].first_batch, found[checksum].last_batch) == (0, 2)
    assert (found[checksum].first_snapshot, found[checksum].last_snapshot) == (1, 3)
    assert (found[other].first_batch, found[other].last_snapshot) == (3, 4)
    assert found[other].sink == Dataset("db", "target")
    stored = rows(catalog)
    assert len(stored["lineage_operations"]) == len(stored["lineage_runs"]) == 2
    assert {(row["source_field"], row["sink_field"], row["subtype"]) for row in stored["field_edges"]} == {
        ("a", "a", "IDENTITY"),
        ("a", "a", "TRANSFORMATION"),
        ("id", "", "FILTER"),
    }
    assert {(row["field"], row["type"], row["field_id"]) for row in stored["dataset_fields"]} == {
        ("a", "BIGINT", 1),
        ("id", "BIGINT NOT NULL", 0),
    }


def test_a_later_feed_adds_to_the_run_and_a_feed_of_nothing_changes_nothing(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    commit(table, lineage(), batch=0)
    feed(catalog)
    commit(table, lineage(), batch=1)
    feed(catalog)
    (run,) = known_fields(catalog).runs
    assert (run.first_batch, run.last_batch, run.first_snapshot, run.last_snapshot) == (0, 1, 1, 2)
    database = SystemDatabase.of(catalog)
    before = {table.name: database.opened(table).snapshots.latest_id() for table in OF_FIELDS}
    feed(catalog)
    assert {table.name: database.opened(table).snapshots.latest_id() for table in OF_FIELDS} == before
    assert before[LINEAGE_OPERATIONS.name] == before[FIELD_EDGES.name] == 1
    assert before[LINEAGE_RUNS.name] == 2


def test_the_lineage_of_expired_snapshots_stays(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    checksum = commit(table, lineage(), batch=0)
    for batch in range(1, 4):
        commit(table, lineage(sql=str(batch)), batch=batch)
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    assert [one.id for one in table.snapshots()] == [4]
    known = known_fields(catalog)
    (run,) = (run for run in known.runs if run.checksum == checksum)
    assert (run.first_snapshot, run.last_snapshot) == (1, 1)
    assert known.documents[checksum].lineage == lineage()


def test_tables_and_columns_have_their_present_names(catalog: Catalog) -> None:
    commit(catalog.load_table("db.target"), lineage(), batch=0)
    feed(catalog)
    catalog.load_table("db.target").alter(RenameColumn("a", "amount"), AddColumn("b", "INT"))
    catalog.rename_table("db.target", "db.moved")
    assert [run.sink.name for run in known_fields(catalog).runs] == ["moved"]
    (found,) = (table for table in known_fields(catalog).tables if table.dataset.name == "moved")
    assert [(column.name, column.id) for column in found.columns] == [("id", 0), ("amount", 1), ("b", 2)]
    feed(catalog)
    stored = rows(catalog)
    assert {row["table"] for row in stored["lineage_runs"]} == {"moved"}
    assert {row["table"] for row in stored["dataset_fields"]} == {"moved"}
    assert {row["sink_dataset"] for row in stored["field_edges"]} == {"moved"}


def test_a_branch_has_runs_of_its_own_and_brings_them_with_its_merge(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    table.write(ROWS)
    table.branches.create("b")
    checksum = commit(catalog.load_table("db.target$branch_b"), lineage(), batch=0)
    assert [run.sink.name for run in known_fields(catalog).runs] == ["target$branch_b"]
    table.branches.replace_newer("b", force=True)
    found = {run.sink.name: run.checksum for run in known_fields(catalog).runs}
    assert found == {"target": checksum, "target$branch_b": checksum}


def test_a_merge_of_changes_brings_the_lineage_of_the_branch(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    table.write(ROWS)
    table.branches.create("b")
    branch = catalog.load_table("db.target$branch_b")
    first = commit(branch, lineage(), batch=0)
    table.branches.merge("b")
    second = commit(branch, lineage(sql="a + b"), batch=1)
    table.branches.merge("b")
    found = [(run.sink.name, run.checksum, run.first_snapshot) for run in known_fields(catalog).runs]
    assert sorted(found) == sorted(
        [("target$branch_b", first, 2), ("target", first, 2), ("target$branch_b", second, 3), ("target", second, 3)]
    )


def test_a_lost_document_costs_its_edges_alone(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    table = catalog.load_table("db.target")
    lost = commit(table, lineage(), batch=0)
    kept = commit(table, lineage(sql="other"), batch=1)
    Path(document_path(table.store, lost)).write_text("{}")
    known = known_fields(catalog)
    assert known.documents.keys() == {kept}
    assert "is no lineage of fields" in known.lost[lost]
    assert {run.checksum for run in known.runs} == {lost, kept}
    feed(catalog)
    assert {row["checksum"] for row in rows(catalog)["field_edges"]} == {kept}
    assert {row["checksum"] for row in rows(catalog)["lineage_runs"]} == {lost, kept}


def test_a_document_that_was_changed_is_not_believed(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    checksum = commit(table, lineage(), batch=0)
    other = FieldDocument(lineage=lineage(sql="something else"))
    Path(document_path(table.store, checksum)).write_text(other.to_json())
    assert f"its content has checksum {other.checksum}" in known_fields(catalog).lost[checksum]


def test_a_deleted_job_has_no_runs(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    commit(table, lineage(), job="a", batch=0)
    commit(table, lineage(sql="b"), job="b", batch=0)
    feed(catalog)
    delete_job(catalog, "a")
    assert [run.job for run in known_fields(catalog).runs] == ["b"]
    stored = rows(catalog)
    assert len(stored["lineage_operations"]) == 1
    assert {row["checksum"] for row in stored["field_edges"]} == {stored["lineage_operations"][0]["checksum"]}


def test_a_dropped_table_leaves_no_runs(catalog: Catalog) -> None:
    commit(catalog.load_table("db.target"), lineage(), batch=0)
    feed(catalog)
    catalog.drop_table("db.target")
    feed(catalog)
    assert known_fields(catalog).runs == []
    stored = rows(catalog)
    assert [stored[name] for name in ("lineage_runs", "field_edges", "dataset_fields")] == [[], [], []]


def test_a_table_that_is_gone_gets_no_document(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    catalog.drop_table("db.target")
    with pytest.raises(ConflictError, match="was dropped, renamed, or created again"):
        commit(table, lineage())
    assert not Path(table.path).exists()
    catalog.create_table("db.target", schema=SCHEMA, primary_keys=["id"])
    with pytest.raises(ConflictError, match="was dropped, renamed, or created again"):
        commit(table, lineage())
    assert not (Path(table.path) / "lakelog" / "fields").exists()


def test_the_same_program_writes_no_second_document(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    first = commit(table, lineage())
    path = Path(document_path(table.store, first))
    before = path.stat().st_mtime_ns
    turned = replace(lineage(), fields=tuple(reversed(lineage().fields)))
    assert commit(table, turned) == first
    assert path.stat().st_mtime_ns == before
    assert len(list(path.parent.iterdir())) == 1


def of_age(table: Table, days: float) -> None:
    """Date the documents of a table back."""
    for path in Path(table.path, "lakelog", "fields").iterdir():
        changed = path.stat().st_mtime - days * 86_400
        os.utime(path, (changed, changed))


def kept(table: Table) -> set[str]:
    table.upkeep.remove_orphan_files(dry_run=False)
    return {path.stem for path in Path(table.path, "lakelog", "fields").iterdir()}


def test_documents_go_when_nothing_names_them_and_they_are_old(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    tagged = commit(table, lineage(sql="tagged"))
    table.tags.create("t")
    branched = commit(table, lineage(sql="branched"))
    table.branches.create("b")
    expired, newest = commit(table, lineage(sql="expired")), commit(table, lineage(sql="newest"))
    left = put_document(table.store, FieldDocument(lineage=lineage(sql="of a batch that did not commit")))
    named = {tagged, branched, newest}
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")
    of_age(table, 29)
    assert kept(table) == named | {expired, left}
    of_age(table, 2)
    assert kept(table) == named
    assert known_fields(catalog).documents.keys() >= named | {expired}  # what was fed before the expiry stays known


def test_old_runs_go_from_the_system_tables(catalog: Catalog) -> None:
    table = catalog.load_table("db.target")
    commit(table, lineage(sql="old"), batch=0)
    feed(catalog)
    time.sleep(1.2)
    newest = commit(table, lineage(sql="new"), batch=1)
    feed(Catalog(catalog.warehouse, options={"data-lineage": "true", "field-lineage-retained": "1 s"}))
    stored = rows(catalog)
    assert [row["checksum"] for row in stored["lineage_runs"]] == [newest]
    assert [row["checksum"] for row in stored["lineage_operations"]] == [newest]
    assert {row["checksum"] for row in stored["field_edges"]} == {newest}


class FeedEndedError(Exception):
    """A feed that ends here."""


def test_a_feed_that_ends_after_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    steps = 0
    while True:
        catalog = Catalog(tmp_path / str(steps), options={"data-lineage": "true"})
        for name in ("db.source", "db.target"):
            catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
        table, left = catalog.load_table("db.target"), iter(range(steps))
        commit(table, lineage(), batch=0)
        commit(table, lineage(sql="b"), batch=1)

        def count(_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise FeedEndedError

        before = known_fields(catalog)
        try:
            feed_catalog(catalog, count)
        except FeedEndedError:
            steps += 1
        else:
            break
        assert known_fields(catalog) == before
        feed(catalog)
        assert known_fields(catalog) == before
        stored = rows(catalog)
        assert [len(stored[name]) for name in ("lineage_operations", "lineage_runs", "field_edges")] == [2, 2, 4]
    assert steps >= 8
