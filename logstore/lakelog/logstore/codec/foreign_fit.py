"""Conversion from the type that values have in their records to the type of the table's column: exact, or refused."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_type, wide_decimal
from lakelog.common.types import DataType, TypeRoot

_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_TEMPORAL = frozenset({TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BINARY = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
_INT64_DIGITS = 20
_DAY_SECONDS = 86_400
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def fitted(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """The values in the Arrow type of `target`. Raises ArrowInvalid for a value that it cannot hold exactly."""
    final = to_arrow_type(target)
    if source.root is TypeRoot.TIME:
        _check_time_of_day(values)
    if values.type == final:
        return values
    try:
        return _cast(values, final)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise pa.ArrowInvalid(
            f"a value of the type {source.with_nullable(True)} is not of the type {target}"
        ) from error


def _cast(values: pa.Array, final: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_floating(values.type) and not types.is_floating(final) and not types.is_string(final):
        raise pa.ArrowInvalid(f"a floating point number is not of the type {final}")
    if types.is_integer(values.type) and types.is_decimal(final):
        values = values.cast(pa.decimal128(_INT64_DIGITS, 0))
    if types.is_decimal(values.type) and types.is_decimal(final):
        return values.cast(wide_decimal(final.scale)).cast(final)
    if types.is_decimal(values.type) and types.is_integer(final):
        return values.cast(wide_decimal(0)).cast(final)
    if types.is_boolean(values.type) != types.is_boolean(final) and not types.is_string(final):
        raise pa.ArrowInvalid(f"a value of the type {values.type} is not of the type {final}")
    cast = values.cast(final)
    if types.is_floating(final) and not types.is_floating(values.type) and not cast.cast(values.type).equals(values):
        raise pa.ArrowInvalid(f"a number is not exact as {final}")
    if types.is_float32(final) and types.is_float64(values.type):
        _check_same_doubles(values, cast.cast(values.type), final)
    return cast


def _check_same_doubles(values: pa.Array, back: pa.Array, final: pa.DataType) -> None:
    one, other = (array.fill_null(0).to_numpy(zero_copy_only=False) for array in (values, back))
    if not np.array_equal(one, other, equal_nan=True):
        raise pa.ArrowInvalid(f"a number is not exact as {final}")


def _check_time_of_day(values: pa.Array) -> None:
    """Raise ArrowInvalid for a time before 0:00 or after 24:00: Arrow accepts any number as a time."""
    width = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    numbers = pc.drop_null(values.cast(width))
    if not len(numbers):
        return
    found = pc.min_max(numbers)
    if found["min"].as_py() < 0 or found["max"].as_py() >= _DAY_SECONDS * _UNITS[values.type.unit]:
        raise pa.ArrowInvalid("a time is not within one day")


def misfit_of_length(values: pa.Array, kind: DataType) -> pa.Array | None:
    """Where a string or binary is longer than its type, or a time has digits that its type lacks; None if nowhere."""
    if kind.root in _TEXT and kind.length is not None:
        return _true_somewhere(pc.greater(pc.utf8_length(values), kind.length))
    if kind.root in _BINARY and kind.length is not None:
        return _true_somewhere(pc.greater(pc.binary_length(values), kind.length))
    return None


def _true_somewhere(mask: pa.Array) -> pa.Array | None:
    mask = mask.fill_null(False)
    return mask if pc.any(mask).as_py() else None


def zero_of(kind: DataType) -> object:
    """The stand-in for an unknown value of a NOT NULL column in the image of a deleted row; None if there is none."""
    if kind.root in _INTEGERS or kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return 0
    if kind.root is TypeRoot.DECIMAL:
        return Decimal(0)
    if kind.root is TypeRoot.BOOLEAN:
        return False
    if kind.root in _TEXT:
        return ""
    if kind.root in _BINARY:
        return b""
    return 0 if kind.root in _TEMPORAL else None
