"""Merges of a DataFrame into a table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from lakelog.catalog import Catalog
from lakelog.catalog.verbs.table_merge import TableMerge
from lakelog.filestore.write import MergeClauses, MergedRows, merge_plan, row_source
from lakelog.spark.capture.capture import lineage_of_run
from lakelog.spark.capture.field_capture import plan_fields_of, unknown_fields
from lakelog.spark.session import is_connect, session_zone
from lakelog.spark.sink.bucketing import bucket_column_of
from lakelog.spark.sink.write import recorded
from lakelog.spark.statements.by_bucket import BUCKET, Changes, ElsewhereError, is_by_bucket, run_by_bucket
from lakelog.spark.tables import TableName, resolve_table
from lakelog.warehouse.handle import TableHandle

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.write import StatementChanges

logger = logging.getLogger("lakelog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMerge(TableMerge):
    """A merge of the rows of a DataFrame. `_source` has their columns alone, `_reads` says that their plan is seen."""

    _rows: DataFrame = field(repr=False)
    _reads: bool

    def execute(self) -> Snapshot | None:
        """Run the merge, in Spark's tasks where rows that match are in one bucket; None when it changes nothing.

        Raises like `TableMerge.execute`.
        """
        table = self._recorded()
        store = table.store
        if set(store.schema.bucket_keys) <= set(self._on) and is_by_bucket(store):
            merge_plan(store, self._source, self._on, self._clauses)(None)  # raises for what does not fit
            visits_all = bool(self._clauses.of(MergedRows.NOT_MATCHED_BY_SOURCE))
            try:
                return run_by_bucket(table, "MERGE", self._plan, visits_all=visits_all, records_sources=self._reads)
            except ElsewhereError as error:
                logger.info("the driver works out a merge into %s: %s", table.name, error)
        given = row_source(self._rows.toArrow())
        return TableMerge(
            _table=self._as_read(), _source=given, _on=self._on, _clauses=self._clauses, _fields=self._fields
        ).execute()

    def _as_read(self) -> TableHandle:
        """The table, by a handle that records the versions that the rows were read in, once they are."""
        store = self._table.store
        if store.lineage is None or not self._reads:
            return self._table
        return self._table._of(replace(store, lineage={**store.lineage, **lineage_of_run(self._rows, store)}))

    def _plan(self, base: Snapshot | None) -> tuple[DataFrame, Changes]:
        store = self._table.store
        bucket = bucket_column_of(store.schema)
        changes = partial(_changes, store=store, base=base, on=self._on, clauses=self._clauses)
        return self._rows.withColumn(BUCKET, bucket), changes


def _changes(
    rows: pa.Table,
    bucket: int,
    *,
    store: FileStoreTable,
    base: Snapshot | None,
    on: Sequence[str],
    clauses: MergeClauses,
) -> StatementChanges:
    """The changes of the rows of one bucket."""
    return merge_plan(store, row_source(rows), on, clauses, buckets={bucket})(base)


def merge(
    rows: DataFrame,
    table: TableName,
    *,
    on: str | Sequence[str] | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    job: str | None = None,
    sources: Sequence[str] | None = None,
) -> TableMerge:
    """Begin a merge of the rows of a DataFrame into a table; add its clauses, then call `execute()`.

    Like `Table.merge`. If `on` has the columns of the bucket key, Spark's tasks run the merge, bucket by bucket: a
    bucket and the rows for it must fit in the memory of a task's Python. Otherwise, and for tables without a primary
    key or with a changing number of buckets, the driver holds the rows together with those of the table. `job` and
    `sources` are those of `write`. Raises NotFoundError.
    """
    named = resolve_table(table, catalog=catalog, warehouse=warehouse, session=rows.sparkSession)
    fields = plan_fields_of(rows)
    found = recorded(rows, named, job=job, sources=sources, fields=unknown_fields(()))
    begun = found.merge(rows.limit(0).toArrow(), on=on)
    return FrameMerge(
        _table=found,
        _source=begun._source,
        _on=begun._on,
        _clauses=begun._clauses,
        _fields=fields,
        _rows=rows,
        _zone=session_zone(rows.sparkSession),
        _reads=sources is None and not is_connect(rows.sparkSession),
    )
