"""The class archive of the embedded broker's JVM, for the brokers of all tests.

usage: python -m tests.support.servers.broker_archive
Downloads Kafka and makes the archive, unless they are there. Brokers start without one all the same, and slower.
"""

from __future__ import annotations

import os

from lakelog.logstore.broker.broker import run_once
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import ensure_jars
from lakelog.logstore.broker.programs import make_archive


def main() -> None:
    """Make it."""
    ensure_jars(os.environ)
    make_archive(find_java(os.environ), os.environ, run_once)


if __name__ == "__main__":
    main()
