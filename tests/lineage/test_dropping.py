"""The drop of a table that is cut off anywhere, and what is left of its lineage."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, NotFoundError
from lakelog.lineage import feed, known_edges
from lakelog.warehouse.lineage_tables import CATALOG_OPTIONS, STORED_TABLES
from lakelog.warehouse.system_database import SystemDatabase
from tests.filestore.processes.zygote import zygote
from tests.support.examples import in_full
from tests.support.lineage.lineage_records import (
    LINEAGE_ON,
    commit_batch,
    commit_job,
    entry,
    lineage,
    make_sink,
    sorted_rows,
    system_rows,
    table_source,
)

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CHANGES = 60  # of files, by a drop, at least
EVERY = 1_000 // in_full(1_000) | 1  # of the changes: with `--full` a part of them, odd and even ones


def fill(catalog: Catalog) -> None:
    """A table db.t, made from db.a; db.u is made from db.t. All of it is fed."""
    table = make_sink(catalog, "db.t")
    table.write(pa.table({"id": [1, 2]}))
    commit_job(table, 0, table_source("db.a"))
    of_table = table_source("db.t").to_json() | {"uuid": table.uuid}
    other = make_sink(catalog, "db.u")
    commit_batch(other, "other", 0, {**entry("other", 0, lineage(0, job="other")), "sources": [of_table]})
    feed(catalog)


def names_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def stored(catalog: Catalog) -> dict[str, list[tuple[object, ...]]]:
    """All that the system tables hold of lineage, but for when it was first seen."""
    return {
        name: system_rows(catalog, name, *(one for one in table.columns if one != "create_time"))
        for name, table in STORED_TABLES.items()
        if table is not CATALOG_OPTIONS
    }


def left_of(catalog: Catalog, uuid: str) -> list[str]:
    """The system tables that have rows of a table."""
    database = SystemDatabase.of(catalog)
    tables = [table for table in STORED_TABLES.values() if table.uuid_column is not None]
    return [one.name for one in tables if uuid in database.rows(one)[str(one.uuid_column)].to_pylist()]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_drop_that_is_killed_before_any_change_of_a_file_is_finished(tmp_path: Path) -> None:
    made = Catalog(tmp_path / "made", options=LINEAGE_ON)
    fill(made)
    uuid, edges = made.load_table("db.t").uuid, sorted_rows(known_edges(made))
    whole = Catalog(shutil.copytree(made.warehouse, tmp_path / "whole"), options=LINEAGE_ON)
    whole.drop_table("db.t")
    feed(whole)
    assert left_of(whole, uuid) == []
    seen: set[str] = set()
    with zygote("tests.support.jobs.dropping_process") as forks:
        for dies_at in range(1, 1_000, EVERY):
            killed = Catalog(shutil.copytree(made.warehouse, tmp_path / str(dies_at)), options=LINEAGE_ON)
            status = forks.wait(forks.fork(killed.warehouse, "db.t", dies_at))
            if status == 0:
                break
            assert status == signal.SIGKILL
            if "t" in killed.list_tables("db"):
                seen.add("there")
                feed(killed)
                assert sorted_rows(known_edges(killed)) == edges
                killed.drop_table("db.t")
            elif dies_at % 2:
                seen.add("a drop")
                killed.drop_table("db.t", if_exists=True)
            else:
                seen.add("a feed")
                feed(killed)
            assert left_of(killed, uuid) == [], dies_at
            killed.drop_table("db.t", if_exists=True)
            assert names_in(tmp_path / str(dies_at) / "db.db") == {"u"}, dies_at
            feed(killed)
            assert stored(killed) == stored(whole), dies_at
            shutil.rmtree(killed.warehouse)
    assert dies_at > CHANGES
    assert seen == {"there", "a drop", "a feed"}


def test_what_a_cut_off_drop_has_left_is_deleted_by_the_next_one(catalog: Catalog) -> None:
    fill(catalog)
    table = catalog.load_table("db.t")
    SystemDatabase.of(catalog).note_drop(table.uuid, "db", "t")
    folder = Path(table.path)
    folder.rename(folder.with_name(f".t-{UUID}"))

    catalog.drop_table("db.t")

    assert names_in(folder.parent) == {"u"}
    assert left_of(catalog, table.uuid) == []
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.t")


def test_a_drop_leaves_what_other_drops_have_left(catalog: Catalog) -> None:
    fill(catalog)
    folder = Path(catalog.load_table("db.t").path)
    others = {f".tt-{UUID}", f".u-{UUID}", ".t-1"}
    for name in others:
        folder.with_name(name).mkdir()
    folder.with_name(f".t-{UUID}").mkdir()

    catalog.drop_table("db.t")

    assert names_in(folder.parent) == {"u", *others}


def test_a_table_that_cannot_be_read_hinders_no_drop_of_another(catalog: Catalog) -> None:
    fill(catalog)
    uuid = catalog.load_table("db.t").uuid
    (Path(catalog.load_table("db.u").path) / "schema" / "schema-0").write_text("{")

    catalog.drop_table("db.t")

    assert left_of(catalog, uuid) == []


def test_the_tables_of_a_database_that_is_dropped_meanwhile_are_passed_over(catalog: Catalog) -> None:
    for name in ("a.t", "b.t", "c.t"):
        make_sink(catalog, name)
    tables = catalog.stores()
    found = [next(tables)[0]]
    catalog.drop_database("b", cascade=True)

    assert found + [database for database, _, _ in tables] == ["a", "c"]
