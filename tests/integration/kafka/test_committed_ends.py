"""How far a log is committed: a commit that was acknowledged counts, an open transaction is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients import offsets
from lakelog.logstore.kafka.clients.offsets import committed_ends, last_stable_offsets
from tests.support.logs.log_topics import LogTopic, log_topic

pytestmark = pytest.mark.integration

RECORDS = EncodedRecords.of(None, pa.chunked_array([[b"x"]]), row_count=1)


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic


def test_a_transaction_that_is_committed_meanwhile_is_waited_for(
    topic: LogTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_COMMIT_LAG_SECONDS", 60.0)
    with topic.producer() as producer:
        producer.begin()
        producer.produce(RECORDS, b"header")
        producer.flush()
        assert last_stable_offsets(topic, 1)[0].offset == 0
        committed: list[int] = []
        thread = threading.Timer(0.3, lambda: committed.append(producer.commit()))
        thread.start()
        found = committed_ends(topic, 1)[0].offset
        thread.join()
        assert found >= committed[0] > 0


def test_an_open_transaction_is_not_waited_for(topic: LogTopic) -> None:
    with topic.producer() as producer:
        producer.begin()
        producer.produce(RECORDS, b"header")
        producer.flush()
        started = time.monotonic()
        assert committed_ends(topic, 1)[0].offset == 0
        assert time.monotonic() - started > 0.1
        assert committed_ends(topic, 1, only=()) == {}
