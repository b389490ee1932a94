"""Producers that stay open in a worker between micro-batches."""

from __future__ import annotations

from threading import Lock
from typing import Generic, TypeVar

from lakelog.protocol.ports import Producer

Payload = TypeVar("Payload")


class KeptProducers(Generic[Payload]):
    """A pool of the producers whose last transaction of a bucket was their own.

    A producer is taken out before it begins and put back, with its new end offset, only after its commit has
    returned: so none with an unknown outcome is ever used again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._producers: dict[int, tuple[Producer[Payload], int]] = {}

    def take(self, bucket: int) -> tuple[Producer[Payload], int] | None:
        """The bucket's producer and the end offset of its last transaction, out of the pool; None without one."""
        with self._lock:
            return self._producers.pop(bucket, None)

    def put(self, bucket: int, producer: Producer[Payload], end: int) -> None:
        """Keep the producer, whose log ends at `end`; an older one of the same bucket is closed."""
        with self._lock:
            older = self._producers.get(bucket)
            self._producers[bucket] = (producer, end)
        if older is not None:
            older[0].close()
