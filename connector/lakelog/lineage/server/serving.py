"""Serves the page of catalogs until the process is interrupted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakelog.common.errors import InvalidRequestError
from lakelog.lineage.columns.field_runs import KnownFields
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.server.catalog_histories import CatalogHistories
from lakelog.lineage.server.page_app import page_app
from lakelog.lineage.server.page_guard import is_loopback
from lakelog.lineage.tables.found_tables import unreadable_tables
from lakelog.lineage.tables.warehouse_lineage import known_fields
from lakelog.warehouse.warehouse import Warehouse

PORT = 8700
TOKEN_MIN = 16
REQUESTS_MAX = 64  # at the same time
HEADERS_MAX = 32_768  # bytes
HEADERS_SECONDS = 10.0  # until a connection has sent a whole request
_BACKLOG = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the page is served, and to whom. `names` are host names under which other machines know this one."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    names: Collection[str] = ()

    def check(self) -> None:
        """Raise InvalidRequestError for a door that is open to everyone."""
        if not is_loopback(self.host) and self.token is None:
            raise InvalidRequestError(
                f"host {self.host} lets other machines read the lineage: give a token, by --token or in "
                "LAKELOG_PAGE_TOKEN, or serve on 127.0.0.1"
            )
        if self.token is not None and (len(self.token) < TOKEN_MIN or not _is_plain(self.token)):
            raise InvalidRequestError(
                f"the token has {len(self.token)} characters; expected {TOKEN_MIN} or more, of ASCII without spaces"
            )


def serve(
    catalogs: Sequence[Warehouse], door: Door, *, index: Path | None = None, on_start: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM. `on_start` gets the address once requests are taken.

    `index` is a file for the index, which is kept in memory without one. Raises InvalidRequestError for a door that is
    open to everyone, and where the port is taken.
    """
    door.check()
    read = _Reading(catalogs)
    state = PageState(read, histories=CatalogHistories(catalogs), file=index)
    state.index()  # an error is one of the command, not of the first request
    app = page_app(state, token=door.token, is_local=is_loopback(door.host), names=door.names)
    listening = listening_socket(door.host, door.port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=REQUESTS_MAX,
        h11_max_incomplete_event_size=HEADERS_MAX,
        http=Connection,
    )
    try:
        on_start(_address(door, listening.getsockname()[1]))
        with suppress(KeyboardInterrupt):  # the server has ended in order, and raises the signal again
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
        state.close()


class Connection(H11Protocol):
    """A connection of the page's server, which is closed while no request of it is being answered.

    That is after HEADERS_SECONDS without a whole request, and at once, the oldest first, when there are as many
    connections as REQUESTS_MAX: uvicorn counts connections, and would refuse the requests of others.
    """

    _closing: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered; its headers may have come in part."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Take a connection in, in place of the one that has been idle for longest if there are too many."""
        super().connection_made(transport)
        self._expect_request()
        others = [one for one in self.connections if isinstance(one, Connection) and one.is_idle and one is not self]
        others.sort(key=lambda one: one._closing.when() if one._closing is not None else 0.0)
        for one in others[: max(0, len(self.connections) - REQUESTS_MAX + 1)]:
            one.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._closing is not None:
            self._closing.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._expect_request()

    def close(self) -> None:
        """Close the connection, if no request is being answered; it no longer counts."""
        if self.is_idle:
            self.connections.discard(self)
            self.transport.close()

    def _expect_request(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._closing = self.loop.call_later(HEADERS_SECONDS, self.close)


class _Reading:
    """Reads catalogs; tables that cannot be read are named in the log once, not at each refresh."""

    def __init__(self, catalogs: Sequence[Warehouse]) -> None:
        self._catalogs = catalogs
        self._logs = True

    def __call__(self) -> KnownFields:
        with unreadable_tables(logs=self._logs):
            found = known_fields(*self._catalogs)
        self._logs = False
        return found


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that takes connections. Raises InvalidRequestError.

    It names its protocol: asyncio would not know otherwise that it is TCP, and each answer would wait 40 ms for an
    acknowledgement that the client delays.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, port))
            found.listen(_BACKLOG)
        except BaseException:
            found.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        raise InvalidRequestError(
            f"the page cannot be served on {host}, port {port}: {error}; name another port, 0 for any"
        ) from error
    return found


def _address(door: Door, port: int) -> str:
    host = f"[{door.host}]" if ":" in door.host else door.host
    return f"http://{host}:{port}/"


def _is_plain(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token
