"""One parsed JSON value as a value of a column type: exact, in any known form, and slow.

Takes every form that lakelog, Flink and Debezium write; the columnar reader falls back to it for values that Arrow's
parser cannot read (maps, odd numbers, years beyond 9999), and for error messages. Numbers arrive as Decimal or int, so
nothing is lost before the column's type is known.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import partial
from typing import Any  # Any: parsed JSON is untyped until it is checked here

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.arrow import time_unit, to_arrow_type
from lakelog.common.types import DataType, TypeRoot
from lakelog.logstore.codec.json_text import UNITS_PER_SECOND, entry_types

Json = Any
Parse = Callable[[Json], Any]
Numbers = npt.NDArray[np.int64]

_INT_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_BOOLEANS = {"true": True, "false": False}
_DATE = re.compile(r"([+-]?\d{4,12})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?", re.ASCII)
_ZONE = re.compile(r"Z|([+-])(\d\d)(?::?(\d\d))?", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_ALL_DIGITS = re.compile(r"\d+", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]|.)", re.DOTALL)
_LONG_DIGITS_MAX = 20  # digits of the largest number of 64 bits
_UNSCALED_BYTES_MAX = 80
_DAY_SECONDS = 86_400
_UTC = "Z"  # behind dates and times of day in ISO form
DAYS = "d"
_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])


class JsonValueError(ValueError):
    """A JSON value does not fit its column; the message has the reason, without the column."""


class RepeatedNames(dict[str, Any]):
    """An object with a repeated name; the last value counts where names are keys of a map."""

    repeated: frozenset[str] = frozenset()


def parse_json(data: bytes) -> Json:
    """The value of JSON in UTF-8. Raises JsonValueError, also where Python reads more than JSON has."""
    try:
        if b"\\u" in data and any(token[1:2] == b"u" and len(token) == 4 for token in _ESCAPED.findall(data)):
            raise JsonValueError("it holds half a surrogate pair, which is not Unicode")
        return _DECODER.decode(data.decode())
    except RecursionError as error:
        raise JsonValueError("it is nested too deep") from error
    except (UnicodeDecodeError, json.JSONDecodeError, JsonValueError) as error:
        raise JsonValueError(str(error)) from error
    except (ArithmeticError, ValueError) as error:
        raise JsonValueError("it holds a number with more digits, or a larger exponent, than any type has") from error


def _object(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(name for name, _ in pairs)
    marked = RepeatedNames(found)
    marked.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return marked


def value_of(row: Mapping[str, Json], name: str) -> Json:
    """The value of a name in an object, None without it. Raises JsonValueError if the name appears several times."""
    if isinstance(row, RepeatedNames) and name in row.repeated:
        raise JsonValueError(f"{name!r} is there several times")
    return row.get(name)


def _no_number(text: str) -> Json:
    """Refuses NaN and Infinity, which JSON lacks; writers of such values write them as strings."""
    raise JsonValueError(f"{text} is not JSON")


def _whole(text: str) -> int | Decimal:
    """A whole number; `-0` as a Decimal, whose sign a float column keeps."""
    return Decimal(text) if text == "-0" else int(text)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_object)


class ValueForms:
    """How values are written that JSON has no form for: this class says it of lakelog and Flink.

    Their decimals are numbers, their times strings. Strings and numbers of other writers are taken where they can be
    told apart.
    """

    __slots__ = ()

    def decimal(self, text: str, scale: int) -> Decimal:
        """A string in a DECIMAL column. Raises ValueError."""
        if _PLAIN_NUMBER.fullmatch(text) is None:
            return Decimal(_unscaled(text)).scaleb(-scale, _EXACT)
        if len(text) % 4 or _ALL_DIGITS.fullmatch(text) is None:
            return Decimal(text)
        if scale == 0:
            raise JsonValueError(
                f"{_shown(text)} may be a number in decimal form or in base64, and nothing says which;"
                " have the connector write decimals as numbers, or declare the column STRING"
            )
        return Decimal(_unscaled(text)).scaleb(-scale, _EXACT)  # a decimal form of this scale has a point

    def unit(self, kind: DataType) -> str | None:
        """The unit of a number in a column of dates or times; None if there are no numbers."""
        return DAYS if kind.root is TypeRoot.DATE else time_unit(max(kind.precision or 0, 1))

    def see(self, kind: DataType, numbers: Sequence[int] | Numbers, unit: str) -> None:
        """Note numbers that were read as times of a unit."""

    def see_text(self, kind: DataType) -> None:
        """Note that a string was read as a date or a time."""

    def binary(self, text: str) -> bytes:
        """A string in a column of binaries. Raises ValueError."""
        return bytes_of_base64(text)

    def inside(self, name: str) -> ValueForms:  # noqa: ARG002  # all members have the forms of lakelog
        """The forms of a member of a nested type: `element`, `value`, or a field."""
        return self


OWN_FORMS = ValueForms()


def parser_of(kind: DataType, forms: ValueForms = OWN_FORMS) -> Parse:
    """The function from a parsed JSON value to a value for `pyarrow.array` of `kind`. Null gives None.

    The function raises JsonValueError, also for a null where the type is NOT NULL.
    """
    parse = _not_null_parser(kind, forms)

    def parse_value(value: Json) -> Any:
        if value is None:
            if not kind.nullable:
                raise JsonValueError(f"it is null or missing, and its type is {kind}")
            return None
        try:
            return parse(value)
        except JsonValueError:
            raise
        except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, RecursionError) as error:
            raise JsonValueError(f"{_shown(value)} is not of the type {kind.with_nullable(True)}") from error

    return parse_value


def _not_null_parser(kind: DataType, forms: ValueForms) -> Parse:
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
            return partial(_to_decimal, precision=precision, scale=kind.scale or 0, forms=forms)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _to_text
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return forms.binary
        case TypeRoot.DATE:
            return _of_number_or_text(kind, forms, lambda number, _: _within(number, 1 << 31), _to_days)
        case TypeRoot.TIME:
            unit = to_arrow_type(kind).unit
            return _of_number_or_text(kind, forms, partial(_time_of_number, unit=unit), partial(_to_time, unit=unit))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            unit = time_unit(precision)
            return _of_number_or_text(
                kind,
                forms,
                lambda number, given: _within(_rescale(number, given, unit), 1 << 63),
                partial(_to_timestamp, unit=unit),
            )
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return partial(_to_list, element=_element_parser(kind.element, forms.inside("element")))
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, value = entry_types(kind)
            return partial(_to_entries, key=_key_parser(key), member=parser_of(value, forms.inside("value")))
        case TypeRoot.ROW:
            members = {field.name: parser_of(field.type, forms.inside(field.name)) for field in kind.fields}
            return partial(_to_row, members=members)


def _to_bool(value: Json) -> bool:
    return value if isinstance(value, bool) else _BOOLEANS[value.lower()]


def _to_int(value: Json, *, bits: int) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value.strip(" ")) is None:
        raise ValueError
    if isinstance(value, Decimal) and value.adjusted() >= _LONG_DIGITS_MAX:  # int() could build a billion digits
        raise ValueError
    number = int(value)
    if number != (value if isinstance(value, Decimal) else number):
        raise ValueError
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError
    return number


def _to_float64(value: Json) -> float:
    """A number beyond the largest float is refused, and never becomes infinite."""
    if isinstance(value, bool):
        raise TypeError
    is_named = _is_not_finite(value)
    if isinstance(value, str) and not is_named and _PLAIN_NUMBER.fullmatch(value.strip(" ")) is None:
        raise ValueError
    double = float(value)
    if not (is_named or math.isfinite(double)):
        raise ValueError
    return double


def _is_not_finite(value: Json) -> bool:
    """Whether a value is a name of NaN or infinity."""
    return isinstance(value, float) or (isinstance(value, str) and _NOT_FINITE.fullmatch(value) is not None)


def _to_float32(value: Json) -> Any:
    double = _to_float64(value)
    if not math.isfinite(double):
        return double
    # String to float32 in one rounding; by way of float64 there would be two.
    single = pa.scalar(str(value).strip(" ")).cast(pa.float32()).as_py()
    if not math.isfinite(single):
        raise ValueError
    return single


def _to_decimal(value: Json, *, precision: int, scale: int, forms: ValueForms) -> Decimal:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, Mapping):  # Debezium's number without a declared scale
        number = Decimal(_unscaled(value["value"])).scaleb(-value["scale"], _EXACT)
    else:
        number = forms.decimal(value, scale) if isinstance(value, str) else Decimal(value)
    if number.adjusted() >= precision:  # this also keeps int() from building a number of a billion digits
        raise ValueError
    scaled = number.scaleb(scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**precision:
        raise ValueError
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def decimal_of_text(text: str) -> Decimal:
    """A number in decimal form. Raises JsonValueError."""
    if _PLAIN_NUMBER.fullmatch(text) is None:
        raise JsonValueError(f"{_shown(text)} is not a number in decimal form")
    return Decimal(text)


def decimal_of_base64(text: str, scale: int) -> Decimal:
    """An unscaled number, big-endian in two's complement, in base64. Raises JsonValueError."""
    try:
        unscaled = _unscaled(text) if text and len(text) % 4 == 0 else None
    except ValueError:
        unscaled = None
    if unscaled is None:
        raise JsonValueError(f"{_shown(text)} is not an unscaled number in base64 (decimal_handling_mode='precise')")
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def bytes_of_base64(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(text, validate=True)


def _unscaled(text: str) -> int:
    data = bytes_of_base64(text)
    if len(data) > _UNSCALED_BYTES_MAX:
        raise ValueError
    return int.from_bytes(data, "big", signed=True)


def _to_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, Mapping, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
    if isinstance(value, float):  # NaN or Infinity without quotes
        raise TypeError
    return str(value)


def _of_number_or_text(
    kind: DataType, forms: ValueForms, of_number: Callable[[int, str], int], of_text: Parse
) -> Parse:
    """The parser of dates or times, which are strings, or numbers of a unit."""
    unit = forms.unit(kind)

    def parse(value: Json) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            found = of_text(value)
            forms.see_text(kind)
            return found
        if unit is None:
            raise JsonValueError(f"{value} is a number, and time_precision_mode='isostring' writes strings")
        forms.see(kind, [value], unit)
        return of_number(value, unit)

    return parse


def _to_days(value: Json) -> int:
    match = _DATE.fullmatch(value.removesuffix(_UTC))
    if match is None:
        raise ValueError
    return _within(_days_of(match), 1 << 31)


def _within(number: int, limit: int) -> int:
    if not -limit <= number < limit:
        raise ValueError
    return number


def _time_of_number(value: int, number_unit: str, *, unit: str) -> int:
    if not 0 <= value < _DAY_SECONDS * UNITS_PER_SECOND[number_unit]:
        raise ValueError
    return _rescale(value, number_unit, unit)


def _to_time(value: Json, *, unit: str) -> int:
    match = _TIME.fullmatch(value.removesuffix(_UTC))
    if match is None:
        raise ValueError
    return _units_of(match, unit)


def _to_timestamp(value: Json, *, unit: str) -> int:
    """Units since 1970; a string without zone is local time, one with a zone is converted to UTC."""
    date = _DATE.match(value)
    if date is None:
        raise ValueError
    seconds, units, end = _days_of(date) * _DAY_SECONDS, 0, date.end()
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
    return _within(seconds * UNITS_PER_SECOND[unit] + units, 1 << 63)


def _zone_seconds(match: re.Match[str]) -> int:
    if match[1] is None:
        return 0
    hours, minutes = int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError
    seconds = hours * 3600 + minutes * 60
    return -seconds if match[1] == "-" else seconds


def _days_of(match: re.Match[str]) -> int:
    """Days since 1970 of a proleptic Gregorian date of any year. Raises ValueError for a day that does not exist."""
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
    hours, minutes, seconds = int(match[1]), int(match[2] or 0), int(match[3] or 0)
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


def _element_parser(kind: DataType, forms: ValueForms) -> Parse:
    """The parser of a list's values, in which a list is one of more dimensions, not JSON in a string."""
    parse = parser_of(kind, forms)
    if kind.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return parse

    def parse_text(value: Json) -> Any:
        if isinstance(value, list):
            raise JsonValueError(f"{_shown(value)} is a list inside of a list, and not of the type {kind}")
        return parse(value)

    return parse_text


def _to_entries(value: Json, *, key: Parse, member: Parse) -> list[tuple[Any, Any]]:
    entries = [(key(name), member(found)) for name, found in value.items()]
    if any(name is None for name, _ in entries):
        raise ValueError
    return entries


def _key_parser(kind: DataType) -> Parse:
    """The parser of the names in a map's object: JSON, without quotes for types that need none."""
    parse = parser_of(kind)
    if kind.is_nested:
        return lambda name: parse(parse_json(name.encode()))
    if kind.root is TypeRoot.DECIMAL:
        return lambda name: parse(_plain_decimal(name))  # as a number, which cannot be taken for base64
    return parse


def _plain_decimal(text: str) -> Decimal:
    if _PLAIN_NUMBER.fullmatch(text) is None:
        raise ValueError
    return Decimal(text)


def _to_row(value: Json, *, members: Mapping[str, Parse]) -> dict[str, Any]:
    return {name: parse(value_of(value, name)) for name, parse in members.items()}


def _shown(value: Json) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
