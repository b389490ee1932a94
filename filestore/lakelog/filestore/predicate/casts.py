"""Literals of a type: the values of CAST(1.7 AS INT), DECIMAL '1.25', 0.1F and DATE ' 2026-01-31' in a condition.

Source: Spark SQL in ANSI mode, and DuckDB, which agree on these. A cast to DECIMAL rounds half up; a value that the
type cannot hold is an error, and so is a fraction cast to an integer, which Spark cuts off and DuckDB rounds.
"""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isinf

from lakelog.filestore.predicate.tokens import number_value

DECIMALS = {"DECIMAL", "DEC", "NUMERIC"}
NUMBERS = {"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "REAL", "DOUBLE", *DECIMALS}
TIMESTAMPS = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"}
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64}
_PRECISION, _SCALE, _PRECISION_MAX = 10, 0, 38  # of DECIMAL without a precision
_HALF_UP = Context(prec=3_000, rounding=ROUND_HALF_UP)  # more digits than a number in a condition has
_SUFFIXES = {"BD": "", "L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "F": "FLOAT", "D": "DOUBLE"}
_SUFFIX = re.compile(r"(?:BD|[LSYDF])$", re.IGNORECASE)
_DAY = re.compile(r"\s*([0-9]{4}-[0-9]{1,2}(?:-[0-9]{1,2})?)(?:[ T].*)?\s*", re.DOTALL)


def suffixed_number(written: str) -> Decimal:
    """The number of a literal such as `5L` or `0.1F`. Raises ValueError if its type cannot hold it."""
    found = _SUFFIX.search(written)
    if found is None:
        return number_value(written)
    value = number_value(written[: found.start()])
    word = _SUFFIXES[found[0].upper()]
    if word in _BITS and not written[: found.start()].isdigit():
        raise ValueError(f"a number that ends with {found[0]} must have only digits before it")
    return cast_number(value, word) if word else value


def cast_number(value: Decimal, word: str, sizes: tuple[int, ...] = ()) -> Decimal:
    """A number cast to the type `word`; `sizes` are precision and scale. Raises ValueError if it does not fit."""
    if word in _BITS:
        whole = int(value)
        if whole != value:
            raise ValueError(f"{word} needs a whole number")
        if not -(1 << _BITS[word] - 1) <= whole < 1 << _BITS[word] - 1:
            raise ValueError(f"it does not fit into {word}")
        return Decimal(whole)
    if word in DECIMALS:
        return _cast_decimal(value, *sizes)
    if word in ("FLOAT", "REAL"):
        try:
            return Decimal(struct.unpack("<f", struct.pack("<f", float(value)))[0])
        except OverflowError as error:
            raise ValueError(f"it does not fit into {word}") from error
    if isinf(float(value)):
        raise ValueError(f"it does not fit into {word}")
    return value  # a DOUBLE column is compared with it as a double


def cast_text(text: str, word: str, sizes: tuple[int, ...] = ()) -> Decimal:
    """The number in a string, cast to the type `word`. Raises ValueError for other strings."""
    return cast_number(number_value(text), word, sizes)


def cast_day(text: str) -> str:
    """The date in a string, without blanks and time; other strings unchanged."""
    found = _DAY.fullmatch(text)
    return text if found is None else found[1]


def _cast_decimal(value: Decimal, precision: int = _PRECISION, scale: int = _SCALE) -> Decimal:
    if not (0 < precision <= _PRECISION_MAX and 0 <= scale <= precision):
        raise ValueError(f"DECIMAL has up to {_PRECISION_MAX} digits, and no more of them behind the point")
    rounded = _HALF_UP.quantize(value, Decimal((0, (1,), -scale)))
    if abs(rounded) >= Decimal((0, (1,), precision - scale)):
        raise ValueError(f"it does not fit into DECIMAL({precision}, {scale})")
    return rounded
