"""What a request must be before it is answered, and the headers of every answer.

A page of another site must not read lineage through a browser of someone who runs the server: so the name in `Host`
has to be one that nobody else can point here, and `Origin` has to be the server itself. A token is compared in constant
time and never logged. The files of the page have no lineage in them and need no token.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.lineage.server.json_answers import JsonAnswer

QUERY_MAX: Final = 8_192
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_ANSWERING: Final = ("/api/", "/v3/")
_STATIC: Final = "/static/"


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine alone."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


class PageGuard:
    """Lets requests to an application through if they are allowed, and puts the headers on its answers.

    With `is_local` the host has to be this machine; otherwise it is an address, or one of `names`.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None = None, is_local: bool = True, names: Collection[str] = ()
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._is_local = is_local
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        refused = self._refused(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith(_STATIC) and refused is None:
                    headers["cache-control"] = "no-cache"  # kept, and asked for by its tag
            elif is_head and message["type"] == "http.response.body":
                message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
            await send(message)

        if refused is not None:
            await refused(scope, receive, guarded)
            return
        await self._app(_routed({**scope, "method": "GET"}), receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is not allowed."""
        headers, path = Headers(scope=scope), scope["path"]
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_ours(_host_in(hosts[0])):
            return _answer(path, 421, "The Host of the request is not this server; open it by its address.")
        if any(origin.partition("://")[2].lower() != hosts[0].lower() for origin in origins):
            return _answer(path, 403, "Requests from pages of other origins are not answered.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _answer(path, 403, "Requests from pages of other sites are not answered.")
        if self._token is not None and path.startswith(_ANSWERING) and not self._is_known(headers):
            refused = _answer(path, 401, "A token is required: send the header Authorization: Bearer <token>.")
            refused.headers["www-authenticate"] = "Bearer"
            return refused
        if scope["method"] not in {"GET", "HEAD"}:
            refused = _answer(path, 405, "Only GET and HEAD are answered.")
            refused.headers["allow"] = "GET, HEAD"
            return refused
        if len(scope["query_string"]) > QUERY_MAX:
            return _answer(path, 414, f"The query is longer than {QUERY_MAX} bytes.")
        return None

    def _is_known(self, headers: Headers) -> bool:
        assert self._token is not None
        scheme, _, value = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(value.encode(), self._token)

    def _is_ours(self, host: str) -> bool:
        if host.lower() in self._names:
            return True
        address = _address(host)
        return address is not None and (address.is_loopback or not self._is_local)


def _answer(path: str, status: int, text: str) -> Response:
    return PlainTextResponse(text, status) if path.startswith("/v3/") else JsonAnswer({"error": text}, status)


def _routed(scope: Scope) -> Scope:
    """Below /v3, names in paths stay encoded until the path is split, since they may have slashes."""
    raw = scope.get("raw_path")
    if not scope["path"].startswith("/v3/") or raw is None:
        return scope
    return {**scope, "path": raw.partition(b"?")[0].decode("ascii", "replace")}


def _host_in(header: str) -> str:
    """The host in a header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
