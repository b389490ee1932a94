"""Rows with a column of each type that is not nested, as query engines know them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any  # Any: values of every column type

import pyarrow as pa

ZONE = dt.timezone(dt.timedelta(hours=2))
NOON = dt.datetime(2026, 3, 1, 12)
# A column named as its type in DuckDB, and a value for each number; every seventh is null.
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "tinyint": (pa.int8(), lambda at: at % 100 - 50),
    "smallint": (pa.int16(), lambda at: at * 100 - 9_000),
    "integer": (pa.int32(), lambda at: at * 1_000),
    "bigint": (pa.int64(), lambda at: (at - 100) * (1 << 55)),
    "float": (pa.float32(), lambda at: (float("nan"), -0.0, 0.0, float("inf"), 0.1 * at)[min(at % 11, 4)]),
    "double": (pa.float64(), lambda at: (float("nan"), -0.0, 0.0, -float("inf"), 0.1 * at)[min(at % 13, 4)]),
    "decimal_9_2": (pa.decimal128(9, 2), lambda at: Decimal(at * 7 - 300) / 100),
    "decimal_38_10": (pa.decimal128(38, 10), lambda at: Decimal(10) ** 20 + Decimal(at) / 1000),
    "boolean": (pa.bool_(), lambda at: at % 2 == 0),
    "varchar": (pa.string(), lambda at: ("", "it's", '") or (true', "ü 日本", f"text {at:03}")[min(at % 17, 4)]),
    "blob": (pa.binary(), lambda at: bytes([at % 256, 0, 255])),
    "date": (pa.date32(), lambda at: dt.date(1969, 12, 1) + dt.timedelta(at)),
    "time": (pa.time32("ms"), lambda at: dt.time(at % 24, 5, 6, 7_000)),
    "timestamp_s": (pa.timestamp("s"), lambda at: NOON + dt.timedelta(hours=at)),
    "timestamp_ms": (pa.timestamp("ms"), lambda at: NOON + dt.timedelta(milliseconds=at * 7)),
    "timestamp": (pa.timestamp("us"), lambda at: dt.datetime(1969, 12, 31) + dt.timedelta(microseconds=at * 10**9 + 1)),
    "timestamp_ns": (pa.timestamp("ns"), lambda at: NOON + dt.timedelta(microseconds=at)),
    "timestamptz": (pa.timestamp("us", "UTC"), lambda at: (NOON + dt.timedelta(seconds=at)).replace(tzinfo=ZONE)),
}
SQL_TYPES = {"decimal_9_2": "DECIMAL(9, 2)", "decimal_38_10": "DECIMAL(38, 10)"}
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, (kind, _) in COLUMNS.items())]
)


def rows_of(ids: range) -> pa.Table:
    """A row for each number."""
    values = [[None if at % 7 == 3 else value(at) for at in ids] for _, value in COLUMNS.values()]
    return pa.table([list(ids), *values], schema=SCHEMA)
