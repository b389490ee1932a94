"""Literals of filters as the values that a column stores."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from lakelog.common.arrow import time_unit
from lakelog.common.errors import InvalidRequestError
from lakelog.common.timestamps import zone_of
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.predicate.tokens import number_value
from lakelog.filestore.predicate.tree import Literal, LiteralKind

INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_NOT_FINITE = ("nan", "inf", "infinity")
_UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NANOS = 86_400 * 1_000_000_000
_OFFSET_MINUTES_MAX = 18 * 60
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_TIMESTAMP = re.compile(
    r"^\s*(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:[ T](?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}|[A-Za-z]+/[A-Za-z_]+)?)?\s*$"
)
_CLOCK = re.compile(r"^\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?\s*$")


def integer_position(field: DataField, literal: Literal) -> tuple[Fraction, int, int]:
    """The literal on the scale of the column's stored integers, and the bounds of these integers."""
    root, precision = field.type.root, field.type.precision or 0
    if root in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[root] - 1)
        return Fraction(number_of(field, literal)), -limit, limit - 1
    if root is TypeRoot.DECIMAL:
        limit = 10**precision - 1
        return Fraction(number_of(field, literal)) * 10 ** (field.type.scale or 0), -limit, limit
    if literal.kind not in (LiteralKind.STRING, LiteralKind.TIMESTAMP):
        raise misfit_error(field, literal, "a date or time in quotes")
    text = str(literal.value)
    long_limit = (1 << 63) - 1
    if root is TypeRoot.TIME:
        unit = "ms" if precision <= 3 else time_unit(precision)
        nanos = _clock_nanos(text)
        if nanos is None:
            raise misfit_error(field, literal, "a time such as '23:59:59.999'")
        return Fraction(nanos, _UNIT_NANOS[unit]), 0, long_limit
    if root is TypeRoot.DATE:
        nanos = _timestamp_nanos(text, "UTC", may_have_zone=False)
        if nanos is None:
            raise misfit_error(field, literal, "a date such as '2026-01-31'")
        exact = Fraction(nanos, _DAY_NANOS)
        return (Fraction(math.floor(exact)) if literal.kind is LiteralKind.STRING else exact), -(1 << 31), (1 << 31) - 1
    is_local = root is TypeRoot.TIMESTAMP
    nanos = _timestamp_nanos(text, "UTC" if is_local else literal.zone, may_have_zone=not is_local)
    if nanos is None:
        form = "'2026-01-31 23:59:59'" + (", without a zone" if is_local else ", with or without a zone")
        raise misfit_error(field, literal, f"a timestamp such as {form}")
    return Fraction(nanos, _UNIT_NANOS[time_unit(precision)]), -long_limit, long_limit


def boolean_of(field: DataField, literal: Literal) -> bool:
    """A literal compared with a BOOLEAN column. Raises InvalidRequestError."""
    if isinstance(literal.value, bool):
        return literal.value
    if literal.kind is LiteralKind.STRING and str(literal.value).lower() in ("true", "false"):
        return str(literal.value).lower() == "true"
    raise misfit_error(field, literal, "true or false")


def number_of(field: DataField, literal: Literal) -> Decimal:
    """A literal that is compared with a column of numbers, exact. Raises InvalidRequestError."""
    if isinstance(literal.value, Decimal):
        return literal.value
    text = str(literal.value).strip() if literal.kind is LiteralKind.STRING else ""
    if field.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) and text.lower().lstrip("+-") in _NOT_FINITE:
        return Decimal(text)
    if text and not literal.is_written:
        try:
            return number_value(text)
        except ValueError as error:
            raise misfit_error(field, literal, "a number") from error
    raise misfit_error(field, literal, "a number, without quotes: engines read a string beside a number differently")


def string_of(field: DataField, literal: Literal) -> str:
    """A literal compared with a column of strings. Raises InvalidRequestError."""
    if literal.kind is not LiteralKind.STRING:
        raise misfit_error(field, literal, "a string in quotes")
    value, length = str(literal.value), field.type.length
    if field.type.root is TypeRoot.CHAR and literal.is_written and length is not None and len(value) != length:
        stored = value.rstrip(" ").ljust(length)
        raise misfit_error(
            field,
            literal,
            f"a string of {length} characters, as they are stored, such as {stored!r}: engines compare "
            "others with and without their blanks",
        )
    return value


def misfit_error(field: DataField, literal: Literal, expected: str) -> InvalidRequestError:
    """The error for a literal that cannot be compared with a column."""
    return InvalidRequestError(
        f"the filter compares column {field.name!r} ({field.type}) with the {literal}; expected {expected}"
    )


def _timestamp_nanos(text: str, zone: str, *, may_have_zone: bool) -> int | None:
    """Nanoseconds since 1970 of a date or timestamp; None for other strings."""
    match = _TIMESTAMP.match(text)
    if match is None or (match["zone"] and not may_have_zone):
        return None
    try:
        day = date(int(match["year"]), int(match["month"]), int(match["day"]))
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
    offset = local.replace(tzinfo=zone_of(zone)).utcoffset()
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
