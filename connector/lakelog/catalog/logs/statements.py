"""The statements of a table: with a log through log and files, without one through its files alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.protocol.access import require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.write import ChangePlan
    from lakelog.protocol.statements import LoggedTable
    from lakelog.warehouse.handle import TableHandle


def run_statement(
    table: TableHandle,
    operation: str,
    plan: ChangePlan,
    *,
    commits_nothing: bool = False,
    properties: Mapping[str, str] | None = None,
    change_tracking: bool | None = None,
) -> Snapshot | None:
    """Run a statement; returns None when it changes nothing, unless `commits_nothing` asks for a snapshot even then.

    `properties` are further properties of its snapshot, on a table with a log. `change_tracking` says whether its log
    gets the changes; by default the table's option decides.
    """
    if table.log is None:
        from lakelog.filestore.verbs import change

        return change(recording(table.store, operation), operation, plan)
    logged = logged_table(table)
    snapshot = logged.run(
        operation, plan, commits_nothing=commits_nothing, properties=properties, change_tracking=change_tracking
    )
    after_statement(table, snapshot)
    return snapshot


def recording(files: FileStoreTable, operation: str) -> FileStoreTable:
    """The files of a table, by a handle that adds the operation to the lineage that it records, if it records any."""
    return files if files.lineage is None else replace(files, lineage={"operation": operation, **files.lineage})


def logged_table(table: TableHandle) -> LoggedTable:
    """The `LoggedTable` of a table with a log, once its topic exists. Raises UnavailableError, CorruptDataError."""
    require_kafka_client()
    from lakelog.protocol.access import await_topic
    from lakelog.protocol.statements import LoggedTable, target_of

    if table.log is None:
        raise InvalidRequestError(f"table {table.name} has no log; its statements commit at once")
    check_takes_statements(table)
    await_topic(table.log)
    return LoggedTable.of(table.store, target_of(table.log), kafka=table.kafka)


def check_takes_statements(table: TableHandle) -> None:
    """Raise UnsupportedError for a table with an eventual log, which has one writer and no transactions."""
    if table.log is not None and table.log.is_eventual:
        from lakelog.protocol.writing import check_transactional

        check_transactional(table.schema, "a batch statement", table_name=table.name)


def check_tracking_choice(table: TableHandle, change_tracking: bool | None) -> None:
    """Raise InvalidRequestError or UnsupportedError where a write cannot choose whether its changes are logged."""
    if change_tracking is not None and table.log is None:
        raise InvalidRequestError(
            f"table {table.name} has no log, and change_tracking={change_tracking} is for one: leave it out"
        )
    if change_tracking is False and table.log is not None and table.log.is_eventual:
        raise UnsupportedError(
            f"table {table.name} has log.consistency=eventual, whose changes are all in the log: leave"
            " change_tracking out"
        )


def after_statement(table: TableHandle, snapshot: Snapshot | None) -> None:
    """Publish, compact and expire what is due; errors are only logged: the statement has already taken effect.

    After a statement that changed nothing (None), only compact the rows that wait for it: the same statement may have
    run in a process that was killed before its compaction.
    """
    from lakelog.filestore.verbs import compact_after_write, compact_waiting, expire_after
    from lakelog.protocol.upkeep import expire_log_after_commit, publish_progress

    files = table.store
    if snapshot is None:
        compact_waiting(files)
        return
    if table.log is not None:
        publish_progress(files, table.log)
    compact_after_write(files, set(files.live_files.of(snapshot).buckets))
    expire_after(files, snapshot)
    expire_log_after_commit(files, kafka=table.kafka)
