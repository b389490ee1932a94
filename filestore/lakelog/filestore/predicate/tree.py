"""A row filter as it was written: columns by name, literals without a type. Negations are at the leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum


class Comparison(StrEnum):
    """A comparison of a column with a literal."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class LiteralKind(StrEnum):
    """How a literal was written; `TIMESTAMP` is a DATE or TIMESTAMP literal, kept as a string."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"
    BYTES = "bytes"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A literal. `zone` is the time zone for a string or timestamp without one.

    `is_written` says that it is one of a text, which engines may read in different ways, not of a parsed filter.
    """

    kind: LiteralKind
    value: bool | Decimal | str | bytes | None
    zone: str = "UTC"
    is_written: bool = False

    def __str__(self) -> str:
        return "NULL" if self.value is None else f"{self.kind} {self.value!s}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """column operator literal."""

    column: str
    operator: Comparison
    literal: Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """column [NOT] IN (literals)."""

    column: str
    literals: tuple[Literal, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """column IS [NOT] NULL."""

    column: str
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """column [NOT] LIKE pattern: `%` is any string, `_` any character, after `escape` both are themselves."""

    column: str
    pattern: str
    escape: str
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """TRUE, FALSE or NULL in place of a condition."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All parts hold."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """Some part holds."""

    parts: tuple[Predicate, ...]


Predicate = Compare | In | IsNull | Like | Constant | And | Or


def sql_of(predicate: Predicate) -> str:
    """The filter as SQL, for people."""
    match predicate:
        case And() | Or():
            word = " AND " if isinstance(predicate, And) else " OR "
            return word.join(
                f"({sql_of(part)})" if isinstance(part, And | Or) else sql_of(part) for part in predicate.parts
            )
        case Compare():
            return f"{predicate.column} {predicate.operator} {_literal_sql(predicate.literal)}"
        case In():
            values = ", ".join(_literal_sql(one) for one in predicate.literals)
            return f"{predicate.column} {'NOT ' * predicate.is_negated}IN ({values})"
        case IsNull():
            return f"{predicate.column} IS {'NOT ' * predicate.is_negated}NULL"
        case Like():
            return f"{predicate.column} {'NOT ' * predicate.is_negated}LIKE {predicate.pattern!r}"
        case Constant():
            return "NULL" if predicate.value is None else str(predicate.value).upper()


def _literal_sql(literal: Literal) -> str:
    if literal.kind is LiteralKind.BYTES and isinstance(literal.value, bytes):
        return f"X'{literal.value.hex().upper()}'"
    is_text = literal.kind in (LiteralKind.STRING, LiteralKind.TIMESTAMP)
    return repr(literal.value) if is_text else "NULL" if literal.value is None else str(literal.value)


def columns(predicate: Predicate) -> frozenset[str]:
    """Names of the columns in the filter, as they were written."""
    return frozenset(_columns(predicate))


def _columns(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, And | Or):
        for part in predicate.parts:
            yield from _columns(part)
    elif not isinstance(predicate, Constant):
        yield predicate.column


_NEGATED = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
    Comparison.LE: Comparison.GT,
}
_LISTED_FROM = 16  # from this number of comparisons in a chain, those of one column become a list


def negated(predicate: Predicate) -> Predicate:
    """The negation of a filter, by De Morgan's laws, which hold with nulls too."""
    match predicate:
        case And():
            return Or(parts=tuple(negated(part) for part in predicate.parts))
        case Or():
            return And(parts=tuple(negated(part) for part in predicate.parts))
        case Compare():
            return replace(predicate, operator=_NEGATED[predicate.operator])
        case Constant():
            return predicate if predicate.value is None else Constant(value=not predicate.value)
        case _:
            return replace(predicate, is_negated=not predicate.is_negated)


def joined(parts: Sequence[Predicate], *, kind: type[And] | type[Or]) -> And | Or:
    """One or more parts joined by AND or OR, by `kind`.

    Nested parts of the same kind are flattened. In long chains `c = 1 OR c = 2` are `c IN (1, 2)`, and `c <> 1 AND c <>
    2` are `c NOT IN (1, 2)`.
    """
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))]
    if len(flat) < _LISTED_FROM:
        return kind(parts=tuple(flat))
    operator = Comparison.EQ if kind is Or else Comparison.NE
    listed: dict[str, list[Literal]] = {}
    others: list[Predicate] = []
    for part in flat:
        if isinstance(part, Compare) and part.operator is operator:
            listed.setdefault(part.column, []).append(part.literal)
        else:
            others.append(part)
    lists = [In(column=name, literals=tuple(found), is_negated=kind is And) for name, found in listed.items()]
    return kind(parts=(*lists, *others))
