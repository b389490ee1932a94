"""Filters bound to columns: names resolved, literals turned into stored values of the column's type.

Comparisons are exact: `x < 1.5` on an INT column becomes `x <= 1`, `x = 1.5` is false wherever x is not null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any  # Any: what sorts, of any type
from zoneinfo import ZoneInfo

from lakelog.common.arrow import time_unit
from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, comparable
from lakelog.filestore.predicate.tokens import number_value
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

_INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_NOT_FINITE = ("nan", "inf", "infinity")
_LONG_DIGITS = 40  # more than any column has
_EXACT = Context(prec=3_000)  # numbers of a filter are never rounded
_UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NANOS = 86_400 * 1_000_000_000
_OFFSET_MINUTES_MAX = 18 * 60
_WILDCARDS_MAX = 4_000  # a limit of regular expressions
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_TIMESTAMP = re.compile(
    r"^\s*(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?"
    r"(?:[ T](?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}|[A-Za-z]+/[A-Za-z_]+)?)?\s*$"
)
_CLOCK = re.compile(r"^\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCompare:
    """field operator value; the value is a stored value of the field's type, never null."""

    field: DataField
    operator: Comparison
    value: StoredValue


@dataclass(frozen=True, kw_only=True)
class BoundIn:
    """field [NOT] IN values; `has_null` when NULL is among them: then a row that matches no value is unknown."""

    field: DataField
    values: tuple[StoredValue, ...]
    has_null: bool
    is_negated: bool

    @cached_property
    def ordered(self) -> Sequence[Any]:
        """The values as `order_of` gives them, rising. Any: values of one type can be sorted."""
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
    """The column of a name, in any case unless that is ambiguous. Raises InvalidRequestError."""
    found = matching(name, (field.name for field in fields))
    if len(found) == 1:
        return next(field for field in fields if field.name == found[0])
    known = listed(field.name for field in fields)
    if found:
        raise InvalidRequestError(f"the filter's column {name!r} may be any of {listed(found)}")
    raise InvalidRequestError(f"the filter names column {name!r}, which does not exist; the columns are {known}")


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
    """The stored values that equal a literal, without those that no row can have. Quick for long lists."""
    root = field.type.root
    is_text, is_integer = root in (TypeRoot.CHAR, TypeRoot.VARCHAR), root in _INTEGER_BITS
    limit = 1 << (_INTEGER_BITS[root] - 1) if is_integer else 0
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
        return BoundCompare(field=field, operator=operator, value=_boolean(field, literal))
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        if literal.kind is not LiteralKind.STRING:
            raise _misfit(field, literal, "a string in quotes")
        return BoundCompare(field=field, operator=operator, value=literal.value)
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB):
        if literal.kind is not LiteralKind.BYTES:
            raise _misfit(field, literal, "bytes such as X'1F'")
        return BoundCompare(field=field, operator=operator, value=literal.value)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return BoundCompare(field=field, operator=operator, value=float(_number(field, literal)))
    exact, least, most = _position(field, literal)
    return _compare_integers(field, operator, exact, least, most)


def _compare_integers(field: DataField, operator: Comparison, exact: Fraction, least: int, most: int) -> Bound:
    """A comparison of the integers that a column stores, from `least` to `most`, with any number."""
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


def _position(field: DataField, literal: Literal) -> tuple[Fraction, int, int]:
    """The literal as a number on the scale of the column's stored integers, and the least and most of these."""
    root, precision = field.type.root, field.type.precision or 0
    if root in _INTEGER_BITS:
        limit = 1 << (_INTEGER_BITS[root] - 1)
        return Fraction(_number(field, literal)), -limit, limit - 1
    if root is TypeRoot.DECIMAL:
        limit = 10**precision - 1
        return Fraction(_number(field, literal)) * 10 ** (field.type.scale or 0), -limit, limit
    if literal.kind not in (LiteralKind.STRING, LiteralKind.TIMESTAMP):
        raise _misfit(field, literal, "a date or time in quotes")
    text = str(literal.value)
    long_limit = (1 << 63) - 1
    if root is TypeRoot.TIME:
        unit = "ms" if precision <= 3 else time_unit(precision)
        nanos = _clock_nanos(text)
        if nanos is None:
            raise _misfit(field, literal, "a time such as '23:59:59.999'")
        return Fraction(nanos, _UNIT_NANOS[unit]), 0, long_limit
    if root is TypeRoot.DATE:
        nanos = _timestamp_nanos(text, "UTC", may_have_zone=False)
        if nanos is None:
            raise _misfit(field, literal, "a date such as '2026-01-31'")
        exact = Fraction(nanos, _DAY_NANOS)
        return (Fraction(math.floor(exact)) if literal.kind is LiteralKind.STRING else exact), -(1 << 31), (1 << 31) - 1
    is_local = root is TypeRoot.TIMESTAMP
    nanos = _timestamp_nanos(text, "UTC" if is_local else literal.zone, may_have_zone=not is_local)
    if nanos is None:
        form = "'2026-01-31 23:59:59'" + (", without a zone" if is_local else ", with or without a zone")
        raise _misfit(field, literal, f"a timestamp such as {form}")
    return Fraction(nanos, _UNIT_NANOS[time_unit(precision)]), -long_limit, long_limit


def _boolean(field: DataField, literal: Literal) -> bool:
    if isinstance(literal.value, bool):
        return literal.value
    if literal.kind is LiteralKind.STRING and str(literal.value).lower() in ("true", "false"):
        return str(literal.value).lower() == "true"
    raise _misfit(field, literal, "true or false")


def _number(field: DataField, literal: Literal) -> Decimal:
    if isinstance(literal.value, Decimal):
        return literal.value
    if literal.kind is LiteralKind.STRING:
        text = str(literal.value).strip()
        if field.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) and text.lower().lstrip("+-") in _NOT_FINITE:
            return Decimal(text)
        try:
            return number_value(text)
        except ValueError as error:
            raise _misfit(field, literal, "a number") from error
    raise _misfit(field, literal, "a number")


def _misfit(field: DataField, literal: Literal, expected: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"the filter compares column {field.name!r} ({field.type}) with the {literal}; expected {expected}"
    )


def _timestamp_nanos(text: str, zone: str, *, may_have_zone: bool) -> int | None:
    """Nanoseconds since 1970 of a date or timestamp; None for other strings."""
    match = _TIMESTAMP.match(text)
    if match is None or (match["zone"] and not may_have_zone):
        return None
    try:
        day = date(int(match["year"]), int(match["month"]), int(match["day"] or 1))
        clock = 0 if match["clock"] is None else _clock_nanos(match["clock"])
        if clock is None:
            return None
        nanos = (day.toordinal() - _EPOCH_ORDINAL) * _DAY_NANOS + clock
        return nanos - _offset_seconds(day, clock, match["zone"] or zone) * 1_000_000_000
    except (ValueError, KeyError, OSError):
        return None


def _offset_seconds(day: date, clock_nanos: int, zone: str) -> int:
    if zone in ("Z", "UTC"):
        return 0
    if zone[0] in "+-":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        if int(zone[-2:]) > 59 or minutes > _OFFSET_MINUTES_MAX:
            raise ValueError(f"{zone} is not an offset of a time zone")
        return minutes * 60 * (-1 if zone[0] == "-" else 1)
    local = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=clock_nanos // 1_000)
    offset = local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _clock_nanos(text: str) -> int | None:
    match = _CLOCK.match(text)
    if match is None:
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0"))
