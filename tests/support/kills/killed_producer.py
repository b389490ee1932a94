"""A producer in a process of its own, for tests that kill it: `python -m tests.support.kills.killed_producer ...`.

Arguments: bootstrap servers, topic, transactional id, and `open` (one transaction that stays open) or `endless`
(transactions of 1 to 50 records one after another). Prints `open`, or the end offset of each commit.
"""

from __future__ import annotations

import sys
import threading
from itertools import count

from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from tests.support.logs.log_topics import leave_open, topic_at, write


def main(servers: str, topic: str, transactional_id: str, how: str) -> None:
    """Produce until killed."""
    producer = TransactionalProducer(topic_at(servers, topic).partition(0), transactional_id)
    if how == "open":
        write(producer, [1, 2, 3], b"3")
        leave_open(producer, [4, 5])
        print("open", flush=True)
        threading.Event().wait()
    for number in count():
        size = number % 50 + 1
        print(write(producer, range(size), str(size).encode()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
