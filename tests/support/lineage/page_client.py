"""A client of the page's application, without a socket."""

from __future__ import annotations

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lakelog.lineage.columns.field_runs import KnownFields
from lakelog.lineage.page.page_state import Histories, PageState
from lakelog.lineage.server.page_app import page_app
from tests.support.lineage.known_world import KnownWorld

NOW = 1_700_100_000  # seconds, after all that a KnownWorld has written


def client_of(world: KnownWorld, *, now: int = NOW, histories: Histories | None = None, **how: object) -> TestClient:
    """A client of what a world knows."""
    return client_of_app(app_of(world.known(), now=now, histories=histories, **how))


def app_of(known: KnownFields, *, now: int = NOW, histories: Histories | None = None, **how: object) -> ASGIApp:
    """The application over what is known."""
    state = PageState(lambda: known, histories=histories, now_millis=lambda: now * 1_000, refresh_seconds=1e9)
    return page_app(state, **how)  # type: ignore[arg-type]  # by name


def client_of_app(app: ASGIApp) -> TestClient:
    """A client whose requests look like those of a browser on this machine; an error of the server is an answer."""
    return TestClient(app, base_url="http://127.0.0.1:8700", raise_server_exceptions=False)
