"""Which producers a process keeps open between micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.metadata.tables.unnamed_files import AGE_MILLIS_MIN
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_MILLIS_MAX
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.writing.attempts import FILES_AGE_SECONDS_MAX
from lakelog.protocol.writing.kept_producers import KEPT_MAX, KeptProducer, KeptProducers, ProducerPool


@dataclass(eq=False)
class Idle:
    """A producer that only knows whether it is open."""

    is_open: bool = True

    def begin(self, payload: object, header: CommitHeader) -> None: ...

    def produce(self) -> None: ...

    def flush(self) -> None: ...

    def commit(self) -> int:
        return 0

    def close(self) -> None:
        self.is_open = False


def put(kept: KeptProducers[object], buckets: range) -> list[Idle]:
    producers = [Idle() for _ in buckets]
    for bucket, producer in zip(buckets, producers, strict=True):
        kept.put(bucket, kept_at(producer, bucket))
    return producers


def kept_at(producer: Idle, end: int) -> KeptProducer[object]:
    return KeptProducer(producer=producer, start=end, end=end)


def test_a_process_keeps_no_more_than_so_many_producers_whatever_it_writes() -> None:
    pool = ProducerPool[object]()
    made = [one for table in "abc" for one in put(KeptProducers(pool, table, "topic"), range(KEPT_MAX))]

    assert len(pool) == KEPT_MAX
    assert sum(producer.is_open for producer in made) == KEPT_MAX


def test_the_one_that_was_used_least_recently_goes_first() -> None:
    kept = KeptProducers(ProducerPool[object](3))
    first, second, third = put(kept, range(3))
    taken = kept.take(0)
    assert taken == kept_at(first, 0)
    kept.put(0, kept_at(first, 7))

    put(kept, range(3, 4))

    assert [one.is_open for one in (first, second, third)] == [True, False, True]
    assert kept.take(0) == kept_at(first, 7)


def test_producers_of_a_tables_older_topic_are_closed_when_the_newer_one_is_written() -> None:
    pool = ProducerPool[object]()
    older = put(KeptProducers(pool, "table", "before the rescale"), range(4))
    other = put(KeptProducers(pool, "another table", "before the rescale"), range(4))

    assert KeptProducers(pool, "table", "after it").take(0) is None

    assert not any(producer.is_open for producer in older)
    assert all(producer.is_open for producer in other)


def test_a_producer_put_over_another_one_closes_it() -> None:
    kept = KeptProducers(ProducerPool[object]())
    (older,) = put(kept, range(1))
    (younger,) = put(kept, range(1))

    assert not older.is_open
    assert kept.take(0) == kept_at(younger, 0)
    assert kept.take(0) is None


def test_files_that_are_logged_are_younger_than_orphans_when_their_transaction_ends() -> None:
    assert 0 < FILES_AGE_SECONDS_MAX * 1000 + TIMEOUT_MILLIS_MAX < AGE_MILLIS_MIN
