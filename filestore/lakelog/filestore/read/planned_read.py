"""A read whose splits are planned: its rows as batches, and as an Arrow stream that can be opened repeatedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.threads import in_threads, thread_count
from lakelog.common.types import DataField
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.predicate.tree import And
from lakelog.filestore.read.fallback import plan_read
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import begin_splits, read_frames, read_splits

_SPLITS_BEGUN = 8  # whose files are fetched at once before threads read them one after another


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRead:
    """A planned read of a snapshot. Every call returns the same rows.

    Files and row groups in which all rows fail `skip` are left out; rows that fail `where` are always left out.
    """

    table: TableStore
    fields: Sequence[DataField]
    where: Predicate | None
    skip: Predicate | None = None
    splits: Sequence[DataSplit]
    budget_bytes: int

    @classmethod
    def of(
        cls,
        table: TableStore,
        snapshot: Snapshot | None,
        fields: Sequence[DataField],
        *,
        where: Predicate | None = None,
        skip: Predicate | None = None,
    ) -> Self:
        """The read of a snapshot, in these columns. Plans it; raises as `plan_read`."""
        parts = tuple(part for part in (where, skip) if part is not None)
        return cls(
            table=table,
            fields=tuple(fields),
            where=where,
            skip=skip,
            splits=plan_read(table, snapshot, where=And(parts=parts) if parts else None).splits,
            budget_bytes=READ_MEMORY_BUDGET.understood(table.schema.options),
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return to_arrow_schema(self.fields)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows split by split, in no order."""
        return self._of(self.splits)

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows split by split as polars frames, in no order; maps become lists of key and value."""
        if self.where is not None:  # `batches` joins the small pieces of a lookup before the test
            return (pl.DataFrame(batch) for batch in self.batches())
        names = [field.name for field in self.fields]
        return read_frames(
            self.table, self.splits, columns=names, skip=self.skip, memory_budget_bytes=self.budget_bytes
        )

    def to_table(self) -> pa.Table:
        """All rows at once, read on all cores, which share the memory budget."""
        begin_splits(self.table, self.splits[:_SPLITS_BEGUN])
        left = deque(self.splits)

        def rows(_: int, budget_bytes: int) -> list[pa.RecordBatch]:
            return list(replace(self, budget_bytes=budget_bytes)._of(_taken(left)))

        parts = in_threads(rows, range(thread_count(len(self.splits))), budget_bytes=self.budget_bytes)
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def count(self) -> int:
        """The number of rows; reads only the files in which rows may be replaced, deleted or filtered out."""
        is_known = self.where is None and not self.table.schema.is_change_log
        known = 0
        unknown: list[DataSplit] = []
        for split in self.splits:
            if is_known and split.is_plain:
                known += split.row_count
            else:
                unknown.append(split)
        for batch in self._of(unknown):
            known += int(batch.num_rows)
        return known

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, cast to `requested_schema` if it is given.

        Raises ValueError for a schema that the columns cannot be cast to.
        """
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def _of(self, splits: Iterable[DataSplit]) -> Iterator[pa.RecordBatch]:
        return read_splits(
            self.table,
            splits,
            columns=[field.name for field in self.fields],
            where=self.where,
            skip=self.skip,
            memory_budget_bytes=self.budget_bytes,
        )


def _taken(splits: deque[DataSplit]) -> Iterator[DataSplit]:
    """The splits of a queue that threads share, one at a time."""
    while splits:
        try:
            yield splits.popleft()
        except IndexError:  # another thread took the last one
            return
