"""Aggregate functions of merge engines: one value of a column for each key. Pure.

Nulls are ignored except by `first_value` and `last_value`. Sums, products, lists, maps and last values can take back a
retraction (-U or -D); the other functions cannot. Functions without a columnar form, and those that depend on the order
of late rows in a sequence group, are folded value by value, see `lakelog.filestore.merge.folds`.
Source: Paimon spec, "Aggregation"; Paimon, `FieldAggregator`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.common.options import parse_names
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.encoding.binary_row import MAX_COMPACT_PRECISION
from lakelog.filestore.encoding.java_strings import BLANKS
from lakelog.filestore.merge.folds import FOLDS, FoldSettings, Step, fold
from lakelog.filestore.merge.grouped import Flags, GroupedRows
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.options.field_options import AGGREGATE, DEFAULT_AGGREGATE, field_key

_IGNORE_RETRACT = "ignore-retract"
_LAST_VALUE = "last_value"
_FALLBACK = "last_non_null_value"
_NESTED_SEQUENCE = "nested-sequence-field"
_FLOATS = {TypeRoot.FLOAT, TypeRoot.DOUBLE}
_NUMBERS = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The function of one column, with its options."""

    field: DataField
    function: str
    ignores_retract: bool = False
    settings: FoldSettings

    def of(
        self, given: GroupedRows, *, counts: Flags | None = None, late: Flags | None = None
    ) -> pa.Array | pa.ChunkedArray:
        """One value per key, from the rows that count. The `late` rows of a sequence group come before the others.

        Raises InvalidRequestError for a retraction that the function does not support.
        """
        used = np.ones(given.rows.num_rows, np.bool_) if counts is None else counts
        if self.ignores_retract:
            used = used & given.adds
        retracts = ~given.adds & used
        if retracts.any():
            self.check_takes_back()
        is_late = np.zeros_like(used) if late is None else late & used
        if self._is_folded(given, retracts, is_late):
            values = self._folded(given, used, is_late)
        else:
            values = _FUNCTIONS[self.function](self, given, used, retracts)
        return values if values.type == to_arrow_type(self.field.type) else values.cast(to_arrow_type(self.field.type))

    def check_takes_back(self) -> None:
        """Raise InvalidRequestError for a function that cannot take back a retraction."""
        if not self.ignores_retract and self.function not in _RETRACTING:
            name = self.field.name
            raise InvalidRequestError(
                f"column {name!r} is aggregated by {self.function}, which cannot take back a -U or -D; set "
                f"{field_key(name, _IGNORE_RETRACT)}=true, or write no retractions"
            )

    def _is_folded(self, given: GroupedRows, retracts: Flags, late: Flags) -> bool:
        """Whether the values are folded one by one."""
        if self.function not in _FUNCTIONS:
            return True
        if self.function == "listagg":
            return self.settings.is_distinct or bool(late.any())
        if self.function == "sum":
            is_wide = (
                self.field.type.root is TypeRoot.DECIMAL and (self.field.type.precision or 0) > MAX_COMPACT_PRECISION
            )
            return is_wide and _may_outgrow(given, self.field)
        return self.function in FOLDS and bool(late.any() or retracts.any())

    def _folded(self, given: GroupedRows, used: Flags, late: Flags) -> pa.Array:
        values = given.rows.column(self.field.name).to_pylist()
        steps = [
            None if not is_used else Step.TAKE_BACK if not is_add else Step.ADD_LATE if is_late else Step.ADD
            for is_used, is_add, is_late in zip(used.tolist(), given.adds.tolist(), late.tolist(), strict=True)
        ]
        make = partial(FOLDS[self.function], self.settings)
        bounds = itertools.pairwise([*given.starts.tolist(), given.rows.num_rows])
        found = [
            fold(make, values[start:end], steps[start:end], is_swapped=self.ignores_retract) for start, end in bounds
        ]
        return pa.array(found, to_arrow_type(self.field.type))


def aggregate_of(field: DataField, options: Mapping[str, str]) -> Aggregate:
    """The aggregate of a column by the table's options. Raises UnsupportedError for a function that lakelog lacks."""

    def option(suffix: str, default: str) -> str:
        return options.get(field_key(field.name, suffix), default)

    function = option(AGGREGATE, "") or options.get(DEFAULT_AGGREGATE) or _FALLBACK
    function = _OLDER_NAMES.get(function, function)
    known = {*_FUNCTIONS, *FOLDS}
    if function not in known:
        raise UnsupportedError(
            f"column {field.name!r} has the aggregate function {function!r}; known are {', '.join(sorted(known))}"
        )
    roots = _ROOTS.get(function)
    if roots is not None and field.type.root not in roots:
        raise InvalidRequestError(
            f"column {field.name!r} has the type {field.type} and the aggregate function {function!r}, which is for "
            f"{', '.join(root.value for root in roots)}; choose another function or type"
        )
    if option(_NESTED_SEQUENCE, ""):
        raise UnsupportedError(f"column {field.name!r} has the option {_NESTED_SEQUENCE}, which lakelog lacks")
    limit = option("count-limit", "")
    settings = FoldSettings(
        kind=field.type,
        delimiter=option("list-agg-delimiter", ","),
        is_distinct=option("distinct", "false").lower() == "true",
        nested_key=parse_names(option("nested-key", "")),
        count_limit=_count_limit(field, limit) if limit else None,
    )
    ignores_retract = option(_IGNORE_RETRACT, "false").lower() == "true"
    return Aggregate(field=field, function=function, ignores_retract=ignores_retract, settings=settings)


