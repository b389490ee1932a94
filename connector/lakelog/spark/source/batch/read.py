"""Batch reads by a Python function: the options of the format as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.common.timestamps import Timestamp, millis_of, zone_of
from lakelog.filestore.predicate import predicate_of
from lakelog.filestore.refs import SnapshotChoice
from lakelog.spark.session import named_in, prepare_session, session_zone
from lakelog.spark.source.batch.file_scan import Selection, scan_snapshot
from lakelog.spark.source.batch.pinned_reads import PINS, pins_with
from lakelog.spark.system_read import system_frame
from lakelog.spark.tables import TableName, resolve_files, resolve_table
from lakelog.warehouse.system_names import names_system_table

if TYPE_CHECKING:
    from lakelog.filestore.schema import TableSchema
    from lakelog.lineage.answers.consistent import ConsistentSnapshots


def read(
    spark: SparkSession,
    table: TableName,
    *,
    columns: str | Sequence[str] | None = None,
    where: str | None = None,
    snapshot_id: int | None = None,
    timestamp: Timestamp | None = None,
    watermark: int | None = None,
    tag: str | None = None,
    version: str | int | None = None,
    branch: str | None = None,
    fresh: bool = False,
    consistent_with: Sequence[str] | ConsistentSnapshots | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
) -> DataFrame:
    """The rows of a table as a DataFrame.

    `columns` (a string is one column) and `where` (Spark SQL) are applied to all files; `select` and `filter` on the
    result only to files that need no merge. The read shows the newest snapshot, or `snapshot_id`, or the newest
    snapshot at or before `timestamp`, or the oldest with `watermark` or a later one, or the one that `tag` keeps, or
    what `version` names: a tag, a snapshot, `branch.tag`, `branch.snapshot` or a branch; with `branch`, a snapshot of
    that branch. A timestamp is a datetime, a string, or an int, milliseconds since 1970; without a zone it is in the
    session's. With `fresh` the read also has what is committed in the table's log behind the newest snapshot. The state
    is chosen now: all queries of the DataFrame see it. A name such as `db.t$files` is that of a
    system table, see `Table.system.table`; its rows are read now. Raises NotFoundError and InvalidRequestError at once.

    With `consistent_with`, names of other tables, the read shows the newest snapshot (or the newest at `timestamp`)
    that was made from the same versions of the sources that the tables share. Two such reads may choose differently, as
    their tables move: for reads that go together, pass the result of `lakelog.lineage.consistent_snapshots`, or use
    `consistent_read`.
    """
    zone = session_zone(spark)
    millis = None if timestamp is None else millis_of(timestamp, zone_of(zone))
    which: SnapshotChoice = {
        "snapshot_id": snapshot_id,
        "timestamp": millis,
        "watermark": watermark,
        "tag": tag,
        "version": version,
        "branch": branch,
    }
    named = named_in(spark, table) if isinstance(table, str) and catalog is None and warehouse is None else None
    if named is not None:
        catalog, table = named
    in_warehouse = catalog is not None or warehouse is not None
    if isinstance(table, str) and names_system_table(table, in_warehouse=in_warehouse):
        if consistent_with is not None:
            raise InvalidRequestError(f"consistent_with is for the rows of tables, and {table} is a system table")
        shown = {**which, "columns": columns, "where": where}
        return system_frame(spark, table, catalog=catalog, warehouse=warehouse, **shown)
    opened = resolve_files(table, catalog=catalog, warehouse=warehouse)
    if fresh and (consistent_with is not None or PINS.get() is not None):
        raise InvalidRequestError("a consistent read is of snapshots, and a fresh read has the log too: leave one out")
    pins = PINS.get()
    if consistent_with is not None:
        if pins is not None:
            raise InvalidRequestError("a read inside of consistent_read is of its snapshots: leave out consistent_with")
        home = catalog or Catalog(warehouse or opened.warehouse)
        pins = pins_with(opened.store, consistent_with, home, which.pop("timestamp"))
    if pins is not None:
        which = pins.choice(opened.store, which)
    if fresh:
        files = resolve_table(opened).at(fresh=True, **which).store
        snapshot = files.pinned
    else:
        files, snapshot = opened.store.travelled(**which)
    prepare_session(spark)
    return scan_snapshot(spark, files, snapshot, _selection(files.schema, columns, where, zone=zone))


def _selection(schema: TableSchema, columns: str | Sequence[str] | None, where: str | None, *, zone: str) -> Selection:
    """The columns and the condition of a read. Raises InvalidRequestError."""
    predicate = predicate_of(where, zone=zone, fields=schema.fields)
    return Selection(fields=tuple(schema.chosen(columns)), where=where, predicate=predicate)
