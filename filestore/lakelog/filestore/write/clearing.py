"""The changes of statements that remove all rows, or those of partitions: an overwrite, a truncate, a drop."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pyarrow as pa

from lakelog.filestore.metadata.origins.cleared_rows import Clears
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.write.changing import (
    ChangePlan,
    StatementChanges,
    check_kinds_free,
    check_replaceable,
    checked_changes,
    delete_plan,
    rows_of,
)
from lakelog.filestore.write.places import places_of
from lakelog.filestore.write.row_input import RowInput
from lakelog.filestore.write.table_write import Overwrite, PartitionFilter, Replaced, partitions_of
from lakelog.filestore.write.write import check_table_writable


def overwrite_plan(table: TableStore, source: RowInput, kinds: pa.Array | int | None, replaces: Replaced) -> ChangePlan:
    """Delete the rows of the replaced partitions, then write those of the source.

    Raises InvalidRequestError for rows outside the partitions that a condition selects, UnsupportedError for
    append-only tables with a log.
    """
    check_replaceable(table, "an overwrite")
    given = checked_changes(table, source, kinds)
    written = set(places_of(table, given.rows, None).partitions) if given.rows.num_rows else set()
    if isinstance(replaces, PartitionFilter):
        replaces.check_inside(written)

    def plan(base: Snapshot | None) -> StatementChanges:
        deleted = deleting_replaced(table, base, replaces, written)
        return replace(
            given,
            rows=pa.concat_tables([deleted.rows, given.rows]),
            kinds=pa.concat_arrays([deleted.kinds, given.kinds]),
            removed=deleted.removed,
            clears=deleted.clears,
        )

    return plan


def deleting_replaced(
    table: TableStore, base: Snapshot | None, replaces: Replaced, written: Collection[bytes]
) -> StatementChanges:
    """Delete the rows that an overwrite with rows in the partitions `written` replaces."""
    chosen = replaced_partitions_of(table, base, replaces, written)
    is_all = replaces is Overwrite.EVERYTHING or not table.schema.partition_keys
    clears = Clears() if is_all else Clears(partitions=frozenset(chosen))
    return replace(StatementChanges.deletion(table, rows_of(table, base, partitions=chosen)), clears=clears)


def replaced_partitions_of(
    table: TableStore, base: Snapshot | None, replaces: Replaced, written: Collection[bytes]
) -> Collection[bytes]:
    """The partitions whose rows an overwrite with rows in the partitions `written` replaces."""
    if replaces is Overwrite.WRITTEN_PARTITIONS:
        return written
    there = partitions_of(table, base)
    return replaces.matching(there) if isinstance(replaces, PartitionFilter) else there


def truncate_plan(table: TableStore) -> ChangePlan:
    """Delete all rows."""
    plan = delete_plan(table, None)
    return lambda base: replace(plan(base), clears=Clears())


def drop_plan(table: TableStore, choose: Callable[[set[bytes]], Collection[bytes]]) -> ChangePlan:
    """Delete the rows of the partitions that `choose` picks."""
    check_table_writable(table)
    check_kinds_free(table, "a drop of partitions")

    def plan(base: Snapshot | None) -> StatementChanges:
        chosen = choose(partitions_of(table, base))
        clears = Clears(partitions=frozenset(chosen)) if table.schema.partition_keys else None
        return replace(StatementChanges.deletion(table, rows_of(table, base, partitions=chosen)), clears=clears)

    return plan
