"""Waiting for what comes: records of a log are heard of at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.logstore.kafka.records.record_watch import RecordWatch
    from lakelog.protocol.stores import LogTarget

_SECONDS = 0.5


class Waiting:
    """Waits for records of a log, if there is one."""

    def __init__(self, target: LogTarget | None) -> None:
        """Connect to nothing yet."""
        self._target = target
        self._watch: RecordWatch | None = None

    def for_records(self, offsets: Mapping[int, int]) -> bool:
        """Wait a while for committed records from these offsets on; returns at once whether there are some.

        False also without a log, and where Kafka does not answer: whoever looks then finds out why.
        """
        if self._target is None:
            return False
        if self._watch is None:
            from lakelog.logstore.kafka.records.record_watch import RecordWatch  # noqa: PLC0415  # Kafka's client

            self._watch = RecordWatch(self._target.topic)
        return self._watch.wait(offsets, _SECONDS)

    def close(self) -> None:
        """Close the connection."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
