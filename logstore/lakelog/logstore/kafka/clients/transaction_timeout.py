"""The time-out of transactions, after which the broker aborts them: `transaction.timeout.ms` of a producer.

A transaction that is too slow looks like one that was fenced: in both cases the broker gives the transactional id a new
epoch. A transaction that is never ended hides the records behind it from readers until the time-out. So each producer
sets a time-out that fits the records that it will send, in steps, so that a kept producer fits the next batch of about
the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from lakelog.common.errors import OptionError
from lakelog.logstore.kafka.clients.kafka_errors import servers_of
from lakelog.logstore.options import KAFKA_PREFIX

TIMEOUT_KEY = "transaction.timeout.ms"
TIMEOUT_MILLIS_MAX = 1_800_000  # the files of an open transaction must not become as old as orphans
_STEPS_MILLIS = (
    60_000,
    120_000,
    240_000,
    480_000,
    900_000,
)  # up to the default limit of a broker
_SPARE_MILLIS = 30_000
_BYTES_PER_SECOND = 512 << 10  # of rows in memory, over a slow network
_SMALLEST_MILLIS = 1_000

_refused: dict[str, int] = {}  # servers -> the smallest time-out that these servers have refused
_lock = Lock()


def choose_timeout_millis(client_config: Mapping[str, str], size_bytes: int, patience: int = 0) -> int:
    """The time-out of a transaction of about `size_bytes` of rows. The user's own setting overrides it.

    `patience` is the number of times that the transaction was too slow and aborted: each doubles the time-out. Raises
    OptionError for a setting that is not a number of milliseconds or too long.
    """
    given = client_config.get(TIMEOUT_KEY)
    if given is not None:
        return _checked(given)
    needed = (_SPARE_MILLIS + 1000 * size_bytes // _BYTES_PER_SECOND) << patience
    wanted = next((step for step in _STEPS_MILLIS if step >= needed), _STEPS_MILLIS[-1])
    with _lock:
        refused = _refused.get(servers_of(client_config))
    while refused is not None and wanted >= refused and wanted > _SMALLEST_MILLIS:
        wanted //= 2
    return wanted


def may_ask_for_less(client_config: Mapping[str, str], refused_millis: int) -> bool:
    """Note a time-out that the brokers refuse (`transaction.max.timeout.ms`); True if a shorter one can be tried."""
    if TIMEOUT_KEY in client_config or refused_millis <= _SMALLEST_MILLIS:
        return False
    servers = servers_of(client_config)
    with _lock:
        _refused[servers] = min(refused_millis, _refused.get(servers, refused_millis))
    return True


def _checked(given: str) -> int:
    key = KAFKA_PREFIX + TIMEOUT_KEY
    try:
        millis = int(given)
    except ValueError:
        raise OptionError.bad_value(key, given, "a whole number of milliseconds") from None
    if not _SMALLEST_MILLIS <= millis <= TIMEOUT_MILLIS_MAX:
        raise OptionError.bad_value(key, given, f"{_SMALLEST_MILLIS} to {TIMEOUT_MILLIS_MAX} milliseconds")
    return millis
