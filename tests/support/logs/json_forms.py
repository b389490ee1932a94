"""Decoded rows in the JSON forms of the recorded change logs, so that a test compares plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Any: values of every column type

import numpy as np
import pyarrow as pa

from lakelog.common.types import DataField, DataType, TypeRoot

_BINARY = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def shown_rows(table: pa.Table, fields: Sequence[DataField]) -> list[dict[str, Any]]:
    """Each row as an object: decimals as text, bytes as hex, times with the digits of their type, maps as pairs."""
    columns = [_shown_column(table.column(field.name).combine_chunks(), field.type) for field in fields]
    names = [field.name for field in fields]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def comparable(row: Mapping[str, Any], fields: Sequence[DataField]) -> dict[str, Any]:
    """The row with floating point numbers as text, so that NaN is NaN and 0.1 a FLOAT is 0.1."""
    as_text = {TypeRoot.DOUBLE: lambda value: str(float(value)), TypeRoot.FLOAT: lambda value: str(np.float32(value))}
    shown = {
        field.name: as_text[field.type.root](row[field.name])
        for field in fields
        if field.type.root in as_text and row[field.name] is not None
    }
    return {**row, **shown}


def _shown_column(array: pa.Array, kind: DataType) -> list[Any]:
    match kind.root:
        case TypeRoot.DATE | TypeRoot.DECIMAL:
            return [None if value is None else str(value) for value in array.to_pylist()]
        case TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return [None if text is None else _with_digits(text, kind) for text in array.cast(pa.string()).to_pylist()]
        case TypeRoot.MAP:
            return [None if value is None else sorted(map(list, value), key=str) for value in array.to_pylist()]
    return [value.hex() if isinstance(value, bytes) else value for value in array.to_pylist()]


def _with_digits(text: str, kind: DataType) -> str:
    zone = "Z" if text.endswith("Z") else ""
    whole, _, fraction = text.removesuffix("Z").replace(" ", "T").partition(".")
    digits = fraction[: kind.precision or 0]
    return whole + (f".{digits}" if digits else "") + zone
