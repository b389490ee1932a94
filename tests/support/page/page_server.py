"""A server of the page over made answers, with the same folder, paths and headers as the server of lakelog.

usage: python -m tests.support.page.page_server [PORT]
"""

from __future__ import annotations

import json
import mimetypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.page.made_answers import MadeAnswers
from tests.support.page.made_world import World, made_world

STATIC = Path(__file__).parents[3] / "connector" / "lakelog" / "lineage" / "page" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@contextmanager
def page_server(world: World, *, port: int = 0) -> Iterator[str]:
    """Serve the page until the end of the block; gives its address."""
    answers = MadeAnswers(world)
    kept: dict[tuple[object, ...], bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # a head and its body in one packet

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path.startswith("/api/"):
                self._answer(asked.path, dict(parse_qsl(asked.query)))
            else:
                self._file("/static/index.html" if asked.path == "/" else unquote(asked.path))

        def _answer(self, path: str, query: dict[str, str]) -> None:
            status, known = HTTPStatus.OK, (path, *sorted(query.items()))
            try:
                body = kept.get(known) or json.dumps(answers.by_path[path](query)).encode()
                kept[known] = body
            except (LookupError, ValueError) as error:
                status = HTTPStatus.BAD_REQUEST if isinstance(error, ValueError) else HTTPStatus.NOT_FOUND
                body = json.dumps({"error": str(error.args[0])}).encode()
            self._send(status, "application/json", body)

        def _file(self, path: str) -> None:
            file = (STATIC / path.removeprefix("/static/")).resolve()
            if not path.startswith("/static/") or not file.is_relative_to(STATIC) or not file.is_file():
                self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such file")
                return
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", file.read_bytes())

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Cache-Control", "no-store" if "json" in kind else "max-age=600")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a test that fails says what it needs."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


if __name__ == "__main__":
    with page_server(made_world(), port=int(sys.argv[1]) if len(sys.argv) > 1 else 8123) as address:
        print(address, flush=True)
        threading.Event().wait()
