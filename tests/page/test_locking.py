"""A click locks the path of a column, a dataset or an edge; a lock beats what is under the pointer."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import MIDDLE, box, locked, marked, open_page, row

OPEN = "core/orders_paid/open"
UP = {
    "staging/orders/amount", "staging/orders/order_id", "staging/payments/paid", "staging/payments/order_id",
    "kafka/orders/amount", "kafka/payments/paid",
}  # fmt: skip
DOWN = {"core/customer_360/score", "marts/open_items/open", "marts/churn_features/score"}


def test_a_click_on_a_column_locks_its_path_in_both_directions(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, *OPEN.split("/")).click()
    sides = marked(page)
    assert {key for key, side in sides.items() if side == "up"} == UP
    assert {key for key, side in sides.items() if side == "down"} == DOWN
    assert sides[OPEN] == "self"
    assert locked(page) == f"field/{OPEN}"


@pytest.mark.parametrize(("direction", "expected"), [("up", UP), ("down", DOWN)])
def test_the_direction_limits_the_path(page: Page, address: str, direction: str, expected: set[str]) -> None:
    open_page(page, address, f"ns=core&dataset=orders_paid&direction={direction}&lock=field/{OPEN}")
    assert set(marked(page)) - {OPEN} == expected


def test_a_hover_shows_a_path_and_changes_nothing(page: Page, address: str) -> None:
    open_page(page, address)
    before = page.url
    row(page, *OPEN.split("/")).hover()
    expect(row(page, *OPEN.split("/"))).to_have_attribute("data-side", "self")
    assert page.url == before


def test_a_lock_beats_the_hover(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, "core", "orders_paid", "customer_id").click()
    before = marked(page)
    row(page, *OPEN.split("/")).hover()
    assert marked(page) == before


@pytest.mark.parametrize("by", ["a second click", "a click beside", "Escape"])
def test_a_lock_is_freed(page: Page, address: str, by: str) -> None:
    open_page(page, address, f"ns=core&dataset=orders_paid&lock=field/{OPEN}")
    assert marked(page)
    if by == "a second click":
        row(page, *OPEN.split("/")).click()
    elif by == "a click beside":
        page.mouse.click(600, 720)
    else:
        page.keyboard.press("Escape")
    page.mouse.move(600, 720)
    expect(page.locator(".row[data-side]")).to_have_count(0)
    assert locked(page) == ""


def test_a_click_on_an_edge_opens_what_made_it(page: Page, address: str) -> None:
    edge = "staging/orders/amount/marts/daily_revenue/revenue_eur"
    open_page(page, address, f"ns=marts&dataset=daily_revenue&lock=edge/{edge}&drawer=0")
    x, y = page.locator(".top .edge.self").evaluate(MIDDLE)
    page.keyboard.press("Escape")
    expect(page.locator(".top .edge")).to_have_count(0)
    page.mouse.click(x, y)
    expect(page.locator("#drawer")).to_contain_text("MERGE INTO marts.daily_revenue")
    assert locked(page) == f"edge/{edge}"


def test_a_drag_moves_the_picture_and_locks_nothing(page: Page, address: str) -> None:
    open_page(page, address)
    before = box(page, "core", "orders_paid").bounding_box()
    assert before is not None
    page.mouse.move(before["x"] + 60, before["y"] + 90)
    page.mouse.down()
    page.mouse.move(before["x"] + 20, before["y"] + 40, steps=4)
    page.mouse.up()
    after = box(page, "core", "orders_paid").bounding_box()
    assert after is not None
    assert (round(before["x"] - after["x"]), round(before["y"] - after["y"])) == (40, 50)
    assert locked(page) == ""


def test_a_lock_is_announced(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, *OPEN.split("/")).click()
    expect(page.locator("#live")).to_have_text("orders_paid.open is locked: 6 columns upstream, 3 columns downstream.")