def _count_limit(field: DataField, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise OptionError.bad_value(field_key(field.name, "count-limit"), text, "a whole number") from error


def last_value(field: DataField) -> Aggregate:
    """The aggregate of a column that has the value of the last row."""
    return Aggregate(field=field, function=_LAST_VALUE, settings=FoldSettings(kind=field.type))


def has_aggregate(field: DataField, options: Mapping[str, str]) -> bool:
    """Whether the options name a function for a column."""
    return field_key(field.name, AGGREGATE) in options or DEFAULT_AGGREGATE in options


def _folded(given: GroupedRows, values: pl.Series, fold: pl.Expr) -> pa.Array:
    """A polars aggregate of each key's values, null if there are none."""
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
    if one.field.type.root in _FLOATS:
        return _float_sum(given, values)
    total = _folded(given, values, pl.col("value").sum())
    wanted = to_arrow_type(one.field.type)
    try:
        return total.cast(wanted, safe=not pa.types.is_integer(wanted))
    except pa.ArrowInvalid as error:  # Paimon stores more digits than the type has
        raise UnsupportedError(f"a sum of column {one.field.name!r} has more digits than {one.field.type}") from error


def _float_sum(given: GroupedRows, values: pl.Series) -> pa.Array:
    """The sums in the order of the rows and the precision of the type, which rounds as Java does."""
    is_null = values.is_null().to_numpy()
    numbers = values.fill_null(0).to_numpy()
    lengths = given.ends - given.starts + 1
    total = np.zeros(len(lengths), numbers.dtype)
    is_empty = np.ones(len(lengths), np.bool_)
    by_length = np.argsort(-lengths, kind="stable")
    with np.errstate(all="ignore"):
        for at in range(int(lengths.max(initial=0))):
            keys = by_length[: np.searchsorted(-lengths[by_length], -at)]
            keys = keys[~is_null[given.starts[keys] + at]]
            added = numbers[given.starts[keys] + at]
            total[keys] = np.where(is_empty[keys], added, total[keys] + added)
            is_empty[keys] = False
    return pa.array(total, mask=is_empty)


def _may_outgrow(given: GroupedRows, field: DataField) -> bool:
    """Whether sums of decimals could have more digits than their type."""
    extremes = pc.min_max(given.rows.column(field.name)).as_py()
    # Fractions keep all digits; decimals would be rounded to the 28 of Python's context.
    largest = max((abs(Fraction(value)) for value in extremes.values() if value is not None), default=0)
    longest = int((given.ends - given.starts + 1).max(initial=0))
    return bool(largest * longest >= 10 ** ((field.type.precision or 0) - (field.type.scale or 0)))


def _max(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array | pa.ChunkedArray:
    if one.field.type.root in _FLOATS:
        return _float_extreme(one, given, used, pl.col("order").arg_max())
    return _folded(given, _used(one, given, used), pl.col("value").max())


def _min(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array | pa.ChunkedArray:
    if one.field.type.root in _FLOATS:
        return _float_extreme(one, given, used, pl.col("order").arg_min())
    return _folded(given, _used(one, given, used), pl.col("value").min())


def _float_extreme(one: Aggregate, given: GroupedRows, used: Flags, which: pl.Expr) -> pa.ChunkedArray:
    """By Java's order of floats: NaN is the largest, and -0.0 smaller than 0.0."""
    order = key_frame(given.rows, [one.field]).to_series()
    present = used & given.valid(one.field.name)
    frame = pl.DataFrame({"group": given.groups, "order": order, "row": np.arange(given.rows.num_rows)})
    found = frame.filter(pl.Series(present)).group_by("group").agg(pl.col("row").get(which))
    rows = np.full(len(given.starts), -1, np.int64)
    rows[found["group"].to_numpy()] = found["row"].to_numpy()
    return given.gather(one.field.name, rows)


def _bool_and(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").all())


def _bool_or(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    return _folded(given, _used(one, given, used), pl.col("value").any())


def _listagg(one: Aggregate, given: GroupedRows, used: Flags, _: Flags) -> pa.Array:
    values = _used(one, given, used)
    is_blank = values.str.strip_chars(BLANKS) == ""
    said = values.set(is_blank.fill_null(False), None)
    return _folded(given, said, pl.col("value").drop_nulls().str.join(one.settings.delimiter)).cast(pa.string())


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


_FUNCTIONS: Mapping[str, Callable[[Aggregate, GroupedRows, Flags, Flags], pa.Array | pa.ChunkedArray]] = {
    "sum": _sum,
    "max": _max,
    "min": _min,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "listagg": _listagg,
    _LAST_VALUE: _last_value,
    "last_non_null_value": _last_non_null_value,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null_value,
}
_RETRACTING = {"sum", "product", _LAST_VALUE, "last_non_null_value", "collect", "merge_map", "nested_update"}
# The types that a function takes, as in Paimon; functions without an entry take all.
_ROOTS: Mapping[str, tuple[TypeRoot, ...]] = {
    **dict.fromkeys(("sum", "product"), _NUMBERS),
    **dict.fromkeys(("bool_and", "bool_or"), (TypeRoot.BOOLEAN,)),
    **dict.fromkeys(("collect", "nested_update", "nested_partial_update"), (TypeRoot.ARRAY,)),
    "listagg": (TypeRoot.CHAR, TypeRoot.VARCHAR),
    "merge_map": (TypeRoot.MAP,),
}
_OLDER_NAMES = {"first_not_null_value": "first_non_null_value"}
