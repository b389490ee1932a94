"""Tables without partitions, copies of one to another, and which of them questions name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.lineage import downstream, feed, made_from, tainted

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])


def fed_catalog(folder: Path) -> Catalog:
    """A warehouse whose lineage is fed before it is deleted."""
    found = Catalog(folder, options={"data-lineage": "true"})
    feed(found)
    return found


def three_tables(catalog: Catalog) -> tuple[Table, Table, Table]:
    """Three tables with a snapshot each, of which none was made from another one."""
    a, b, c = (make(catalog, name) for name in "abc")
    for table in (a, b, c):
        table.write(rows(1))
    return a, b, c


def make(catalog: Catalog, name: str) -> Table:
    options = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
    return catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=options)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)}, schema=SCHEMA)


def copy(source: Table, sink: Table) -> None:
    found = source.snapshot()
    assert found is not None
    made_from(sink, f"{source.name}@{found.id}", job="copy").write(source.to_arrow())


def reached(catalog: Catalog, table: str, snapshot_id: int) -> set[str]:
    """The tables that hold tainted rows."""
    found = tainted(catalog, table, snapshot_id).tables.to_pylist()
    return {row["table"] for row in found if row["holds_tainted_rows"]}


def readers(catalog: Catalog, table: str, snapshot_id: int) -> set[str]:
    """The tables that were made from a snapshot."""
    return {row["sink_table"] for row in downstream(catalog, table, snapshot_id).to_pylist()}
