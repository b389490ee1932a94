"""Predicates of Spark's V2 API as filters of our readers.

A filter may keep more rows than the predicate: Spark evaluates what is not exact again. What is unknown is left out.

Source: Spark, `org.apache.spark.sql.connector.expressions.filter.Predicate`, which lists the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

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
    LiteralKind,
    Or,
    Predicate,
    negated,
    required_predicate,
)
from lakelog.spark.catalog_plugin.java.java_literals import (
    UnknownError,
    is_literal,
    listed_literals,
    literal_of,
    literal_value,
)

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

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
_ESCAPE = "\\"
_PATTERNS = {"STARTS_WITH": "{}%", "ENDS_WITH": "%{}", "CONTAINS": "%{}%"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A predicate that our readers evaluate. `is_exact` says that they do so as Spark does."""

    filter: Predicate
    is_exact: bool


def pushed_filter(jvm: Jvm, predicate: Any, fields: Sequence[DataField]) -> Pushed | None:  # a Java Predicate
    """The filter of a predicate; None if our readers cannot use any part of it."""
    try:
        found = _Reader(jvm, fields).predicate(predicate)
        required_predicate(found.filter, fields=fields)
    except (UnknownError, InvalidRequestError):
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


def exact_filters(
    jvm: Jvm, predicates: Any, fields: Sequence[DataField]
) -> list[Predicate] | None:  # Java Predicate[]s
    """The filters of predicates that our readers evaluate as Spark does; None if one of them is another one."""
    found = [pushed_filter(jvm, predicate, fields) for predicate in predicates]
    exact = [one.filter for one in found if one is not None and one.is_exact]
    return exact if len(exact) == len(found) else None


class _Reader:
    def __init__(self, jvm: Jvm, fields: Sequence[DataField]) -> None:
        self._jvm = jvm
        self._names = {field.name for field in fields}

    def predicate(self, given: Any) -> Pushed:  # a Java Predicate
        name, children = str(given.name()), given.children()
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
                    raise UnknownError
                return Pushed(filter=negated(part.filter), is_exact=True)
            case "ALWAYS_TRUE" | "ALWAYS_FALSE":
                return _exact(Constant(value=name == "ALWAYS_TRUE"))
            case "IS_NULL" | "IS_NOT_NULL":
                return _exact(IsNull(column=self._column(children[0]), is_negated=name == "IS_NOT_NULL"))
            case "IN":
                column = self._column(children[0])
                return _exact(In(column=column, literals=listed_literals(self._jvm, given), is_negated=False))
            case _ if name in _PATTERNS:
                return self._like(_PATTERNS[name], children)
            case _ if name in _COMPARISONS:
                return self._compare(name, *children)
        raise UnknownError

    def _and(self, children: Sequence[Any]) -> Pushed:
        """Parts that are unknown are left out: the others keep more rows."""
        parts: list[Pushed] = []
        for child in children:
            try:
                parts.append(self.predicate(child))
            except UnknownError:
                continue
        if not parts:
            raise UnknownError
        is_exact = len(parts) == len(children) and all(part.is_exact for part in parts)
        return Pushed(filter=And(parts=tuple(part.filter for part in parts)), is_exact=is_exact)

    def _compare(self, name: str, left: Any, right: Any) -> Pushed:
        operator = _COMPARISONS[name]
        if is_literal(left):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        column, literal = self._column(left), literal_value(right)
        if name == "<=>" and literal.value is None:
            return _exact(IsNull(column=column, is_negated=False))
        compared = Compare(column=column, operator=operator, literal=literal)
        if name == "<=>":  # false where `=` is null
            return _exact(And(parts=(IsNull(column=column, is_negated=True), compared)))
        return _exact(compared)

    def _like(self, pattern: str, children: Sequence[Any]) -> Pushed:
        literal = literal_value(children[1])
        if literal.kind is not LiteralKind.STRING:
            raise UnknownError
        text = str(literal.value)
        for sign in (_ESCAPE, "%", "_"):
            text = text.replace(sign, _ESCAPE + sign)
        like = Like(column=self._column(children[0]), pattern=pattern.format(text), escape=_ESCAPE, is_negated=False)
        return _exact(like)

    def _column(self, given: Any) -> str:  # a Java Expression
        """The name of a column. Raises for a nested one and for another expression."""
        name = column_name(given)
        if name is None or name not in self._names:
            raise UnknownError
        return name


def column_name(given: Any) -> str | None:  # a Java Expression
    """The name of a column; None for a nested one and for another expression."""
    if given.getClass().getSimpleName() != "FieldReference":
        return None
    parts = list(given.fieldNames())
    return str(parts[0]) if len(parts) == 1 else None


def _exact(found: Predicate) -> Pushed:
    return Pushed(filter=found, is_exact=True)


def equality(column: str, value: Any, kind: str) -> Predicate:
    """A column is a value of Spark's own form, of the type with this name; null is IS NULL.

    Raises InvalidRequestError for a type that filters lack.
    """
    try:
        literal = literal_of(value, kind)
    except UnknownError:
        raise InvalidRequestError(f"column {column!r} is {kind}: conditions on it are not possible here") from None
    if literal.value is None:
        return IsNull(column=column, is_negated=False)
    return Compare(column=column, operator=Comparison.EQ, literal=literal)
