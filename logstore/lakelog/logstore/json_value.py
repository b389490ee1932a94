"""One parsed JSON value as a value of a column type: exact, forgiving in form, and slow.

Takes every form that lakelog, Flink and Debezium write; the columnar reader falls back to it for what Arrow's
parser cannot read (maps, odd numbers, years beyond 9999), and takes its error messages from it.
Numbers come as Decimal or int, so nothing is lost before the column's type is known.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import partial
from typing import Any  # Any: parsed JSON is untyped until it is checked here

import pyarrow as pa

from lakelog.common.arrow import time_unit, to_arrow_type
from lakelog.common.types import DataType, TypeRoot
from lakelog.logstore.json_text import UNITS_PER_SECOND, entry_types

Json = Any
Parse = Callable[[Json], Any]

parse_json: Callable[[bytes | str], Json] = partial(json.loads, parse_float=Decimal, parse_constant=str)

_INT_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_BOOLEANS = {"true": True, "false": False}
_DATE = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_ZONE = re.compile(r"Z|([+-])(\d\d):?(\d\d)")
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_ALL_DIGITS = re.compile(r"\d+")
_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])


class JsonValueError(ValueError):
    """A JSON value does not fit its column; the message says why, without the column."""


def parser_of(kind: DataType) -> Parse:
    """The function from a parsed JSON value to what `pyarrow.array` takes for `kind`. Null gives None.

    The function raises JsonValueError.
    """
    parse = _not_null_parser(kind)

    def parse_value(value: Json) -> Any:
        if value is None:
            return None
        try:
            return parse(value)
        except JsonValueError:
            raise
        except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError) as error:
            raise JsonValueError(f"{_shown(value)} is no {kind.with_nullable(True)}") from error

    return parse_value


def _not_null_parser(kind: DataType) -> Parse:
    precision = kind.precision or 0
    match kind.root:
        case TypeRoot.BOOLEAN:
            return _to_bool
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return partial(_to_int, bits=_INT_BITS[kind.root])
        case TypeRoot.FLOAT:
            return _to_float32
        case TypeRoot.DOUBLE:
            return _to_float64
        case TypeRoot.DECIMAL:
            return partial(_to_decimal, precision=precision, scale=kind.scale or 0)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _to_text
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return partial(base64.b64decode, validate=True)
        case TypeRoot.DATE:
            return _to_days
        case TypeRoot.TIME:
            return partial(_to_time, number_unit=time_unit(max(precision, 1)), unit=to_arrow_type(kind).unit)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return partial(_to_timestamp, number_unit=time_unit(max(precision, 1)), unit=time_unit(precision))
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return partial(_to_list, element=parser_of(kind.element))
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, value = entry_types(kind)
            return partial(_to_entries, key=_key_parser(key), value_of=parser_of(value))
        case TypeRoot.ROW:
            members = {field.name: parser_of(field.type) for field in kind.fields}
            return partial(_to_row, members=members)


def _to_bool(value: Json) -> bool:
    return value if isinstance(value, bool) else _BOOLEANS[value.lower()]


def _to_int(value: Json, *, bits: int) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = int(value)
    if number != (value if isinstance(value, Decimal) else number):
        raise ValueError
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError
    return number


def _to_float64(value: Json) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _to_float32(value: Json) -> Any:
    double = _to_float64(value)
    if not math.isfinite(double):
        return double
    # Text to float32 in one rounding; by way of float64 it would be two.
    return pa.scalar(str(value).strip()).cast(pa.float32()).as_py()


def _to_decimal(value: Json, *, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool):
        raise TypeError
    number = _decimal_of(value, scale)
    if number.adjusted() >= precision:  # also keeps int() from building a number of a billion digits
        raise ValueError
    scaled = number.scaleb(scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**precision:
        raise ValueError
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _decimal_of(value: Json, scale: int) -> Decimal:
    if isinstance(value, Mapping):  # Debezium's number without a declared scale
        return Decimal(_unscaled(value["value"])).scaleb(-value["scale"], _EXACT)
    if not isinstance(value, str):
        return Decimal(value)
    is_number = _PLAIN_NUMBER.fullmatch(value) is not None
    if is_number and len(value) % 4 == 0 and _ALL_DIGITS.fullmatch(value):
        if scale == 0:
            raise JsonValueError(
                f"{_shown(value)} may be a number in decimal form or in base64, and nothing tells which;"
                " have the connector write decimals as numbers, or declare the column STRING"
            )
        is_number = False  # a decimal form of this scale has a point
    return Decimal(value) if is_number else Decimal(_unscaled(value)).scaleb(-scale, _EXACT)


def _unscaled(text: str) -> int:
    return int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)


def _to_text(value: Json) -> str:
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # raises for half a surrogate pair, which no text holds
        return value
    if isinstance(value, (bool, Mapping, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
    return str(value)


def _to_days(value: Json) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _DATE.fullmatch(value)
    if match is None:
        raise ValueError
    return _days_of(match)


def _to_time(value: Json, *, number_unit: str, unit: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return _rescale(value, number_unit, unit)
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError
    return _units_of(match, unit)


def _to_timestamp(value: Json, *, number_unit: str, unit: str) -> int:
    """Units since 1970; a text without zone is taken as it stands, one with a zone as UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _rescale(value, number_unit, unit)
    date = _DATE.match(value)
    if date is None:
        raise ValueError
    seconds, units, end = _days_of(date) * 86_400, 0, date.end()
    if value[end : end + 1] in ("T", " "):
        time = _TIME.match(value, end + 1)
        if time is None:
            raise ValueError
        units, end = _units_of(time, unit), time.end()
        if end < len(value):
            zone = _ZONE.fullmatch(value, end)
            if zone is None:
                raise ValueError
            seconds, end = seconds - _zone_seconds(zone), zone.end()
    if end < len(value):
        raise ValueError
    number = seconds * UNITS_PER_SECOND[unit] + units
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError
    return number


