"""Batch writes by `format("lakelog")` to tables with a log: `df.write` and INSERT, as batch statements.

Tasks get rows in any distribution, check them and stage them; they log nothing. The commit prepares and finishes the
statement, in one process. An overwrite deletes the old rows before it adds the new ones, in log and files alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakelog.catalog import Table
from lakelog.common.arrow import pieces_of
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.write import (
    Replaced,
    RowInput,
    StatementChanges,
    check_replaceable,
    checked_changes,
    deleting_replaced,
)
from lakelog.logstore.kafka.clients.record_limit import RecordLimit, record_limit
from lakelog.protocol.access import TableLog, check_no_copy
from lakelog.protocol.state import StagedPart, TableState
from lakelog.protocol.statements import LoggedTable, stage_statement, with_base
from lakelog.protocol.stores import LogTarget
from lakelog.protocol.upkeep import publish_progress
from lakelog.spark.failures import ANSWERED, sentence_first
from lakelog.spark.logging_level import LoggingLevel, show_log
from lakelog.spark.options import PARTITION_OVERWRITE_CONF
from lakelog.spark.projection import check_schema, with_new_columns
from lakelog.spark.sink.overwriting import chosen_overwrite
from lakelog.spark.sink.task import SEQUENCES_PER_TASK, rows_of_task
from lakelog.spark.tables import log_target
from lakelog.spark.worker import spare_modules_from_collection

_PIECE_BYTES = 64 << 20
_DELETES = 1 << 32  # sequence numbers reserved for the deletes of an overwrite, before those of the new rows


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """What a task has staged, or the `error` of its rows. `overwrite_mode` is the session's: only tasks can read it."""

    parts: Mapping[int, StagedPart]
    row_count: int
    overwrite_mode: str | None = None
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """One batch write to a table with a log, planned on a snapshot. Without `replaces` the session's conf decides."""

    table: FileStoreTable
    log: TableLog = field(repr=False)
    target: LogTarget
    kafka: Mapping[str, str] = field(repr=False)
    state: TableState
    limit: RecordLimit
    is_overwrite: bool
    replaces: Replaced | None
    began_millis: int
    change_tracking: bool | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        schema: spark.StructType,
        *,
        is_overwrite: bool,
        replaces: Replaced | None,
        merges_schema: bool,
        change_tracking: bool | None = None,
    ) -> StatementPlan:
        """Plan a write of rows of `schema` on the newest snapshot. Raises InvalidRequestError, UnsupportedError."""
        if merges_schema:
            table = with_new_columns(table, schema)
        check_schema(schema, table.schema, table_name=table.name)
        if is_overwrite:
            check_replaceable(table.store, "an overwrite")
        target = log_target(table)
        assert target is not None, "a table without a log is written by FilesPlan"
        assert table.log is not None
        logged = LoggedTable.of(table.store, target, kafka=table.kafka)
        logged.begin()
        state = logged.snapshots.newest()
        check_no_copy(table.store, state.place)
        return cls(
            table=table.store,
            log=table.log,
            target=target,
            kafka=table.kafka,
            state=state,
            limit=record_limit(target.topic),
            is_overwrite=is_overwrite,
            replaces=replaces,
            began_millis=system_millis(),
            change_tracking=change_tracking,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of one task, or return the error of rows that do not fit."""
        context = TaskContext.get()
        assert context is not None, "a write task runs in a Spark worker"
        spare_modules_from_collection()
        try:
            parts, row_count = self._stage(rows_of_task(batches, self.table, context), context.partitionId())
        except ANSWERED as error:
            return StagedRows({}, 0, error=error)
        return StagedRows(parts, row_count, overwrite_mode=context.getLocalProperty(PARTITION_OVERWRITE_CONF))

    def _stage(self, batches: Iterable[pa.RecordBatch], task: int) -> tuple[dict[int, StagedPart], int]:
        staged: list[Mapping[int, StagedPart]] = []
        row_count = 0
        after = (_DELETES if self.is_overwrite else 0) + task * SEQUENCES_PER_TASK
        for piece in pieces_of(batches, _PIECE_BYTES):
            changes = checked_changes(self.table, RowInput(schema=piece.schema, table=piece), None)
            schema = self.table.schema
            self.limit.check_changes(changes.rows, changes.kinds, schema.fields, schema.primary_keys, self.target.mode)
            skipped = after + row_count
            staged.append(self._staged(changes, skipped=skipped))
            row_count += changes.row_count
            if row_count > SEQUENCES_PER_TASK:
                raise InvalidRequestError(
                    f"table {self.table.name}: a task has more than {SEQUENCES_PER_TASK:,} rows; repartition the rows"
                )
        return joined_parts(staged), row_count

    def commit(self, written: Sequence[StagedRows]) -> Snapshot:
        """Prepare and finish the statement. Raises the first error of a task, and like `LoggedTable.run_staged`."""
        for message in written:
            if message.error is not None:
                raise message.error
        parts = [message.parts for message in written]
        row_count = sum(message.row_count for message in written)
        clears = None
        if self.is_overwrite:
            deleted = self._deleted(written)
            clears = deleted.clears
            row_count += deleted.row_count
            parts.insert(0, self._staged(deleted))
        logged = LoggedTable.of(self.table, self.target, kafka=self.kafka)
        snapshot = logged.run_staged(
            "OVERWRITE" if self.is_overwrite else "INSERT",
            self.state,
            joined_parts(parts),
            row_count=row_count,
            age_seconds=lambda: (system_millis() - self.began_millis) / 1000,
            properties=with_base(self.table, self.state, clears, {}),
        )
        publish_progress(self.table, self.log)
        return snapshot

    def _staged(self, changes: StatementChanges, *, skipped: int = 0) -> Mapping[int, StagedPart]:
        tracking = self.change_tracking
        return stage_statement(self.table, changes, self.state, skipped=skipped, change_tracking=tracking)

    def _deleted(self, written: Sequence[StagedRows]) -> StatementChanges:
        """The rows that an overwrite deletes. Raises InvalidRequestError for rows outside of its condition."""
        conf = next((message.overwrite_mode for message in written), None)
        files = (file for message in written for part in message.parts.values() for file in part.files)
        partitions = {file.partition for file in files}
        replaces = chosen_overwrite(self.table, self.replaces, conf, partitions)
        base = self.table.snapshots.get(self.state.snapshot_id) if self.state.snapshot_id else None
        return deleting_replaced(self.table, base, replaces, partitions)


def joined_parts(parts: Iterable[Mapping[int, StagedPart]]) -> dict[int, StagedPart]:
    """The staged parts of several tasks as one for each bucket."""
    found: dict[int, StagedPart] = {}
    for staged in parts:
        for bucket, part in staged.items():
            before = found.get(bucket)
            found[bucket] = part if before is None else replace(
                before, files=(*before.files, *part.files), removed=(*before.removed, *part.removed)
            )  # fmt: skip
    return found


class StatementWriter(DataSourceArrowWriter):
    """A batch write to a table with a log. The files of a failed write are orphan files."""

    def __init__(self, plan: StatementPlan, level: LoggingLevel | None = None) -> None:
        """Write nothing yet. `level` is the level from which the committing process shows its log."""
        self._plan = plan
        self._level = level

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """One task's rows."""
        return self._plan.write(iterator)

    @sentence_first()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """One statement of all rows."""
        show_log(self._level)
        self._plan.commit([message for message in messages if isinstance(message, StagedRows)])
