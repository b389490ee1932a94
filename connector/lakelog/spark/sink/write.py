"""Batch writes of a DataFrame whose commits record what its plan reads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import WriterCommitMessage

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import check_takes_statements
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.predicate import Predicate, predicate_of
from lakelog.filestore.verbs import WriteMode, replaced_by
from lakelog.lineage.columns.declared_fields import declared_checksums, with_fields_by_name
from lakelog.lineage.columns.field_store import with_fields
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.sources import checked_sources, declared_sources, with_lineage
from lakelog.protocol.access import await_topic
from lakelog.spark.capture.capture import is_captured, lineage_of_frame, sources_of_run
from lakelog.spark.capture.field_capture import plan_fields_of
from lakelog.spark.session import is_connect, prepare_session, session_zone
from lakelog.spark.sink.files_writer import FilesPlan, WrittenFiles, written_files
from lakelog.spark.sink.plan import messages_of
from lakelog.spark.sink.statement_writer import StagedRows, StatementPlan
from lakelog.spark.tables import TableName, resolve_table
from lakelog.spark.worker import MESSAGE_SCHEMA, MESSAGE_TYPE, map_batches


def write(
    rows: DataFrame,
    table: TableName,
    *,
    mode: WriteMode = "append",
    where: str | Predicate | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    merge_schema: bool = False,
    job: str | None = None,
    sources: Sequence[str] | None = None,
) -> Snapshot | None:
    """Write the rows of a DataFrame in one snapshot, which records what they were made from.

    Like `df.write.format("lakelog")`, which does not see the plan of its query; `mode` and `where` are as in
    `Table.write`. `job` is the name under which the write is recorded. `sources`, such as `db.a@12`, are recorded
    instead of what the plan reads; on Spark Connect, which shows no plan, they are all that is known. Raises
    InvalidRequestError for rows that do not fit, and what the commit raises.
    """
    if rows.isStreaming:
        raise InvalidRequestError("the rows are a stream: write them with lakelog.spark.write_stream")
    found = recorded(
        rows,
        resolve_table(table, catalog=catalog, warehouse=warehouse, session=rows.sparkSession),
        job=job,
        sources=sources,
    )
    prepare_session(rows.sparkSession)
    condition = predicate_of(where, zone=session_zone(rows.sparkSession))
    replaces = replaced_by(found.store, mode, condition)
    is_overwrite = replaces is not None
    if found.log is not None:
        check_takes_statements(found)
        await_topic(found.log)
        logged = StatementPlan.of(
            found, rows.schema, is_overwrite=is_overwrite, replaces=replaces, merges_schema=merge_schema
        )
        staged, ran = _messages(rows, logged.write)
        logged = replace(logged, table=as_read(logged.table, ran, sources=sources))
        return logged.commit([message for message in staged if isinstance(message, StagedRows)])
    plan = FilesPlan.of(found, rows.schema, is_overwrite=is_overwrite, replaces=replaces, merges_schema=merge_schema)
    given = rows.coalesce(1) if plan.table.schema.has_dynamic_buckets else rows
    messages, ran = _messages(given, plan.write)
    return replace(plan, table=as_read(plan.table, ran, sources=sources)).commit_rows(written_files(messages))


def recorded(
    rows: DataFrame,
    table: Table,
    *,
    job: str | None = None,
    sources: Sequence[str] | None = None,
    fields: PlanFields | None = None,
) -> Table:
    """The table, by a handle whose commits record what the rows were made from; `fields` None: as the rows are.

    Raises InvalidRequestError.
    """
    if not is_captured(table.store):
        return table
    if sources is None:
        found = lineage_of_frame(rows, job=job)
    else:
        found = BatchLineage(job=job, sources=declared_sources(checked_sources(sources), table.warehouse))
    declared = declared_checksums(table.store)
    if declared:
        return with_lineage(table, replace(found, fields=declared))
    derived = fields or plan_fields_of(rows)
    if fields is None and sources is not None and not derived.lineage.sources():  # no plan is seen
        return with_lineage(table, with_fields_by_name(found, table.store))
    return with_lineage(table, with_fields(found, table.store, derived))


def as_read(table: FileStoreTable, ran: DataFrame, *, sources: Sequence[str] | None) -> FileStoreTable:
    """The table, by a handle that records the versions that a DataFrame has read that has been run.

    The same handle if it records nothing, and where `sources` were declared or no plan is seen.
    """
    if table.lineage is None or sources is not None or is_connect(ran.sparkSession):
        return table
    return replace(table, lineage={**table.lineage, "sources": [one.to_json() for one in sources_of_run(ran)]})


def _messages(
    rows: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], WrittenFiles | StagedRows]
) -> tuple[list[WriterCommitMessage], DataFrame]:
    """The answers of the tasks of a write, and the DataFrame that was run for them."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = pickle.dumps(task(batches))
        yield pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], schema=MESSAGE_SCHEMA)

    answers = map_batches(rows, body, MESSAGE_TYPE)
    return [pickle.loads(message) for message in messages_of(answers)], answers
