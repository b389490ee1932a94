"""Declared options: key, type, default and doc in one place."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from lakelog.common.errors import OptionError
from lakelog.common.quoting import CAUSE_MAX, cut, shown

logger = logging.getLogger("lakelog.common")

T_co = TypeVar("T_co", covariant=True)
Choice = TypeVar("Choice", bound=Enum)
Parser = TypeVar("Parser", bound=Callable[[str], object])

LONG_MAX = 9_223_372_036_854_775_807
_TRUE = {"true": True, "false": False}
_SIZE_UNITS = {
    label: 1 << 10 * power
    for power, labels in enumerate(("b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes"))
    for label in labels.split()
}
_TIME_UNITS_NANOS = {
    label: nanos
    for nanos, labels in {
        86_400_000_000_000: "d day days",
        3_600_000_000_000: "h hour hours",
        60_000_000_000: "min m minute minutes",
        1_000_000_000: "s sec secs second seconds",
        1_000_000: "ms milli millis millisecond milliseconds",
        1_000: "µs micro micros microsecond microseconds",
        1: "ns nano nanos nanosecond nanoseconds",
    }.items()
    for label in labels.split()
}
_OF_UNITS = "abcdefghijklmnopqrstuvwxyzµ "


_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,4000}\s*")
_KIND = "kind"


def takes(kind: str) -> Callable[[Parser], Parser]:
    """Give a parser of options the words for what it takes, such as "a positive number"."""

    def named(parse: Parser) -> Parser:
        setattr(parse, _KIND, kind)
        return parse

    return named


@takes("true or false")
def parse_bool(text: str) -> bool:
    """Parse `true` or `false`, in any case. Raises KeyError without a message: the option's kind says the rest."""
    return _TRUE[text.strip().lower()]


@takes("a whole number")
def parse_whole(text: str) -> int:
    """Parse a whole number. Raises ValueError without a message: an option's kind says what was expected.

    Only Python accepts `1_0` and digits of other scripts: no other engine could open a table with such an option.
    """
    if _WHOLE.fullmatch(text) is None:
        raise ValueError
    return int(text)


def parse_long(text: str) -> int:
    """A number of 64 bits. Raises ValueError."""
    number = parse_whole(text)
    if abs(number) > LONG_MAX:
        raise ValueError(f"expected a number up to {LONG_MAX}")
    return number


@takes("a positive number")
def positive(text: str) -> int:
    """A number above 0. Raises ValueError."""
    number = parse_long(text)
    if number < 1:
        raise ValueError("expected at least 1")
    return number


@takes("a number from 2 on")
def at_least_two(text: str) -> int:
    """A number above 1. Raises ValueError."""
    number = parse_long(text)
    if number < 2:
        raise ValueError("expected at least 2")
    return number


@takes("a number from 0 on")
def not_negative(text: str) -> int:
    """A number of 0 or more. Raises ValueError."""
    number = parse_long(text)
    if number < 0:
        raise ValueError("expected at least 0")
    return number


