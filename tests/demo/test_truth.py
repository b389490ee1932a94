from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from demo.changes import make_changes
from demo.flights import KEY, TABLE_SCHEMA, read_flights
from demo.truth import checksum, count_by_status, flights_at


@pytest.fixture(scope="module")
def january() -> pl.DataFrame:
    return read_flights(months=1)


def folded(changes: pl.DataFrame) -> pl.DataFrame:
    last = changes.group_by(KEY, maintain_order=True).last()
    return last.filter(pl.col("_row_kind") != "-D").select(TABLE_SCHEMA.names)


def test_the_truth_of_the_year_is_every_flight_that_left() -> None:
    rows = flights_at(read_flights())
    assert rows.height == 336_776 - 8_255
    assert dict(rows.group_by("status").len().iter_rows()) == {"arrived": 327_346, "departed": 1_175}


@pytest.mark.parametrize("hours", [0, 1, 24, 25, 200, 500, 1_000])
def test_the_true_rows_at_a_timestamp_are_the_fold_of_the_changes_until_then(january: pl.DataFrame, hours: int) -> None:
    changes = make_changes(january)
    moment = datetime(2013, 1, 1, 12, tzinfo=UTC) + timedelta(hours=hours)
    expected = folded(changes.filter(pl.col("_at") <= moment))
    assert checksum(flights_at(january, moment)) == checksum(expected)


def test_the_checksum_sees_values_and_not_the_order(january: pl.DataFrame) -> None:
    rows = flights_at(january)
    assert checksum(rows.reverse()) == checksum(rows)
    changed = rows.with_columns(pl.when(pl.col("flight") == 1545).then(None).otherwise("tailnum").alias("tailnum"))
    assert checksum(changed) != checksum(rows)
    assert checksum(rows.head(-1)) != checksum(rows)


def test_counts_by_status_add_up_to_the_rows(january: pl.DataFrame) -> None:
    rows = flights_at(january, datetime(2013, 1, 15, tzinfo=UTC))
    counts = count_by_status(rows)
    assert counts.columns == ["carrier", "status", "count"]
    assert counts["count"].sum() == rows.height
    assert set(counts["status"]) == {"scheduled", "departed", "arrived"}
