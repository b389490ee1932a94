"""The types to which a column may be changed: those that hold every stored value, and have a cast in reads. Pure.

The format's own rules also allow casts that lose digits; lakelog does not, since lost digits cannot be restored.
Source: Paimon, `DataTypeCasts` (implicit casts), narrowed to those that keep every value.
"""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import MAX_LENGTH, DataType, TypeRoot

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_FLOAT_DIGITS = {TypeRoot.FLOAT: 5, TypeRoot.DOUBLE: 10}  # integers of more digits are not exact
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MICROS_DIGITS = 6  # nanoseconds hold only the years 1677 to 2262
_SHOWN_AS_TEXT = (*_INTEGER_DIGITS, TypeRoot.BOOLEAN)


def check_widening(old: DataType, new: DataType, *, name: str) -> None:
    """Raise InvalidRequestError unless every value of `old` is one of `new`. Nullability is not compared."""
    if old.is_nested or new.is_nested:
        raise InvalidRequestError(
            f"column {name!r} is {old} and cannot become {new}: change the members of nested types one by one, by "
            "their path, such as r.x, array.element or map.value"
        )
    if not keeps_values(old, new):
        raise InvalidRequestError(
            f"column {name!r} is {old} and cannot become {new}, which does not hold all of its values; types can "
            "only be widened: add a column of the new type, and fill it"
        )


def becomes_text(old: DataType, new: DataType) -> bool:
    """Whether values of another type become strings, which sort differently and have no sums."""
    return new.root in _TEXT and old.root not in _TEXT


def keeps_values(old: DataType, new: DataType) -> bool:
    """Whether every value of an atomic type is one of the other."""
    if old.root is new.root and old.root in (TypeRoot.CHAR, TypeRoot.BINARY):
        return old.length == new.length  # older values would be padded
    if old.root is new.root and old.root not in (TypeRoot.DECIMAL, *_TIMES):
        return (old.length or 0) <= (new.length or 0) and (old.precision or 0) == (new.precision or 0)
    if old.root in _INTEGER_DIGITS:
        digits = _INTEGER_DIGITS[old.root]
        if new.root in _INTEGER_DIGITS:
            return digits <= _INTEGER_DIGITS[new.root]
        if new.root in _FLOAT_DIGITS:
            return digits <= _FLOAT_DIGITS[new.root]
        if new.root is TypeRoot.DECIMAL:
            return digits <= (new.precision or 0) - (new.scale or 0)
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        fraction, whole = (old.scale or 0), (old.precision or 0) - (old.scale or 0)
        return fraction <= (new.scale or 0) and whole <= (new.precision or 0) - (new.scale or 0)
    if old.root in _SHOWN_AS_TEXT and new.root is TypeRoot.VARCHAR:
        return new.length == MAX_LENGTH
    if old.root in _TIMES and old.root is new.root:
        digits, wanted = old.precision or 0, new.precision or 0
        return digits <= wanted and (wanted <= _MICROS_DIGITS or digits > _MICROS_DIGITS)
    is_wider = (old.length or 0) <= (new.length or 0)
    return (
        (old.root is TypeRoot.FLOAT and new.root is TypeRoot.DOUBLE)
        or (old.root is TypeRoot.CHAR and new.root is TypeRoot.VARCHAR and is_wider)
        or (old.root is TypeRoot.BINARY and new.root is TypeRoot.VARBINARY and is_wider)
    )
