"""Aggregates without a columnar form: the values of one key are folded one by one, as in Paimon's functions.

Pure. A value is added, or taken back (-U, -D). In a sequence group a row may also be late, which means that its
sequence fields are smaller than those of a row before it: it is added as if it were the first. Source: Paimon,
`FieldAggregator` and the classes that extend it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import Any  # Any: values of columns of all types

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.bucket import hash_of
from lakelog.filestore.encoding.casting import fitting
from lakelog.filestore.encoding.java_strings import is_blank
from lakelog.filestore.merge.java_order import hash_code, hash_order

Row = dict[str, Any]
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


class Step(Enum):
    """What a row does to the value of its key."""

    ADD = "add"
    ADD_LATE = "add late"
    TAKE_BACK = "take back"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSettings:
    """The options of a fold."""

    kind: DataType
    delimiter: str = ","
    is_distinct: bool = False
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None


class Fold:
    """Folds the values of one key. A null adds nothing, and takes nothing back."""

    def __init__(self, settings: FoldSettings) -> None:
        self.settings = settings

    def added(self, held: Any, value: Any) -> Any:
        """The result after a value was added."""
        if held is None or value is None:
            return value if held is None else held
        return self.joined(held, value)

    def added_late(self, held: Any, value: Any) -> Any:
        """The result after a late value was added."""
        return self.added(value, held)

    def taken_back(self, held: Any, value: Any) -> Any:
        """The result after a value was taken back."""
        return held if held is None or value is None else self.left(held, value)

    def joined(self, held: Any, value: Any) -> Any:
        """`added` of two values."""
        raise NotImplementedError  # not called by functions that override `added`

    def left(self, held: Any, value: Any) -> Any:
        """`taken_back` of two values."""
        raise NotImplementedError  # not called where aggregates refuse retractions


class Sum(Fold):
    """Decimals of more than 18 digits that outgrow their type become null."""

    def joined(self, held: Decimal, value: Decimal) -> Decimal | None:
        return fitting(_EXACT.add(held, value), self.settings.kind)

    def taken_back(self, held: Decimal | None, value: Decimal | None) -> Decimal | None:
        return self.added(held, None if value is None else value.copy_negate())  # type: ignore[no-any-return]  # a Decimal


class Product(Fold):
    """Whole numbers wrap, decimals are rounded and become null when they outgrow their type."""

    def joined(self, held: Any, value: Any) -> Any:
        if isinstance(held, Decimal):
            return fitting(_EXACT.multiply(held, value), self.settings.kind)
        if isinstance(held, float):
            return self._float(np.multiply, held, value)
        return wrapped(held * value, self.settings.kind)

    def left(self, held: Any, value: Any) -> Any:
        if isinstance(held, float):
            return self._float(np.divide, held, value)
        if not value:
            raise InvalidRequestError(
                "a column that is aggregated by product cannot take back a 0; write no such -U or -D"
            )
        if isinstance(held, Decimal):
            return fitting(_EXACT.divide(held, value), self.settings.kind)
        quotient = abs(held) // abs(value)
        return wrapped(quotient if (held < 0) == (value < 0) else -quotient, self.settings.kind)

    def _float(self, operation: np.ufunc, held: float, value: float) -> float:
        number = np.float32 if self.settings.kind.root is TypeRoot.FLOAT else np.float64
        with np.errstate(all="ignore"):
            return float(operation(number(held), number(value)))


class ListAgg(Fold):
    """Strings joined by a delimiter; blank strings and nulls are left out."""

    def added(self, held: str | None, value: str | None) -> str | None:
        if value is None or is_blank(value):
            return held
        if held is None or is_blank(held):
            return value
        delimiter = self.settings.delimiter
        if not self.settings.is_distinct:
            return f"{held}{delimiter}{value}"
        known = set(held.split(delimiter))
        for part in value.split(delimiter):
            if not is_blank(part) and part not in known:
                known.add(part)
                held = f"{held}{delimiter}{part}"
        return held


class FirstValue(Fold):
    """The first value, even if it is null; among late values the last."""

    has_begun = False

    def added(self, held: Any, value: Any) -> Any:
        if self.has_begun:
            return held
        self.has_begun = True
        return value


class FirstNonNullValue(Fold):
    """The first value that is not null; among late values the last."""

    has_begun = False

    def added(self, held: Any, value: Any) -> Any:
        if self.has_begun or value is None:
            return held
        self.has_begun = True
        return value


class LastValue(Fold):
    """The last value, even if it is null."""

    def added(self, held: Any, value: Any) -> Any:  # noqa: ARG002  # the last one alone counts
        return value

    def taken_back(self, held: Any, value: Any) -> Any:  # noqa: ARG002  # any retraction gives null
        return None


class LastNonNullValue(Fold):
    """The last value that is not null."""

    def joined(self, held: Any, value: Any) -> Any:  # noqa: ARG002  # the last one alone counts
        return value

    def taken_back(self, held: Any, value: Any) -> Any:
        return held if value is None else None


class Collect(Fold):
    """All elements, or each of them once in the order of a Java `HashSet`."""

    def added(self, held: list[Any] | None, value: list[Any] | None) -> list[Any] | None:
        if held is None and value is None:
            return None
        found = [*(held or ()), *(value or ())]
        return self._once(found) if self.settings.is_distinct else found

    def added_late(self, held: list[Any] | None, value: list[Any] | None) -> list[Any] | None:
        return self.added(held, value)

    def left(self, held: list[Any], value: list[Any]) -> list[Any]:
        removed = list(value)
        kept = []
        for element in held:
            if element in removed:
                removed.remove(element)
            else:
                kept.append(element)
        return kept

    def _once(self, elements: Sequence[Any]) -> list[Any]:
        kept: list[Any] = []
        for element in elements:
            if element not in kept:
                kept.append(element)
        kind = self.settings.kind.element
        assert kind is not None
        if kind.is_nested:
            return kept
        return [kept[index] for index in hash_order([hash_code(kind, element) for element in kept])]


class MergeMap(Fold):
    """The entries of all maps; for each key the last one."""

    def joined(self, held: list[tuple[Any, Any]], value: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return list(dict([*held, *value]).items())

    def left(self, held: list[tuple[Any, Any]], value: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        removed = {key for key, _ in value}
        return [entry for entry in held if entry[0] not in removed]


class NestedUpdate(Fold):
    """The rows of all lists, or with `nested_key` the last of each key; at most `count_limit` rows are added."""

    is_newest_first = False  # order of keys in one slot of Java's hash table

    def joined(self, held: list[Row | None], value: list[Row | None]) -> list[Row | None]:
        limit = self.settings.count_limit
        if limit is not None and len(held) >= limit:
            return held
        rows = [row for row in held if row is not None]
        added = [row for row in value if row is not None]
        rows += added if limit is None else added[: limit - len(held)]
        return self._by_key(rows)

    def left(self, held: list[Row | None], value: list[Row | None]) -> list[Row | None]:
        names = self.settings.nested_key
        removed = [_nested_key(row, names) for row in value if row is not None]
        rows = self._by_key([row for row in held if row is not None])
        return [row for row in rows if row is not None and _nested_key(row, names) not in removed]

    def _by_key(self, rows: Sequence[Row]) -> list[Row | None]:
        names = self.settings.nested_key
        if not names:
            return list(rows)
        kept: dict[object, Row] = {}
        for row in rows:
            self.put(kept, repr(_nested_key(row, names)), row)
        found = list(kept.values())
        hashes = _key_hashes(found, self.settings.kind.element, names)
        return [found[index] for index in hash_order(hashes, is_newest_first=self.is_newest_first)]

    def put(self, kept: dict[object, Row], key: object, row: Row) -> None:
        """Keep a row of a key, which may have a row already."""
        kept[key] = row


class NestedPartialUpdate(NestedUpdate):
    """For each key of nested rows, the last values that are not null."""

    is_newest_first = True

    def put(self, kept: dict[object, Row], key: object, row: Row) -> None:
        kept[key] = kept.get(key, row) | {name: value for name, value in row.items() if value is not None}


def _nested_key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names or row)


def _key_hashes(rows: Sequence[Row], kind: DataType | None, names: Sequence[str]) -> list[int]:
    assert kind is not None
    kinds = {field.name: field.type for field in kind.fields}
    columns = [pa.array([row[name] for row in rows], to_arrow_type(kinds[name])) for name in names]
    hashes: list[int] = hash_of(columns, [kinds[name] for name in names]).tolist() if rows else []
    return hashes


def wrapped(value: int, kind: DataType) -> int:
    """A whole number, wrapped to the bits of a type."""
    bits = _BITS[kind.root]
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def fold(make: Callable[[], Fold], values: Sequence[Any], steps: Sequence[Step | None], *, is_swapped: bool) -> Any:
    """The value of one key. None in place of a step leaves a value out.

    `is_swapped` adds late values as if they were the first for every function, as Paimon does where a function
    ignores retractions.
    """
    one, held = make(), None
    for value, step in zip(values, steps, strict=True):
        match step:
            case Step.ADD:
                held = one.added(held, value)
            case Step.ADD_LATE:
                held = one.added(value, held) if is_swapped else one.added_late(held, value)
            case Step.TAKE_BACK:
                held = one.taken_back(held, value)
    return held


FOLDS: Mapping[str, type[Fold]] = {
    "sum": Sum,
    "product": Product,
    "listagg": ListAgg,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "collect": Collect,
    "merge_map": MergeMap,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
}
