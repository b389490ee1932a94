"""The lineage of the fields of micro-batches: derived once for each plan of a run, and named by each commit.

The plan of a query does not change while the query runs. A function in `foreachBatch` may make another DataFrame in
each batch: its plan is compared with that of the batch before by its text, in which ids of expressions are numbered by
their first place, since Spark gives new ones to each plan, and by what its leaves read.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.sql import DataFrame

from lakelog.common.clock import Stopwatch
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import BatchLineage, ForeignSource, Source, TableSource
from lakelog.filestore.options import LINEAGE_FIELDS
from lakelog.lineage.columns.declared_fields import declared_checksums
from lakelog.lineage.columns.field_store import REPEAT_MILLIS, with_fields
from lakelog.lineage.columns.plans.derived import Rows
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.lineage.records.best_effort import known_or
from lakelog.spark.capture.field_capture import BatchStitch, plan_fields_of, stitch_of_query

logger = logging.getLogger("lakelog.spark")

_ID = re.compile(r"#\d+")
_FIELDS_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Plan:
    """What identifies the plan of a batch, and where its rows go."""

    text: str
    sources: tuple[Source, ...]
    table: str
    schema_id: int


Derive = Callable[[FileStoreTable], PlanFields]


@dataclass(slots=True)
class BatchFields:
    """What a sink remembers of the plans of its batches.

    `derive` gives the lineage of a sink that knows it without a plan, for the columns that its table has.
    """

    derive: Derive | None = None
    _run: str | None = None
    _stitch: BatchStitch = field(default_factory=lambda: BatchStitch(Rows([], {})))
    _plan: _Plan | None = None
    _checksums: Sequence[str] = ()
    _declared: Sequence[str] | None = None  # for the table, by `made_from`
    _written: Stopwatch = field(default_factory=Stopwatch)

    def of_batch(self, lineage: BatchLineage, table: FileStoreTable, rows: DataFrame, execution: Any) -> BatchLineage:
        """The record of a batch with the lineage of its fields; `execution` is the Java StreamExecution."""
        if not LINEAGE_FIELDS.of(table.schema.options):
            return lineage
        if self._declared is None:
            self._declared = declared_checksums(table)
        if self._declared:
            return replace(lineage, fields=self._declared)
        known = _Plan("", (), table.path, table.schema.id)
        if self.derive is None:
            if self._run != lineage.run_id:
                self._stitch = stitch_of_query(execution, rows.sparkSession._jvm)
                self._plan, self._run = None, lineage.run_id
            states = tuple(_without_versions(source) for source in lineage.sources)
            known = replace(known, text=_text_of(rows), sources=states)
        if known != self._plan or self._written.millis() > REPEAT_MILLIS:
            found = plan_fields_of(rows, stitch=self._stitch) if self.derive is None else self.derive(table)
            self._checksums = with_fields(lineage, table, found).fields
            # What could not be written is tried again with the next batch.
            self._plan, self._written = (known if self._checksums else None), Stopwatch()
        return replace(lineage, fields=self._checksums)


def _text_of(rows: DataFrame) -> str:
    """The text of the plan of a batch, the same for the same plan with other ids."""
    numbers: dict[str, str] = {}

    def printed() -> str:
        return str(rows._jdf.queryExecution().analyzed().treeString(True, False, _FIELDS_MAX, False, False))

    text = known_or("the text of the plan of a batch is", printed, lambda _: uuid.uuid4().hex)  # like no other
    return _ID.sub(lambda found: numbers.setdefault(found[0], f"#{len(numbers)}"), text)


def _without_versions(source: Source) -> Source:
    """What a batch reads, without how far."""
    match source:
        case TableSource():
            return replace(source, start=None, end=None, is_exact=False, log=None, why=None)
        case ForeignSource():
            return replace(source, start=None, end=None)
    return source
