"""Which statements of a table with a log `tainted` takes for a mend, also beside a stream that logs wrong rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.logs.statements import logged_table
from lakelog.filestore.metadata.origins.cleared_rows import Cleared
from lakelog.filestore.metadata.origins.record import BatchLineage
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.verbs import partitions_where
from lakelog.filestore.write.changing import ChangePlan, update_plan
from lakelog.filestore.write.clearing import drop_plan, overwrite_plan, truncate_plan
from lakelog.filestore.write.row_input import row_source
from lakelog.filestore.write.table_write import Overwrite
from lakelog.lineage import feed, made_from, mended, tainted
from lakelog.protocol.state.steps import Step
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.lineage.lineage_jobs import read_of
from tests.support.logs.local_writer import LocalWriter

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SCHEMA = pa.schema(
    [pa.field("part", pa.int64(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
)


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    """A warehouse whose lineage is fed before it is deleted."""
    found = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers, options={"data-lineage": "true"})
    feed(found)
    return found


def rows(*ids: int, part: int = 0) -> pa.Table:
    return pa.table({"part": [part] * len(ids), "id": list(ids), "v": list(ids)}, schema=SCHEMA)


def make(catalog: Catalog, name: str, **options: str) -> Table:
    given = {"bucket": "2", "write-only": "true", "snapshot.num-retained.min": "1"} | options
    return catalog.create_table(
        f"db.{name}", schema=SCHEMA, primary_keys=["part", "id"], partition_keys=["part"], options=given
    )


@pytest.fixture
def tables(catalog: Catalog) -> tuple[Table, Table]:
    """Table t has a log, and is made of a, whose snapshot 2 is wrong: its rows are in partition 1."""
    a, t = make(catalog, "a"), make(catalog, "t", **{"log.system": "kafka"})
    a.write(rows(1))
    t.write(rows(100))
    a.write(rows(2, part=1))
    made_from(t, "db.a@2", job="copy").write(rows(2, part=1))
    return a, t


def holds_wrong_rows(catalog: Catalog) -> bool:
    """Whether the table with the log holds rows that came from the wrong snapshot."""
    found = {row["table"]: row["holds_tainted_rows"] for row in tainted(catalog, "db.a", 2).tables.to_pylist()}
    return bool(found["db.t"])


def overwrite(table: Table) -> None:
    table.write(rows(9), mode="overwrite")


def truncate(table: Table) -> None:
    table.truncate()


def overwrite_of_the_written_partition(table: Table) -> None:
    table.write(rows(9, part=1), mode="overwrite-partitions")


def overwrite_of_chosen_partitions(table: Table) -> None:
    table.write(rows(9, part=1), mode="overwrite", where="part = 1")


def drop_of_the_partition(table: Table) -> None:
    table.upkeep.drop_partitions("part = 1")


def restore(table: Table) -> None:
    table.restore(snapshot_id=1)


MENDS = [
    overwrite,
    truncate,
    overwrite_of_the_written_partition,
    overwrite_of_chosen_partitions,
    drop_of_the_partition,
    restore,
]


@pytest.mark.parametrize("mend", MENDS)
def test_a_mend_through_the_log_is_believed_also_when_it_has_expired(
    catalog: Catalog, tables: tuple[Table, Table], mend: Callable[[Table], None]
) -> None:
    _, t = tables
    assert holds_wrong_rows(catalog)

    mend(t)
    assert not holds_wrong_rows(catalog)

    t.write(rows(11))
    t.upkeep.expire_snapshots(retain_min=1, retain_max=1)
    # Of a wrong snapshot that has expired it is not known any more which partitions it wrote.
    assert holds_wrong_rows(catalog) == (mend not in {overwrite, truncate, restore})


def delete(table: Table) -> None:
    table.delete("part = 1")


def update(table: Table) -> None:
    table.update({"v": 0}, where="part = 1")


def overwrite_of_another_partition(table: Table) -> None:
    table.write(rows(9, part=0), mode="overwrite-partitions")


def overwrite_of_other_partitions(table: Table) -> None:
    table.write(rows(9, part=0), mode="overwrite", where="part = 0")


@pytest.mark.parametrize("change", [delete, update, overwrite_of_another_partition, overwrite_of_other_partitions])
def test_other_statements_are_no_mend_until_a_person_says_so(
    catalog: Catalog, tables: tuple[Table, Table], change: Callable[[Table], None]
) -> None:
    _, t = tables

    change(t)
    assert holds_wrong_rows(catalog)

    mended(t, "db.a@2", by="ann")
    assert not holds_wrong_rows(catalog)
    t.write(rows(12))  # log and files go on behind it
    assert 12 in t.to_arrow()["id"].to_pylist()


def test_a_truncate_of_an_append_only_table_with_a_log_is_believed(catalog: Catalog) -> None:
    a = make(catalog, "a")
    options = {"bucket": "2", "bucket-key": "id", "log.system": "kafka", "write-only": "true"}
    t = catalog.create_table("db.t", schema=SCHEMA, options=options)
    a.write(rows(1))
    a.write(rows(2))
    made_from(t, "db.a@2", job="copy").write(rows(2))

    t.truncate()

    assert not holds_wrong_rows(catalog)


def stream_of_wrong_rows(a: Table, t: Table, *, part: int) -> None:
    """A batch of a stream that has read the wrong snapshot."""
    lineage = BatchLineage(job="one", query_id="one", batch_id=0, sources=[read_of(a, start=1, end=2)])
    LocalWriter(open_table(t.path), "one", lineage=lineage.to_json()).write(0, rows(77, part=part), None)


def replaced(table: Table) -> ChangePlan:
    return overwrite_plan(table.store, row_source(rows(9)), None, Overwrite.EVERYTHING)


def replaced_partition(table: Table) -> ChangePlan:
    return overwrite_plan(table.store, row_source(rows(9, part=1)), None, Overwrite.WRITTEN_PARTITIONS)


def truncated(table: Table) -> ChangePlan:
    return truncate_plan(table.store)


def dropped(table: Table) -> ChangePlan:
    return drop_plan(table.store, partitions_where(table.store, "part = 1").matching)


def run_beside(table: Table, plan: ChangePlan, beside: Callable[[], None]) -> None:
    """Run a statement; once it is prepared, and before it is logged, another writer comes."""

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.AFTER_PREPARED_COMMIT:
            beside()

    replace(logged_table(table), observe=observe).run("OVERWRITE", plan, commits_nothing=True)


@pytest.mark.parametrize("planned", [replaced, truncated, replaced_partition, dropped])
def test_rows_that_a_stream_has_logged_behind_the_base_of_a_statement_stay_tainted(
    catalog: Catalog, tables: tuple[Table, Table], planned: Callable[[Table], ChangePlan]
) -> None:
    a, t = tables

    run_beside(t, planned(t), lambda: stream_of_wrong_rows(a, t, part=1))

    assert 77 in t.to_arrow()["id"].to_pylist()
    assert holds_wrong_rows(catalog)
    drop_of_the_partition(t)
    assert not holds_wrong_rows(catalog)


def test_rows_that_a_stream_has_logged_behind_the_base_of_a_restore_stay_tainted(
    catalog: Catalog, tables: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, t = tables
    logged = logged_table(t)

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.AFTER_PREPARED_COMMIT:
            stream_of_wrong_rows(a, t, part=0)

    monkeypatch.setattr("lakelog.catalog.logs.statements.logged_table", lambda _: replace(logged, observe=observe))
    t.restore(snapshot_id=1)
    monkeypatch.undo()

    assert sorted(t.to_arrow()["id"].to_pylist()) == [77, 100]
    assert holds_wrong_rows(catalog)


def test_a_statement_that_comes_with_another_one_in_one_snapshot_is_no_mend(
    catalog: Catalog, tables: tuple[Table, Table]
) -> None:
    _, t = tables

    def die(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.AFTER_COMMIT:
            raise InjectedCrash

    def updated() -> None:
        with pytest.raises(InjectedCrash):
            replace(logged_table(t), observe=die).run("UPDATE", update_plan(t.store, {"v": 5}, None))

    run_beside(t, replaced(t), updated)

    newest = t.snapshot()
    assert newest is not None
    (event,) = Cleared.parsed(newest.properties[PropertyKey.CLEARED])
    assert event.base == (0, None)
    assert holds_wrong_rows(catalog)
