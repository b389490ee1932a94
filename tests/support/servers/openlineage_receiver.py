"""An OpenLineage receiver: an HTTP server of this machine, which keeps what is posted to it, or refuses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any  # Any: JSON


@dataclass
class Receiver:
    """What a receiver got, in order. `answer` is the status that it answers with."""

    url: str = ""
    answer: int = 201
    events: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    """A receiver that serves."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.paths.append(self.path)
            receiver.authorizations.append(self.headers.get("Authorization"))
            if receiver.answer < 300:
                receiver.events.append(json.loads(body))
            self.send_response(receiver.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()
