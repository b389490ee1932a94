"""Light, dark, forced colours, small screens: what is read has contrast, and pictures are kept to be looked at."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import keep_picture, open_page, row, settle

# Every visible text with the colours that it and its grounds have; dimmed boxes of a lock are dim on purpose.
WEAK = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b]
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const groundOf = (element) => {
    const grounds = [];
    for (let at = element; at; at = at.parentElement) grounds.push(parse(getComputedStyle(at).backgroundColor));
    const body = parse(getComputedStyle(document.body).backgroundColor);
    return grounds.reverse().reduce((below, top) => over(top, below), body);
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const isSeen = element.checkVisibility({opacityProperty: true, visibilityProperty: true});
    if (!node.textContent.trim() || !isSeen) continue;
    if (element.closest('.unseen, script, style, noscript, :disabled, option')) continue;
    const ground = groundOf(element);
    const [one, other] = [light(over(parse(getComputedStyle(element).color), ground)), light(ground)];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) weak.push(`${node.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return weak;
}"""
STATES = {
    "start": "",
    "graph": "ns=marts&dataset=daily_revenue&depth=3",
    "lock": "ns=core&dataset=orders_paid&lock=field/core/orders_paid/open",
    "edge": "ns=marts&dataset=daily_revenue&lock=edge/staging/orders/amount/marts/daily_revenue/revenue_eur",
    "snapshots": "ns=marts&dataset=daily_revenue&lock=dataset/marts/daily_revenue",
    "table": "ns=core&dataset=orders_paid&view=tree&lock=field/core/orders_paid/open",
    "list": "ns=hub&dataset=calendar",
    "wide": "ns=wide&dataset=events&all=wide/events",
    "ring": "ns=ring&dataset=two&depth=5",
    "large": "ns=big&dataset=table_000&depth=20&limit=400",
}
SHORT = ("graph", "lock", "snapshots", "table", "list")  # for the gate
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture
def small(page: Page) -> Page:
    """A page as wide as a phone."""
    page.set_viewport_size({"width": 390, "height": 780})
    return page


def show(page: Page, address: str, state: str) -> None:
    """Open a state and wait until it is complete."""
    page.goto(f"{address}/?{STATES[state]}")
    expect(page.locator("#list .dataset, .box .row, .box .far, .tree-row").first).to_be_attached()
    settle(page)


@pytest.mark.parametrize(
    "state", [state if state in SHORT else pytest.param(state, marks=pytest.mark.full) for state in STATES]
)
def test_every_text_has_contrast_in_light_and_dark(page: Page, address: str, state: str) -> None:
    show(page, address, state)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        keep_picture(page, f"{state}-{scheme}")
        assert page.evaluate(WEAK) == []


def test_the_schemes_differ(page: Page, address: str) -> None:
    open_page(page, address)
    grounds = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(245, 246, 248)", "rgb(18, 21, 27)"]


def test_a_locked_path_is_seen_with_forced_colours(page: Page, address: str) -> None:
    page.emulate_media(forced_colors="active")
    show(page, address, "lock")
    keep_picture(page, "lock-forced-colours")
    locked = row(page, "core", "orders_paid", "open")
    colours = "row => [getComputedStyle(row).backgroundColor, getComputedStyle(row).color]"
    assert locked.evaluate(colours) != row(page, "core", "orders_paid", "amount").evaluate(colours)


def test_nothing_moves_for_those_who_want_no_motion(page: Page, address: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_page(page, address)
    durations = "() => getComputedStyle(document.getElementById('main'), '::before').animationDuration"
    assert page.evaluate(durations) in ("0s", "auto")


@pytest.mark.parametrize("state", ["start", "lock", "table"])
def test_a_phone_shows_all_without_scrolling_sideways(small: Page, address: str, state: str) -> None:
    show(small, address, state)
    keep_picture(small, f"{state}-phone")
    assert small.evaluate("() => document.documentElement.scrollWidth") <= 390
    small.get_by_role("combobox", name="Search").fill("orders")
    expect(small.locator("#results")).to_be_visible()
    results = small.locator("#results").bounding_box()
    assert results is not None
    assert results["x"] + results["width"] <= 390


@pytest.mark.parametrize("state", ["lock", "table"])
def test_the_drawer_of_a_phone_is_below_what_is_locked(small: Page, address: str, state: str) -> None:
    show(small, address, state)
    chosen = ".tree-row[aria-selected=true]" if state == "table" else ".row[data-side=self]"
    locked, drawer = small.locator(chosen).bounding_box(), small.locator("#drawer").bounding_box()
    assert locked is not None
    assert drawer is not None
    assert locked["y"] + locked["height"] <= drawer["y"] + 1
    assert drawer["y"] + drawer["height"] == 780


def test_a_pinch_and_a_wheel_with_a_key_zoom(page: Page, address: str) -> None:
    open_page(page, address)
    width = "() => document.querySelector('.box').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.mouse.move(600, 400)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(f"(before) => ({width})() > before * 1.1", arg=before)
