"""What each verb does with batches that are in the log and wait for the snapshot of an interval: none is lost."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import AddColumn, Catalog, SetOption, Table, open_table
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError
from lakelog.logstore.kafka.clients.topic import delete_topic
from lakelog.protocol.access.table_log import kafka_topic
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed, log_of_table
from tests.support.streams.planned_reader import expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

Rows = Counter[tuple[int, int]]
ALL = expected(0, 1, 2, 3)
Verb = Callable[[Catalog, Table], object]


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table with a snapshot of batch 0; the batches 1, 2 and 3 of another writer wait for theirs."""
    table = catalog.create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["id", "batch"],
        partition_keys=["batch"],
        options={"bucket": "2", "log.system": "kafka"},
    )
    write(table, 0)
    table.branches.create("before")
    writer = LocalWriter(open_table(table.path), "interval")
    for batch in (1, 2, 3):
        writer.log(batch, rows_of(batch))
    await_committed(table)
    return table


def rows_in(table: Table) -> Rows:
    """The rows that a new process reads of the newest snapshot."""
    found = open_table(table.path).to_arrow()
    return Counter(zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True))


def with_branch_rows(table: Table) -> None:
    """Give the branch rows of its own, in a partition that the table lacks."""
    table.branch("before").write(pa.table([[900], [9]], schema=SCHEMA))


def merge_branch(catalog: Catalog, table: Table) -> None:
    with_branch_rows(table)
    table.branches.merge("before")


def fast_forward(catalog: Catalog, table: Table) -> None:
    table.branches.create("now")
    table.branch("now").write(pa.table([[900], [9]], schema=SCHEMA))
    table.branches.fast_forward("now", renew_log=True)


def restore(catalog: Catalog, table: Table) -> None:
    table.restore(snapshot_id=1)


BRANCH_ROW: Rows = Counter({(900, 9): 1})
TAKES_THEM_IN: dict[str, tuple[Verb, Rows]] = {
    "write": (lambda _, table: table.write(pa.table([[900], [9]], schema=SCHEMA)), ALL + BRANCH_ROW),
    "delete": (lambda _, table: table.delete("batch = 2"), expected(0, 1, 3)),
    "truncate": (lambda _, table: table.truncate(), Counter()),
    "drop_partitions": (lambda _, table: table.upkeep.drop_partitions("batch = 3"), expected(0, 1, 2)),
    "settle": (lambda _, table: table.log_store.settle(), ALL),
    "restore": (restore, expected(0)),
    "rescale": (lambda _, table: table.upkeep.rescale(3), ALL),
    "renew": (lambda _, table: table.log_store.renew(force=True), ALL),
    "remove": (lambda _, table: table.log_store.remove(force=True), ALL),
    "new_identity": (lambda _, table: table.upkeep.new_identity(), ALL),
    "tags.create": (lambda _, table: table.tags.create("now"), ALL),
    "branches.create": (lambda _, table: table.branches.create("now"), ALL),
    "branches.merge": (merge_branch, ALL + BRANCH_ROW),
    "branches.fast_forward": (fast_forward, ALL + BRANCH_ROW),
}
WORKS_BESIDE_THEM: dict[str, Verb] = {
    "compact": lambda _, table: table.compact(full=True),
    "expire_snapshots": lambda _, table: table.upkeep.expire_snapshots(retain_max=1, retain_min=1),
    "remove_orphan_files": lambda _, table: table.upkeep.remove_orphan_files(
        older_than="0 s", dry_run=False, allow_young=True
    ),
    "alter": lambda _, table: table.alter(SetOption("snapshot.time-retained", "2 d"), AddColumn("note", "STRING")),
    "tags.create of an older snapshot": lambda _, table: table.tags.create("one", snapshot_id=1),
}


@pytest.mark.parametrize("name", TAKES_THEM_IN)
def test_a_verb_of_the_newest_state_takes_waiting_batches_in(catalog: Catalog, table: Table, name: str) -> None:
    verb, rows = TAKES_THEM_IN[name]

    verb(catalog, table)

    assert rows_in(table) == rows


@pytest.mark.parametrize("name", WORKS_BESIDE_THEM)
def test_upkeep_beside_waiting_batches_leaves_them_to_their_snapshot(catalog: Catalog, table: Table, name: str) -> None:
    WORKS_BESIDE_THEM[name](catalog, table)

    assert rows_in(table) == expected(0)
    open_table(table.path).log_store.settle()
    assert rows_in(table) == ALL
    assert open_table(table.path).log_store.verify().is_equal


def test_a_renamed_table_has_them(catalog: Catalog, table: Table) -> None:
    renamed = catalog.rename_table("db.t", "db.renamed")

    assert rows_in(renamed) == ALL
    writer = LocalWriter(open_table(renamed.path), "interval")
    writer.log(4, rows_of(4))
    writer.take_in()
    assert rows_in(renamed) == ALL + expected(4)


def test_partitions_that_wait_expire_too(catalog: Catalog) -> None:
    days = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    table = catalog.create_table(
        "db.d",
        schema=days,
        primary_keys=["id", "day"],
        partition_keys=["day"],
        options={"bucket": "2", "log.system": "kafka", "partition.expiration-time": "30 d"},
    )
    writer = LocalWriter(open_table(table.path), "interval")
    writer.log(0, pa.table([[1, 2], ["2020-01-01", "9999-01-01"]], schema=days))
    await_committed(table)

    table.upkeep.expire_partitions()

    assert open_table(table.path).to_arrow()["day"].to_pylist() == ["9999-01-01"]


def test_without_its_topic_they_are_named_before_a_verb_leaves_them_out(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    delete_topic(kafka_topic(log_of_table(table)))
    table = open_table(table.path)

    for verb in (table.upkeep.new_identity, table.log_store.renew):
        with pytest.raises(InvalidRequestError, match=r"batch 3 of 'interval' and what is before it.*force=True"):
            verb()
    connection = lakelog.sql.connect(Catalog(tmp_path / "lake"), name="lake")
    with pytest.raises(InvalidRequestError, match=r"batch 3 of 'interval'.*add force => true to do so"):
        connection.sql("CALL lake.sys.new_identity(table => 'db.t')")
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    with pytest.raises(SystemExit):
        main(["table", "new-identity", table.path])
    assert "batch 3 of 'interval'" in capsys.readouterr().out
    renewed = table.log_store.renew(force=True)

    assert rows_in(renewed) == expected(0)


def test_a_copy_has_what_its_snapshots_have(table: Table, tmp_path: Path) -> None:
    copy = open_table(shutil.copytree(table.path, tmp_path / "copy")).upkeep.new_identity()

    assert rows_in(copy) == expected(0)
    table.log_store.settle()
    assert rows_in(table) == ALL
    copy.write(pa.table([[900], [9]], schema=SCHEMA))
    assert rows_in(copy) == expected(0) + BRANCH_ROW
