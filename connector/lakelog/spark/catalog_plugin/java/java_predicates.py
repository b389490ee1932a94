"""Predicates of Spark's V2 API as filters of our readers.

A filter may keep more rows than the predicate: Spark evaluates what is not exact again. What is unknown is left out.

Source: Spark, `org.apache.spark.sql.connector.expressions.filter.Predicate`, which lists the names.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any  # Any: py4j gives Java objects without types

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField
from lakelog.filestore.predicate import (
    And,
    Compare,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Or,
    Predicate,
    check_filter,
    negated,
)

_COMPARISONS = {
    "=": Comparison.EQ,
    "<=>": Comparison.EQ,
    "<>": Comparison.NE,
    "<": Comparison.LT,
    "<=": Comparison.LE,
    ">": Comparison.GT,
    ">=": Comparison.GE,
}
_MIRRORED = {
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_ESCAPE = "\\"
_PATTERNS = {"STARTS_WITH": "{}%", "ENDS_WITH": "%{}", "CONTAINS": "%{}%"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _UnknownError(Exception):
    """A part of a predicate that our readers cannot evaluate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A predicate that our readers evaluate. `is_exact` says that they do so as Spark does."""

    filter: Predicate
    is_exact: bool


def pushed_filter(predicate: Any, fields: Sequence[DataField]) -> Pushed | None:  # a Java Predicate
    """The filter of a predicate; None if our readers cannot use any part of it."""
    try:
        found = _Reader(fields).predicate(predicate)
        check_filter(found.filter, fields)
    except (_UnknownError, InvalidRequestError):
        return None
    return found


def is_long_list(predicate: Any, values_max: int) -> bool:  # a Java Predicate
    """Whether a predicate compares a column with more values than that, which are counted and not read."""
    return str(predicate.name()) == "IN" and len(predicate.children()) > values_max + 1


def joined_filters(filters: Sequence[Predicate]) -> Predicate | None:
    """All filters together; None for none."""
    if len(filters) > 1:
        return And(parts=tuple(filters))
    return filters[0] if filters else None


def exact_filters(predicates: Any, fields: Sequence[DataField]) -> list[Predicate] | None:  # Java Predicate[]s
    """The filters of predicates that our readers evaluate as Spark does; None if one of them is another one."""
    found = [pushed_filter(predicate, fields) for predicate in predicates]
    exact = [one.filter for one in found if one is not None and one.is_exact]
    return exact if len(exact) == len(found) else None


class _Reader:
    def __init__(self, fields: Sequence[DataField]) -> None:
        self._names = {field.name for field in fields}

    def predicate(self, given: Any) -> Pushed:  # a Java Predicate
        name, children = str(given.name()), list(given.children())
        match name:
            case "AND":
                return self._and(children)
            case "OR":
                parts = [self.predicate(child) for child in children]
                return Pushed(
                    filter=Or(parts=tuple(part.filter for part in parts)), is_exact=all(part.is_exact for part in parts)
                )
            case "NOT":
                part = self.predicate(children[0])
                if not part.is_exact:  # the negation of more rows is fewer rows
                    raise _UnknownError
                return Pushed(filter=negated(part.filter), is_exact=True)
            case "ALWAYS_TRUE" | "ALWAYS_FALSE":
                return _exact(Constant(value=name == "ALWAYS_TRUE"))
            case "IS_NULL" | "IS_NOT_NULL":
                return _exact(IsNull(column=self._column(children[0]), is_negated=name == "IS_NOT_NULL"))
            case "IN":
                literals = tuple(_literal(child) for child in children[1:])
                return _exact(In(column=self._column(children[0]), literals=literals, is_negated=False))
            case _ if name in _PATTERNS:
                return self._like(_PATTERNS[name], children)
            case _ if name in _COMPARISONS:
                return self._compare(name, *children)
        raise _UnknownError

    def _and(self, children: Sequence[Any]) -> Pushed:
        """Parts that are unknown are left out: the others keep more rows."""
        parts: list[Pushed] = []
        for child in children:
            try:
                parts.append(self.predicate(child))
            except _UnknownError:
                continue
        if not parts:
            raise _UnknownError
        is_exact = len(parts) == len(children) and all(part.is_exact for part in parts)
        return Pushed(filter=And(parts=tuple(part.filter for part in parts)), is_exact=is_exact)

    def _compare(self, name: str, left: Any, right: Any) -> Pushed:
        operator = _COMPARISONS[name]
        if _is_literal(left):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        column, literal = self._column(left), _literal(right)
        if name == "<=>" and literal.value is None:
            return _exact(IsNull(column=column, is_negated=False))
        compared = Compare(column=column, operator=operator, literal=literal)
        if name == "<=>":  # false where `=` is null
            return _exact(And(parts=(IsNull(column=column, is_negated=True), compared)))
        return _exact(compared)

    def _like(self, pattern: str, children: Sequence[Any]) -> Pushed:
        literal = _literal(children[1])
        if literal.kind is not LiteralKind.STRING:
            raise _UnknownError
        text = str(literal.value)
        for sign in (_ESCAPE, "%", "_"):
            text = text.replace(sign, _ESCAPE + sign)
        like = Like(column=self._column(children[0]), pattern=pattern.format(text), escape=_ESCAPE, is_negated=False)
        return _exact(like)

    def _column(self, given: Any) -> str:  # a Java Expression
        """The name of a column. Raises for a nested one and for another expression."""
        if given.getClass().getSimpleName() != "FieldReference":
            raise _UnknownError
        parts = list(given.fieldNames())
        if len(parts) != 1 or parts[0] not in self._names:
            raise _UnknownError
        return str(parts[0])


def _exact(found: Predicate) -> Pushed:
    return Pushed(filter=found, is_exact=True)


def _is_literal(given: Any) -> bool:  # a Java Expression
    return str(given.getClass().getSimpleName()) == "LiteralValue"


def _literal(given: Any) -> Literal:  # a Java Expression
    """A literal. Spark has cast it to the type of the column."""
    if not _is_literal(given):
        raise _UnknownError
    return _literal_of(given.value(), str(given.dataType().typeName()))


def equality(column: str, value: Any, kind: str) -> Predicate:
    """A column is a value of Spark's own form, of the type with this name; null is IS NULL.

    Raises InvalidRequestError for a type that filters lack.
    """
    try:
        literal = _literal_of(value, kind)
    except _UnknownError:
        raise InvalidRequestError(f"column {column!r} is {kind}: conditions on it are not possible here") from None
    if literal.value is None:
        return IsNull(column=column, is_negated=False)
    return Compare(column=column, operator=Comparison.EQ, literal=literal)


def _literal_of(value: Any, kind: str) -> Literal:
    if value is None:
        return Literal(kind=LiteralKind.NULL, value=None)
    if kind == "boolean":
        return Literal(kind=LiteralKind.BOOLEAN, value=bool(value))
    if kind in _WHOLE:
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(int(value)))
    if kind in _FLOATING:
        number = Decimal(_as_stored(float(value), kind))
        if not number.is_finite():
            raise _UnknownError
        return Literal(kind=LiteralKind.NUMBER, value=number)
    if kind.startswith("decimal"):
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(str(value.toString())))
    if kind == "string":
        return Literal(kind=LiteralKind.STRING, value=str(value.toString()))
    if kind == "binary":
        return Literal(kind=LiteralKind.BYTES, value=bytes(value))
    if kind == "date":
        return Literal(kind=LiteralKind.TIMESTAMP, value=_day(int(value)))
    if kind in ("timestamp", "timestamp_ntz"):
        return Literal(kind=LiteralKind.TIMESTAMP, value=_moment(int(value), has_zone=kind == "timestamp"))
    raise _UnknownError


def _as_stored(value: float, kind: str) -> float:
    """The number that a column of the type stores: a FLOAT comes by its shortest text, which names another DOUBLE."""
    stored: float = struct.unpack("f", struct.pack("f", value))[0] if kind == "float" else value
    return stored


def _day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        raise _UnknownError from None


def _moment(micros: int, *, has_zone: bool) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _UnknownError from None
    text = moment.strftime("%H:%M:%S.%f")
    return f"{moment.date().isoformat()} {text}" + ("Z" if has_zone else "")
