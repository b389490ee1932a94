from __future__ import annotations

import polars as pl
import pytest

from demo.changes import make_changes
from demo.checks import check_counts, check_log, check_rows
from demo.flights import TABLE_SCHEMA, read_flights
from demo.log_fold import fold, unite, until
from demo.truth import count_by_status, flights_at
from lakelog.common.types import RowKind


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    return read_flights(months=1).head(500)


@pytest.fixture(scope="module")
def truth(flights: pl.DataFrame) -> pl.DataFrame:
    return flights_at(flights)


@pytest.fixture(scope="module")
def log(flights: pl.DataFrame) -> pl.DataFrame:
    """The changes as they come out of a log of one bucket."""
    kinds = {kind.short: kind.value for kind in RowKind}
    changes = make_changes(flights).with_columns(pl.col("_row_kind").replace_strict(kinds, return_dtype=pl.Int8))
    return changes.drop("_at").with_row_index("_offset")


def test_equal_rows_pass_in_any_order(truth: pl.DataFrame) -> None:
    check = check_rows("rows", truth.reverse(), truth)
    assert check.has_passed
    assert check.detail.startswith(f"{truth.height} rows, sha256 ")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda rows: rows.head(-2), "2 missing or different; 0 not expected"),
        (lambda rows: pl.concat([rows, rows.head(3)]), "3 keys more than once"),
        (lambda rows: rows.with_columns(status=pl.lit("landed")), "first found: "),
    ],
)
def test_a_difference_is_named(truth: pl.DataFrame, spoil: object, says: str) -> None:
    assert callable(spoil)
    check = check_rows("rows", spoil(truth), truth)
    assert not check.has_passed
    assert says in check.detail


def test_a_log_that_folds_to_the_rows_passes(log: pl.DataFrame, truth: pl.DataFrame) -> None:
    assert check_log("log", fold(log), truth).has_passed


def test_a_change_that_is_there_twice_is_seen(log: pl.DataFrame, truth: pl.DataFrame) -> None:
    again = pl.concat([log, log.filter(pl.col("_row_kind") == RowKind.INSERT.value).head(1)])
    assert not check_log("log", fold(again), truth).has_passed


def test_an_old_row_that_is_not_exact_is_seen(log: pl.DataFrame, truth: pl.DataFrame) -> None:
    before = pl.col("_row_kind") == RowKind.UPDATE_BEFORE.value
    spoilt = log.with_columns(pl.when(before).then(pl.lit("XXX")).otherwise("dest").alias("dest"))
    check = check_log("log", fold(spoilt), truth)
    assert not check.has_passed
    assert check.detail.startswith("signed sum: ")


def test_a_row_taken_back_instead_of_added_is_seen(log: pl.DataFrame, truth: pl.DataFrame) -> None:
    last = log.height - 1
    assert log["_row_kind"][last] == RowKind.UPDATE_AFTER.value
    kind = pl.when(pl.col("_offset") == last).then(RowKind.DELETE.value).otherwise("_row_kind").cast(pl.Int8)
    assert not check_log("log", fold(log.with_columns(kind.alias("_row_kind"))), truth).has_passed


def test_a_log_folds_bucket_by_bucket_up_to_its_end(log: pl.DataFrame, truth: pl.DataFrame) -> None:
    later = log.with_columns(pl.col("_offset") + log.height, _row_kind=pl.lit(RowKind.DELETE.value, dtype=pl.Int8))
    bucket = pl.col("flight") % 2
    whole = pl.concat([log, later])
    parts = [fold(until(whole.filter(bucket == number), log.height)) for number in (0, 1)]
    assert check_log("log", unite(parts), truth).has_passed


def test_counts_are_compared_without_their_order(truth: pl.DataFrame) -> None:
    counts = count_by_status(truth)
    assert check_counts("counts", counts.reverse(), counts).has_passed
    wrong = check_counts("counts", counts.with_columns(pl.col("count") + 1), counts)
    assert not wrong.has_passed
    assert "count=" in wrong.detail


def test_the_log_has_the_columns_of_the_table(log: pl.DataFrame) -> None:
    assert set(TABLE_SCHEMA.names) < set(log.columns)
