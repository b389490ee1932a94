"""The limits of a stream's batches, in the form in which Spark carries them from call to call."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from lakelog.streams.reading.admission import NO_LIMITS, Limits


def read_limit(limits: Limits) -> ReadLimit:
    """One of the limits: Spark carries no two."""
    if limits.rows is not None:
        return ReadMaxRows(limits.rows)
    return ReadAllAvailable() if limits.size_bytes is None else ReadMaxBytes(limits.size_bytes)


def limits_of(limit: ReadLimit, limits: Limits) -> Limits:
    """The limits of a batch for which Spark gives `limit`; those of the options unless it asks for all there is."""
    return NO_LIMITS if isinstance(limit, ReadAllAvailable) else limits
