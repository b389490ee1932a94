"""Filters bound to columns: names resolved, literals turned into stored values of the column's type.

Comparisons are exact: `x < 1.5` on an INT column becomes `x <= 1`, `x = 1.5` is false wherever x is not null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any  # Any: values that can be sorted, of any type

from lakelog.common.column_names import known_columns, matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue
from lakelog.filestore.encoding.key_order import comparable
from lakelog.filestore.predicate.literals import (
    INTEGER_BITS,
    boolean_of,
    integer_position,
    misfit_error,
    number_of,
    string_of,
)
from lakelog.filestore.predicate.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Or,
    Predicate,
)

_LONG_DIGITS = 40  # more than any column has
_EXACT = Context(prec=3_000)  # numbers of a filter are never rounded
_WILDCARDS_MAX = 4_000  # a limit of regular expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCompare:
    """field operator value; the value is a stored value of the field's type, never null."""

    field: DataField
    operator: Comparison
    value: StoredValue


@dataclass(frozen=True, kw_only=True)
class BoundIn:
    """field [NOT] IN values; with NULL among them the result is unknown for a row that matches no value."""

    field: DataField
    values: tuple[StoredValue, ...]
    has_null: bool
    is_negated: bool

    @cached_property
    def ordered(self) -> Sequence[Any]:
        """The values as `order_of` gives them, in ascending order. Any: values of one type can be sorted."""
        values: list[Any] = [order_of(self.field, value) for value in self.values]
        return sorted(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundIsNull:
    """field IS [NOT] NULL."""

    field: DataField
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLike:
    """field [NOT] LIKE, as a regular expression over the whole string, and the prefix of every match."""

    field: DataField
    regex: str
    prefix: str
    is_negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenPresent:
    """`value` wherever the field is not null, else unknown."""

    field: DataField
    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundAnd:
    """All parts hold."""

    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOr:
    """Some part holds."""

    parts: tuple[Bound, ...]


Bound = BoundCompare | BoundIn | BoundIsNull | BoundLike | WhenPresent | Constant | BoundAnd | BoundOr


def resolve(name: str, fields: Sequence[DataField]) -> DataField:
    """The column of a name, in any case unless the name is ambiguous. Raises InvalidRequestError."""
    names = [field.name for field in fields]
    found = matching(name, names)
    if len(found) == 1:
        return fields[names.index(found[0])]
    if found:
        raise InvalidRequestError(f"the filter's column {name!r} is ambiguous: {listed(found)}")
    raise InvalidRequestError(f"the filter names column {name!r}, which does not exist; {known_columns(name, names)}")


def bind(predicate: Predicate, fields: Sequence[DataField]) -> Bound:
    """The filter over these columns. Raises InvalidRequestError for unknown columns and literals that do not fit."""
    if isinstance(predicate, And):
        return BoundAnd(parts=tuple(bind(part, fields) for part in predicate.parts))
    if isinstance(predicate, Or):
        return BoundOr(parts=tuple(bind(part, fields) for part in predicate.parts))
    if isinstance(predicate, Constant):
        return predicate
    field = resolve(predicate.column, fields)
    if isinstance(predicate, IsNull):
        return BoundIsNull(field=field, is_negated=predicate.is_negated)
    if field.type.is_nested:
        raise InvalidRequestError(f"column {field.name!r} has the type {field.type}; filters allow only IS NULL on it")
    if isinstance(predicate, Like):
        return _bind_like(predicate, field)
    if isinstance(predicate, In):
        return _bind_in(predicate, field)
    return _bind_compare(field, predicate.operator, predicate.literal)


def columns_of(bound: Bound, fields: Sequence[DataField]) -> list[DataField]:
    """The columns that a filter reads, in the order of `fields`."""
    names = set(_names_of(bound))
    return [field for field in fields if field.name in names]


def _names_of(bound: Bound) -> Iterator[str]:
    if isinstance(bound, BoundAnd | BoundOr):
        for part in bound.parts:
            yield from _names_of(part)
    elif not isinstance(bound, Constant):
        yield bound.field.name


def order_of(field: DataField, value: StoredValue) -> Any:  # Any: values of one field can be sorted
    """The sort key of a value that is not null; both zeros are equal, as filters compare them."""
    if field.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return comparable([field.type], [0.0 if value == 0 else value])
    return value.encode() if isinstance(value, str) else value


def _bind_in(predicate: In, field: DataField) -> Bound:
    has_null = any(literal.value is None for literal in predicate.literals)
    values = tuple(_equal_values(predicate.literals, field))
    return BoundIn(field=field, values=values, has_null=has_null, is_negated=predicate.is_negated)


def _equal_values(literals: Sequence[Literal], field: DataField) -> Iterator[StoredValue]:
    """The stored values that equal a literal, without those that no row can have. Fast for long lists."""
    root = field.type.root
    is_text, is_integer = root is TypeRoot.VARCHAR, root in INTEGER_BITS
    limit = 1 << (INTEGER_BITS[root] - 1) if is_integer else 0
    for literal in literals:
        value = literal.value
        if value is None:
            continue
        if is_text and literal.kind is LiteralKind.STRING:
            yield value
        elif is_integer and isinstance(value, Decimal) and value.adjusted() < _LONG_DIGITS:
            whole = int(value)
            if whole == value and -limit <= whole < limit:
                yield whole
        elif root is TypeRoot.DECIMAL and isinstance(value, Decimal) and value.adjusted() < _LONG_DIGITS:
            scaled = _EXACT.scaleb(value, field.type.scale or 0)
            whole = int(scaled)
            if whole == scaled and abs(whole) < 10 ** (field.type.precision or 0):
                yield _EXACT.scaleb(Decimal(whole), -(field.type.scale or 0))
        else:
            bound = _bind_compare(field, Comparison.EQ, literal)
            if isinstance(bound, BoundCompare):
                yield bound.value


def _bind_like(predicate: Like, field: DataField) -> Bound:
    if field.type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise InvalidRequestError(f"LIKE needs a string; column {field.name!r} has the type {field.type}")
    pieces: list[str] = []
    prefix: list[str] = []
    is_prefix, wildcards = True, 0
    characters = iter(predicate.pattern)
    for character in characters:
        if character == predicate.escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", predicate.escape):
                raise InvalidRequestError(
                    f"the pattern {predicate.pattern!r} has {character!r} before {escaped!r}; it is allowed only "
                    f"before %, _ and itself"
                )
            plain = escaped
        elif character in "%_":
            if character == "_" or pieces[-1:] != [".*"]:
                pieces.append(".*" if character == "%" else ".")
                wildcards += 1
            is_prefix = False
            continue
        else:
            plain = character
        pieces.append(_literal_regex(plain))
        if is_prefix:
            prefix.append(plain)
    if wildcards > _WILDCARDS_MAX:
        raise InvalidRequestError(
            f"the pattern {cut(predicate.pattern)!r} of LIKE has {wildcards} of % and _; at most {_WILDCARDS_MAX} are "
            "allowed"
        )
    regex = f"(?s)\\A{''.join(pieces)}\\z"
    return BoundLike(field=field, regex=regex, prefix="".join(prefix), is_negated=predicate.is_negated)


def _literal_regex(character: str) -> str:
    return f"\\{character}" if character in r"\.+*?()|[]{}^$#&-~" else character


def _bind_compare(field: DataField, operator: Comparison, literal: Literal) -> Bound:
    if literal.value is None:
        return Constant(value=None)
    root = field.type.root
    if root is TypeRoot.BOOLEAN:
        return BoundCompare(field=field, operator=operator, value=boolean_of(field, literal))
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return BoundCompare(field=field, operator=operator, value=string_of(field, literal))
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB):
        if literal.kind is not LiteralKind.BYTES:
            raise misfit_error(field, literal, "bytes such as X'1F'")
        return BoundCompare(field=field, operator=operator, value=literal.value)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return BoundCompare(field=field, operator=operator, value=float(number_of(field, literal)))
    exact, least, most = integer_position(field, literal)
    return _compare_integers(field, operator, exact, least, most)


def _compare_integers(field: DataField, operator: Comparison, exact: Fraction, least: int, most: int) -> Bound:
    """A comparison of the integers that a column stores (from `least` to `most`) with any number."""
    if operator in (Comparison.EQ, Comparison.NE):
        if exact.denominator != 1 or not least <= exact <= most:
            return WhenPresent(field=field, value=operator is Comparison.NE)
        bound = exact.numerator
    else:
        bound = math.ceil(exact) if operator in (Comparison.LT, Comparison.GE) else math.floor(exact)
        is_upper = operator in (Comparison.LT, Comparison.LE)
        if bound > most:
            return WhenPresent(field=field, value=is_upper)
        if bound < least:
            return WhenPresent(field=field, value=not is_upper)
    value: StoredValue = bound
    if field.type.root is TypeRoot.DECIMAL:
        value = _EXACT.scaleb(Decimal(bound), -(field.type.scale or 0))
    return BoundCompare(field=field, operator=operator, value=value)
