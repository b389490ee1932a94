"""Values of one type as another, as Paimon's readers cast them. Pure.

Strings and bytes are cut to the length of their type, and padded if the length is fixed. Floats beyond the range of an
integer type become its end and NaN becomes 0, decimals that do not fit become null, and times are seconds in numbers.
Source: Paimon, `CastExecutors` and the rules beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any  # Any: values of columns of all types

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.java_strings import float_text, time_text

INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_BOOLEANS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)
_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?")
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 19), strict=True))
_DAY_MILLIS = 86_400_000
_UNBOUNDED = 2**31 - 1


def cast_scalars(values: pa.Array, found: DataType, wanted: DataType) -> pa.Array:
    """Values that are not nested. Raises pa.ArrowInvalid for a value that has no cast to the other type."""
    target = to_arrow_type(wanted)
    match wanted.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _sized_strings(_strings(values, found), wanted).cast(target)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _sized_bytes(values.cast(pa.binary()), wanted).cast(target)
        case TypeRoot.DECIMAL if _always_fits(found, wanted):
            return values.cast(target)
        case TypeRoot.DECIMAL:
            return _each(values, lambda value: _decimal(value, wanted), target)
        case TypeRoot.BOOLEAN if found.root in INTEGERS:
            return pc.not_equal(values, pa.scalar(0, values.type))
        case TypeRoot.BOOLEAN if found.root in TEXT:
            return _each(values, _boolean, target)
        case root if root in INTEGERS or root in FLOATS:
            return _numbers(values, found, wanted)
        case TypeRoot.DATE if found.root in TEXT:
            return _each(values, _date, target)
        case TypeRoot.TIME:
            return _times(values, found).cast(target, safe=False)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if found.root in INTEGERS:
            millis = pc.multiply(values.cast(pa.int64()), pa.scalar(1_000, pa.int64()))
            return millis.cast(pa.timestamp("ms", target.tz)).cast(target)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if found.root is TypeRoot.TIME:
            return _times(values, found).cast(pa.int64()).cast(pa.timestamp("ms", target.tz)).cast(target, safe=False)
        case _:
            is_finer = pa.types.is_timestamp(target) and target.unit == "ns"
            return values.cast(target, safe=is_finer)


def _always_fits(found: DataType, wanted: DataType) -> bool:
    """Whether every whole number or decimal of a type fits the wanted DECIMAL."""
    digits = _DIGITS.get(found.root, (found.precision or 0) - (found.scale or 0))
    is_exact = found.root in INTEGERS or (found.root is TypeRoot.DECIMAL and (found.scale or 0) <= (wanted.scale or 0))
    return is_exact and digits <= (wanted.precision or 0) - (wanted.scale or 0)


def _each(values: pa.Array, cast: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else cast(value) for value in values.to_pylist()], target)


def _strings(values: pa.Array, found: DataType) -> pa.Array:
    if found.root in TIMES:
        return pc.replace_substring(values.cast(pa.timestamp(values.type.unit)).cast(pa.string()), "Z", "")
    if found.root in FLOATS:
        return _each(values, lambda value: float_text(found, value), pa.string())
    if found.root is TypeRoot.TIME:
        return _each(_times(values, found), lambda value: time_text(value, found.precision or 0), pa.string())
    if found.root in BYTES:
        return _each(values, lambda value: value.decode(errors="replace"), pa.string())
    return values.cast(pa.string())


def _sized_strings(strings: pa.Array, wanted: DataType) -> pa.Array:
    length = wanted.length or 1
    if length == _UNBOUNDED:
        return strings
    cut = pc.utf8_slice_codeunits(strings, 0, length)
    return pc.utf8_rpad(cut, length, " ") if wanted.root is TypeRoot.CHAR else cut


def _sized_bytes(values: pa.Array, wanted: DataType) -> pa.Array:
    length = wanted.length or 1
    if length == _UNBOUNDED:
        return values
    pad = b"\0" if wanted.root is TypeRoot.BINARY else b""
    return _each(values, lambda value: value[:length].ljust(length, pad) if pad else value[:length], pa.binary())


def fitting(value: Decimal, kind: DataType) -> Decimal | None:
    """A number with the digits of a DECIMAL, rounded half up; null if it has too many digits."""
    scale, precision = kind.scale or 0, kind.precision or 0
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    # abs() would round to the 28 digits of Python's decimal context.
    return rounded if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None


def _decimal(value: object, wanted: DataType) -> Decimal | None:
    """A number, or a number's string, with the digits of a DECIMAL, rounded half up; null if too long."""
    try:
        return fitting(Decimal(int(value) if isinstance(value, bool) else str(value).strip()), wanted)
    except ArithmeticError as error:
        raise pa.ArrowInvalid(f"{value} is not a decimal") from error


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError as error:
        raise pa.ArrowInvalid(f"{text!r} is not a boolean") from error


def _numbers(values: pa.Array, found: DataType, wanted: DataType) -> pa.Array:
    target = to_arrow_type(wanted)
    if found.root in TEXT:
        return pc.utf8_trim_whitespace(values).cast(target)
    if found.root in TIMES:
        millis = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        return pc.divide(millis, pa.scalar(1_000, pa.int64())).cast(target, safe=False)
    if found.root in FLOATS and wanted.root in INTEGERS:
        return _whole(values, wanted)
    if found.root is TypeRoot.DECIMAL and wanted.root in FLOATS:
        return values.cast(pa.string()).cast(pa.float64()).cast(target)
    if found.root is TypeRoot.BOOLEAN:
        return values.cast(pa.int8()).cast(target)
    return values.cast(target, safe=False)


def _whole(values: pa.Array, wanted: DataType) -> pa.Array:
    """Floats cut to integers of 32 or 64 bits, then to the bits of smaller types, as Java does."""
    bits = 64 if wanted.root is TypeRoot.BIGINT else 32
    numbers = np.trunc(np.nan_to_num(values.cast(pa.float64()).to_numpy(zero_copy_only=False), nan=0.0))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    inside = np.where(numbers >= high, 0, np.where(numbers <= low, 0, numbers)).astype(np.int64)
    whole = np.where(numbers >= high, high, np.where(numbers <= low, low, inside))
    return pa.array(whole, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False)).cast(
        to_arrow_type(wanted), safe=False
    )


def _date(text: str) -> date:
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise pa.ArrowInvalid(f"{text!r} is not a date")
    try:
        return date(*(int(part) for part in match.groups()))
    except ValueError as error:
        raise pa.ArrowInvalid(f"{text!r} is not a date") from error


def _times(values: pa.Array, found: DataType) -> pa.Array:
    """Milliseconds of the day as int32, or as TIME(3) if `values` are strings or timestamps."""
    if found.root in TEXT:
        millis = _each(values, _time_millis, pa.int32())
    elif found.root in TIMES:
        since = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        days = pc.floor(pc.divide(since.cast(pa.float64()), float(_DAY_MILLIS))).cast(pa.int64())
        millis = pc.subtract(since, pc.multiply(days, _DAY_MILLIS)).cast(pa.int32())
    else:
        return values.cast(pa.time32("ms"), safe=False).cast(pa.int32())
    return millis.cast(pa.time32("ms"))


def _time_millis(text: str) -> int:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise pa.ArrowInvalid(f"{text!r} is not a time")
    hours, minutes, seconds, fraction = match.groups(default="")
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000 + int(fraction[:3].ljust(3, "0"))
