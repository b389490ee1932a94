"""Reads as Arrow datasets: DuckDB passes the columns and filters of a query, and only those columns and rows are read.

DuckDB pushes columns and filters into a `pyarrow.dataset.Dataset`, by calls of `scanner`. It does not apply a pushed
filter again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any  # Any: expressions of Arrow, which has no types

import pyarrow as pa
import pyarrow.dataset

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.arrow_filter import ArrowFilter
from lakelog.filestore.read.planned_read import PlannedRead


class LakelogDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # Arrow has no types
    """A dataset over `planned`, which plans a read of some columns with a filter that only skips rows.

    It has the members of a dataset that DuckDB uses, `schema` and `scanner`, and no others.
    """

    def __init__(
        self, fields: Sequence[DataField], planned: Callable[[Sequence[str], Predicate | None], PlannedRead]
    ) -> None:
        self._fields = fields
        self._planned = planned

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return to_arrow_schema(self._fields)

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None) -> LakelogScanner:
        """The rows that pass the filter, in the given columns (all by default). The read is planned here."""
        names = [field.name for field in self._fields]
        wanted = names if columns is None else list(columns)
        if filter is None:
            return LakelogScanner(self._planned(wanted, None), wanted, None)
        parsed = ArrowFilter(filter)
        needed = {name for name in names if name in wanted} | parsed.columns()
        read = [name for name in names if name in needed]
        return LakelogScanner(self._planned(read, parsed.predicate(self._fields)), wanted, filter)


class LakelogScanner:
    """A read of a dataset: the rows of `read` that pass an expression of Arrow, in the columns `names`."""

    def __init__(self, read: PlannedRead, names: Sequence[str], expression: Any) -> None:
        self._read = read
        self._names = names
        self._expression = expression

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream, which opens one file after the other."""
        schema = self._read.schema
        selected = pa.schema([schema.field(name) for name in self._names])
        return pa.RecordBatchReader.from_batches(selected, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._read.batches():
            rows = batch if self._expression is None else batch.filter(self._expression)
            if rows.num_rows:
                yield rows.select(self._names)
