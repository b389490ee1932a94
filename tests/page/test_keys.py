"""The graph by keys: one tab stop, arrows along edges, Enter locks, Escape frees, `?` lists the keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import box, cursor, focus_graph, locked, marked, open_page

# Where the focus is after each press of the tab key, until it leaves the page or comes round.
STOPS = """() => {
  const active = document.activeElement;
  return active.id || active.getAttribute('aria-label') || active.textContent.trim();
}"""


def test_the_graph_is_one_tab_stop(page: Page, address: str) -> None:
    open_page(page, address)
    page.locator("#keys").focus()
    stops = []
    for _ in range(3):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(STOPS))
    assert stops[1] == "graph"
    assert page.locator("#graph [tabindex='0'], #graph button:not([tabindex='-1'])").count() == 0


def test_arrows_lead_along_edges_and_rows(page: Page, address: str) -> None:
    open_page(page, address)
    focus_graph(page)
    assert cursor(page) == "core/orders_paid"
    walked = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
        walked.append(cursor(page))
    assert walked == [
        "core/orders_paid/order_id",
        "core/orders_paid/customer_id",
        "core/orders_paid/amount",
        "staging/orders/amount",
        "kafka/orders/amount",
        "staging/orders/amount",
        "staging/orders/customer_id",
    ]


def test_arrows_lead_from_the_last_row_to_the_box_below(page: Page, address: str) -> None:
    open_page(page, address)
    focus_graph(page)
    page.keyboard.press("ArrowLeft")
    first = cursor(page)
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    assert first == "staging/orders"
    assert cursor(page) == "staging/payments"
    page.keyboard.press("ArrowUp")
    assert cursor(page) == "staging/orders/amount"


def test_the_other_ends_of_a_column_are_reached_without_going_back(page: Page, address: str) -> None:
    open_page(page, address, "ns=core&dataset=orders_paid&field=open")
    focus_graph(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    first = cursor(page)
    page.keyboard.press("Alt+ArrowDown")
    assert {first, cursor(page)} == {"staging/orders/amount", "staging/payments/paid"}


def test_enter_locks_and_escape_frees(page: Page, address: str) -> None:
    open_page(page, address)
    focus_graph(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert locked(page) == "field/core/orders_paid/order_id"
    assert marked(page)["kafka/orders/order_id"] == "up"
    page.keyboard.press("Escape")
    assert locked(page) == ""
    assert marked(page) == {}


def test_a_key_opens_what_made_a_column(page: Page, address: str) -> None:
    open_page(page, address)
    focus_graph(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")
    assert locked(page) == "edge/staging/orders/order_id/core/orders_paid/order_id"
    expect(page.locator("#drawer")).to_contain_text("match_payments")


@pytest.mark.parametrize(
    ("key", "expected"),
    [("c", "ns=staging&dataset=orders"), ("x", "closed=staging/orders"), ("a", "all=staging/orders"),
     (">", "more=staging/orders/down"), ("]", "depth=3"), ("t", "view=tree")],
)  # fmt: skip
def test_what_buttons_do_keys_do(page: Page, address: str, key: str, expected: str) -> None:
    open_page(page, address)
    focus_graph(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press(key)
    expect(page).to_have_url(re.compile(re.escape(expected)))  # the browser tells it some time after the key


def test_keys_zoom_and_fit(page: Page, address: str) -> None:
    open_page(page, address)
    focus_graph(page)
    width = "box => box.getBoundingClientRect().width"
    root = box(page, "core", "orders_paid")
    fitted = root.evaluate(width)
    page.keyboard.press("+")
    assert root.evaluate(width) == pytest.approx(fitted * 1.25)
    page.keyboard.press("0")
    assert root.evaluate(width) == pytest.approx(fitted)


def test_where_the_keys_are_is_seen_and_stays_in_view(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 700, "height": 600})
    open_page(page, address)
    focus_graph(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    at = page.locator(".cursor")
    expect(at).to_have_css("outline-style", "solid")
    place = at.bounding_box()
    assert place is not None
    assert 0 <= place["x"] <= 700 - place["width"]


def test_a_question_mark_lists_the_keys(page: Page, address: str) -> None:
    open_page(page, address)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keys")
    expect(help_).to_contain_text("Lock the path of a row or box")
    page.keyboard.press("Escape")
    expect(help_).to_be_hidden()


def test_keys_do_nothing_while_one_types(page: Page, address: str) -> None:
    open_page(page, address)
    page.keyboard.press("/")
    page.keyboard.type("t]c?")
    expect(page.get_by_role("combobox", name="Search")).to_have_value("t]c?")
    assert "view=tree" not in page.url
    assert "depth" not in page.url
