"""A read whose splits are known: its rows as batches, and as an Arrow stream that can be opened again and again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.predicate import Predicate, RowTest
from lakelog.filestore.read import rows_of_split
from lakelog.filestore.scan import DataSplit
from lakelog.filestore.store import TableStore


@dataclass(frozen=True, kw_only=True)
class PlannedRead:
    """What to read of a snapshot, and how. Every consumer sees the same rows."""

    table: TableStore
    fields: Sequence[DataField]
    where: Predicate | None
    splits: Sequence[DataSplit]
    budget_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return to_arrow_schema(self.fields)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows split by split, in no order."""
        return (batch for split in self.splits for batch in self._of_split(split))

    def to_table(self) -> pa.Table:
        """All rows at once, read on all cores, which share the memory budget."""
        workers = max(1, min(os.cpu_count() or 1, len(self.splits)))
        if workers == 1:  # a lookup is over before a thread has started
            return pa.Table.from_batches(self.batches(), self.schema)
        shared = replace(self, budget_bytes=self.budget_bytes // workers)
        with ThreadPoolExecutor(workers) as pool:
            parts = pool.map(lambda split: list(shared._of_split(split)), self.splits)
            return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, cast to `requested_schema` where that is asked for.

        Raises ValueError for a schema that the columns cannot be cast to.
        """
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def _of_split(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        return rows_of_split(self.table, split, self.fields, self._test, budget_bytes=self.budget_bytes)

    @cached_property
    def _test(self) -> RowTest | None:
        return None if self.where is None else RowTest(self.where, self.table.schema.fields)
