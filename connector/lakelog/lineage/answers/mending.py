"""A user declares that a table no longer holds wrong rows: a snapshot of the table records it, with user and time."""

from __future__ import annotations

import getpass

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import shown
from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.origins import TableVersion, WrongSnapshot
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.lineage.answers.questions import lineage_graph
from lakelog.lineage.answers.taint import wrong_snapshot
from lakelog.lineage.records.sources import declared_number, declared_table
from lakelog.lineage.tables.beginnings import owning_line
from lakelog.lineage.tables.found_tables import line_key
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.warehouse import Warehouse

MEND_OPERATION = "MENDED"


def mended(table: TableHandle, *wrong: str, by: str | None = None) -> Snapshot:
    """Record that a table no longer holds rows from wrong snapshots; returns the snapshot that records it.

        orders.delete("dollars > 1000")
        mended(orders, "db.orders@3", by="ann")

    A delete or an update says nothing about the rows that stay, so `tainted` counts the table as wrong until this is
    called; after an overwrite of all rows, a truncate or a restore it is not needed. The snapshot has the same rows as
    the previous one. `wrong` names the wrong snapshots, `by` the person who declares it, by default the user of the
    process. Rows that are made from a wrong snapshot later count again. Raises InvalidRequestError without a wrong
    snapshot, NotFoundError.
    """
    named = getpass.getuser() if by is None else by.strip()
    if not wrong or not named:
        missing = "a wrong snapshot, such as db.orders@3" if not wrong else "a name for by=, or none of it"
        raise InvalidRequestError(
            f"mended of table {table.name} needs {missing}: lakelog records what was mended, and by whom"
        )
    properties = WrongSnapshot.mended([_wrong_of(one, table) for one in wrong], by=named)

    def resolve(latest: Snapshot | None) -> CommitRequest:
        if latest is None:
            raise NotFoundError(f"table {table.name} has no snapshot, so it holds no wrong rows")
        return CommitRequest(properties=properties, operation=MEND_OPERATION)

    snapshot = TableCommit(table.store).commit(resolve)
    assert snapshot is not None, "the commit of a mend is never nothing"
    return snapshot


def _wrong_of(name: str, table: TableHandle) -> WrongSnapshot:
    """A wrong snapshot by its name; it may have expired."""
    number = declared_number(name)
    if number is None:
        raise InvalidRequestError(f"{shown(name)} names no snapshot: write the table and its number, as db.orders@3")
    source = declared_table(name, table.warehouse)
    line = line_key(owning_line(source, number))
    living = source.snapshots.find(number)
    if living is not None:
        return wrong_snapshot(line, TableVersion(snapshot_id=number, commit=living.uuid))
    graph = lineage_graph(Warehouse(warehouse_of(source.path)))
    at = graph.line(line)
    commits = [] if at is None else graph.commits_of(at, number)
    if not commits:
        raise NotFoundError(
            f"snapshot {number} of {source.name} does not exist, and no lineage names it; `lakelog table history` "
            "lists the existing snapshots"
        )
    return wrong_snapshot(line, TableVersion(snapshot_id=number, commit=commits[-1]))
