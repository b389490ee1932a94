"""Records as arrays: what their pointers lead to, and where this way is taken."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import metadata

import confluent_kafka
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.logstore.kafka.producers import record_arrays
from lakelog.logstore.kafka.producers.record_arrays import addresses, batch_function, produce_objects

SIZES = st.one_of(st.binary(max_size=14), st.binary(min_size=100, max_size=200))  # a view holds up to 12 bytes
VALUES = st.lists(st.none() | SIZES, max_size=30)


def read(column: pl.Series) -> list[bytes | None]:
    """The values of a column, by their addresses."""
    where, sizes = addresses(column)
    return [
        None if not place else ctypes.string_at(place, size)
        for place, size in zip(where.tolist(), sizes.tolist(), strict=True)
    ]


@given(VALUES, VALUES, st.integers(0, 5))
def test_each_value_of_a_column_is_at_its_address(first: list[bytes], second: list[bytes], start: int) -> None:
    column = pl.concat([pl.Series(first, dtype=pl.Binary), pl.Series(second, dtype=pl.Binary)])

    assert read(column) == column.to_list()
    assert read(column[start:]) == column.to_list()[start:]
    assert read(column.reverse()) == column.to_list()[::-1]


@given(st.lists(st.text(max_size=40), max_size=30))
def test_values_that_polars_has_joined_are_at_their_addresses(texts: list[str]) -> None:
    joined = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)}).select(
        pl.concat_str(pl.lit("{"), "text", pl.lit("}")).alias("text")
    )["text"]

    assert read(joined.cast(pl.Binary)) == [b"{%b}" % text.encode() for text in texts]


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The way is chosen anew, in this test and after it."""
    batch_function.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    batch_function.cache_clear()


def test_arrays_are_used_with_the_client_that_is_installed(forgotten: pytest.MonkeyPatch) -> None:
    assert batch_function() is not produce_objects


@pytest.mark.parametrize("version", ["1.9.2", "2.12.1", "2.17.0", "3.0.0"])
def test_a_client_that_was_not_tried_gets_objects(forgotten: pytest.MonkeyPatch, version: str) -> None:
    forgotten.setattr(metadata, "version", lambda _name: version)

    assert batch_function() is produce_objects


def test_a_client_with_another_library_than_the_one_found_gets_objects(forgotten: pytest.MonkeyPatch) -> None:
    forgotten.setattr(confluent_kafka, "libversion", lambda: ("2.0.0", 0x020000FF))

    assert batch_function() is produce_objects


def test_a_client_whose_library_is_not_beside_it_gets_objects(forgotten: pytest.MonkeyPatch) -> None:
    forgotten.setattr(record_arrays, "_LIBRARIES", ("no such folder/*",))

    assert batch_function() is produce_objects
