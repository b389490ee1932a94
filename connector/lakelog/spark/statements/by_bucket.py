"""Statements that change single rows, run by Spark's tasks: rows are brought together by bucket, not to the driver.

Rows of one primary key are in one bucket, so the task that has all rows of a bucket can work out its changes alone. It
stages their files and reports their names; the driver makes the commit. Other tables, whose rows have no key or whose
buckets are chosen by their writer, are changed by the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakelog.catalog.logs.statements import after_statement, logged_table, recording, run_statement
from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.filestore.encoding import bucket_of
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore, discard_files, latest_of
from lakelog.filestore.verbs import change_written
from lakelog.filestore.write import AffectedRows, ChangePlan, StatementChanges, WrittenRows, write_rows
from lakelog.logstore.kafka.clients.record_limit import RecordLimit, record_limit
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.access import check_no_copy
from lakelog.protocol.state import StagedPart, TableState
from lakelog.protocol.statements import stage_statement
from lakelog.protocol.stores import read_state
from lakelog.spark.capture.capture import lineage_of_run
from lakelog.spark.failures import ANSWERED
from lakelog.spark.session import core_count, prepare_session
from lakelog.spark.sink.plan import messages_of
from lakelog.spark.sink.statement_writer import joined_parts
from lakelog.spark.worker import MESSAGE_SCHEMA, MESSAGE_TYPE, map_batches, spare_modules_from_collection, task_number
from lakelog.warehouse.handle import TableHandle

BUCKET = "__lakelog_bucket"
IS_ROW = "__lakelog_is_row"
_ATTEMPTS_MAX = 10

Changes = Callable[[pa.Table, int], StatementChanges]
"""The changes of one bucket, from the rows of the statement for it; the second is the number of the bucket."""
Plan = Callable[[Snapshot | None], tuple[DataFrame, Changes]]
"""The rows of a statement on a snapshot, with their buckets in the column `BUCKET`, and how they change a bucket."""


class ElsewhereError(InvalidRequestError):
    """A statement changes a row of another bucket than those of its task: the driver must work it out."""


def is_by_bucket(table: FileStoreTable) -> bool:
    """Whether tasks can change the table, each its own buckets.

    There is a primary key, the number of buckets is fixed, and no partition has another one.
    """
    schema = table.schema
    if not schema.primary_keys or schema.bucket_count < 1:
        return False
    live = table.live_files.of(table.snapshots.latest())
    return all(entry.total_buckets == table.bucket_count for entry in live.entries())


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a task has written: staged parts of a table with a log, or files of one without; or its error."""

    task: int
    parts: Mapping[int, StagedPart] = field(default_factory=dict)
    written: WrittenRows = field(default_factory=WrittenRows)
    row_count: int = 0
    counts: AffectedRows = field(default_factory=AffectedRows)
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """The body of mapInArrow after the exchange. `state`, `limit` and `mode` are None for a table without a log."""

    table: TableStore
    base: Snapshot | None
    changes: Changes
    task_count: int
    state: TableState | None = None
    limit: RecordLimit | None = None
    mode: ChangelogMode | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_modules_from_collection()
        number = task_number()
        try:
            answer = self.run(pa.Table.from_batches(given), number) if (given := list(batches)) else _Answer(number)
        except ANSWERED as error:
            answer = _Answer(number, error=error)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(answer)], pa.binary())], schema=MESSAGE_SCHEMA)

    def run(self, rows: pa.Table, number: int) -> _Answer:
        """Write the changes of each bucket that the rows name. When it fails, the files written so far are deleted."""
        buckets, is_row = rows[BUCKET].to_numpy(), rows[IS_ROW].to_numpy()
        own = rows.drop_columns([BUCKET, IS_ROW])
        answer = _Answer(number)
        try:
            for bucket in np.unique(buckets).tolist():
                part = own.filter(pa.array((buckets == bucket) & is_row))
                changes = self.changes(part, bucket)
                if changes.row_count:
                    self._check(changes, bucket)
                    answer = self._written(answer, changes)
        except BaseException:
            _discard(self.table, [answer])
            raise
        return answer

    def _check(self, changes: StatementChanges, bucket: int) -> None:
        schema = self.table.schema
        for rows in (changes.rows, changes.removed):
            of = bucket_of(rows, schema.bucket_fields, self.table.bucket_count, schema.bucket_function)
            if (of != bucket).any():
                raise ElsewhereError(f"a row of bucket {bucket} becomes one of another bucket")
        if self.limit is not None and self.mode is not None:
            for rows, kinds in ((changes.rows, changes.kinds), (changes.removed, None)):
                self.limit.check_changes(rows, kinds, schema.fields, schema.primary_keys, self.mode)

    def _written(self, answer: _Answer, changes: StatementChanges) -> _Answer:
        count, counts = answer.row_count + changes.row_count, answer.counts + changes.counts
        if self.state is not None:
            staged = stage_statement(self.table, changes, self.state)
            return replace(answer, parts=joined_parts([answer.parts, staged]), row_count=count, counts=counts)
        live = self.table.live_files.of(self.base)
        more = write_rows(self.table, changes.rows, changes.kinds, first_sequence=live.next_sequence)
        return replace(answer, written=answer.written + more, row_count=count, counts=counts)


