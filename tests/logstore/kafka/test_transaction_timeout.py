"""A transaction's time-out fits what it sends, within what the user and the broker allow."""

from __future__ import annotations

import pytest

from lakelog.common.errors import OptionError
from lakelog.logstore.kafka.clients import transaction_timeout
from lakelog.logstore.kafka.clients.transaction_timeout import (
    TIMEOUT_KEY,
    TIMEOUT_MILLIS_MAX,
    choose_timeout_millis,
    may_ask_for_less,
)

CONFIG = {"bootstrap.servers": "h:1"}
MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_timeout, "_refused", {})


def test_a_larger_batch_gets_a_longer_time_out() -> None:
    chosen = [choose_timeout_millis(CONFIG, size * MIB) for size in (0, 10, 40, 100, 10_000)]

    assert chosen == [60_000, 60_000, 120_000, 240_000, 900_000]


def test_each_transaction_that_was_too_slow_gives_the_next_one_more_time() -> None:
    assert [choose_timeout_millis(CONFIG, 10 * MIB, patience) for patience in range(5)] == [
        60_000, 120_000, 240_000, 480_000, 900_000,
    ]  # fmt: skip


def test_what_the_user_sets_goes_first_and_is_not_shortened() -> None:
    given = CONFIG | {TIMEOUT_KEY: "5000"}

    assert choose_timeout_millis(given, 10_000 * MIB, 3) == 5_000
    assert not may_ask_for_less(given, 5_000)


@pytest.mark.parametrize("given", ["soon", "0", str(TIMEOUT_MILLIS_MAX + 1)])
def test_a_setting_that_cannot_hold_is_refused_by_name(given: str) -> None:
    with pytest.raises(OptionError, match=rf"'log\.kafka\.transaction\.timeout\.ms' has the value '{given}'"):
        choose_timeout_millis({TIMEOUT_KEY: given}, 0)


def test_what_the_brokers_refuse_is_not_asked_of_them_again() -> None:
    assert may_ask_for_less(CONFIG, 60_000)
    assert choose_timeout_millis(CONFIG, 10_000 * MIB) == 56_250
    assert choose_timeout_millis({"bootstrap.servers": "other:1"}, 0) == 60_000
    assert not may_ask_for_less(CONFIG, 1_000)
