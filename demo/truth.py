"""What the tables must hold, computed straight from the CSV; shares no code with the change stream."""

from __future__ import annotations

import hashlib
from datetime import datetime

import polars as pl

from demo.flights import KEY, TABLE_SCHEMA


def flights_at(flights: pl.DataFrame, time: datetime | None = None) -> pl.DataFrame:
    """The rows of `flights` as they stand at `time`, its changes included; None is after the last change.

    A flight exists from a day before its scheduled departure on, and is deleted at the scheduled departure when it was
    cancelled. It is `arrived` once departure and air time are over; never, when no air time is known.
    """
    now = pl.lit(time if time is not None else datetime.max, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    minutes = {name: pl.col(name).cast(pl.Int64) * 60_000_000 for name in ("minute", "dep_delay", "air_time")}
    hour = pl.col("time_hour").to_physical()

    def to_timestamp(micros: pl.Expr) -> pl.Expr:
        return micros.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")

    scheduled = to_timestamp(hour + minutes["minute"])
    departs = to_timestamp(hour + minutes["minute"] + minutes["dep_delay"])
    arrives = to_timestamp(hour + minutes["minute"] + minutes["dep_delay"] + minutes["air_time"])
    is_cancelled = pl.col("dep_time").is_null() & (scheduled <= now)
    is_known = scheduled.dt.offset_by("-24h") <= now

    status = pl.when(arrives <= now).then(pl.lit("arrived")).when(departs <= now).then(pl.lit("departed"))
    rows = flights.lazy().filter(is_known & ~is_cancelled)
    rows = rows.with_columns(
        scheduled_at=scheduled,
        status=status.otherwise(pl.lit("scheduled")),
        departed_at=pl.when(departs <= now).then(departs),
        arrived_at=pl.when(arrives <= now).then(arrives),
    )
    return rows.select(TABLE_SCHEMA.names).collect()


def count_by_status(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `flights_by_status`: carrier, status, count, for the statuses that a carrier has flights in."""
    return rows.group_by("carrier", "status").agg(pl.len().cast(pl.Int64).alias("count")).sort("carrier", "status")


def checksum(rows: pl.DataFrame) -> str:
    """SHA-256 over the rows as CSV, sorted by key: equal for equal rows in any order."""
    text = rows.select(TABLE_SCHEMA.names).sort(KEY).write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ")
    return hashlib.sha256(text.encode()).hexdigest()
