"""One browser and one server for all tests of the page, and a page that must not complain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.page.made_world import made_world
from tests.support.page.page_server import page_server
from tests.support.servers.chromium import running_chromium

# A page of a closed server, a refused question: the browser reports the status itself.
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
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One profile: what the pages of the tests load alike is loaded once."""
    shared = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    shared.add_init_script(WATCH)
    yield shared
    shared.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page of 1280 x 800 that fails its test for an error, a warning or a breach of the policy."""
    yield from watched(context.new_page())


def watched(page: Page) -> Iterator[Page]:
    """The page, which is closed after the test, and its complaints are none."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda line: (
            complaints.append(line.text) if line.type in ("error", "warning") and REFUSED not in line.text else None
        ),
    )
    yield page
    page.close()
    assert complaints == []
