"""The statements of a table: on a table with a log through log and files, on one without through its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakelog.common.errors import InvalidRequestError
from lakelog.protocol.access.servers import require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.table import FileStoreTable
    from lakelog.filestore.write.changing import Plan
    from lakelog.filestore.write.merge_clauses import MergeClauses
    from lakelog.filestore.write.row_source import RowInput
    from lakelog.protocol.statements.statement_runs import LoggedTable
    from lakelog.warehouse.handle import TableHandle


def run_statement(
    table: TableHandle,
    operation: str,
    plan: Plan,
    *,
    commits_nothing: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Snapshot | None:
    """Run a statement; None for one that changes nothing, unless `commits_nothing` makes a snapshot of it too.

    `properties` are further ones of its snapshot, on a table with a log.
    """
    if table.log is None:
        return recording(table._files, operation)._change(operation, plan)
    logged = logged_table(table)
    snapshot = logged.run(operation, plan, commits_nothing=commits_nothing, properties=properties)
    if snapshot is not None:
        after_statement(table, snapshot)
    return snapshot


def recording(files: FileStoreTable, operation: str) -> FileStoreTable:
    """The files of a table, by a handle that records the operation with where rows come from, if it records that."""
    return files if files.lineage is None else replace(files, lineage={"operation": operation, **files.lineage})


def logged_table(table: TableHandle) -> LoggedTable:
    """A table with a log as statements write it, once its topic is there. Raises UnavailableError, CorruptDataError."""
    require_kafka_client()
    from lakelog.protocol.access.table_log import await_topic
    from lakelog.protocol.statements.statement_runs import LoggedTable, target_of

    if table.log is None:
        raise InvalidRequestError(f"table {table.name} has no log; its statements commit at once")
    check_takes_statements(table)
    await_topic(table.log)
    return LoggedTable.of(table._files, target_of(table.log), kafka=table.kafka)


def check_takes_statements(table: TableHandle) -> None:
    """Raise UnsupportedError for a table whose log is eventual: it has one writer, and no transactions."""
    if table.log is not None and table.log.is_eventual:
        from lakelog.protocol.writing.eventual import check_transactional

        check_transactional(table.schema, "a batch statement", table_name=table.name)


def after_statement(table: TableHandle, snapshot: Snapshot) -> None:
    """Publish, compact and expire what is due; errors are only logged, since the statement has taken effect."""
    from lakelog.filestore.expire.writer_expiry import expire_after_commit
    from lakelog.filestore.refs.tags.auto_tags import tag_after_commit
    from lakelog.protocol.upkeep.log_expiry import expire_log_after_commit
    from lakelog.protocol.upkeep.progress_topic import publish_progress

    files = table._files
    if table.log is not None:
        publish_progress(files, table.log)
    files._compact_after_write(set(files.live_files.of(snapshot).buckets))
    tag_after_commit(files, snapshot)
    expire_after_commit(files, snapshot.id)
    expire_log_after_commit(files, kafka=table.kafka)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """A merge of rows into a table: clauses say what happens, `execute` does it, in one snapshot.

    Each call gives a merge with one clause more. See `Table.merge`.
    """

    _table: TableHandle
    _source: RowInput = field(repr=False)
    _on: Sequence[str]
    _clauses: MergeClauses

    def when_matched_update_all(self) -> TableMerge:
        """A row of the table that a source row matches gets its values, in the columns that the source has."""
        return self._with(updates_matched=True)

    def when_matched_delete(self) -> TableMerge:
        """A row of the table that a source row matches is deleted."""
        return self._with(deletes_matched=True)

    def when_not_matched_insert_all(self) -> TableMerge:
        """A source row that matches no row of the table is inserted; columns that the source lacks are null."""
        return self._with(inserts_not_matched=True)

    def when_not_matched_by_source_delete(self, where: str | Predicate | None = None) -> TableMerge:
        """A row of the table that no source row matches is deleted; with a condition only one that meets it."""
        from lakelog.filestore.predicate import predicate_of

        return self._with(deletes_not_matched_by_source=True, by_source_where=predicate_of(where))

    def execute(self) -> Snapshot | None:
        """Run the merge; None when it changes nothing.

        Raises InvalidRequestError for rows that do not fit, and for several source rows that match one row of the
        table.
        """
        from lakelog.filestore.write.merge_clauses import merge_plan

        plan = merge_plan(self._table._files, self._source, self._on, self._clauses)
        return run_statement(self._table, "MERGE", plan)

    def _with(self, **clauses: object) -> TableMerge:
        wanted = replace(self._clauses, **clauses)  # type: ignore[arg-type]  # members of MergeClauses
        if wanted.updates_matched and wanted.deletes_matched:
            raise InvalidRequestError("a matched row is updated or deleted, not both: leave one of the clauses")
        return replace(self, _clauses=wanted)
