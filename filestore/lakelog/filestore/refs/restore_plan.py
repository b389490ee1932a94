"""A restore as the changes of a batch statement: for tables with a log, whose log order decides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.common.errors import NotFoundError
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.refs.restored_state import StateDifference
from lakelog.filestore.refs.row_difference import RowDifference
from lakelog.filestore.write.changing import Changes, Plan, check_kinds_free, deleting, joined, kinds_of, replacing
from lakelog.filestore.write.write import check_table_writable


def restore_plan(table: TableStore, target: Snapshot) -> Plan:
    """The net difference of a snapshot and the target is deleted, replaced and inserted.

    Both states of the buckets that differ are read into memory. Raises InvalidRequestError for a target that does not
    fit the table, UnsupportedError for a table whose column holds the row kinds.
    """
    check_table_writable(table)
    check_kinds_free(table, "a restore")

    def plan(base: Snapshot | None) -> Changes:
        if base is None:
            raise NotFoundError(f"table {table.name} has no snapshot yet: there is nothing to restore")
        found = StateDifference(table, base, target)
        found.check()
        return changes_of(found)

    return plan


def changes_of(found: StateDifference) -> Changes:
    """The changes of a statement that make the rows of the target of those of the base; all in memory."""
    table = found.table
    nothing = table.schema.arrow_schema.empty_table()
    parts = [deleting(table, nothing)]
    for _, rows in found.rows(is_followed=False):
        before, after = _of_kind(rows, RowKind.UPDATE_BEFORE), _of_kind(rows, RowKind.UPDATE_AFTER)
        added = _of_kind(rows, RowKind.INSERT)
        parts += [
            deleting(table, _of_kind(rows, RowKind.DELETE)),
            replacing(table, before, after),
            Changes(rows=added, kinds=kinds_of(added, RowKind.INSERT), removed=nothing),
        ]
    return joined(parts)


def _of_kind(found: RowDifference, kind: RowKind) -> pa.Table:
    return found.rows.take(pa.array(np.flatnonzero(found.kinds == int(kind))))
