"""A process that drops a table, or dies at it. Run by `tests.filestore.processes.zygote`."""

from __future__ import annotations

import os
import signal
from unittest.mock import patch

from lakelog.catalog import Catalog
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import delete_topic
from tests.support.kills.dying_at_changes import die_before_change

AFTER_TOPIC = "topic"


def main(warehouse: str, name: str, dies_at: str) -> None:
    """Drop the table, or die: before a change of a file, from 1 on, or after the first topic was deleted."""
    catalog = Catalog(warehouse)
    if dies_at != AFTER_TOPIC:
        die_before_change(int(dies_at))
        catalog.drop_table(name)
        return

    def delete_and_die(topic: KafkaTopic) -> None:
        delete_topic(topic)
        os.kill(os.getpid(), signal.SIGKILL)

    with patch("lakelog.protocol.access.topics.delete_topic", delete_and_die):
        catalog.drop_table(name)
