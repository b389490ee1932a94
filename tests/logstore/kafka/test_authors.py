"""Whose batch a record of an eventual log is of, and which records are left out."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records.authors import (
    DIGEST_HEADER,
    IDENTIFIER_HEADER,
    USER_HEADER,
    Author,
    LiveRecords,
    authors_of,
)

PARTITION = KafkaTopic(client_config={}, name="t", is_transactional=False).partition(3)


def record(author: Author | None, offset: int = 0) -> Message:
    return Message(topic="t", partition=3, offset=offset, headers=[] if author is None else author.headers())


def kept(authors: list[Author], done: dict[str, int] | None = None) -> list[int]:
    messages = [record(author, offset) for offset, author in enumerate(authors)]
    return [message.offset() or 0 for message in LiveRecords(PARTITION, done or {}).passing(messages)]


def test_each_record_says_whose_batch_it_is_of() -> None:
    author = Author("ü", 7)
    assert author.headers() == [("lakelog-user", "ü".encode()), ("lakelog-identifier", b"7")]
    assert authors_of([record(author), record(author), record(Author("b", 0))], PARTITION) == {author, Author("b", 0)}


def test_a_record_says_which_source_offsets_its_batch_was_planned_from() -> None:
    author = Author("a", 7, "d1")
    assert author.headers()[2:] == [("lakelog-digest", b"d1")]
    assert authors_of([record(author), record(Author("a", 7))], PARTITION) == {author, Author("a", 7)}
    for one in (author, Author("\u00fc" * 50, 1 << 62, "d" * 64), Author("a", 0)):
        assert one.header_bytes >= sum(len(name) + len(value or b"") + 2 for name, value in one.headers())


def test_who_reads_is_given_the_batch_where_records_of_another_begin() -> None:
    one, again, two = Author("a", 1, "d"), Author("a", 1, "e"), Author("a", 2)
    given_authors: list[tuple[int, Author]] = []
    live = LiveRecords(PARTITION, {}, lambda offset, author: given_authors.append((offset, author)))
    for offset, author in enumerate([one, one, again, two, two]):
        live.passing([record(author, offset)])
    assert given_authors == [(0, one), (2, again), (3, two)]


def test_records_below_the_highest_identifier_of_their_user_are_left_out() -> None:
    one, two, other = Author("a", 1), Author("a", 2), Author("b", 0)
    assert kept([one, two, one, other, two, one]) == [0, 1, 3, 4]


def test_records_of_a_batch_in_the_snapshot_before_are_left_out() -> None:
    assert kept([Author("a", 4), Author("a", 5), Author("b", 4)], {"a": 4}) == [1, 2]


@given(st.integers(0, 3), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=12))
def test_what_is_kept_never_goes_back(done: int, found: list[tuple[str, int]]) -> None:
    authors = [Author(*one) for one in found]
    last = {"a": done + 1}
    for place in kept(authors, {"a": done}):
        author = authors[place]
        assert author.identifier >= last.get(author.user, 0)
        last[author.user] = author.identifier


def test_a_list_that_is_read_in_pieces_is_left_out_of_alike() -> None:
    rng = random.Random(3)
    authors = [Author(rng.choice("ab"), rng.randrange(4)) for _ in range(50)]
    live = LiveRecords(PARTITION, {"b": 1})
    in_pieces = [
        message.offset() for offset, author in enumerate(authors) for message in live.passing([record(author, offset)])
    ]
    assert in_pieces == kept(authors, {"b": 1})


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(USER_HEADER, b"a")],
        [(IDENTIFIER_HEADER, b"1")],
        [(USER_HEADER, b"\xff"), (IDENTIFIER_HEADER, b"1")],
        [(USER_HEADER, b"a"), (IDENTIFIER_HEADER, b"-1")],
        [(USER_HEADER, b"a"), (IDENTIFIER_HEADER, b"")],
        [(USER_HEADER, b"a"), (IDENTIFIER_HEADER, b"9" * 20)],
        [(USER_HEADER, b"a"), (IDENTIFIER_HEADER, "\u0661".encode())],
        [(USER_HEADER, None), (IDENTIFIER_HEADER, b"1")],
        [(USER_HEADER, b"a"), (IDENTIFIER_HEADER, b"1"), (DIGEST_HEADER, b"\xff")],
    ],
)
def test_a_record_without_its_author_is_corrupt_and_named(headers: list[tuple[str, str | bytes | None]]) -> None:
    message = Message(topic="t", partition=3, offset=9, headers=headers)
    with pytest.raises(CorruptDataError, match="topic t, partition 3: the record at offset 9 "):
        LiveRecords(PARTITION, {}).passing([message])