def run_by_bucket(
    table: TableHandle,
    operation: str,
    plan: Plan,
    *,
    visits_all: bool = False,
    records_sources: bool = False,
    counted: Callable[[AffectedRows], None] = lambda _: None,
) -> Snapshot | None:
    """Run a statement in tasks, each of which has the rows of buckets of its own; None if it changes nothing.

    `visits_all` also works out the changes of buckets without rows of the statement. With `records_sources` the commit
    records what the plan has read, in place of what the handle says. `counted` hears how many rows the attempt that
    is committed changes. Raises ElsewhereError when a row changes its
    bucket, the error of a task, and like `run_statement`.
    """
    if table.log is not None:
        return _run_logged(
            table, operation, plan, visits_all=visits_all, records_sources=records_sources, counted=counted
        )
    files = recording(table.store, operation)
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        base = latest_of(files)
        rows, changes = plan(base)
        task = _Task(
            table=files,
            base=base,
            changes=changes,
            task_count=_task_count(rows, files),
        )
        answers, lineage = _answers(rows, task, visits_all=visits_all, records_sources=records_sources)
        written = sum((answer.written for answer in answers), WrittenRows())
        counted(sum((answer.counts for answer in answers), AffectedRows()))
        try:
            return change_written(files, operation, written, base, lineage=lineage)
        except ConflictError:
            if attempt == _ATTEMPTS_MAX:
                raise
    raise AssertionError("the last attempt returns or raises")


def run_on_driver(
    table: TableHandle, operation: str, plan: ChangePlan, counted: Callable[[AffectedRows], None]
) -> Snapshot | None:
    """Run a statement that the driver works out, as `run_statement`; `counted` is that of `run_by_bucket`."""

    def counting(base: Snapshot | None) -> StatementChanges:
        changes = plan(base)
        counted(changes.counts)
        return changes

    return run_statement(table, operation, counting)


def _run_logged(
    table: TableHandle,
    operation: str,
    plan: Plan,
    *,
    visits_all: bool,
    records_sources: bool,
    counted: Callable[[AffectedRows], None],
) -> Snapshot | None:
    logged = logged_table(table)
    check_no_copy(logged.table, logged.snapshots.newest().place)
    logged.begin()
    base = logged.table.snapshots.latest()
    age = Stopwatch()
    rows, changes = plan(base)
    target = logged.target
    state = read_state(logged.table, base, topic_id=target.topic_id)
    task = _Task(
        table=logged.table,
        base=base,
        changes=changes,
        task_count=_task_count(rows, logged.table),
        state=state,
        limit=Patience(target.unavailable_seconds).keep_trying(lambda: record_limit(target.topic)),
        mode=target.mode,
    )
    answers, lineage = _answers(rows, task, visits_all=visits_all, records_sources=records_sources)
    parts = joined_parts(answer.parts for answer in answers)
    count = sum(answer.row_count for answer in answers)
    counted(sum((answer.counts for answer in answers), AffectedRows()))
    snapshot = None
    if count:
        snapshot = logged.run_staged(operation, state, parts, row_count=count, age_seconds=age.seconds, lineage=lineage)
    after_statement(table, snapshot)
    return snapshot


def _task_count(rows: DataFrame, table: TableStore) -> int:
    return max(1, min(table.bucket_count, core_count(rows)))


def _answers(
    rows: DataFrame, task: _Task, *, visits_all: bool, records_sources: bool
) -> tuple[list[_Answer], Mapping[str, object]]:
    """The answers of all tasks, and the lineage of what they were made from: that of `StatementChanges`.

    Raises the first error of a task; the files of the others are deleted then.
    """
    prepare_session(rows.sparkSession)
    given = rows
    if visits_all:  # a marker for each bucket, which no row of the statement is
        buckets = rows.sparkSession.range(task.table.bucket_count).select(sf.col("id").cast("int").alias(BUCKET))
        marked = rows.withColumn(IS_ROW, sf.lit(True))
        given = marked.unionByName(buckets.withColumn(IS_ROW, sf.lit(False)), allowMissingColumns=True)
    else:
        given = rows.withColumn(IS_ROW, sf.lit(True))
    owner = (sf.col(BUCKET) % task.task_count).cast("int")
    sent = given.repartitionById(task.task_count, owner)
    ran = map_batches(sent, task, MESSAGE_TYPE)
    answers = [pickle.loads(message) for message in messages_of(ran)]
    found: list[_Answer] = [answer for answer in answers if isinstance(answer, _Answer)]
    errors = [answer.error for answer in found if answer.error is not None]
    if errors:
        _discard(task.table, found)
        raise min(errors, key=lambda error: isinstance(error, ElsewhereError))
    return found, lineage_of_run(ran, task.table) if records_sources else {}


def _discard(table: TableStore, answers: Sequence[_Answer]) -> None:
    """Delete the files of a statement that is not committed."""
    discard_files(table, [path for answer in answers for path in _paths(table, answer)])


def _paths(table: TableStore, answer: _Answer) -> Iterator[str]:
    for entry in (*answer.written.entries, *answer.written.changelog):
        yield table.data_path(entry.bucket_id, entry.file)
    for bucket, part in answer.parts.items():
        for file in (*part.files, *part.removed):
            yield table.data_path(file.bucket_id(bucket), file.meta)
