"""The clock of commits, and the dates of snapshots by it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.common.clock import system_millis
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.snapshots.commit_times import CLOCK_SET_MILLIS, CLOCK_SKEW_MAX_MILLIS
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

logger = logging.getLogger("lakelog.filestore")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitClock:
    """Time and random numbers, replaceable in tests: now in epoch milliseconds, sleep in seconds, a number from [0, 1).

    `seconds` is a monotonic clock, for measuring durations.
    """

    now_millis: Callable[[], int] = system_millis
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


def next_commit_millis(latest: Snapshot | None, now_millis: int, *, table_name: str) -> int:
    """The date of the commit after `latest`: now, but not before `latest` if that is slightly ahead.

    If `latest` is further ahead, one of the two clocks is wrong: this is logged, and this machine's clock is used, if
    it was ever set.
    """
    if latest is None or latest.time_millis <= now_millis:
        return now_millis
    if latest.time_millis - now_millis <= CLOCK_SKEW_MAX_MILLIS:
        return latest.time_millis
    is_set = now_millis >= CLOCK_SET_MILLIS
    logger.warning(
        "%s: snapshot %d is dated %s, but it is %s by this machine's clock: one of the two clocks is wrong; the next "
        "snapshot is dated by %s",
        table_name,
        latest.id,
        shown_millis(latest.time_millis),
        shown_millis(now_millis),
        "this machine" if is_set else f"snapshot {latest.id}, for this clock was never set",
    )
    return now_millis if is_set else latest.time_millis
