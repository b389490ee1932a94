"""The rows that users give to a write: tables, batches and streams of Arrow, and frames of other libraries.

Rows in memory become an Arrow table. A stream stays a stream: its batches are read one after the other. No library is
imported that was not imported before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard  # Any: pandas and DuckDB are optional extras

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_COLUMN

if TYPE_CHECKING:
    import pandas as pd

_TAKEN = (
    "an Arrow table, record batch or reader, a polars DataFrame or LazyFrame, a pandas DataFrame, a DuckDB relation, "
    "or anything with __arrow_c_stream__ or __arrow_c_array__"
)
_WAYS_OUT = {
    "pyspark": "write it with df.write.format('lakelog'), or take df.toArrow()",
    "list": "make a table of it with pyarrow.Table.from_pylist",
    "dict": "make a table of it with pyarrow.table",
    "generator": "make a stream of it with pyarrow.RecordBatchReader.from_batches",
    "Dataset": "take dataset.scanner().to_reader()",
}
_OLDEST = pl.CompatLevel.oldest()  # without views: Arrow cannot give the bytes of a batch with them


class ArrowStream(Protocol):
    """An object that can export its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """An object that can export its rows as one Arrow struct array."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowInput:
    """Rows to write: a table in memory, or a stream.

    `opened` starts the stream, which may give its rows only once.
    """

    schema: pa.Schema
    table: pa.Table | None = None
    opened: Callable[[], Iterator[pa.RecordBatch]] | None = None

    @property
    def columns(self) -> pa.Schema:
        """The columns without `_row_kind`."""
        return pa.schema([field for field in self.schema if field.name != ROW_KIND_COLUMN])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in their order. Called once."""
        if self.table is not None:
            return iter(self.table.to_batches())
        assert self.opened is not None
        return self.opened()


Rows = ArrowStream | ArrowArray | pl.LazyFrame | RowInput  # a pandas DataFrame is an ArrowStream


def row_source(rows: Rows) -> RowInput:
    """The rows as Arrow; a stream is not started. Raises InvalidRequestError for other objects."""
    if isinstance(rows, RowInput):
        return rows
    if isinstance(rows, pa.Table):
        return RowInput(schema=rows.schema, table=rows)
    if isinstance(rows, pl.LazyFrame):
        return _of_lazy_frame(rows)
    if _is_pandas_frame(rows):
        return _in_memory(_of_pandas(rows))
    if isinstance(rows, pl.DataFrame):
        return _in_memory(arrow_of_polars(rows))
    if isinstance(rows, pa.RecordBatch) or hasattr(rows, "__arrow_c_array__"):
        return _in_memory(_of_array(rows))
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, type):
        return _of_stream(rows)
    raise _not_rows(rows)


def arrow_of_polars(frame: pl.DataFrame) -> pa.Table:
    """The rows of a frame as Arrow. Raises InvalidRequestError that names each column of a type that Arrow lacks."""
    refused = [f"{name!r} ({kind})" for name, kind in frame.schema.items() if _has_no_arrow(kind)]
    if refused:
        raise InvalidRequestError(
            f"the polars DataFrame has columns of types that Arrow lacks: {', '.join(refused)}; cast Int128 and "
            "UInt128 to Decimal(38, 0), and replace objects by plain values"
        )
    return frame.to_arrow(compat_level=_OLDEST)


def _has_no_arrow(kind: pl.DataType) -> bool:
    if isinstance(kind, pl.Struct):
        return any(_has_no_arrow(field.dtype) for field in kind.fields)  # type: ignore[arg-type]  # an instance here
    if isinstance(kind, pl.List | pl.Array):
        return _has_no_arrow(kind.inner)  # type: ignore[arg-type]  # an instance here
    return isinstance(kind, pl.Object | pl.Int128 | pl.UInt128 | pl.Unknown)


def _in_memory(table: pa.Table) -> RowInput:
    return RowInput(schema=table.schema, table=table)


def _of_array(rows: Any) -> pa.Table:
    try:
        return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else pa.table(pa.record_batch(rows))
    except (pa.ArrowInvalid, TypeError, ValueError) as error:  # a single column
        raise _not_rows(rows) from error


def _is_pandas_frame(rows: object) -> TypeGuard[pd.DataFrame]:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def _of_pandas(frame: pd.DataFrame) -> pa.Table:
    """The columns, and the named levels of the index; nulls are those of pandas, including NaN."""
    named = [name for name in frame.index.names if name is not None]
    flat = frame.reset_index(named) if named else frame
    try:
        return pa.Table.from_pandas(flat, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise InvalidRequestError(f"the pandas DataFrame cannot become an Arrow table: {error}") from error


def _of_lazy_frame(frame: pl.LazyFrame) -> RowInput:
    """The rows of a query, which runs while they are read, in their order."""

    def opened() -> Iterator[pa.RecordBatch]:
        for piece in frame.collect_batches(maintain_order=True):
            yield from piece.to_arrow(compat_level=_OLDEST).to_batches()

    empty = pl.DataFrame(schema=frame.collect_schema())
    return RowInput(schema=arrow_of_polars(empty).schema, opened=opened)


def _of_stream(rows: ArrowStream) -> RowInput:
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
    except (pa.ArrowInvalid, TypeError, ValueError) as error:  # a stream of single values
        raise _not_rows(rows) from error

    def opened() -> Iterator[pa.RecordBatch]:
        with reader as started:
            yield from started

    return RowInput(schema=reader.schema, opened=opened)


def _not_rows(found: object) -> InvalidRequestError:
    kind = type(found)
    package = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{kind.__qualname__} of {package}"
    way_out = _WAYS_OUT.get(package) or _WAYS_OUT.get(kind.__name__) or _WAYS_OUT.get(kind.__bases__[0].__name__, "")
    return InvalidRequestError(f"write takes {_TAKEN}; found {name}{way_out and '; '}{way_out}")
