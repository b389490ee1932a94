"""How a task opens the log of a table."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.state.change_tracking import EVERYTHING_TRACKED, ChangeTracking


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """The settings with which a task opens a table's log: small when pickled, and with secrets, so never printed.

    `unavailable_seconds` is how long a task retries when the log does not answer, `tracking` which changes are logged.
    """

    topic: KafkaTopic
    topic_id: str
    mode: ChangelogMode
    unavailable_seconds: float = 0.0
    tracking: ChangeTracking = EVERYTHING_TRACKED
