"""The headers of many transactions, read by their first offsets: small ones together, large ones each by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.records.consumer import PartitionConsumer, close_idle_consumers
from lakelog.logstore.kafka.records.epochs import headers_at
from tests.support.logs.log_topics import LogTopic, log_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic
    close_idle_consumers()


def logged(topic: LogTopic, sizes: list[int]) -> dict[int, int]:
    """Transactions of three records of these sizes; the bytes of each, by its first offset."""
    found = {}
    with topic.producer() as producer:
        for number, size in enumerate(sizes):
            values = pa.chunked_array([[b"x" * size] * 3])
            producer.begin()
            producer.produce(EncodedRecords.of(None, values, row_count=3), b"header %d" % number)
            found[producer.commit() - 3] = 3 * size
    return found


def test_headers_are_found_by_the_first_offsets_of_transactions(topic: LogTopic) -> None:
    sizes = [10, 10, 300_000, 10, 400_000, 300_000, 10, 10]
    given = logged(topic, sizes)
    found = headers_at(topic.partition(0), given)
    assert found == {first: b"header %d" % number for number, first in enumerate(given)}


def test_an_offset_inside_of_a_transaction_or_behind_the_log_has_no_header(topic: LogTopic) -> None:
    first, second = logged(topic, [10, 10])
    found = headers_at(topic.partition(0), {first: 30, first + 1: 30, second + 2: 30, second + 100: 30})
    assert found == {first: b"header 0"}


def test_small_transactions_are_read_in_one_go_and_large_ones_are_not_read(
    topic: LogTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = logged(topic, [10] * 20 + [300_000, 300_000])
    ranges: list[tuple[int, int]] = []
    read = PartitionConsumer.read

    def noted(self: PartitionConsumer, start: int, end: int, *more: float) -> object:
        ranges.append((start, end))
        return read(self, start, end, *more)

    monkeypatch.setattr(PartitionConsumer, "read", noted)
    headers_at(topic.partition(0), given)
    *_, large, last = given
    assert ranges == [(0, large + 1), (last, last + 1)]
