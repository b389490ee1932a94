"""Producers that stay open in a worker between micro-batches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from lakelog.protocol.state.ports import Producer

Payload = TypeVar("Payload")

KEPT_MAX = 64  # per process; each has a few threads and connections


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
        self._producers: OrderedDict[_Place, tuple[Producer[Payload], int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def take(self, place: _Place) -> tuple[Producer[Payload], int] | None:
        """Take the producer of `place`, with its end offset, out of the pool; None without one."""
        with self._lock:
            kept = self._producers.pop(place, None)
            left_over = [one for one in self._producers if _is_of_another_topic(one, place)]
            dropped = [self._producers.pop(one) for one in left_over]
        for producer, _ in dropped:
            producer.close()
        return kept

    def put(self, place: _Place, producer: Producer[Payload], end: int) -> None:
        """Keep a producer, whose log ends at `end`; an older one of the same place is closed."""
        dropped = []
        with self._lock:
            older = self._producers.pop(place, None)
            if older is not None:
                dropped.append(older)
            self._producers[place] = (producer, end)
            while len(self._producers) > self._size_max:
                dropped.append(self._producers.popitem(last=False)[1])
        for idle, _ in dropped:
            idle.close()


def _is_of_another_topic(one: _Place, place: _Place) -> bool:
    return one.table_uuid == place.table_uuid and one.topic_id != place.topic_id


@dataclass(slots=True)
class KeptProducers(Generic[Payload]):
    """The producers of one table's log that made the last transaction of their bucket.

    A producer is taken out before it begins and put back, with its new end offset, only after its commit has returned:
    so a producer with an unknown outcome is never used again.
    """

    pool: ProducerPool[Payload] = field(default_factory=ProducerPool)
    table_uuid: str = ""
    topic_id: str = ""

    def take(self, bucket: int) -> tuple[Producer[Payload], int] | None:
        """Take the bucket's producer, with the end of its last transaction, out of the pool; None without one."""
        return self.pool.take(_Place(self.table_uuid, self.topic_id, bucket))

    def put(self, bucket: int, producer: Producer[Payload], end: int) -> None:
        """Keep the producer, whose log ends at `end`; an older one of the same bucket is closed."""
        self.pool.put(_Place(self.table_uuid, self.topic_id, bucket), producer, end)
