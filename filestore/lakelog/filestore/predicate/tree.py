"""A row filter as it was written: columns by name, literals as text says. Negations stand at the leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    """How a literal was written; `MOMENT` is a DATE or TIMESTAMP literal, kept as its text."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A literal. `zone` is where the clock of a text or moment without a zone of its own stands."""

    kind: LiteralKind
    value: bool | Decimal | str | bytes | None
    zone: str = "UTC"

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
    """column [NOT] LIKE pattern: `%` is any text, `_` any character, after `escape` both are themselves."""

    column: str
    pattern: str
    escape: str
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """TRUE, FALSE or NULL in the place of a condition."""

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


def columns(predicate: Predicate) -> frozenset[str]:
    """Names of the columns in the filter, as they were written."""
    return frozenset(_columns(predicate))


def _columns(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, And | Or):
        for part in predicate.parts:
            yield from _columns(part)
    elif not isinstance(predicate, Constant):
        yield predicate.column