def _zone_seconds(match: re.Match[str]) -> int:
    if match[1] is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3]) * 60
    return -seconds if match[1] == "-" else seconds


def _days_of(match: re.Match[str]) -> int:
    """Days since 1970 of a proleptic Gregorian date of any year. Raises ValueError for no such day."""
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= (29 if is_leap else 28, 30, 31)[_LENGTH_CLASS[month - 1]]:
        raise ValueError
    year -= month <= 2
    cycle, year_of_cycle = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_cycle = year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year
    return cycle * 146_097 + day_of_cycle - 719_468


_LENGTH_CLASS = (2, 0, 2, 1, 2, 1, 2, 2, 1, 2, 1, 2)


def _units_of(match: re.Match[str], unit: str) -> int:
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError
    nanos = int((match[4] or "").ljust(9, "0"))
    return (hours * 3600 + minutes * 60 + seconds) * UNITS_PER_SECOND[unit] + _rescale(nanos, "ns", unit)


def _rescale(number: int, from_unit: str, to_unit: str) -> int:
    """The same time in another unit. Raises ValueError when that would lose digits."""
    scaled, rest = divmod(number * UNITS_PER_SECOND[to_unit], UNITS_PER_SECOND[from_unit])
    if rest:
        raise ValueError
    return scaled


def _to_list(value: Json, *, element: Parse) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return [element(member) for member in value]


def _to_entries(value: Json, *, key: Parse, value_of: Parse) -> list[tuple[Any, Any]]:
    return [(key(name), value_of(member)) for name, member in value.items()]


def _key_parser(kind: DataType) -> Parse:
    """The parser of the names in a map's object: JSON texts, without quotes where the type has none of its own."""
    parse = parser_of(kind)
    if kind.is_nested:
        return lambda name: parse(parse_json(name))
    if kind.root is TypeRoot.DECIMAL:
        return lambda name: parse(Decimal(name))  # as a number, which cannot be taken for base64
    return parse


def _to_row(value: Json, *, members: Mapping[str, Parse]) -> dict[str, Any]:
    return {name: parse(value.get(name)) for name, parse in members.items()}


def _shown(value: Json) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
