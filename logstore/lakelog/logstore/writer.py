"""Kafka transactions of one topic partition."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from lakelog.logstore.debezium import EncodedRecords

COMMIT_HEADER = "lakelog-commit"


class TransactionalProducer:
    """A producer that owns one partition through its transactional id.

    The constructor fences: any older producer with the same id has its open transaction aborted and can
    commit no more. After an error the producer is of no use: close it and make a new one.
    """

    def __init__(self, client_config: Mapping[str, str], transactional_id: str, topic: str, partition: int) -> None:
        """Fence. Raises UnavailableError when the broker does not answer, NotFoundError without the topic."""
        self.client_config = dict(client_config)
        self.transactional_id = transactional_id
        self.topic = topic
        self.partition = partition

    def check_sizes(self, records: EncodedRecords, header: bytes) -> None:
        """Raise InvalidRequestError, naming the key, for a record that the topic would refuse. No I/O."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction. Raises FencedError, UnknownOutcomeError."""
        raise NotImplementedError

    def produce(self, records: EncodedRecords, header: bytes) -> None:
        """Queue the records; the first of the transaction carries `header` as `lakelog-commit`.

        May be called again in the same transaction, then with an empty `header`. Raises FencedError,
        UnknownOutcomeError, and InvalidRequestError for a record too large (the transaction is aborted then).
        """
        raise NotImplementedError

    def commit(self) -> int:
        """Commit and give back the end offset: the last record's offset + 1.

        Raises FencedError when a younger producer has taken over, UnknownOutcomeError for any other failure.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the open transaction; nothing of it becomes visible. Raises FencedError, UnavailableError."""
        raise NotImplementedError

    def close(self) -> None:
        """Abort what is open, if the broker answers at once, and let go of all resources. Never raises."""
        raise NotImplementedError

    def __enter__(self) -> TransactionalProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def initialise_all(
    client_config: Mapping[str, str], topic: str, transactional_ids: Mapping[int, str]
) -> dict[int, TransactionalProducer]:
    """Fence several partitions side by side: partition -> its producer.

    Raises the first error after having closed the producers that were made.
    """
    raise NotImplementedError
