"""The whole state is in the URL: another browser shows the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import IS_DRAWN, box, focus_graph, marked, open_page, row, settle

SEEN = """() => {
 const all = (selector) => [...document.querySelectorAll(selector)];
 return {
  boxes: all('.box').filter((box) => box.checkVisibility())
    .map((box) => [box.dataset.key, box.getBoundingClientRect().toJSON()]),
  rows: all('.row').filter((row) => row.checkVisibility()).map((row) => [row.dataset.key, row.dataset.side ?? '']),
  drawer: document.getElementById('drawer').innerText.replace(/\\d\\d:\\d\\d/g, ''),
  tree: all('.tree-row').map((row) => [row.innerText, row.getAttribute('aria-selected')]),
  line: document.getElementById('line').innerText,
  controls: all('#controls input, #controls select, .filter input')
    .map((input) => [input.value, input.checked]),
};}"""


def lock_a_column(page: Page) -> None:
    row(page, "core", "orders_paid", "open").click()


def open_an_edge(page: Page) -> None:
    focus_graph(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")


def fold_and_unfold(page: Page) -> None:
    box(page, "core", "customer_360").get_by_role("button", name="One hop further upstream").click()
    expect(box(page, "staging", "customers")).to_be_visible()
    box(page, "staging", "payments").get_by_role("button", name="Hide columns").click()
    box(page, "staging", "orders").get_by_role("button", name="All").click()
    expect(row(page, "staging", "orders", "batch")).to_be_visible()


def narrow(page: Page) -> None:
    page.get_by_label("Time of the lineage").select_option("Last 30 days")
    page.get_by_role("radio", name="Down").check()
    page.keyboard.press("]")
    expect(page.locator("#depth")).to_contain_text("3 hops")
    page.get_by_label("Edges that decide about rows").uncheck()


def move_the_picture(page: Page) -> None:
    page.mouse.move(600, 700)
    page.mouse.down()
    page.mouse.move(500, 600, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function("() => location.search.includes('place=')")


def read_the_table(page: Page) -> None:
    page.get_by_role("radio", name="Table").check()
    page.locator(".tree-row", has_text="staging").first.click()


@pytest.mark.parametrize("do", [lock_a_column, open_an_edge, fold_and_unfold, narrow, move_the_picture, read_the_table])
def test_a_copied_url_shows_the_same(page: Page, address: str, do: Callable[[Page], None]) -> None:
    open_page(page, address)
    start = page.url
    do(page)
    settle(page)
    page.mouse.move(600, 780)
    seen, url = page.evaluate(SEEN), page.url
    assert url != start

    page.goto("about:blank")
    page.goto(url)
    page.wait_for_function(IS_DRAWN)
    settle(page)
    again = page.evaluate(SEEN)
    assert [key for key, _ in again["boxes"]] == [key for key, _ in seen["boxes"]]
    if do is move_the_picture:
        for (_, one), (_, other) in zip(seen["boxes"], again["boxes"], strict=True):
            assert abs(one["x"] - other["x"]) < 1.5
            assert abs(one["width"] - other["width"]) < 0.5
    del seen["boxes"], again["boxes"]
    assert again == seen


def test_back_undoes_the_last_choice(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, "core", "orders_paid", "open").click()
    row(page, "core", "orders_paid", "paid").click()
    page.go_back()
    expect(row(page, "core", "orders_paid", "open")).to_have_attribute("data-side", "self")
    page.go_back()
    expect(page.locator("#drawer")).to_be_hidden()
    page.mouse.move(600, 780)
    assert marked(page) == {}


@pytest.mark.parametrize(
    "query",
    [
        "depth=none&limit=-1&direction=sideways&view=3&place=1,x,0",
        "lock=field/core&lock=edge&rows=a/b&filter=%",
        "lock=field/core/orders_paid/no_such_column",
        "more=core/orders_paid/sideways&expanded=&at=",
    ],
)
def test_a_url_with_wrong_parts_shows_the_rest(page: Page, address: str, query: str) -> None:
    page.goto(f"{address}/?ns=core&dataset=orders_paid&{query}")
    expect(page.locator("#drawn")).to_contain_text("datasets")
