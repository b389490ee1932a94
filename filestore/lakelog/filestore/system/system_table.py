"""A system table: its columns, and its rows, which are read when they are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.html import html_table
from lakelog.common.quoting import listed
from lakelog.common.types import DataField
from lakelog.filestore.predicate import Predicate, RowTest, predicate_of

if TYPE_CHECKING:
    import pandas as pd

# Returns the rows in the columns with these names, and maybe in more columns.
RowsOf = Callable[[Sequence[str]], Iterator[pa.RecordBatch | pa.Table]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """A system table of a table or of a warehouse, such as `db.flights$files`. Each read sees the newest state.

    Columns that are not requested are not computed.
    """

    name: str
    fields: tuple[DataField, ...]
    rows_of: RowsOf

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow gives them."""
        return to_arrow_schema(self.fields)

    def to_batches(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece. `columns` and `where` are as in the reads of a table.

        Raises InvalidRequestError for columns that the system table lacks.
        """
        chosen = self._chosen(columns)
        predicate = predicate_of(where)
        test = None if predicate is None else RowTest(predicate, self.fields)
        return self._batches(chosen, test)

    def _batches(self, chosen: Sequence[DataField], test: RowTest | None) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in chosen]
        tested = [] if test is None else [field.name for field in test.columns if field.name not in names]
        schema = to_arrow_schema(chosen)
        for rows in self.rows_of([*names, *tested]):
            table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
            kept = table if test is None else table.filter(test.passing(table))
            yield from (batch for batch in kept.select(names).cast(schema).to_batches() if batch.num_rows)

    def _chosen(self, columns: str | Sequence[str] | None) -> tuple[DataField, ...]:
        if columns is None:
            return self.fields
        by_name = {field.name: field for field in self.fields}
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise InvalidRequestError(f"{self.name} has no column {listed(unknown)}; its columns are {listed(by_name)}")
        return tuple(by_name[name] for name in names)

    def to_arrow(self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None) -> pa.Table:
        """The rows as an Arrow table."""
        batches = self.to_batches(columns=columns, where=where)
        return pa.Table.from_batches(list(batches), schema=to_arrow_schema(self._chosen(columns)))

    def to_polars(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pl.LazyFrame:
        """The rows as a lazy polars frame. They are read now."""
        frame = pl.from_arrow(self.to_arrow(columns=columns, where=where))
        assert isinstance(frame, pl.DataFrame)
        return frame.lazy()

    def to_pandas(
        self, *, columns: str | Sequence[str] | None = None, where: str | Predicate | None = None
    ) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas."""
        frame: pd.DataFrame = self.to_arrow(columns=columns, where=where).to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def __repr__(self) -> str:
        columns = listed(f"{field.name} {field.type}" for field in self.fields)
        return f"SystemTable({self.name!r}, {columns})"

    def _repr_html_(self) -> str:
        """The columns, as notebooks show them; no I/O."""
        return html_table(self.name, ("column", "type"), [(field.name, str(field.type)) for field in self.fields])
