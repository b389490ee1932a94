"""A process that dies at a call to its files or to Kafka, whichever comes at the number that a test names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any  # Any: arguments and results of whatever is called
from unittest.mock import patch

from lakelog.catalog import Table
from lakelog.logstore.kafka.clients.clients import ask
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.protocol.access.table_log import kafka_topic
from tests.support.files.faulty_file_io import FaultyFileIO

_OF_PRODUCERS = ("__init__", "begin", "produce", "commit")


@contextmanager
def counting_kafka(files: FaultyFileIO) -> Iterator[None]:
    """While it lasts, calls of producers and of Kafka's admin are counted as those to `files`, and die as they do."""

    def counted(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return files._call(f"kafka {name}", lambda: act(*given, **named))

        return call

    with ExitStack() as patches:
        for name in _OF_PRODUCERS:
            patches.enter_context(
                patch.object(TransactionalProducer, name, counted(name, vars(TransactionalProducer)[name]))
            )
        patches.enter_context(patch("lakelog.logstore.kafka.clients.topic.ask", counted("admin", ask)))
        yield


def fence(table: Table) -> None:
    """Abort what a dead process has left open in the log of a table, as its next writer does."""
    if table.log is None:
        return
    for bucket in range(table.log.bucket_count):
        TransactionalProducer(kafka_topic(table.log).partition(bucket), f"{table.store.uuid}-{bucket}").close()