@takes("column names with commas")
def parse_names(text: str) -> tuple[str, ...]:
    """Column names separated by commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def choice(kind: type[Choice]) -> Callable[[str], Choice]:
    """The parser of an option with these values, in any case, as Paimon takes them.

    It raises ValueError with the nearest value, or without a message if none is near.
    """

    values = [str(one.value) for one in kind]
    known = {str(one.value).lower(): one for one in kind}

    @takes(" or ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values))
    def parse(text: str) -> Choice:
        word = text.strip().lower()
        if word not in known:
            near = get_close_matches(word, known, n=1)
            raise ValueError(*(f"did you mean {known[one].value!r}?" for one in near))
        return known[word]

    return parse


@takes("a size such as 64 mb or 10 gb")
def parse_size_bytes(text: str) -> int:
    """Parse a size such as `128 mb`; a bare number is bytes. Raises ValueError. Source: Paimon, `MemorySize`."""
    return _parse_with_unit(text, _SIZE_UNITS, "b", known="b, kb, mb, gb, tb")


@takes("a duration such as 10 min or 7 d")
def parse_duration_millis(text: str) -> int:
    """Parse a duration such as `10 min`; a bare number is milliseconds, as in options of Paimon. Raises ValueError.

    Source: Paimon, `TimeUtils`. Parts of a millisecond are left out, as Paimon leaves them out of its options.
    """
    return _parse_with_unit(text, _TIME_UNITS_NANOS, "ms", known="ms, s, min, h, d") // _TIME_UNITS_NANOS["ms"]


def parse_given_duration_millis(text: str) -> int:
    """Parse a duration that an argument of a call gives, such as `10 min`. Raises ValueError for a number without unit.

    Options keep Paimon's milliseconds. A user who types `30` and means days would delete everything older than 30
    milliseconds.
    """
    if has_no_unit(text):
        raise ValueError(f"a number without a unit; write {text.strip()} d, h, min, s or ms")
    return parse_duration_millis(text)


def has_no_unit(text: str) -> bool:
    """Whether a duration is a number alone."""
    return text.strip().isdecimal()


def _parse_with_unit(text: str, units: Mapping[str, int], default_unit: str, *, known: str) -> int:
    """The number times its unit. `known` are the units that an error names: the shortest label of each."""
    compact = text.strip().lower()
    digits = compact.rstrip(_OF_UNITS)
    unit = compact[len(digits) :].strip() or default_unit
    if unit not in units:
        raise ValueError(f"unknown unit {shown(unit)}; known are {known}")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"{shown(digits)} is not a whole number")
    number = int(digits) * units[unit]
    if int(digits) > LONG_MAX or number > LONG_MAX * units[default_unit]:
        raise ValueError(f"expected at most {LONG_MAX} {default_unit}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """One option: read it with `.of(given)`, never by its string key.

    `kind` names the type in error messages and in the generated docs table; by default it is the parser's, see `takes`.
    `older_keys` are read if the key itself is not given: tables of other engines may have them.
    """

    key: str
    parse: Callable[[str], T_co]
    default: T_co
    doc: str
    kind: str = ""
    older_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", getattr(self.parse, _KIND, "text"))

    def of(self, given: Mapping[str, str]) -> T_co:
        """The value in `given`, or the default. Raises OptionError for a value outside the type."""
        text = given.get(self.key)
        if text is None:
            text = next((given[key] for key in self.older_keys if key in given), None)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except (ValueError, KeyError) as error:
            has_words = str(error) and not isinstance(error, KeyError)  # a KeyError has only the value
            detail = f"{self.kind} ({cut(str(error), CAUSE_MAX)})" if has_words else self.kind
            raise OptionError.bad_value(self.key, text, detail) from error

    def understood(self, given: Mapping[str, str]) -> T_co:
        """The value in `given`, or the default, with a warning, also for a value outside the type.

        For stored options that change no row: a table of another engine may have a value that only this engine knows.
        """
        try:
            return self.of(given)
        except OptionError as error:
            _warn_of_default(str(error))
            return self.default


def check_known(given: Mapping[str, str], known: Iterable[Option[object]], prefixes: Iterable[str] = ()) -> None:
    """Raise OptionError for the first key that is neither an option nor covered by a declared prefix.

    For options that a user gives: a duration without a unit logs a warning, since it means milliseconds.
    """
    options = {option.key: option for option in known}
    starts = tuple(prefixes)
    for key, text in given.items():
        option = options.get(key)
        if option is None and not key.startswith(starts or ("\0",)):
            raise OptionError.unknown(key, options)
        if option is not None and option.parse is parse_duration_millis and has_no_unit(text):
            _warn_of_milliseconds(key, text.strip())


@lru_cache(maxsize=256)
def _warn_of_default(problem: str) -> None:
    logger.warning("%s; the default counts", problem)


@lru_cache(maxsize=256)  # a stream parses its options for each batch: each duration is warned about once
def _warn_of_milliseconds(key: str, number: str) -> None:
    logger.warning(
        "option %s is %r, a number without a unit, which means milliseconds; write '%s ms', or the unit that is meant: "
        "s, min, h or d",
        key,
        number,
        number,
    )
