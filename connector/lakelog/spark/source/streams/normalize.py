"""A full changelog by means of Spark's state, for changes whose old rows are in no table.

The row of each key is the state of a stateful operator. A row is passed to Python as one array of strings, and Spark
SQL casts in both directions: a pandas column holds neither a BIGINT beside nulls nor a decimal exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any  # Any: keys, frames and states of PySpark's operator are untyped

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.spark.session import prepare_session

if TYPE_CHECKING:
    import pandas as pd

_ROW, _KIND, _ORDER, _KEY = "row", "kind", "order", "key"
_OUTPUT = f"{_ROW} ARRAY<STRING>, {_KIND} STRING"
_OUTPUT_MODES = ("append", "update")

Cast = Callable[[Column], Column]


def normalize(
    changes: DataFrame, keys: str | Sequence[str], *, order_by: str | None = None, output_mode: str = "append"
) -> DataFrame:
    """A full changelog made from upserts and deletes, by means of Spark's state, which holds one row per key.

    `changes` have the column `_row_kind`; `+I` and `+U` are upserts, `-U` is ignored. `keys` are the columns that
    identify a row. The result has the same columns: an upsert of an absent key is `+I`, of a present one `-U` and `+U`,
    a delete `-D` with the old row; what changes nothing is left out. A key is absent until its first upsert: start with
    all rows (`log.scan=full`).

    Changes of a key are taken in the order of the column `order_by`, an integer, a date or a timestamp. Without it they
    are taken in the order in which one task of the source gives them, as all changes of a key in a stream of a lakelog
    table are. `output_mode`, "append" or "update", is that of the query. If a lakelog table has the old rows, its
    option `scan.normalize` needs no state.

    Raises InvalidRequestError, and UnsupportedError for columns of nested types. Source: FLIP-188, "Changelog Mode".
    """
    prepare_session(changes.sparkSession)
    names = [keys] if isinstance(keys, str) else list(keys)
    columns = [field for field in changes.schema.fields if field.name != ROW_KIND_COLUMN]
    _check(changes, names, order_by, output_mode)
    casts = {field.name: _casts_of(field) for field in columns}

    def packed(wanted: Iterable[str]) -> Column:
        return sf.array(*(casts[name][0](sf.col(quoted_name(name))) for name in wanted))

    rows = changes.select(
        packed(names).alias(_KEY),
        packed(field.name for field in columns).alias(_ROW),
        sf.col(ROW_KIND_COLUMN).alias(_KIND),
        *([] if order_by is None else [_order_of(changes, order_by).alias(_ORDER)]),
    )
    if order_by is None:
        rows = rows.mapInArrow(_numbered, spark.StructType([*rows.schema.fields, _LONG_ORDER]))
    # Spark 4.3 passes the state's type in lower case, and cannot parse it if it is an array.
    state = ", ".join(f"c{place} STRING" for place in range(len(columns)))
    found = rows.groupBy(_KEY).applyInPandasWithState(
        _normalized_key, _OUTPUT, state, output_mode.capitalize(), "NoTimeout"
    )
    unpacked = [casts[field.name][1](sf.col(_ROW)[place]).alias(field.name) for place, field in enumerate(columns)]
    kinds = sf.col(_KIND).alias(ROW_KIND_COLUMN)
    by_name = dict(zip([field.name for field in columns], unpacked, strict=True)) | {ROW_KIND_COLUMN: kinds}
    return found.select(*(by_name[name] for name in changes.columns))


_LONG_ORDER = spark.StructField(_ORDER, spark.LongType(), False)


def _check(changes: DataFrame, keys: Sequence[str], order_by: str | None, output_mode: str) -> None:
    """Raise InvalidRequestError unless the arguments go together."""
    if ROW_KIND_COLUMN not in changes.columns:
        raise InvalidRequestError(
            f"the changes to normalize have no column {ROW_KIND_COLUMN!r}, which says what each row does "
            f"({', '.join(ROW_KIND_TEXTS)}); a stream of a table has it with option('row-kind', 'true')"
        )
    named = [*keys, *([] if order_by is None else [order_by])]
    missing = [name for name in named if name not in changes.columns]
    if missing or not keys:
        what = f"the columns {listed(missing)}" if missing else "no key"
        raise InvalidRequestError(
            f"normalize was given {what}, found in the changes: {listed(changes.columns)}; name columns that they have"
        )
    if output_mode not in _OUTPUT_MODES:
        raise InvalidRequestError(
            f"output_mode takes {' or '.join(_OUTPUT_MODES)}, as the query that reads the result, found {output_mode!r}"
        )


def _casts_of(field: spark.StructField) -> tuple[Cast, Cast]:
    """The casts of a column's values to exact strings, and back."""
    kind = field.dataType
    if isinstance(kind, spark.DateType):
        return lambda given: sf.unix_date(given).cast("string"), lambda text: sf.date_from_unix_date(text.cast("int"))
    if isinstance(kind, spark.TimestampType):
        return (
            lambda given: sf.unix_micros(given).cast("string"),
            lambda text: sf.timestamp_micros(text.cast("bigint")),
        )
    if isinstance(kind, spark.BinaryType):
        return sf.hex, sf.unhex
    if isinstance(kind, spark.NumericType | spark.BooleanType | spark.StringType | spark.TimestampNTZType):
        return lambda given: given.cast("string"), lambda text: text.cast(kind)
    raise UnsupportedError(
        f"column {field.name!r} has the type {kind.simpleString()}, which normalize cannot keep as state; leave the "
        "column out, or make a string of it with to_json"
    )


def _order_of(changes: DataFrame, name: str) -> Column:
    """The column that orders changes, as a BIGINT without nulls."""
    given, kind = sf.col(quoted_name(name)), changes.schema[name].dataType
    if isinstance(kind, spark.DateType):
        number = sf.unix_date(given)
    elif isinstance(kind, spark.TimestampType):
        number = sf.unix_micros(given)
    elif isinstance(kind, spark.IntegralType):
        number = given
    else:
        raise InvalidRequestError(
            f"order_by names the column {name!r} of the type {kind.simpleString()}; it takes an integer, a date or a "
            "timestamp with a zone"
        )
    text = sf.lit(f"column {name!r}, by which normalize orders the changes of a key, has a null")
    return sf.when(given.isNull(), sf.raise_error(text)).otherwise(number).cast("bigint")


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one task with their numbers."""
    count = 0
    for batch in batches:
        numbers = pa.array(np.arange(count, count + batch.num_rows, dtype=np.int64))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, _ORDER])
        count += batch.num_rows


def _normalized_key(_key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The changes of one key in one batch; the state is its row."""
    import pandas as pd  # noqa: PLC0415  # workers alone need it

    before = list(state.get) if state.exists else None
    given = [
        (order, kind, list(row))
        for frame in frames
        for order, kind, row in zip(frame[_ORDER], frame[_KIND], frame[_ROW], strict=True)
    ]
    given.sort(key=lambda one: one[0])
    changes: list[tuple[list[str | None], str]] = []
    for _order, kind, row in given:
        if kind == "-U":
            continue
        after = None if kind == "-D" else row
        if after == before:
            continue
        if before is not None:
            changes.append((before, "-D" if after is None else "-U"))
        if after is not None:
            changes.append((after, "+I" if before is None else "+U"))
        before = after
    if before is not None:
        state.update(tuple(before))
    elif state.exists:
        state.remove()
    if changes:
        yield pd.DataFrame({_ROW: [row for row, _ in changes], _KIND: [kind for _, kind in changes]})
