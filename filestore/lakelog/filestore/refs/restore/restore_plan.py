"""A restore as the changes of a batch statement: for logged tables, in which the order of the log decides."""

from __future__ import annotations

from lakelog.common.errors import NotFoundError
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.row_digest import RowDigest
from lakelog.filestore.refs.restore.restored_state import StateDifference
from lakelog.filestore.write.changing import (
    ChangePlan,
    StatementChanges,
    check_kinds_free,
    kinds_of,
)
from lakelog.filestore.write.write import check_table_writable


def restore_plan(table: TableStore, target: Snapshot) -> ChangePlan:
    """The changes that turn the rows of a snapshot into those of the target: deletes, updates and inserts.

    The rows that differ must fit in memory, as those of every statement. Raises InvalidRequestError for a target that
    does not fit the table, UnsupportedError for a table with a column that holds the row kinds.
    """
    check_table_writable(table)
    check_kinds_free(table, "a restore")

    def plan(base: Snapshot | None) -> StatementChanges:
        if base is None:
            raise NotFoundError(f"table {table.name} has no snapshot yet: there is nothing to restore")
        found = StateDifference(table, base, target)
        found.check()
        return changes_of(found)

    return plan


def changes_of(found: StateDifference) -> StatementChanges:
    """The changes of a statement that turn the rows of the base into those of the target; all in memory.

    Raises CorruptDataError if they would lead to other rows.
    """
    table, shape = found.table, found.table.schema.arrow_schema
    nothing = shape.empty_table()
    parts = [StatementChanges.deletion(table, nothing)]
    digests: dict[BucketId, RowDigest] = {}
    for bucket, rows in found.rows(is_followed=False):
        digest = digests.get(bucket, RowDigest())
        for changed, sign in ((rows.removed, -1), (rows.old, -1), (rows.new, 1), (rows.added, 1)):
            digest = digest.with_rows(changed, sign)
        digests[bucket] = digest
        added = rows.added.cast(shape)
        parts += [
            StatementChanges.deletion(table, rows.removed.cast(shape)),
            StatementChanges.replacement(table, rows.old.cast(shape), rows.new.cast(shape)),
            StatementChanges(rows=added, kinds=kinds_of(added, RowKind.INSERT), removed=nothing),
        ]
    found.check_rows(digests, what="the way to another state")
    return StatementChanges.joined(parts)
