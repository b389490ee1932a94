"""Values as the strings that Java makes of them: in names of folders, and when a column becomes STRING. Pure."""

from __future__ import annotations

import math

import numpy as np

from lakelog.common.types import DataType, TypeRoot

_MILLIS_DIGITS = 3
_NOT_BLANK = "\x85\xa0\u2007\u202f"  # whitespace in Python, but not in Java
BLANKS = "".join(char for char in map(chr, range(0x1_0000)) if char.isspace() and char not in _NOT_BLANK)


def is_blank(text: str) -> bool:
    """Whether a string has only characters for which `Character.isWhitespace` is true."""
    return not text.strip(BLANKS)


def float_text(kind: DataType, value: float) -> str:
    """The string of a number: with an exponent from 1.0E7 on and below 0.001."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if kind.root is TypeRoot.FLOAT else np.float64(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(number, trim="0")
    mantissa, exponent = np.format_float_scientific(number, trim="0").split("e")
    if mantissa.endswith(".0"):  # Java writes at least two digits, and the nearest ones: 4.9E-324, not 5.0E-324
        mantissa, exponent = f"{float(number):.1e}".split("e")
    return f"{mantissa}E{int(exponent)}"


def time_text(millis: int, precision: int) -> str:
    """The string of a TIME: up to `precision` digits of a second, without zeros at the end except the first digit."""
    seconds, fraction = divmod(millis, 1_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{fraction:03}"[: min(precision, _MILLIS_DIGITS)]
    return f"{clock}.{digits[:1]}{digits[1:].rstrip('0')}" if digits else clock
