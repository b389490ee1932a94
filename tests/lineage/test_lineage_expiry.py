"""Snapshots whose lineage was not fed do not expire; an expiry feeds first."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table, open_table
from lakelog.catalog.system.table_lineage import TableLineage
from lakelog.common.errors import UnavailableError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from lakelog.lineage import feed, jobs, known_edges
from lakelog.lineage.tables.progress import hold_lineage
from tests.support.lineage.lineage_records import (
    LINEAGE_ON,
    commit_job,
    files_of,
    make_sink,
    sorted_rows,
    system_rows,
    table_source,
)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table of which snapshot 1 was fed, and 2 to 4 were not."""
    made = make_sink(catalog)
    commit_job(made, 0, table_source(end=0))
    feed(catalog)
    for batch in range(1, 4):
        commit_job(made, batch, table_source(end=batch))
    return made


def next_unfed(table: Table) -> int | None:
    return next((one.next_snapshot for one in table.consumers.list() if one.consumer_id == "lakelog-lineage"), None)


def test_an_expiry_feeds_before_it_deletes(catalog: Catalog, table: Table) -> None:
    before = sorted_rows(known_edges(catalog))
    assert next_unfed(table) == 2

    assert table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)

    assert next_unfed(table) == 5
    assert sorted_rows(known_edges(catalog)) == before
    assert len(system_rows(catalog, "snapshot_edges")) == 4


def test_an_expiry_feeds_a_table_that_was_never_fed(catalog: Catalog, table: Table) -> None:
    other = make_sink(catalog, "db.u")
    for batch in range(2):
        commit_job(other, batch, table_source(end=batch))

    assert other.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1,)

    assert len(system_rows(catalog, "snapshot_edges", "sink_table")) == 3


def test_an_expiry_where_lineage_is_not_recorded_makes_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    made = make_sink(catalog)
    for batch in range(2):
        commit_job(made, batch, table_source(end=batch))

    assert made.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1,)

    assert catalog.list_databases() == ["db"]
    assert next_unfed(made) is None


def test_an_expiry_that_deletes_nothing_that_was_not_fed_feeds_nothing(table: Table) -> None:
    assert table.upkeep.expire_snapshots(retain_max=3, retain_min=1).snapshot_ids == (1,)
    assert next_unfed(table) == 2


def test_a_table_that_was_opened_without_a_catalog_keeps_the_snapshots(table: Table) -> None:
    retention = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
    opened = FileStoreTable.open(table.path)

    assert expire_snapshots(opened, retention=retention).snapshot_ids == (1,)
    assert next_unfed(table) == 2


class FailingLineage(TableLineage):
    def take(self, table: TableStore) -> None:
        raise UnavailableError("the store does not answer")


def test_a_feed_that_fails_keeps_the_snapshots(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table = table._of(replace(table.store, lineage_keeper=FailingLineage()))

    assert table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1,)
    assert "its snapshots stay: the store does not answer" in caplog.text


def test_a_writers_own_expiry_feeds_too(catalog: Catalog) -> None:
    retained = {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    made = catalog.create_table("db.t", schema="id BIGINT", options=retained)
    commit_job(made, 0, table_source(end=0))
    feed(catalog)
    commit_job(made, 1, table_source(end=1))
    for _ in range(2):
        made.write(pa.table({"id": [1]}))

    assert [snapshot.id for snapshot in made.snapshots()] in ([3, 4], [4, 3])
    assert len(system_rows(catalog, "snapshot_edges")) == 2


def test_lineage_that_is_switched_off_holds_nothing(catalog: Catalog, table: Table) -> None:
    off = Catalog(catalog.warehouse, options=dict.fromkeys(LINEAGE_ON, "false"))
    assert feed(off).batches == 0

    assert next_unfed(table) is None
    with pytest.raises(InvalidRequestError, match="both table-lineage and data-lineage are false"):
        feed(Catalog(catalog.warehouse))


def test_an_expiry_of_a_table_whose_lineage_is_switched_off_holds_nothing(catalog: Catalog, table: Table) -> None:
    feed(Catalog(catalog.warehouse, options=dict.fromkeys(LINEAGE_ON, "false")))
    table.store.file_io.write_bytes(f"{table.path}/consumer/consumer-lakelog-lineage", b'{"nextSnapshot": 2}')

    assert table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)


def test_a_writer_holds_its_snapshots_where_lineage_is_recorded(catalog: Catalog) -> None:
    made = make_sink(catalog)
    hold_lineage(files_of(made))
    assert next_unfed(made) is None
    feed(catalog)

    hold_lineage(files_of(made))

    assert next_unfed(made) == 1


