"""Aggregate functions of merge engines: one value of a column for each key. Pure.

Nulls are left out but by `first_value` and `last_value`. A retraction (-U or -D) takes back what `sum` and the last
values have; the other functions cannot. Source: Paimon spec, "Aggregation"; Paimon, `FieldAggregator`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any  # Any: values of list and map columns

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.merge.grouped import Flags, GroupedRows
from lakelog.filestore.merge.order import to_series

PREFIX = "fields."
_DEFAULT_KEY = f"{PREFIX}default-aggregate-function"
LAST_VALUE = "last_value"
_FALLBACK = "last_non_null_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The function of one column, with its options."""

    field: DataField
    function: str
    ignores_retract: bool = False
    delimiter: str = ","
    is_distinct: bool = False

    def of(self, given: GroupedRows) -> pa.Array | pa.ChunkedArray:
        """One value a key. Raises InvalidRequestError for a retraction that the function cannot take back."""
        name = self.field.name
        used = np.ones(given.rows.num_rows, np.bool_)
        if self.ignores_retract:
            used = given.adds
        retracts = ~given.adds & used
        if retracts.any() and self.function not in _RETRACTING:
            raise InvalidRequestError(
                f"column {name!r} is aggregated by {self.function}, which cannot take back a -U or -D; set "
                f"{PREFIX}{name}.ignore-retract=true, or write no retractions"
            )
        values = _FUNCTIONS[self.function](self, given, used, retracts)
        return values if values.type == to_arrow_type(self.field.type) else values.cast(to_arrow_type(self.field.type))


def aggregate_of(field: DataField, options: Mapping[str, str]) -> Aggregate:
    """The aggregate of a column by the table's options. Raises UnsupportedError for a function that lakelog lacks."""
    own = options.get(f"{PREFIX}{field.name}.aggregate-function")
    function = own or options.get(_DEFAULT_KEY) or _FALLBACK
    if function not in _FUNCTIONS:
        raise UnsupportedError(
            f"column {field.name!r} has the aggregate function {function!r}; known are {', '.join(sorted(_FUNCTIONS))}"
        )
    return Aggregate(
        field=field,
        function=function,
        ignores_retract=options.get(f"{PREFIX}{field.name}.ignore-retract", "false").lower() == "true",
        delimiter=options.get(f"{PREFIX}{field.name}.list-agg-delimiter", ","),
        is_distinct=options.get(f"{PREFIX}{field.name}.distinct", "false").lower() == "true",
    )


def has_aggregate(field: DataField, options: Mapping[str, str]) -> bool:
    """Whether options name a function for a column."""
    return f"{PREFIX}{field.name}.aggregate-function" in options or _DEFAULT_KEY in options


def _folded(given: GroupedRows, values: pl.Series, fold: pl.Expr) -> pa.Array:
    """A polars aggregate of each key's values, null where there are none."""
    frame = pl.DataFrame({"group": given.groups, "value": values})
    found = frame.group_by("group", maintain_order=True).agg(
        pl.when(pl.col("value").count() > 0).then(fold).alias("value")
    )
    return found["value"].to_arrow()


def _used(one: Aggregate, given: GroupedRows, used: Flags) -> pl.Series:
    values = to_series(given.rows.column(one.field.name))
    if used.all():
        return values
    return pl.select(pl.when(pl.Series(used)).then(values)).to_series()


def _sum(one: Aggregate, given: GroupedRows, used: Flags, retracts: Flags) -> pa.Array:
    values = _used(one, given, used)
    if retracts.any():
        values = pl.select(pl.when(pl.Series(retracts)).then(-values).otherwise(values)).to_series()
    total = _folded(given, values, pl.col("value").sum())
    wanted = to_arrow_type(one.field.type)
    return total.cast(wanted, safe=False) if pa.types.is_integer(wanted) else total


def _product(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    if one.field.type.root is TypeRoot.DECIMAL:
        return _by_key(one, given, used, _multiplied)
    return _folded(given, _used(one, given, used), pl.col("value").drop_nulls().product())


def _multiplied(values: Iterable[Any], _: Aggregate) -> Any:
    product = None
    for value in values:
        product = value if product is None else product * value
    return product


def _max(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").max())


def _min(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").min())


def _bool_and(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").all())


def _bool_or(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").any())


def _listagg(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    joined = pl.col("value").drop_nulls().str.join(one.delimiter)
    return _folded(given, _used(one, given, used), joined).cast(pa.string())


def _last_value(one: Aggregate, given: GroupedRows, used: Flags, retracts: Flags) -> pa.ChunkedArray:
    last = given.last(used)
    return given.gather(one.field.name, np.where((last >= 0) & retracts[last], -1, last))


def _last_non_null_value(one: Aggregate, given: GroupedRows, used: Flags, retracts: Flags) -> pa.ChunkedArray:
    last = given.last(used & given.valid(one.field.name))
    return given.gather(one.field.name, np.where((last >= 0) & retracts[last], -1, last))


def _first_value(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.ChunkedArray:
    return given.gather(one.field.name, given.first(used))


def _first_non_null_value(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.ChunkedArray:
    return given.gather(one.field.name, given.first(used & given.valid(one.field.name)))


def _collect(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _by_key(one, given, used, _collected)


def _collected(lists: Iterable[list[Any]], one: Aggregate) -> list[Any]:
    found: list[Any] = []
    for values in lists:
        found += [value for value in values if not one.is_distinct or value not in found]
    return found


def _merge_map(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _by_key(one, given, used, _merged_maps)


def _merged_maps(maps: Iterable[list[tuple[Any, Any]]], _: Aggregate) -> list[tuple[Any, Any]]:
    return list(dict(entry for entries in maps for entry in entries).items())


def _by_key(one: Aggregate, given: GroupedRows, used: Flags, fold: Callable[[list[Any], Aggregate], Any]) -> pa.Array:
    """A fold in Python, for what has no columnar form: lists, maps and products of decimals."""
    values = given.rows.column(one.field.name).to_pylist()
    bounds = [*given.starts.tolist(), given.rows.num_rows]
    folded = []
    for start, end in itertools.pairwise(bounds):
        found = [value for value, is_used in zip(values[start:end], used[start:end], strict=True) if is_used]
        present = [value for value in found if value is not None]
        folded.append(fold(present, one) if present else None)
    return pa.array(folded, to_arrow_type(one.field.type))


_FUNCTIONS: Mapping[str, Callable[[Aggregate, GroupedRows, Flags, Flags], pa.Array | pa.ChunkedArray]] = {
    "sum": _sum,
    "product": _product,
    "max": _max,
    "min": _min,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "listagg": _listagg,
    LAST_VALUE: _last_value,
    "last_non_null_value": _last_non_null_value,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null_value,
    "collect": _collect,
    "merge_map": _merge_map,
}
_RETRACTING = {"sum", LAST_VALUE, "last_non_null_value"}
