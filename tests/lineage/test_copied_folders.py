"""A copy of a table's folder in its warehouse has the uuid of the table, and none of its lineage."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table, open_table
from lakelog.cli.main import main
from lakelog.lineage import (
    downstream,
    feed,
    jobs,
    known_edges,
    lineage_graph,
    rebuild,
    tainted,
    unreadable_tables,
    upstream,
)
from lakelog.lineage.tables.warehouse_lineage import known_fields
from lakelog.warehouse.system_database import SystemDatabase
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, make_sink, system_rows, table_source
from tests.support.tables.small_tables import altered_by_others


def copied(catalog: Catalog, source: str = "t", target: str = "copy") -> None:
    """`cp -a`: the times of the files do not say which folder was there first."""
    folder = Path(catalog.warehouse, "db.db")
    shutil.copytree(folder / source, folder / target)


def sinks(catalog: Catalog) -> set[str]:
    """The tables that the system tables name as written."""
    return {name for (name,) in system_rows(catalog, "snapshot_edges", "sink_table")}


def batches(catalog: Catalog) -> list[tuple[str, int, int]]:
    return system_rows(catalog, "snapshot_edges", "sink_table", "sink_snapshot", "source_number")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table of two batches, of which nothing is fed."""
    table = make_sink(catalog, "db.t")
    for batch in range(2):
        commit_job(table, batch, table_source(start=batch, end=batch + 1))
    return table


def test_the_lineage_of_a_table_stays_its_own_beside_a_copy(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    feed(catalog)
    assert batches(catalog) == [(table.name, 1, 0), (table.name, 2, 0)]


def test_a_copy_is_left_out_of_every_listing_and_named(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    for ask in (known_edges, known_fields, lineage_graph, jobs):
        with unreadable_tables(logs=False) as left_out:
            ask(catalog)
        assert [one.name for one in left_out] == ["db.copy"]
    edges = known_edges(catalog)
    assert set(edges["sink_table"].to_pylist()) == {"db.t"}
    assert [(job.sinks, job.batches) for job in jobs(catalog)] == [(("db.t",), 2)]
    assert upstream(catalog, table.name, 2)["sink_table"].to_pylist() == ["db.t"]
    assert downstream(catalog, table.name, 1).num_rows == 0
    assert set(tainted(catalog, table.name, 1).tables["table"].to_pylist()) == {"db.t"}
    assert rebuild(catalog).kept == {}
    assert sinks(catalog) == {"db.t"}


def test_a_question_about_a_copy_names_its_original_and_the_way_out(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    with pytest.raises(InvalidRequestError, match=r"copy is a copy of db\.t, .*`lakelog table new-identity "):
        upstream(catalog, "db.copy", 1)


def test_a_feed_with_a_copy_warns_and_does_not_fail(
    catalog: Catalog, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    copied(catalog)
    with caplog.at_level(logging.WARNING, "lakelog.lineage"):
        assert feed(catalog).batches == 2
    assert "the lineage of db.copy is not fed" in caplog.text


def test_a_copy_whose_snapshots_expire_writes_no_lineage_and_holds_none(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    commit_job(table, 2, table_source(start=2, end=3))
    copied(catalog)
    copy = catalog.load_table("db.copy")
    commit_job(copy, 3)
    assert copy.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)
    assert sinks(catalog) == {"db.t"}
    assert len(batches(catalog)) == 2


def test_a_table_that_was_renamed_is_the_original_of_its_copy(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    catalog.rename_table("db.t", "db.u")
    feed(catalog)
    assert sinks(catalog) == {"db.u"}
    catalog.rename_table("db.copy", "db.a")
    feed(catalog)
    assert sinks(catalog) == {"db.u"}


def test_a_table_without_a_place_is_found_by_the_name_that_was_fed(catalog: Catalog, table: Table) -> None:
    schema = Path(table.path, "schema", "schema-0")
    schema.write_text(altered_by_others(table.schema, **{"lakelog.place": ""}))
    feed(catalog)
    copied(catalog)
    commit_job(table, 2, table_source(start=2, end=3))
    feed(catalog)
    assert sinks(catalog) == {"db.t"}


def test_the_drop_of_a_copy_leaves_the_lineage_of_its_original(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    feed(catalog)
    catalog.drop_table("db.copy")
    feed(catalog)
    assert batches(catalog) == [("db.t", 1, 0), ("db.t", 2, 0)]


def test_the_drop_of_a_table_takes_its_lineage_though_a_copy_stays(catalog: Catalog, table: Table) -> None:
    feed(catalog)
    copied(catalog)
    catalog.drop_table("db.t")
    assert sinks(catalog) == set()
    feed(catalog)
    assert sinks(catalog) == set()


def test_a_copy_with_an_identity_of_its_own_has_its_own_lineage(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    open_table(Path(catalog.warehouse, "db.db", "copy")).upkeep.new_identity()
    commit_job(catalog.load_table("db.copy"), 2, table_source(start=2, end=3))
    feed(catalog)
    assert sinks(catalog) == {"db.t", "db.copy"}


def test_a_warehouse_that_is_mounted_elsewhere_keeps_apart_table_and_copy(catalog: Catalog, table: Table) -> None:
    copied(catalog)
    moved = Path(catalog.warehouse).rename(Path(catalog.warehouse).with_name("moved"))
    there = Catalog(moved, options=LINEAGE_ON)
    feed(there)
    assert sinks(there) == {"db.t"}


def test_a_copy_to_a_second_warehouse_has_its_lineage_there(catalog: Catalog, table: Table) -> None:
    target = Path(catalog.warehouse).with_name("second")
    shutil.copytree(catalog.warehouse, target)
    there = Catalog(target, options=LINEAGE_ON)
    feed(there)
    assert batches(there) == [("db.t", 1, 0), ("db.t", 2, 0)]
    assert SystemDatabase.of(catalog).is_made() is False


def test_the_command_line_names_a_copy_and_answers(
    catalog: Catalog, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(catalog)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["lineage", "show", "db.t", "-w", catalog.warehouse])
    assert "the lineage of db.copy is left out: " in capsys.readouterr().err
