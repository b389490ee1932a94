"""Turns of writers at one log: one process after the other, and none waits for a process that is no longer there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.writing.turns import TURN_MILLIS, Turns, has_turns, in_turn, is_contended
from tests.support.tables.small_tables import make_table

PATIENCE_SECONDS = 30.0


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return make_table(tmp_path)


def names(table: FileStoreTable) -> list[str]:
    return sorted(path.name for path in Path(table.path, "lakelog", "statements").glob("turn-*"))


def let_age(table: FileStoreTable, name: str) -> None:
    """Make a file as old as that of a process that was killed."""
    path = Path(table.path, "lakelog", "statements", name)
    at = path.stat().st_mtime - 2 * TURN_MILLIS / 1000
    os.utime(path, (at, at))


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_alone_has_its_turn_at_once_and_leaves_two_files(table: FileStoreTable) -> None:
    turns = Turns(table)
    for number in (1, 2):
        turns.begin()
        assert f"turn-{number}" in names(table)
        assert not turns.is_over()
        turns.end()
    assert names(table) == ["turn-2", "turn-2-over"]
    assert has_turns(names(table))
    assert not is_contended(names(table))


def test_a_second_process_waits_until_the_first_gives_its_turn_up(table: FileStoreTable) -> None:
    now = [0.0]
    first, second = Turns(table, clock=lambda: now[0]), Turns(table)
    first.begin()
    waiting = threading.Thread(target=second.begin)
    waiting.start()
    await_true(lambda: is_contended(names(table)))
    assert not first.is_over()  # it has not lasted long enough
    now[0] += 10.0
    assert first.is_over()
    assert waiting.is_alive()
    first.end()
    waiting.join(PATIENCE_SECONDS)
    assert names(table) == ["turn-2"]


def test_who_waits_longest_is_next(table: FileStoreTable) -> None:
    first = Turns(table)
    first.begin()
    order: list[str] = []

    def wait(name: str, turns: Turns) -> None:
        turns.begin()
        order.append(name)
        turns.end()

    threads = []
    for number, name in enumerate("abc"):
        threads.append(threading.Thread(target=wait, args=(name, Turns(table))))
        threads[-1].start()
        await_true(partial(lambda count: sum("waits" in one for one in names(table)) == count, number + 1))
        time.sleep(0.002)  # the ticket has the millisecond
    first.end()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert order == ["a", "b", "c"]


def test_the_turn_of_a_process_that_was_killed_ends(table: FileStoreTable) -> None:
    Turns(table).begin()
    let_age(table, "turn-1")
    Turns(table).begin()
    assert names(table) == ["turn-2"]


def test_who_was_killed_while_it_waited_is_not_waited_for_and_forgotten(table: FileStoreTable) -> None:
    """Else each process would give its turn up for it, for ever."""
    first = Turns(table)
    first.begin()
    Path(table.path, "lakelog", "statements", f"turn-waits-{1:015d}-00000000-0000-0000-0000-000000000000").touch()
    let_age(table, next(name for name in names(table) if "waits" in name))
    first.end()
    Turns(table).begin()
    assert names(table) == ["turn-2"]


def test_a_statement_waits_for_a_writer_at_work_alone(table: FileStoreTable) -> None:
    with in_turn(table) as found:
        assert not found
    assert names(table) == []
    first = Turns(table)
    first.begin()
    done: list[bool] = []

    def statement() -> None:
        with in_turn(table):
            done.append("turn-2" in names(table))

    waiting = threading.Thread(target=statement)
    waiting.start()
    await_true(lambda: is_contended(names(table)))
    assert not done
    first.end()
    waiting.join(PATIENCE_SECONDS)
    assert done == [True]
    with in_turn(table) as found:
        assert sorted(found) == names(table) == ["turn-2", "turn-2-over"]


def test_a_turn_that_is_renewed_lasts(table: FileStoreTable) -> None:
    now = [0.0]
    first, second = Turns(table, clock=lambda: now[0]), Turns(table)
    first.begin()
    let_age(table, "turn-1")
    now[0] += 2.0
    first.renew()
    waiting = threading.Thread(target=second.begin)
    waiting.start()
    await_true(lambda: is_contended(names(table)))
    time.sleep(0.2)
    assert waiting.is_alive()
    first.end()
    waiting.join(PATIENCE_SECONDS)
    assert names(table) == ["turn-2"]
