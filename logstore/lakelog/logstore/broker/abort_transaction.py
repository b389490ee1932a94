"""Ends a transaction on the embedded broker, as `kafka-transactions.sh abort` does.

Two requests of Kafka's protocol that librdkafka does not have, over one plain connection: DescribeProducers finds the
producer whose transaction begins at an offset, and WriteTxnMarkers writes its abort marker into the partition.
Source: Kafka protocol guide, DescribeProducers (61) version 0 and WriteTxnMarkers (27) version 1; KIP-664.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError, UnavailableError

_DESCRIBE_PRODUCERS = (61, 0)
_WRITE_MARKERS = (27, 1)
_CLIENT = b"lakelog"
_ANSWER_BYTES_MAX = 64 << 20
_NO_TAGS = b"\x00"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Producer:
    """A producer with a transaction in a partition. `start` is the first offset of its open transaction, -1 without
    one."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    start: int


def abort_transaction(host: str, port: int, *, topic: str, partition: int, first_offset: int, seconds: float) -> None:
    """Abort the open transaction that begins at `first_offset`. Its writer is not asked; its next call fails.

    Raises NotFoundError when no open transaction begins there, ConflictError when the broker refuses the marker,
    UnavailableError when it does not answer.
    """
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            described = _request(connection, _DESCRIBE_PRODUCERS, _describe_body(topic, partition))
            found = next((one for one in _producers(described) if one.start == first_offset), None)
            if found is None:
                raise NotFoundError(
                    f"topic {topic}, partition {partition}: no open transaction begins at offset {first_offset}; it has"
                    " ended meanwhile"
                )
            answer = _request(connection, _WRITE_MARKERS, _abort_body(found, topic, partition))
            code = _marker_error(answer)
    except OSError as error:
        raise UnavailableError(f"ending a transaction: the broker at {host}:{port} did not answer: {error}") from error
    if code:
        raise ConflictError(
            f"topic {topic}, partition {partition}: the broker refuses to end the transaction at offset {first_offset}"
            f" (Kafka's error {code}); list the transactions again"
        )


def _describe_body(topic: str, partition: int) -> bytes:
    return _array([_string(topic) + _array([struct.pack(">i", partition)]) + _NO_TAGS]) + _NO_TAGS


def _abort_body(producer: _Producer, topic: str, partition: int) -> bytes:
    topics = _array([_string(topic) + _array([struct.pack(">i", partition)]) + _NO_TAGS])
    who = struct.pack(">qh?", producer.producer_id, producer.epoch, False)
    return _array([who + topics + struct.pack(">i", max(0, producer.coordinator_epoch)) + _NO_TAGS]) + _NO_TAGS


def _producers(answer: _Answer) -> list[_Producer]:
    """The producers of the one partition that was asked for."""
    answer.number(">i")  # how long a quota has delayed the answer
    found: list[_Producer] = []

    def partition() -> None:
        answer.number(">i")
        code = answer.number(">h")
        answer.string()
        if code:
            raise UnavailableError(f"ending a transaction: the broker answers with Kafka's error {code}; try again")
        found.extend(answer.array(producer))
        answer.tags()

    def producer() -> _Producer:
        producer_id, epoch, _, _, coordinator_epoch, start = answer.numbers(">qiiqiq")
        answer.tags()
        return _Producer(producer_id=producer_id, epoch=epoch, coordinator_epoch=coordinator_epoch, start=start)

    def topic() -> None:
        answer.string()
        answer.array(partition)
        answer.tags()

    answer.array(topic)
    answer.tags()
    return found


def _marker_error(answer: _Answer) -> int:
    """The first error code of the one marker that was written; 0 without an error."""
    codes: list[int] = []

    def partition() -> None:
        codes.append(answer.numbers(">ih")[1])
        answer.tags()

    def topic() -> None:
        answer.string()
        answer.array(partition)
        answer.tags()

    def marker() -> None:
        answer.number(">q")
        answer.array(topic)
        answer.tags()

    answer.array(marker)
    answer.tags()
    return next((code for code in codes if code), 0)


def _request(connection: socket.socket, api: tuple[int, int], body: bytes) -> _Answer:
    key, version = api
    header = struct.pack(">hhih", key, version, key, len(_CLIENT)) + _CLIENT + _NO_TAGS
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    if not 0 <= size <= _ANSWER_BYTES_MAX:
        raise CorruptDataError(
            f"ending a transaction: the answer of the broker has {size} bytes; is it a Kafka broker?"
        )
    answer = _Answer(_receive(connection, size))
    answer.number(">i")  # the correlation id
    answer.tags()
    return answer


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the connection was closed")
        received += piece
    return bytes(received)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _varint(len(encoded) + 1) + encoded


def _array(items: list[bytes]) -> bytes:
    return _varint(len(items) + 1) + b"".join(items)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@dataclass(slots=True)
class _Answer:
    """An answer, read from its beginning to its end. Raises CorruptDataError if it is too short."""

    data: bytes
    position: int = field(default=0)

    def number(self, form: str) -> int:
        """One number in a format of `struct`."""
        return self.numbers(form)[0]

    def numbers(self, form: str) -> tuple[int, ...]:
        """Numbers in a format of `struct`."""
        size = struct.calcsize(form)
        return struct.unpack(form, self._take(size))

    def varint(self) -> int:
        """An unsigned number of a variable length."""
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def string(self) -> bytes:
        """A string, or none."""
        return self._take(max(0, self.varint() - 1))

    def array(self, item: Callable[[], Value]) -> list[Value]:
        """A list, whose items `item` reads."""
        return [item() for _ in range(max(0, self.varint() - 1))]

    def tags(self) -> None:
        """Fields of newer brokers, which are skipped."""
        for _ in range(self.varint()):
            self.varint()
            self._take(self.varint())

    def _take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        if len(taken) < size:
            raise CorruptDataError("ending a transaction: the answer of the broker is cut off")
        self.position += size
        return taken
