"""Producers that stay open in a worker between micro-batches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketTail, Producer

Payload = TypeVar("Payload")

KEPT_MAX = 64  # per process; each has a few threads and connections
LOGGED_MAX = 10_000  # transactions that no snapshot has; their headers are in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTail:
    """What the driver knows of a bucket: all that its log has from `base`, where a snapshot ends, up to `end`.

    `next_sequence` is the sequence number after those of these transactions. `headers` are theirs, in log order, where
    a write looks up old rows; else they are left out.
    """

    base: int
    end: int
    next_sequence: int = 0
    headers: tuple[CommitHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTail:
    """What a bucket's log has behind the newest snapshot, up to `end`: the headers of the transactions, and their ends.

    What the driver has `reported` comes before them, and is not repeated. The log had reached `epoch_offset` while
    `leader_epoch` was current.
    """

    logged: tuple[tuple[CommitHeader, int], ...]
    end: int
    leader_epoch: int | None = None
    epoch_offset: int = 0
    reported: ReportedTail | None = None

    @classmethod
    def of(cls, tail: BucketTail, *, base: int, reported: ReportedTail | None) -> KnownTail:
        """What a tail from `base` on has, which was read behind the fence."""
        logged = tuple((one.header, one.end_offset) for one in tail.transactions)
        return cls(
            logged=logged,
            end=logged[-1][1] if logged else base,
            leader_epoch=tail.leader_epoch,
            epoch_offset=tail.epoch_offset,
            reported=reported,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProducer(Generic[Payload]):
    """An idle producer, and what the log has from `start` up to `end`, where its last transaction ended.

    `logged` are the transactions in between, in log order: their headers, and their ends. All of them are known,
    because no other producer has owned the bucket since `start` was read.
    """

    producer: Producer[Payload]
    start: int
    end: int
    logged: tuple[tuple[CommitHeader, int], ...] = ()

    def since(self, offset: int) -> KnownTail | None:
        """The transactions behind `offset`, where the known ones end; None where no transaction of this producer ends.

        Then another producer has logged something, or another writer has taken something in: the log must be read.
        """
        ends = [self.start, *(end for _, end in self.logged)] if self.logged else [self.end]
        if offset not in ends:
            return None
        return KnownTail(logged=self.logged[ends.index(offset) :], end=self.end)


@dataclass(frozen=True, slots=True)
class _Place:
    """A bucket of a table's log; a rescale gives a table another topic."""

    table_uuid: str
    topic_id: str
    bucket: int


class ProducerPool(Generic[Payload]):
    """The idle producers of all tables that a process writes, at most `size_max`.

    The least recently used are closed first.

    Producers of a table's older topic are closed when its newer one is written: no later batch uses them.
    """

    def __init__(self, size_max: int = KEPT_MAX) -> None:
        self._size_max = size_max
        self._lock = Lock()
        self._producers: OrderedDict[_Place, KeptProducer[Payload]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def take(self, place: _Place) -> KeptProducer[Payload] | None:
        """Take the producer of `place` out of the pool; None without one."""
        with self._lock:
            kept = self._producers.pop(place, None)
            left_over = [one for one in self._producers if _is_of_another_topic(one, place)]
            dropped = [self._producers.pop(one) for one in left_over]
        for one in dropped:
            one.producer.close()
        return kept

    def put(self, place: _Place, kept: KeptProducer[Payload]) -> None:
        """Keep a producer; an older one of the same place is closed, and one that would have to remember too much."""
        dropped = []
        with self._lock:
            older = self._producers.pop(place, None)
            if older is not None:
                dropped.append(older)
            if len(kept.logged) > LOGGED_MAX:
                dropped.append(kept)
            else:
                self._producers[place] = kept
            while len(self._producers) > self._size_max:
                dropped.append(self._producers.popitem(last=False)[1])
        for idle in dropped:
            idle.producer.close()


def _is_of_another_topic(one: _Place, place: _Place) -> bool:
    return one.table_uuid == place.table_uuid and one.topic_id != place.topic_id


@dataclass(slots=True)
class KeptProducers(Generic[Payload]):
    """The producers of one table's log that made the last transaction of their bucket.

    A producer is taken out before it begins and put back, with its new end, only after its commit has returned: so a
    producer with an unknown outcome is never used again.
    """

    pool: ProducerPool[Payload] = field(default_factory=ProducerPool)
    table_uuid: str = ""
    topic_id: str = ""

    def take(self, bucket: int) -> KeptProducer[Payload] | None:
        """Take the bucket's producer out of the pool; None without one."""
        return self.pool.take(_Place(self.table_uuid, self.topic_id, bucket))

    def put(self, bucket: int, kept: KeptProducer[Payload]) -> None:
        """Keep the producer; an older one of the same bucket is closed."""
        self.pool.put(_Place(self.table_uuid, self.topic_id, bucket), kept)
