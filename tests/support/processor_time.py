"""How much processor time each test takes, with the processes that it starts: a property of the test in `.durations/`.

The time on a clock depends on what else the machine does, the processor time far less. What is left of that is measured
too: `SPEED_PROPERTY` is the time of a fixed piece of work, which each process of the tests does now and then.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator

import pytest

TEST_PROPERTY = "processor seconds"  # of the test with its own fixtures
SHARED_PROPERTY = "processor seconds of fixtures of the session"  # a Spark, a broker: the first test that asks pays
SPEED_PROPERTY = "processor seconds of the fixed work"
_TICKS = os.sysconf("SC_CLK_TCK")
_TESTS_PER_MEASURE = 50
_LOOK_SECONDS = 0.5


class ProcessorTime:
    """Measures in a process that runs tests, and adds the properties to the last report of each test."""

    def __init__(self) -> None:
        self._times = ProcessTimes()
        self._before = self._times.now()
        self._shared = 0.0
        self._count = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self) -> Generator[None, None, None]:
        """Collection is no test's time."""
        result = yield
        self._before = self._times.now()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Take apart what all tests of the session share."""
        if fixturedef.scope != "session":
            return (yield)
        before, shared_before = self._times.now(), self._shared
        try:
            return (yield)
        finally:  # a fixture that it asked for is in it
            self._shared = shared_before + self._times.now() - before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Note the time at the end of the last phase, before its report is made."""
        if call.when != "teardown":
            return
        now = self._times.now()
        # Where another process than the parent takes the end of one that was counted, the sum falls by its time.
        item.user_properties.append((TEST_PROPERTY, round(max(now - self._before - self._shared, 0.0), 3)))
        if self._shared:
            item.user_properties.append((SHARED_PROPERTY, round(self._shared, 3)))
        if self._count % _TESTS_PER_MEASURE == 0:
            item.user_properties.append((SPEED_PROPERTY, round(time_of_fixed_work(), 5)))
            now = self._times.now()
        self._before, self._shared, self._count = now, 0.0, self._count + 1


def time_of_fixed_work() -> float:
    """The processor time that a fixed piece of work takes now."""
    started = time.process_time()
    total = 0
    for number in range(100_000):
        total += hash((number, str(number)))
    return time.process_time() - started


class ProcessTimes:
    """The processor time so far of this process, and of all that it has started, directly or not.

    The processes that run are looked up twice a second at most: thousands of tests are shorter.
    """

    def __init__(self) -> None:
        self._looked_at = -_LOOK_SECONDS
        self._ended_children = 0.0
        self._running = 0.0

    def now(self) -> float:
        """The sum, in seconds."""
        times = os.times()
        ended_children = times.children_user + times.children_system
        if times.elapsed - self._looked_at > _LOOK_SECONDS or ended_children != self._ended_children:
            self._looked_at, self._ended_children, self._running = times.elapsed, ended_children, _time_of_running()
        return times.user + times.system + ended_children + self._running


def _time_of_running() -> float:
    started: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for process in os.listdir("/proc"):  # noqa: PTH208 - a look at each of a hundred processes, after each second test
        if process.isdigit() and (found := _parent_and_time(process)):
            started[found[0]].append((int(process), found[1]))
    total, todo = 0.0, [os.getpid()]
    while todo:
        for process_id, seconds in started[todo.pop()]:
            total += seconds
            todo.append(process_id)
    return total


def _parent_and_time(process: str) -> tuple[int, float] | None:
    """The parent of a process, and the time of it and of its ended children; None where it has ended meanwhile."""
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
