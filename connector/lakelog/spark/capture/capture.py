"""What a micro-batch was made from, for the record in its commit: see `lakelog.filestore.metadata.origins.record`.

The sources of a query are the leaves of the plan that Spark runs; they are analysed once per run. How far each
micro-batch reads them is in the checkpoint's offset log, one line per source. Tables of an attached catalog that are no
streams are loaded again for each run of a plan, if they have changed: their snapshots are those in the plan of the run
(Spark 4.3, `QueryExecution.tableVersionsRefreshed`, which a run keeps). A failed analysis never fails the batch: what
is not known is recorded as unknown, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import cause
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import BatchLineage, ReadMode, Source, TableSource, UnknownSource
from lakelog.filestore.metadata.snapshots import NamedJob
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import LINEAGE_CAPTURE
from lakelog.lineage.records.best_effort import known_or
from lakelog.lineage.records.sources import declared_sources, source_of_table
from lakelog.spark.capture.checkpoint import NOTHING_READ, foreign_between, parse_offset_log, table_between
from lakelog.spark.capture.plan_leaves import (
    StreamLeaf,
    first_offset,
    leaves_of,
    read_by_leaf,
    read_plan,
    sources_of_plan,
)
from lakelog.warehouse.system_names import STORED_DATABASE

logger = logging.getLogger("lakelog.spark")

OPERATION = "WRITE"
NO_PLAN = UnknownSource(why="Spark Connect does not show the plan of a query: name what it reads, sources=")


class SourcesMovedError(Exception):
    """A plan reads other snapshots than the record of its batch says: `sources` has the present ones."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """Keep the sources."""
        super().__init__("a table that is joined to the batch has changed")
        self.sources = tuple(sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBatch:
    """A running micro-batch: the query's execution, and the source lines of the offset log at the end of the batch.

    `read_before` gives the offset log file of the previous batch; None if there is none.
    """

    execution: Any  # a Java StreamExecution
    batch_id: int
    ends: Sequence[str]
    read_before: Callable[[], str | None]

    def starts(self) -> Sequence[str]:
        """The source lines of the previous batch. Raises CorruptDataError if they are missing."""
        if self.batch_id == 0:
            return [NOTHING_READ] * len(self.ends)
        path = f"offsets/{self.batch_id - 1}"
        text = self.read_before()
        if text is None:
            raise CorruptDataError(f"{path} is not in the checkpoint")
        return parse_offset_log(text, path=path)


@dataclass(slots=True)
class Capture:
    """What a sink records about its batches. `job` is the given name; None stands for the name of the query, or its id.

    `names` are the sources that are recorded when no plan shows them; None means unknown.
    """

    job: str | None = None
    names: Sequence[str] | None = None
    _run: str | None = None
    _leaves: tuple[StreamLeaf | Source | None, ...] = field(default=())

    def lineage_of(self, rows: DataFrame, running: RunningBatch) -> BatchLineage:
        """The record of a micro-batch whose rows are `rows`."""
        execution = running.execution
        run_id, query_id = execution.runId().toString(), execution.id().toString()

        def found() -> list[Source]:
            jvm = rows.sparkSession._jvm
            if self._run != run_id:
                self._leaves = tuple(read_by_leaf(leaf, jvm) for leaf in leaves_of(execution.logicalPlan()))
                self._run = run_id
            leaves = self._leaves
            if any(isinstance(leaf, TableSource) for leaf in leaves):
                others = (leaf for leaf in leaves if not isinstance(leaf, TableSource))
                present = sources_of_plan(read_plan(execution.lastExecution()), jvm)
                leaves = (*others, *(one for one in present if isinstance(one, TableSource)))
            joined = sources_of_plan(  # by a function of foreachBatch
                read_plan(rows._jdf.queryExecution()), jvm, batch_rdd=execution.lastExecution().toRdd().id()
            )
            return [*_stream_sources(leaves, running), *joined]

        return BatchLineage(
            job=self.job or execution.name() or query_id,
            query_id=query_id,
            run_id=run_id,
            batch_id=running.batch_id,
            operation=OPERATION,
            sources=unique(sources_or_unknown(found)),
        )

    def without_plan(self, batch_id: int, warehouse: str) -> BatchLineage:
        """The record of a micro-batch on Spark Connect."""
        sources = (NO_PLAN,) if self.names is None else declared_sources(self.names, warehouse)
        return BatchLineage(job=self.job, batch_id=batch_id, operation=OPERATION, sources=sources)


def lineage_of_frame(rows: DataFrame, *, job: str | None = None, operation: str | None = None) -> BatchLineage:
    """The record of a batch write of a DataFrame, from its plan."""

    def found() -> list[Source]:
        try:
            plan = rows._jdf.queryExecution().analyzed()
        except PySparkAttributeError:
            return [NO_PLAN]
        return sources_of_plan(plan, rows.sparkSession._jvm)

    return BatchLineage(job=job, operation=operation, sources=unique(sources_or_unknown(found)))


def lineage_of_plan(plan: Any, jvm: Any, *, job: str | None = None, operation: str | None = None) -> BatchLineage:
    """The record of a batch write whose rows have this plan, a Java LogicalPlan."""
    sources = sources_or_unknown(lambda: sources_of_plan(plan, jvm))
    return BatchLineage(job=job, operation=operation, sources=unique(sources))


def lineage_of_run(ran: DataFrame, table: TableStore) -> dict[str, object]:
    """What a statement has read beside the table that it changes, for `StatementChanges`; `ran` has been run.

    Nothing if the handle of the table records nothing.
    """
    if table.lineage is None:
        return {}
    own = source_of_table(table, mode=ReadMode.BATCH)
    sources = [
        one
        for one in sources_of_run(ran)
        if not isinstance(one, TableSource) or (one.uuid, one.branch) != (own.uuid, own.branch)
    ]
    return {"sources": [one.to_json() for one in sources]}


def sources_of_run(ran: DataFrame) -> Sequence[Source]:
    """What a DataFrame has read that has been run, in the versions that were read."""
    jvm = ran.sparkSession._jvm
    return unique(sources_or_unknown(lambda: sources_of_plan(read_plan(ran._jdf.queryExecution()), jvm)))


def is_captured(table: FileStoreTable) -> bool:
    """Whether commits to a table record what they were made from; those to system tables do not."""
    return LINEAGE_CAPTURE.of(table.schema.options) and table.name.partition(".")[0] != STORED_DATABASE


def has_moved(lineage: BatchLineage) -> bool:
    """Whether the batch has advanced in the stream of a table: then it is committed even without rows."""
    tables = [one for one in lineage.sources if isinstance(one, TableSource) and one.mode is ReadMode.STREAM]
    return any(one.start != one.end or (one.log is not None and one.log.start != one.log.end) for one in tables)


def reads_tables(lineage: BatchLineage) -> bool:
    """Whether the batch reads tables at known snapshots, beside its streams."""
    tables = [one for one in lineage.sources if isinstance(one, TableSource) and one.mode is ReadMode.BATCH]
    return any(one.is_exact for one in tables)


def inexact(source: Source) -> Source:
    """The source without the snapshot of a table that changes faster than batches are planned."""
    if not isinstance(source, TableSource) or source.mode is not ReadMode.BATCH:
        return source
    return replace(source, end=None, is_exact=False, why="the table has changed each time that Spark planned the batch")


def named_job(lineage: BatchLineage) -> NamedJob | None:
    """The job of a streaming query that has a name; no other query may have the same name."""
    if lineage.query_id is None or lineage.job is None or lineage.job == lineage.query_id:
        return None
    return NamedJob(name=lineage.job, query=lineage.query_id)


def sources_or_unknown(find: Callable[[], list[Source]]) -> list[Source]:
    """The sources of a batch; if their analysis fails, an unknown one with the reason."""

    def unknown(error: Exception) -> list[Source]:
        return [UnknownSource(why=f"the analysis of the query has failed: {cause(error)}")]

    return known_or("the sources of a batch are", find, unknown)


def unique(sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources without duplicates: a plan may read one twice."""
    found: list[Source] = []
    for source in sources:
        if source not in found:
            found.append(source)
    return tuple(found)


def _stream_sources(leaves: Sequence[StreamLeaf | Source | None], running: RunningBatch) -> list[Source]:
    streams = [leaf for leaf in leaves if isinstance(leaf, StreamLeaf)]
    found: list[Source] = [leaf for leaf in leaves if leaf is not None and not isinstance(leaf, StreamLeaf)]
    if len(streams) != len(running.ends):
        why = f"the plan has {len(streams)} streams, the offset log of batch {running.batch_id} {len(running.ends)}"
        return [*found, UnknownSource(why=why)]
    read = (_read(*one, running.execution) for one in zip(streams, running.starts(), running.ends, strict=True))
    return [*read, *found]


def _read(leaf: StreamLeaf, start: str, end: str, execution: Any) -> Source:
    """What a batch reads from a stream between two lines of the offset log."""
    if leaf.table is not None:
        return table_between(leaf.table, start, end)
    if start == NOTHING_READ != end and leaf.stream is not None:  # the offset log does not say where it begins
        start = first_offset(leaf.stream, execution.lastExecution().analyzed()) or start
    return foreign_between(start, end, format_name=leaf.format, name=leaf.name)
