"""The two requests that end a transaction, against a server of bytes: an answer that is cut off is an error."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError, NotFoundError, UnavailableError
from lakelog.logstore.broker.abort_transaction import abort_transaction

TAGS = b"\x00"
# A producer of id 7, epoch 3, coordinator epoch 2, whose transaction begins at offset 5.
PRODUCER = struct.pack(">qiiqiq", 7, 3, 0, 0, 2, 5) + TAGS
PARTITION = struct.pack(">ih", 0, 0) + b"\x00" + b"\x02" + PRODUCER + TAGS
DESCRIBED = struct.pack(">i", 0) + b"\x02" + b"\x02t" + b"\x02" + PARTITION + TAGS + TAGS


def marked(code: int) -> bytes:
    partition = struct.pack(">ih", 0, code) + TAGS
    return b"\x02" + struct.pack(">q", 7) + b"\x02" + b"\x02t" + b"\x02" + partition + TAGS + TAGS + TAGS


def served(*answers: bytes) -> tuple[int, list[bytes], threading.Thread]:
    """A server of one connection: its port, and the requests that it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.settimeout(20)
            for answer in answers:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                requests.append(connection.recv(size, socket.MSG_WAITALL))
                body = struct.pack(">i", 0) + TAGS + answer
                connection.sendall(struct.pack(">i", len(body)) + body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener.getsockname()[1], requests, thread


def abort(port: int, first_offset: int = 5) -> None:
    abort_transaction("127.0.0.1", port, topic="t", partition=0, first_offset=first_offset, seconds=20)


def test_the_marker_names_the_producer_of_the_transaction() -> None:
    port, requests, thread = served(DESCRIBED, marked(0))
    abort(port)
    thread.join(20)
    assert struct.unpack(">hh", requests[0][:4]) == (61, 0)
    assert struct.unpack(">hh", requests[1][:4]) == (27, 1)
    body = requests[1][requests[1].index(b"lakelog") + len(b"lakelog") + 1 :]
    assert body.startswith(b"\x02" + struct.pack(">qh?", 7, 3, False))


def test_a_transaction_that_has_ended_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="no open transaction begins at offset 6"):
        abort(served(DESCRIBED)[0], first_offset=6)


def test_a_marker_that_is_refused_is_an_error() -> None:
    with pytest.raises(ConflictError, match="Kafka's error 47"):
        abort(served(DESCRIBED, marked(47))[0])


@pytest.mark.parametrize("size", range(0, len(DESCRIBED), 5))
def test_an_answer_that_is_cut_off_is_an_error(size: int) -> None:
    with pytest.raises(CorruptDataError, match="cut off"):
        abort(served(DESCRIBED[:size])[0])


@pytest.mark.parametrize("answer", [b"\xff" * 40, b"\x00" * 40, struct.pack(">i", 0) + b"\xff" * 9])
def test_an_answer_of_nonsense_is_an_error_of_lakelog(answer: bytes) -> None:
    with pytest.raises(LakelogError):
        abort(served(answer)[0])


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="did not answer"):
        abort(served()[0])
