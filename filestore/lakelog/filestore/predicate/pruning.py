"""What a filter shows before rows are read: equal values, and whether rows within bounds may pass."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row
from lakelog.filestore.metadata.manifests.data_file import SimpleStats
from lakelog.filestore.predicate.binding import (
    Bound,
    BoundAnd,
    BoundCompare,
    BoundIn,
    BoundIsNull,
    BoundLike,
    BoundOr,
    WhenPresent,
    bind,
    order_of,
)
from lakelog.filestore.predicate.tree import Comparison, Constant, Predicate

_EQUAL_KEYS_MAX = 1_000
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """The bounds of a column's values in some rows: smallest and largest (None is unknown), and nulls."""

    least: StoredValue = None
    most: StoredValue = None
    may_be_null: bool = True
    may_be_present: bool = True


def bounds_of_stats(
    fields: Sequence[DataField], stats: SimpleStats, *, row_count: int | None
) -> dict[str, ColumnBounds]:
    """The bounds in statistics over `fields`; columns without bounds are left out."""
    if int.from_bytes(stats.min_values[:4], "big") != len(fields) or not fields:
        return {}
    kinds = [field.type for field in fields]
    least, most = deserialize_row(kinds, stats.min_values), deserialize_row(kinds, stats.max_values)
    counts = stats.null_counts or (None,) * len(fields)
    return {
        field.name: ColumnBounds(
            least=low, most=high, may_be_null=count != 0, may_be_present=count is None or count != row_count
        )
        for field, low, high, count in zip(fields, least, most, counts, strict=True)
    }


def bounds_of_row(fields: Sequence[DataField], row: bytes) -> dict[str, ColumnBounds]:
    """The bounds of rows that share the values of a serialized BinaryRow, such as a partition."""
    values = deserialize_row([field.type for field in fields], row)
    return {
        field.name: ColumnBounds(least=value, most=value, may_be_null=value is None, may_be_present=value is not None)
        for field, value in zip(fields, values, strict=True)
    }


class Bounds(Protocol):
    """The bounds of columns, by name: a mapping, or a class that looks them up on demand."""

    def get(self, name: str, /) -> ColumnBounds | None:
        """The bounds of a column; None if nothing is known."""
        ...


def may_match(predicate: Predicate, fields: Sequence[DataField], bounds: Bounds) -> bool:
    """False only if no row within `bounds` can pass the filter."""
    return may_hold(bind(predicate, fields), bounds)


def equal_rows(
    predicate: Predicate, fields: Sequence[DataField], names: Sequence[str]
) -> list[tuple[StoredValue, ...]] | None:
    """The only values of the columns `names` that can pass the filter, combined, without null; None if too many.

    FLOAT and DOUBLE columns give None, since 0.0 equals -0.0 but has other bytes.
    """
    bound = bind(predicate, fields)
    columns = [_equal_values(bound, name) for name in names]
    if not names or any(values is None for values in columns):
        return None
    known = [values for values in columns if values is not None]
    if math.prod(len(values) for values in known) > _EQUAL_KEYS_MAX:
        return None
    return list(itertools.product(*known))


def _equal_values(bound: Bound, name: str) -> list[StoredValue] | None:
    if isinstance(bound, BoundAnd):
        found = [values for part in bound.parts if (values := _equal_values(part, name)) is not None]
        if not found:
            return None
        first, *others = found
        common = set(first).intersection(*others)
        return [value for value in first if value in common]
    if isinstance(bound, BoundOr):
        lists = [_equal_values(part, name) for part in bound.parts]
        if any(values is None for values in lists):
            return None
        return list(dict.fromkeys(value for values in lists for value in values or ()))
    if isinstance(bound, Constant):
        return None if bound.value else []
    if bound.field.name != name or bound.field.type.root in _FLOATS:
        return None
    if isinstance(bound, BoundCompare) and bound.operator is Comparison.EQ:
        return [bound.value]
    if isinstance(bound, BoundIn) and not bound.is_negated:
        return list(dict.fromkeys(bound.values))
    if isinstance(bound, WhenPresent) and not bound.value:
        return []
    return None


def may_hold(bound: Bound, bounds: Bounds) -> bool:
    """As `may_match`, for a bound filter."""
    if isinstance(bound, BoundAnd):
        return all(may_hold(part, bounds) for part in bound.parts)
    if isinstance(bound, BoundOr):
        return any(may_hold(part, bounds) for part in bound.parts)
    if isinstance(bound, Constant):
        return bool(bound.value)
    known = bounds.get(bound.field.name)
    if known is None:
        return True
    if isinstance(bound, BoundIsNull):
        return known.may_be_present if bound.is_negated else known.may_be_null
    if not known.may_be_present:
        return False
    if isinstance(bound, WhenPresent):
        return bound.value
    if isinstance(bound, BoundLike):
        return bound.is_negated or _prefix_may_match(bound, known)
    if isinstance(bound, BoundIn):
        return _list_may_match(bound, known)
    return _compare_may_match(bound.field, bound.operator, bound.value, known)


def _compare_may_match(field: DataField, operator: Comparison, value: StoredValue, known: ColumnBounds) -> bool:
    if operator is Comparison.NE:
        return not _is_only(field, known, value)
    wanted = order_of(field, value)
    if known.least is not None and operator in (Comparison.EQ, Comparison.LE, Comparison.LT):
        least = order_of(field, known.least)
        if least > wanted or (operator is Comparison.LT and least == wanted):
            return False
    if known.most is not None and operator in (Comparison.EQ, Comparison.GE, Comparison.GT):
        most = order_of(field, known.most)
        if most < wanted or (operator is Comparison.GT and most == wanted):
            return False
    return True


def _list_may_match(bound: BoundIn, known: ColumnBounds) -> bool:
    """Whether the first of the sorted values that is not below the lower bound is within the upper bound."""
    ordered = bound.ordered
    least = None if known.least is None else order_of(bound.field, known.least)
    most = None if known.most is None else order_of(bound.field, known.most)
    at = 0 if least is None else bisect.bisect_left(ordered, least)
    if bound.is_negated:
        is_listed = least is not None and bool(least == most and at < len(ordered) and ordered[at] == least)
        return not bound.has_null and not is_listed
    return at < len(ordered) and (most is None or bool(ordered[at] <= most))


def _is_only(field: DataField, known: ColumnBounds, value: StoredValue) -> bool:
    """True if every value that is not null equals `value`."""
    if known.least is None or known.most is None:
        return False
    return bool(order_of(field, known.least) == order_of(field, known.most) == order_of(field, value))


def _prefix_may_match(bound: BoundLike, known: ColumnBounds) -> bool:
    prefix = bound.prefix.encode()
    if known.most is not None and str(known.most).encode() < prefix:
        return False
    return known.least is None or str(known.least).encode()[: len(prefix)] <= prefix
