from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from demo.changes import count_changes, make_changes, write_change_files
from demo.flights import KEY, TABLE_SCHEMA, read_flights


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    return read_flights()


@pytest.fixture(scope="module")
def changes(flights: pl.DataFrame) -> pl.DataFrame:
    return make_changes(flights)


def test_the_year_is_a_million_changes(flights: pl.DataFrame, changes: pl.DataFrame) -> None:
    kinds = dict(changes.group_by("_row_kind").len().iter_rows())
    updates = 328_521 + 327_346
    assert flights.height == 336_776
    assert kinds == {"+I": 336_776, "-U": updates, "+U": updates, "-D": 8_255}
    assert count_changes(changes) == 1_000_898


def test_the_change_stream_has_the_columns_of_the_table(changes: pl.DataFrame) -> None:
    assert changes.columns == [*TABLE_SCHEMA.names, "_row_kind", "_at"]
    key_nulls = changes.select(KEY).null_count()
    assert key_nulls.row(0) == (0, 0, 0)


def test_changes_come_in_the_order_in_which_they_happened(changes: pl.DataFrame) -> None:
    assert changes["_at"].is_sorted()


def test_an_old_row_stands_directly_before_its_new_one(changes: pl.DataFrame) -> None:
    before = (changes["_row_kind"] == "-U").arg_true()
    after = changes[(before + 1)]
    assert after["_row_kind"].unique().to_list() == ["+U"]
    assert after.select(KEY).equals(changes[before].select(KEY))


def test_every_old_row_is_what_the_change_before_left(changes: pl.DataFrame) -> None:
    by_flight = changes.sort(KEY, maintain_order=True)
    previous = [pl.col(name).shift(1).alias(f"previous_{name}") for name in TABLE_SCHEMA.names]
    retractions = by_flight.with_columns(previous).filter(pl.col("_row_kind").is_in(["-U", "-D"]))
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"previous_{name}")) for name in TABLE_SCHEMA.names)
    assert retractions.height == 655_867 + 8_255
    assert retractions.select(same.all()).item()


def test_an_update_never_falls_apart_between_two_files(changes: pl.DataFrame, tmp_path: Path) -> None:
    files = write_change_files(changes, tmp_path / "changes", file_count=40)
    pieces = [pl.read_parquet(file.path) for file in files]
    assert all(piece["_row_kind"][0] != "+U" for piece in pieces)
    assert pl.concat(pieces).equals(changes.drop("_at"))


def test_files_are_younger_the_later_their_changes(changes: pl.DataFrame, tmp_path: Path) -> None:
    files = write_change_files(changes, tmp_path / "changes", file_count=40)
    modified = [file.path.stat().st_mtime for file in files]
    assert len(files) == 40
    assert modified == sorted(set(modified))


def test_a_file_ends_at_a_timestamp_and_the_next_one_starts_later(changes: pl.DataFrame, tmp_path: Path) -> None:
    files = write_change_files(changes, tmp_path / "changes", file_count=40)
    ends = pl.Series([file.row_count for file in files]).cum_sum()
    firsts_of_next = changes["_at"].gather(ends[:-1])
    assert all(file.last_at < first for file, first in zip(files, firsts_of_next, strict=False))


@pytest.mark.parametrize("file_count", [1, 3, 50])
def test_no_row_is_lost_by_cutting(file_count: int, tmp_path: Path) -> None:
    changes = make_changes(read_flights(months=1)).head(100)
    files = write_change_files(changes, tmp_path / "changes", file_count=file_count)
    assert len(files) <= file_count
    assert sum(file.row_count for file in files) == 100
    assert pl.concat([pl.read_parquet(file.path) for file in files]).equals(changes.drop("_at"))
