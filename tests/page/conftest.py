"""One browser and one server for all tests of the page, and a page that must not complain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, ViewportSize, expect

from tests.support.page.made_world import made_world
from tests.support.page.page_server import page_server
from tests.support.servers.chromium import running_chromium

SIZE: ViewportSize = {"width": 1280, "height": 800}
# Of a refused question the browser reports the status itself.
REFUSED = "Failed to load resource"
WATCH = "addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective}`));"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    expect.set_options(timeout=10_000)
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the page is served, over a made lineage."""
    with page_server(made_world()) as served:
        yield served


@pytest.fixture(scope="session")
def shared_page(browser: Browser) -> Iterator[Page]:
    """One page for all tests: a new one for each takes longer than most tests."""
    context = browser.new_context(viewport=SIZE, accept_downloads=True)
    context.add_init_script(WATCH)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(shared_page: Page) -> Iterator[Page]:
    """A page of 1280 x 800 that fails its test for an error, a warning or a breach of the policy."""
    yield from watched(shared_page)
    shared_page.unroute_all()
    shared_page.emulate_media(color_scheme=None, forced_colors=None, reduced_motion=None)
    shared_page.set_viewport_size(SIZE)
    shared_page.mouse.move(0, 0)
    shared_page.goto("about:blank")


def watched(page: Page) -> Iterator[Page]:
    """The page; its complaints during the test are none."""
    complaints: list[str] = []

    def hear(line: ConsoleMessage) -> None:
        if line.type in ("error", "warning") and REFUSED not in line.text:
            complaints.append(line.text)

    def hear_error(error: Error) -> None:
        complaints.append(str(error))

    page.on("console", hear)
    page.on("pageerror", hear_error)
    yield page
    page.remove_listener("console", hear)
    page.remove_listener("pageerror", hear_error)
    assert complaints == []
