"""Streams of `$audit_log` and `$binlog` of a table with a log: its snapshot's rows, then the changes in the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.spark.options import parse_read_options
from lakelog.spark.source.reading.input_partitions import partitions_of
from lakelog.spark.source.streams.audit_stream import AuditRows, audited
from lakelog.spark.system_read import system_schema
from lakelog.spark.tables import log_target
from lakelog.streams.reading.offsets import LogOffset
from tests.support.streams.planned_reader import Reader
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """A table whose log has old values, with two rows."""
    options = {"bucket": "1", "log.system": "kafka", "write-only": "true", "log.changelog-mode": "all"}
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    made.write(rows((1, 0), (2, 0)))
    return made


def rows(*values: tuple[int, int]) -> pa.Table:
    ids, batches = zip(*values, strict=True)
    return pa.table([pa.array(ids), pa.array(batches, pa.int32())], schema=SCHEMA)


class Audit(Reader):
    """A stream of a system table of changes."""

    def __init__(self, table: Table, name: str) -> None:
        self._given = {"path": f"{table.path}${name}"}
        super().__init__(table)

    def start(self) -> None:
        super().start()
        name, given = audited(self._given)
        table = open_table(given["path"])
        options = parse_read_options(given, table)
        self._shown = AuditRows.of(name, table.store, log_target(table), system_schema(self._given), options)

    def next(self) -> list[tuple[object, ...]]:
        """The rows of the next batch."""
        end, parts = self.plan()
        batches = [batch for part in partitions_of(parts) for batch in self._shown.read(part)]
        self.offset = end
        return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=str)


def test_the_audit_log_of_a_logged_table_goes_on_in_the_log(table: Table) -> None:
    audit = Audit(table, "audit_log")
    assert audit.next() == [("+I", 1, 0), ("+I", 2, 0)]
    table.write(rows((1, 1)))
    table.delete("id = 2")
    audit.start()  # killed, and started again
    found = audit.next()
    assert isinstance(audit.offset, LogOffset)
    assert found == [("+U", 1, 1), ("-D", 2, 0), ("-U", 1, 0)]


def test_the_binlog_of_a_logged_table_has_both_values_of_an_update(table: Table) -> None:
    binlog = Audit(table, "binlog")
    binlog.next()
    table.write(rows((1, 1)))
    table.delete("id = 2")
    assert binlog.next() == [("+U", [1, 1], [0, 1]), ("-D", [2], [0])]
