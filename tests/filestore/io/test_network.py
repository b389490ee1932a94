"""Calls that are made at once in a store behind a network, and one after the other elsewhere."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.io.network import (
    CallsBeside,
    both,
    calls_at_once,
    create_all,
    fetch_ends,
    fetched_ahead,
    map_at_once,
)

WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Network(LocalFileIO):
    """Local files that count as files behind a network."""

    calls_at_once: int = 4
    fetched: list[str] = field(default_factory=list)

    def open_known(self, path: str, size_bytes: int) -> pa.NativeFile:
        assert size_bytes == self.size(path)
        return self.open_input(path)

    def fetch_end(self, path: str, *, start: int, size_bytes: int) -> None:
        self.fetched.append(f"{path} {start} {size_bytes}")


LOCAL = LocalFileIO(sync_data=False)


def test_calls_wait_for_each_other_only_where_they_are_made_one_by_one() -> None:
    assert (calls_at_once(LOCAL), calls_at_once(Network())) == (1, 4)
    meeting = threading.Barrier(4)

    def meet(number: int) -> int:
        meeting.wait(WAIT_SECONDS)  # breaks unless all four are here
        return number * 2

    assert map_at_once(Network(), meet, [1, 2, 3, 4]) == [2, 4, 6, 8]
    threads = map_at_once(LOCAL, lambda _: threading.get_ident(), [1, 2, 3])
    assert set(threads) == {threading.get_ident()}


def test_the_first_error_in_order_is_raised_once_all_calls_have_ended() -> None:
    ended: list[int] = []
    later = threading.Event()

    def call(number: int) -> None:
        if number == 0:
            assert later.wait(WAIT_SECONDS)
            raise NotFoundError("first")
        ended.append(number)
        if number == 2:
            later.set()
            raise NotFoundError("third")

    with pytest.raises(NotFoundError, match="first"):
        map_at_once(Network(), call, [0, 1, 2])
    assert sorted(ended) == [1, 2]


def test_a_store_of_one_call_at_a_time_makes_no_call_after_an_error() -> None:
    made: list[int] = []

    def call(number: int) -> None:
        made.append(number)
        raise NotFoundError("no")

    with pytest.raises(NotFoundError):
        map_at_once(LOCAL, call, [1, 2])
    assert made == [1]


@pytest.mark.parametrize("file_io", [LOCAL, Network()])
def test_two_calls_give_their_results_in_order(file_io: LocalFileIO) -> None:
    assert both(file_io, lambda: "first", lambda: 2) == ("first", 2)


@pytest.mark.parametrize("file_io", [LOCAL, Network()])
def test_calls_beside_give_their_results_when_asked(file_io: LocalFileIO) -> None:
    with CallsBeside(file_io) as beside:
        results = [beside.begin(partial(pow, number, 2)) for number in range(20)]
        assert [result() for result in results] == [number**2 for number in range(20)]


def test_a_call_beside_raises_where_its_result_is_asked_for() -> None:
    def fail() -> None:
        raise NotFoundError("beside")

    with CallsBeside(Network()) as beside:
        result = beside.begin(fail)
        with pytest.raises(NotFoundError, match="beside"):
            result()


@pytest.mark.parametrize(("file_io", "asked"), [(LOCAL, []), (Network(), [1, 3, 4, 5])])
def test_only_what_is_not_held_is_fetched_ahead(file_io: LocalFileIO, asked: list[int]) -> None:
    found: list[int] = []
    given = fetched_ahead(file_io, [1, 2, 3, 4, 5, 6], found.append, is_held=lambda item: item in (2, 6))
    assert list(given) == [1, 2, 3, 4, 5, 6]
    assert sorted(found) == sorted(one for one in asked if one != 5)  # a single one is left to its reader


@pytest.mark.parametrize("file_io", [LOCAL, Network(sync_data=False)])
def test_files_are_created_whole_and_an_existing_one_is_an_error(tmp_path: Path, file_io: LocalFileIO) -> None:
    create_all(file_io, [(f"{tmp_path}/m/{number}", bytes([number])) for number in range(5)])
    assert [(tmp_path / "m" / str(number)).read_bytes() for number in range(5)] == [bytes([one]) for one in range(5)]
    with pytest.raises(CorruptDataError, match="m/3 exists already"):
        create_all(file_io, [(f"{tmp_path}/m/{number}", b"") for number in (3, 9)])
    assert (tmp_path / "m" / "3").read_bytes() == bytes([3])
    assert sorted(one.name for one in (tmp_path / "m").iterdir() if one.name != "9") == ["0", "1", "2", "3", "4"]


def test_ends_are_fetched_only_where_that_saves_requests() -> None:
    network = Network()
    fetch_ends(LOCAL, [("a", 0, 1), ("b", 0, 1)])  # has no such call
    fetch_ends(network, [("a", 0, 1)])
    assert network.fetched == []  # the reader of a single file fetches it itself
    fetch_ends(network, [("a", 0, 10), ("b", 5, 10)])
    assert sorted(network.fetched) == ["a 0 10", "b 5 10"]
