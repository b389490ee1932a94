"""A proxy between an S3 client and its server, which counts, delays, and goes wrong where a test says so."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Fault(Enum):
    """What becomes of a request."""

    NONE = auto()
    LOSE_ANSWER = auto()  # it takes effect, and the connection is closed without an answer
    HOLD_ANSWER = auto()  # it takes effect, and the answer does not come before the client has given up
    HOLD_REQUEST = auto()  # it takes effect when the test lets it
    DROP_CONDITION = auto()  # If-None-Match is not passed on
    DROP_METADATA = auto()  # user metadata is not passed on
    HIDE_FROM_LISTS = auto()  # it answers with an empty list
    FAIL = auto()  # 500, without effect
    NOT_IMPLEMENTED = auto()  # 501, without effect
    FORBID = auto()  # 403, without effect


_STATUS = {Fault.FAIL: 500, Fault.NOT_IMPLEMENTED: 501, Fault.FORBID: 403}
_EMPTY_LIST = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>'


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came, and the bytes of its answer. `started_seconds` is by the monotonic clock."""

    method: str
    path: str
    is_conditional: bool
    answer_bytes: int = 0
    started_seconds: float = 0.0


@dataclass
class S3Proxy:
    """Passes requests on, each after `delay_seconds`, many at a time.

    `choose` says what becomes of each; it is asked once a request, in its order.
    """

    upstream: str
    choose: Callable[[Request], Fault] = lambda request: Fault.NONE
    endpoint: str = ""
    delay_seconds: float = 0.0
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    landed: threading.Event = field(default_factory=threading.Event)

    def next_is(self, fault: Fault, *, where: Callable[[Request], bool], times: int = 1) -> None:
        """Let the next requests of a kind go wrong."""
        left = [times]

        def choose(request: Request) -> Fault:
            if not left[0] or not where(request):
                return Fault.NONE
            left[0] -= 1
            return fault

        self.choose = choose

    def count(self, where: Callable[[Request], bool]) -> int:
        """How many requests of a kind have come."""
        return sum(where(request) for request in self.requests)

    def forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, list, bytes]:  # type: ignore[type-arg]  # http.client's headers
        connection = http.client.HTTPConnection(urlsplit(self.upstream).netloc, timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


@contextmanager
def s3_proxy(upstream: str) -> Iterator[S3Proxy]:
    """Run a proxy."""
    proxy = S3Proxy(upstream)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(proxy: S3Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else an answer may wait for the client to acknowledge its first part

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, ValueError):  # the client has closed the connection
                self.close_connection = True

        def do(self) -> None:
            started = time.monotonic()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(proxy.delay_seconds)
            headers = {key: value for key, value in self.headers.items() if key.lower() != "connection"}
            request = Request(self.command, unquote(self.path), "If-None-Match" in self.headers)
            fault = proxy.choose(request)
            if fault is Fault.DROP_CONDITION:
                headers.pop("if-none-match", None)
            if fault is Fault.DROP_METADATA:
                headers = {key: value for key, value in headers.items() if not key.startswith("x-amz-meta")}
            if fault is Fault.HOLD_REQUEST:
                proxy.released.wait()
            status, answer_headers, answer = (
                (_STATUS[fault], [], b"") if fault in _STATUS else proxy.forward(self.command, self.path, headers, body)
            )
            if fault is Fault.HIDE_FROM_LISTS:
                answer_headers, answer = [("Content-Type", "application/xml")], _EMPTY_LIST
            proxy.requests.append(replace(request, answer_bytes=len(answer), started_seconds=started))
            if fault is Fault.HOLD_REQUEST:
                proxy.landed.set()
            if fault is Fault.HOLD_ANSWER:
                proxy.released.wait()
            if fault in (Fault.LOSE_ANSWER, Fault.HOLD_ANSWER, Fault.HOLD_REQUEST):
                self.close_connection = True
                return
            self.answer(status, answer_headers, answer)

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            length = str(len(body))
            for key, value in headers:
                if key.lower() == "content-length" and self.command == "HEAD":
                    length = value
                if key.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(key, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do

    return Handler
