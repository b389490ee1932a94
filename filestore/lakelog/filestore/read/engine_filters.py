"""Predicates from the filters that query engines push into a read: literals, lists, AND and OR.

None stands for a part that cannot be translated; it passes every row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any  # Any: values of an engine's literals

from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.predicate.tree import And, In, Literal, LiteralKind, Or

_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MICROS_DIGITS = 6


def joined(parts: Sequence[Predicate | None], *, is_and: bool) -> Predicate | None:
    """The parts joined by AND or OR; an unknown part drops out of AND and makes OR unknown."""
    known = tuple(part for part in parts if part is not None)
    if not known or (not is_and and len(known) < len(parts)):
        return None
    if len(known) == 1:
        return known[0]
    return And(parts=known) if is_and else Or(parts=known)


def membership(field: DataField, values: Sequence[Any]) -> Predicate | None:
    """The predicate that the column is one of the values; None if one of them is null or has no literal."""
    literals = [literal_of(field, value) for value in values]
    known = tuple(literal for literal in literals if literal is not None)
    if len(known) < len(literals) or not known:
        return None
    return In(column=field.name, literals=known, is_negated=False)


def literal_of(field: DataField, value: Any) -> Literal | None:
    """The literal of a value with which the column compares as in the engine, without a cast of the column."""
    root = field.type.root
    if isinstance(value, bool):
        return Literal(kind=LiteralKind.BOOLEAN, value=value) if root is TypeRoot.BOOLEAN else None
    if isinstance(value, int):
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) if root in _INTEGERS else None
    if isinstance(value, float):
        is_exact = root is TypeRoot.DOUBLE and math.isfinite(value)
        return Literal(kind=LiteralKind.NUMBER, value=Decimal(value)) if is_exact else None
    if isinstance(value, str):
        return Literal(kind=LiteralKind.STRING, value=value) if root in _TEXT else None
    if isinstance(value, datetime):
        return _timestamp(field, value)
    if isinstance(value, date) and root is TypeRoot.DATE:
        return Literal(kind=LiteralKind.TIMESTAMP, value=value.isoformat())
    return None


def _timestamp(field: DataField, value: datetime) -> Literal | None:
    root = field.type.root
    is_alike = root is (TypeRoot.TIMESTAMP if value.tzinfo is None else TypeRoot.TIMESTAMP_LTZ)
    if not is_alike or (field.type.precision or 0) > _MICROS_DIGITS:
        return None
    offset = value.utcoffset()
    utc = value.replace(tzinfo=None) - offset if offset is not None else value
    return Literal(kind=LiteralKind.TIMESTAMP, value=utc.isoformat(sep=" "))
