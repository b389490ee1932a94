"""The headers of the records of an eventual log, which name the batch of each record.

    lakelog-user         the commit user, in UTF-8
    lakelog-identifier   the commit identifier, as a decimal number
    lakelog-digest       the digest of the source offsets that the batch was planned from, left out where there is none

A batch that runs again repeats its records, and an attempt that was left behind may send records of an older batch
late. For a reader that keeps the last record of each key, a repeated record changes nothing; a record of an older batch
is dropped by its identifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any  # Any: headers are declared as a list of pairs or of whatever else

from confluent_kafka import Message

from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import shown
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition

USER_HEADER = "lakelog-user"
IDENTIFIER_HEADER = "lakelog-identifier"
DIGEST_HEADER = "lakelog-digest"
_DIGITS_MAX = 19  # of a 64-bit number
_LENGTH_BYTES = 5  # a length in a record has a variable size


_Raw = tuple[bytes, bytes, bytes | None]  # the user, the identifier, and the digest, as they are in headers


@dataclass(frozen=True, slots=True)
class Author:
    """The batch of a record: its commit user and commit identifier, and its source digest if it has one."""

    user: str
    identifier: int
    digest: str | None = None

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        """The headers of each record."""
        digest = [] if self.digest is None else [(DIGEST_HEADER, self.digest.encode())]
        return [(USER_HEADER, self.user.encode()), (IDENTIFIER_HEADER, str(self.identifier).encode()), *digest]

    @property
    def header_bytes(self) -> int:
        """An upper bound of the bytes of the headers in a record."""
        headers = self.headers()
        return sum(len(name) + len(value or b"") + 2 * _LENGTH_BYTES for name, value in headers)


OnAuthor = Callable[[int, Author], None]  # the offset of a record, and its batch


class LiveRecords:
    """Passes the records of one partition, except those of a user's older batches.

    A record belongs to an older batch if the user's batch of that number is `done` already, in a snapshot that ends at
    or before the first record, or if a record of a later batch of that user came before.
    """

    def __init__(self, partition: KafkaPartition, done: Mapping[str, int], on_author: OnAuthor | None = None) -> None:
        """Begin to read. `done` is user -> the last batch in a snapshot at or before the first record.

        `on_author` is called with the offset of the first record of each run of records of one batch.
        """
        self._partition = partition
        self._on_author = on_author
        self._lowest = {user: identifier + 1 for user, identifier in done.items()}
        self._last: _Raw | None = None  # usually the next record has the same headers
        self._is_live = True

    def passing(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the next records that are to be kept, in order. Raises CorruptDataError without headers."""
        return [message for message in messages if self._keeps(message)]

    def _keeps(self, message: Message) -> bool:
        raw = _raw_author(message, self._partition)
        if raw != self._last:
            author = _parsed(raw, message, self._partition)
            lowest = self._lowest.get(author.user, author.identifier)
            self._is_live = author.identifier >= lowest
            self._lowest[author.user] = max(lowest, author.identifier)
            self._last = raw
            if self._on_author is not None:
                self._on_author(message.offset() or 0, author)
        return self._is_live


def authors_of(messages: Iterable[Message], partition: KafkaPartition) -> set[Author]:
    """The batches to which records belong. Raises CorruptDataError for a record without the headers."""
    firsts: dict[_Raw, Message] = {}
    for message in messages:
        firsts.setdefault(_raw_author(message, partition), message)
    return {_parsed(raw, message, partition) for raw, message in firsts.items()}


def _raw_author(message: Message, partition: KafkaPartition) -> _Raw:
    headers: Any = message.headers()
    user = identifier = digest = None
    for name, value in headers or ():
        if name == USER_HEADER:
            user = value
        elif name == IDENTIFIER_HEADER:
            identifier = value
        elif name == DIGEST_HEADER:
            digest = value
    if user is None or identifier is None:
        raise _corrupt(message, partition, f"lacks the header {USER_HEADER!r} or {IDENTIFIER_HEADER!r}")
    return user, identifier, digest


def _parsed(raw: _Raw, message: Message, partition: KafkaPartition) -> Author:
    user, identifier, digest = raw
    try:
        if not identifier.isdigit() or len(identifier) > _DIGITS_MAX:
            raise ValueError(identifier)
        return Author(user.decode(), int(identifier), None if digest is None else digest.decode())
    except ValueError as error:
        found = f"{shown(user)} and {shown(identifier)}" + ("" if digest is None else f", the digest {shown(digest)}")
        raise _corrupt(message, partition, f"has the user and identifier {found}") from error


def _corrupt(message: Message, partition: KafkaPartition, found: str) -> CorruptDataError:
    return CorruptDataError(
        f"{partition}: the record at offset {message.offset()} {found}, and each record of an eventual log says whose"
        " batch it is of; nothing else may write to this topic"
    )