def test_no_reader_takes_the_name_of_the_consumer(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="is lakelog's own: it keeps the snapshots whose lineage"):
        table.consumers.reset("lakelog-lineage", 1)


def test_a_consumer_of_lineage_has_no_age(catalog: Catalog) -> None:
    made = catalog.create_table(
        "db.aged", schema="id BIGINT", options={"bucket": "1", "consumer.expiration-time": "1 ms"}
    )
    commit_job(made, 0, table_source())
    feed(catalog)

    assert made.upkeep.expire_snapshots(retain_max=1, retain_min=1).consumers == ()


def test_a_program_that_imports_the_catalog_alone_feeds_before_it_expires(catalog: Catalog, table: Table) -> None:
    program = f"""
import sys
from lakelog.catalog import Catalog
table = Catalog({catalog.warehouse!r}).load_table("{table.identifier}")
assert not [name for name in sys.modules if name.startswith("lakelog.lineage")]
print(table.upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)

    assert ended.stdout == "(1, 2, 3)\n"
    assert len(system_rows(catalog, "snapshot_edges")) == 4


OTHER_PROGRAM = """
import sys
from lakelog.catalog import Catalog
print(Catalog(sys.argv[1]).load_table("db.t").upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids)
"""


@pytest.mark.parametrize("option", ["data-lineage", "table-lineage"])
@pytest.mark.parametrize("by", ["same handle", "opened by its folder", "catalog without the option", "another program"])
def test_an_expiry_before_the_first_feed_loses_no_lineage(tmp_path: Path, option: str, by: str) -> None:
    catalog = Catalog(tmp_path, options={option: "true"})
    table = make_sink(catalog)
    for batch in range(4):
        commit_job(table, batch, table_source(end=batch))
    before = sorted_rows(known_edges(catalog))
    assert len(before) == 4

    if by == "another program":
        command = [sys.executable, "-c", OTHER_PROGRAM, catalog.warehouse]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert ended.stdout == "(1, 2, 3)\n"
    else:
        handles = {
            "same handle": table,
            "opened by its folder": open_table(table.path, options={option: "true"}),
            "catalog without the option": Catalog(tmp_path).load_table("db.t"),
        }
        assert handles[by].upkeep.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2, 3)

    if option == "data-lineage":
        assert sorted_rows(known_edges(catalog)) == before
    else:
        assert [job.name for job in jobs(Catalog(tmp_path))] == ["job"]


def test_a_branch_of_a_handle_that_switches_lineage_on_is_held(catalog: Catalog) -> None:
    table = make_sink(catalog)
    commit_job(table, 0, table_source())
    table.branches.create("trial")
    branch = table.branch("trial")
    for batch in range(1, 4):
        commit_job(branch, batch, table_source(end=batch))
    before = sorted_rows(known_edges(catalog))

    Catalog(catalog.warehouse).load_table("db.t").branch("trial").upkeep.expire_snapshots(retain_max=1, retain_min=1)

    assert sorted_rows(known_edges(catalog)) == before
    assert len(before) == 4
    assert [snapshot.id for snapshot in branch.snapshots()] == [4]


def test_a_commit_holds_its_line_and_makes_no_system_tables(catalog: Catalog) -> None:
    table = make_sink(catalog)
    commit_job(table, 0, table_source())
    assert next_unfed(table) == 1
    assert catalog.list_databases() == ["db"]
    assert feed(catalog).batches == 1
    assert next_unfed(table) == 2


def test_a_table_that_is_only_read_makes_no_system_tables(catalog: Catalog) -> None:
    table = make_sink(catalog)
    table.write(pa.table({"id": [1]}))
    known_edges(catalog)
    table.to_arrow()

    assert catalog.list_databases() == ["db"]
    assert next_unfed(table) is None


def test_an_option_that_is_false_holds_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"data-lineage": "false"})
    table = make_sink(catalog)
    commit_job(table, 0, table_source())

    assert catalog.list_databases() == ["db"]
    assert next_unfed(table) is None


@pytest.mark.full
def test_the_command_line_feeds_before_it_expires(catalog: Catalog, table: Table) -> None:
    command = [sys.executable, "-m", "lakelog.cli", "table", "expire-snapshots", table.path]
    ended = subprocess.run(
        [*command, "--retain-max", "1", "--retain-min", "1", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert json.loads(ended.stdout)["deleted_snapshots_count"] == 3
    assert len(system_rows(catalog, "snapshot_edges")) == 4
