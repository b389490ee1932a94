"""Records as arrays: what their pointers lead to, and where this way is taken."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import metadata

import confluent_kafka
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.logstore.kafka.producers import record_arrays
from lakelog.logstore.kafka.producers.record_arrays import addresses, batch_function, produce_objects

SIZES = st.one_of(st.binary(max_size=14), st.binary(min_size=100, max_size=200))
VALUES = st.lists(st.none() | SIZES, max_size=30)


def read(column: pa.ChunkedArray) -> list[bytes | None]:
    """The values of a column, by their addresses."""
    where, sizes = addresses(column)
    return [
        None if not place else ctypes.string_at(place, size)
        for place, size in zip(where.tolist(), sizes.tolist(), strict=True)
    ]


@given(VALUES, VALUES, st.integers(0, 5))
def test_each_value_of_a_column_is_at_its_address(first: list[bytes], second: list[bytes], start: int) -> None:
    column = pa.chunked_array([first, second], pa.large_binary())

    assert read(column) == column.to_pylist()
    assert read(column[start:]) == column.to_pylist()[start:]
    assert read(column.take(pa.array(range(len(column))[::-1], pa.int64()))) == column.to_pylist()[::-1]


def test_empty_values_are_no_nulls() -> None:
    column = pa.chunked_array([[b"", b""]], pa.large_binary())

    assert read(column) == [b"", b""]


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
