"""The headers of the records of an eventual log: whose batch each is of.

    lakelog-user         the commit user, in UTF-8
    lakelog-identifier   the commit identifier, as a decimal number

A batch that runs again repeats its records, and an attempt that was left behind may send records of an older batch
late. For who keeps the last record of each key, a repeated record changes nothing; one of an older batch is dropped by
its identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: headers are declared as a list of pairs or of whatever else

from confluent_kafka import Message

from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import shown
from lakelog.logstore.kafka.kafka_topic import KafkaPartition

USER_HEADER = "lakelog-user"
IDENTIFIER_HEADER = "lakelog-identifier"
_DIGITS_MAX = 19  # of a 64-bit number
_LENGTH_BYTES = 5  # a length in a record has a variable size


@dataclass(frozen=True, slots=True)
class Author:
    """The batch that a record is of: its commit user and commit identifier."""

    user: str
    identifier: int

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        """The headers of each record."""
        return [(USER_HEADER, self.user.encode()), (IDENTIFIER_HEADER, str(self.identifier).encode())]

    @property
    def header_bytes(self) -> int:
        """An upper bound of the bytes of the headers in a record."""
        values = len(self.user.encode()) + len(str(self.identifier))
        return len(USER_HEADER) + len(IDENTIFIER_HEADER) + values + 4 * _LENGTH_BYTES


class LiveRecords:
    """Passes the records of one partition but for those of a user's older batches.

    A record is of an older batch where the user's batch of that number is `done` already: in a snapshot that ends at or
    before the first record. Or where a record of a later batch of that user came before.
    """

    def __init__(self, partition: KafkaPartition, done: Mapping[str, int]) -> None:
        """Begin to read. `done` is user -> the last batch in a snapshot at or before the first record."""
        self._partition = partition
        self._lowest = {user: identifier + 1 for user, identifier in done.items()}
        self._last: tuple[bytes, bytes] | None = None  # mostly the next record has the same
        self._is_live = True

    def passing(self, messages: Iterable[Message]) -> list[Message]:
        """The records to keep of the next ones, in order. Raises CorruptDataError for one without the headers."""
        return [message for message in messages if self._keeps(message)]

    def _keeps(self, message: Message) -> bool:
        raw = _raw_author(message, self._partition)
        if raw != self._last:
            author = _parsed(raw, message, self._partition)
            lowest = self._lowest.get(author.user, author.identifier)
            self._is_live = author.identifier >= lowest
            self._lowest[author.user] = max(lowest, author.identifier)
            self._last = raw
        return self._is_live


def authors_of(messages: Iterable[Message], partition: KafkaPartition) -> set[Author]:
    """The batches that records are of. Raises CorruptDataError for one without the headers."""
    firsts: dict[tuple[bytes, bytes], Message] = {}
    for message in messages:
        firsts.setdefault(_raw_author(message, partition), message)
    return {_parsed(raw, message, partition) for raw, message in firsts.items()}


def _raw_author(message: Message, partition: KafkaPartition) -> tuple[bytes, bytes]:
    headers: Any = message.headers()
    user = identifier = None
    for name, value in headers or ():
        if name == USER_HEADER:
            user = value
        elif name == IDENTIFIER_HEADER:
            identifier = value
    if user is None or identifier is None:
        raise _corrupt(message, partition, f"lacks the header {USER_HEADER!r} or {IDENTIFIER_HEADER!r}")
    return user, identifier


def _parsed(raw: Sequence[bytes], message: Message, partition: KafkaPartition) -> Author:
    user, identifier = raw
    try:
        if not identifier.isdigit() or len(identifier) > _DIGITS_MAX:
            raise ValueError(identifier)
        return Author(user.decode(), int(identifier))
    except ValueError as error:
        found = f"{shown(user)} and {shown(identifier)}"
        raise _corrupt(message, partition, f"has the user and identifier {found}") from error


def _corrupt(message: Message, partition: KafkaPartition, found: str) -> CorruptDataError:
    return CorruptDataError(
        f"{partition}: the record at offset {message.offset()} {found}, and each record of an eventual log says whose"
        " batch it is of; nothing else may write to this topic"
    )
