"""How long a caller tries again when a service does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.common.patience import Patience


@dataclass
class Time:
    """A clock that only waiting moves."""

    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, clock=self.clock, wait=self.wait)


def silent() -> None:
    raise UnavailableError("nobody answers")


def test_it_ends_when_nothing_has_succeeded_for_its_time() -> None:
    time = Time()
    with pytest.raises(UnavailableError, match="nobody answers"):
        time.patience(60).keep_trying(silent)
    assert 60 <= time.now - 100 < 61
    assert time.waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(time.waits) == 1.0


def test_what_goes_well_begins_it_anew() -> None:
    time = Time()
    patience = time.patience(10)
    for _ in range(3):
        time.now += 9
        patience.bear(UnavailableError("silent"))
        patience.succeeded()
    assert patience.allows()


def test_work_before_the_first_failure_takes_nothing_of_it() -> None:
    time = Time()
    patience = time.patience(60)
    time.now += 600
    patience.bear(UnavailableError("silent"))
    time.now += 60
    with pytest.raises(UnavailableError):
        patience.bear(UnavailableError("silent"))


def test_without_time_the_first_failure_is_the_last() -> None:
    time = Time()
    with pytest.raises(UnavailableError):
        time.patience(0).keep_trying(silent)
    assert time.waits == []


def test_other_errors_come_at_once() -> None:
    def missing() -> None:
        raise NotFoundError("no topic")

    time = Time()
    with pytest.raises(NotFoundError):
        time.patience(60).keep_trying(missing)
    assert time.waits == []
