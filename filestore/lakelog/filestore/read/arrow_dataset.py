"""Reads as datasets of Arrow: DuckDB says which columns and rows a query needs, and only those are read.

DuckDB pushes columns and filters into what is a `pyarrow.dataset.Dataset`, by calls of `scanner`. It does not apply a
filter again that it pushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any  # Any: expressions of Arrow, which has no types

import pyarrow as pa
import pyarrow.dataset

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.arrow_filter import columns_of, predicate_of
from lakelog.filestore.read.planned_read import PlannedRead


class LakelogDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # Arrow has no types
    """The rows of `planned`, which is asked for columns and for rows that a filter may want, as a dataset.

    It has what DuckDB asks of a dataset, its schema and `scanner`, and nothing else of one.
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
        """The rows that pass the filter, in the given columns, all by default. The read is planned here."""
        names = [field.name for field in self._fields]
        wanted = names if columns is None else list(columns)
        if filter is None:
            return LakelogScanner(self._planned(wanted, None), wanted, None)
        needed = {name for name in names if name in wanted} | columns_of(filter)
        read = [name for name in names if name in needed]
        return LakelogScanner(self._planned(read, predicate_of(filter, self._fields)), wanted, filter)


class LakelogScanner:
    """A read of a dataset: the rows of `read` that pass an expression of Arrow, in the columns `names`."""

    def __init__(self, read: PlannedRead, names: Sequence[str], expression: Any) -> None:
        self._read = read
        self._names = names
        self._expression = expression

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream; a file is opened when its turn comes."""
        schema = self._read.schema
        selected = pa.schema([schema.field(name) for name in self._names])
        return pa.RecordBatchReader.from_batches(selected, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._read.batches():
            rows = batch if self._expression is None else batch.filter(self._expression)
            if rows.num_rows:
                yield rows.select(self._names)
