"""What tests of the page do with it: open it, find rows, boxes and edges, and read what is marked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

PICTURES = Path(__file__).parents[3] / ".pictures"
IS_DRAWN = "() => performance.getEntriesByName('lineage-drawn').length > 0"
ORDERS_PAID = {"ns": "core", "dataset": "orders_paid"}
REVENUE = {"ns": "marts", "dataset": "daily_revenue"}

# The middle of the line of an edge, on the screen: half way along the locked line that is drawn above it.
MIDDLE = """(line) => {
  const point = line.getPointAtLength(line.getTotalLength() / 2);
  const {x, y} = point.matrixTransform(line.getScreenCTM());
  return [x, y];
}"""


def open_page(page: Page, address: str, query: Mapping[str, object] | str = ORDERS_PAID) -> None:
    """Open the page and wait until its graph is drawn."""
    text = query if isinstance(query, str) else urlencode(query)
    page.goto(f"{address}/?{text}")
    page.wait_for_function(IS_DRAWN)


def settle(page: Page) -> None:
    """Wait until nothing is asked for any more, and the rows in view are drawn."""
    page.wait_for_function("() => !document.querySelector('.waiting, .loading')")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def box(page: Page, ns: str, dataset: str) -> Locator:
    """The box of a dataset."""
    return page.locator(f'.box[data-key="{ns}/{dataset}"]')


def row(page: Page, ns: str, dataset: str, column: str) -> Locator:
    """The row of a column in a box."""
    return page.locator(f'.row[data-key="{ns}/{dataset}/{column}"]')


def marked(page: Page) -> dict[str, str]:
    """The rows that are marked as a path: their keys, and on which side they are."""
    found = page.locator(".row[data-side]").evaluate_all("rows => rows.map(row => [row.dataset.key, row.dataset.side])")
    return dict(found)


def rows_of(page: Page, ns: str, dataset: str) -> list[str]:
    """The names of the columns that a box shows."""
    return box(page, ns, dataset).locator(".row .name").all_text_contents()


def locked(page: Page) -> str:
    """What the URL says is locked."""
    return str(page.evaluate("() => new URLSearchParams(location.search).get('lock') ?? ''"))


def focus_graph(page: Page) -> None:
    """Put the focus on the graph, where its keys work."""
    page.locator("#graph").focus()
    expect(page.locator("#graph")).to_be_focused()


def cursor(page: Page) -> str:
    """The row or box that the keys are at, as assistive technology finds it."""
    script = "graph => document.getElementById(graph.getAttribute('aria-activedescendant')).dataset.key"
    return str(page.locator("#graph").evaluate(script))


def keep_picture(page: Page, name: str) -> Path:
    """Keep a picture for those who look at the page, in a folder that git ignores."""
    path = Path(os.environ.get("LAKELOG_TEST_PICTURES", PICTURES)) / f"{name}.png"
    page.screenshot(path=path)
    return path
