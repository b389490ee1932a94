"""Where batches of a foreign topic end, and what their offsets say."""

from __future__ import annotations

import pickle
from typing import Any  # Any: offsets as Spark hands them over

import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.spark.source.streams.kafka_records import KafkaRecords, RecordsReader, offset_of_json, take_offsets

SECRET = {"bootstrap.servers": "b:9092", "sasl.password": "hidden"}


@pytest.mark.parametrize(
    ("start", "ends", "rows_max", "taken"),
    [
        ({}, {0: 5, 1: 0}, None, {0: 5, 1: 0}),
        ({0: 5, 1: 2}, {0: 5, 1: 9}, None, {0: 5, 1: 9}),
        ({0: 0, 1: 0}, {0: 90, 1: 10}, 10, {0: 9, 1: 1}),
        ({0: 0}, {0: 10}, 3, {0: 3}),
        ({0: 4}, {0: 10, 1: 6}, 4, {0: 6, 1: 2}),
        ({0: 9}, {0: 3}, None, {0: 9}),
    ],
)
def test_a_batch_takes_a_share_of_each_partition(
    start: dict[int, int], ends: dict[int, int], rows_max: int | None, taken: dict[int, int]
) -> None:
    assert take_offsets(start, ends, rows_max) == taken


def test_an_offset_of_another_topic_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="has read topic b, the stream reads a"):
        offset_of_json({"kafka": 1, "topic": "b", "id": "x", "offsets": {}}, "a")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kafka": 2, "topic": "a", "offsets": {}},
        {"kafka": 1, "topic": "a", "start": "middle"},
        {"kafka": 1, "topic": "a", "offsets": {"x": 1}},
        {"kafka": 1, "topic": "a", "offsets": {"0": -1}},
        {"kafka": 1, "topic": "a", "offsets": []},
    ],
)
def test_an_offset_that_is_none_is_corrupt(fields: dict[str, Any]) -> None:
    with pytest.raises(CorruptDataError, match="is not readable"):
        offset_of_json(fields, "a")


def test_a_reader_travels_without_what_it_has_asked_and_shows_no_secret() -> None:
    records = KafkaRecords(client_config=SECRET, topic="a")
    reader = RecordsReader(records)

    copy = pickle.loads(pickle.dumps(reader))

    assert copy.initialOffset() == reader.initialOffset() == {"kafka": 1, "topic": "a", "start": "earliest"}
    assert "hidden" not in f"{records!r} {records.format_name} {reader.initialOffset()}"
