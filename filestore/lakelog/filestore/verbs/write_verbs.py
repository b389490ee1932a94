"""The writes of a table without a log, each followed by the upkeep that is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.options.layout import PARTITION_EXPIRATION_TIME
from lakelog.filestore.verbs.upkeep_verbs import (
    check_has_no_log,
    compact_after_write,
    compact_waiting,
    expire_after,
    partitions_where,
)

if TYPE_CHECKING:
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.metadata.tables.store import TableStore
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.write.changing import ChangePlan
    from lakelog.filestore.write.deleting import TableChange, WrittenChange
    from lakelog.filestore.write.row_input import Rows
    from lakelog.filestore.write.row_kinds import RowKinds
    from lakelog.filestore.write.table_write import Naming, Replaced, TableWrite
    from lakelog.filestore.write.write import WrittenRows

WriteMode = Literal["append", "overwrite", "overwrite-partitions"]


def write(
    table: TableStore,
    rows: Rows,
    *,
    mode: WriteMode = "append",
    where: str | Predicate | None = None,
    kinds: RowKinds | None = None,
    clock: CommitClock | None = None,
    named: Naming | None = None,
    keeps_up: bool = True,
) -> Snapshot:
    """Write rows and commit them in one snapshot; `kinds` are row kinds, one for all rows or one per row.

    `named` gives the commit a user and a number, see `TableWrite`. Without `keeps_up` the caller compacts and expires.

    `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, those of the
    partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions of the
    new rows. Afterwards the written buckets are compacted and old snapshots expire if that is due, unless the table
    is write-only. Raises InvalidRequestError for rows that do not fit and for tables with a log, ConflictError for
    an overwrite of a table that another writer changed meanwhile.
    """
    from lakelog.filestore.write.table_write import TableWrite

    check_has_no_log(table)
    written = TableWrite(table, rows, kinds, replaces=replaced_by(table, mode, where), clock=clock, named=named)
    if mode == "append":
        snapshot = committed(table, written, clock, keeps_up=keeps_up)
    else:
        from lakelog.filestore.compact.ahead import compacted_ahead

        with compacted_ahead(table, written.entries) as commit_compaction:
            snapshot = committed(table, written, clock, then=commit_compaction)
    assert snapshot is not None
    return snapshot


def delete(table: TableStore, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
    """Delete the rows that meet a condition, in one snapshot; None if no row does.

    The rows are read and written again as retractions, and must fit in memory; the files of an append-only table
    that hold such rows are written again without them. If another commit comes first, the rows are read again.
    Afterwards buckets are compacted and snapshots expire as after a write. Raises UnsupportedError for tables whose
    rows a retraction does not delete, such as those of other merge engines than deduplicate; InvalidRequestError
    for tables with a log; ConflictError when other writers commit all the time.
    """
    check_has_no_log(table)
    from lakelog.filestore.predicate import required_predicate
    from lakelog.filestore.write.changing import delete_plan
    from lakelog.filestore.write.deleting import check_deletable

    check_deletable(table.schema, table_name=table.name)
    return change(table, "DELETE", delete_plan(table, required_predicate(where)), clock=clock)


def change(table: TableStore, operation: str, plan: ChangePlan, *, clock: CommitClock | None = None) -> Snapshot | None:
    """Commit the changes of a statement of `lakelog.filestore.write.changing`; None if there are no changes.

    The statement is planned again if another commit comes first. Afterwards buckets are compacted and snapshots
    expire as after a write. Raises InvalidRequestError for tables with a log, ConflictError when other writers
    commit all the time.
    """
    check_has_no_log(table)
    from lakelog.filestore.write.deleting import TableChange

    latest_of(table)  # raises for a table that was created again
    snapshot = committed(table, TableChange(table, plan, operation), clock)
    compact_waiting(table, clock)
    return snapshot


def change_written(
    table: TableStore, operation: str, written: WrittenRows, base: Snapshot | None, *, lineage: Mapping[str, object]
) -> Snapshot | None:
    """Commit the changes of a statement that others have worked out and written on the snapshot `base`.

    Afterwards like `change`. Raises ConflictError if another snapshot is the newest; the files are deleted then.
    """
    check_has_no_log(table)
    from lakelog.filestore.write.deleting import WrittenChange

    snapshot = committed(table, WrittenChange(table, written, base, operation, lineage=lineage), None)
    compact_waiting(table)
    return snapshot


def committed(
    table: TableStore,
    write: TableWrite | TableChange | WrittenChange,
    clock: CommitClock | None,
    *,
    then: Callable[[], None] | None = None,
    keeps_up: bool = True,
) -> Snapshot | None:
    """Commit, call `then`, and with `keeps_up` compact and expire what is due. None if there is nothing to commit."""
    from lakelog.filestore.commit.commit import TableCommit

    snapshot = TableCommit(table, clock=clock).commit(
        write.resolve, look=write.look, discard=lambda: write.discard([*write.superseded, *write.paths])
    )
    if then is not None:
        then()
    write.discard(write.superseded)
    if snapshot is None or not keeps_up:
        return snapshot
    compact_after_write(table, {entry.bucket_id for entry in write.entries}, clock, after=snapshot)
    expire_after(table, snapshot)
    return snapshot


def replaced_by(table: TableStore, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
    """The partitions that a write replaces; None for a write that adds rows.

    Raises InvalidRequestError for a mode and a condition that do not fit.
    """
    if mode not in get_args(WriteMode):
        raise InvalidRequestError(f"write mode {shown(mode)} is not known; use {', '.join(get_args(WriteMode))}")
    if where is not None and mode != "overwrite":
        raise InvalidRequestError(f"a write with mode {mode!r} takes no condition; use mode='overwrite'")
    if mode == "append":
        return None
    from lakelog.filestore.write.table_write import Overwrite

    if where is None:
        return Overwrite.EVERYTHING if mode == "overwrite" else Overwrite.WRITTEN_PARTITIONS
    return partitions_where(table, where)


def drop_partitions(table: TableStore, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
    """Delete the partitions that meet a condition on partition columns; None if no partition does.

    Raises InvalidRequestError for a condition on other columns and for tables with a log, ConflictError for a table
    that changed meanwhile.
    """
    return _drop(table, partitions_where(table, where).matching, clock)


def expire_partitions(
    table: TableStore, *, now_millis: int | None = None, clock: CommitClock | None = None
) -> Snapshot | None:
    """Delete partitions by their age. See `lakelog.catalog.Table.upkeep.expire_partitions`."""
    check_has_no_log(table)
    return _drop(table, partitions_to_expire(table, now_millis=now_millis), clock)


def partitions_to_expire(table: TableStore, *, now_millis: int | None = None) -> Callable[[set[bytes]], set[bytes]]:
    """The function that picks the partitions that are older than `partition.expiration-time`.

    Raises InvalidRequestError without partitions and without the option.
    """
    age = PARTITION_EXPIRATION_TIME.of(table.schema.options)
    if not table.schema.partition_keys:
        raise InvalidRequestError(f"table {table.name} has no partition columns, so no partition can expire")
    if age is None:
        raise InvalidRequestError(
            f"table {table.name} has no option {PARTITION_EXPIRATION_TIME.key}; set it, such as to '30 d'"
        )
    from lakelog.filestore.expire.partition_times import expired_partitions

    now = system_millis() if now_millis is None else now_millis
    return lambda partitions: expired_partitions(table.schema, list(partitions), age_millis=age, now_millis=now)


def _drop(table: TableStore, choose: Callable[[set[bytes]], set[bytes]], clock: CommitClock | None) -> Snapshot | None:
    from lakelog.filestore.commit.commit import TableCommit
    from lakelog.filestore.commit.requests import CommitRequest
    from lakelog.filestore.index.hash_index import HashIndexChange
    from lakelog.filestore.metadata.manifests.manifest import FileKind
    from lakelog.filestore.write.table_write import partitions_of
    from lakelog.filestore.write.write import check_table_writable

    check_has_no_log(table)
    check_table_writable(table)
    base = latest_of(table)
    live = table.live_files.of(base)
    dropped = choose(partitions_of(table, base))
    entries = [replace(entry, kind=FileKind.DELETE) for entry in live.entries() if entry.partition in dropped]
    if not entries:
        return None
    request = CommitRequest(
        kind=CommitKind.OVERWRITE,
        entries=entries,
        hashes=HashIndexChange(replaced=dropped),
        operation="OVERWRITE",
    )

    def resolve(latest: Snapshot | None) -> CommitRequest:
        if latest != base:
            raise ConflictError(f"{table.name} changed while partitions were dropped; drop them again")
        return request

    snapshot = TableCommit(table, clock=clock).commit(resolve)
    assert snapshot is not None
    expire_after(table, snapshot)
    return snapshot
