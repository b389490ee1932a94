"""Tables of 300 columns: a page of rows at first, a filter, and the rest on demand."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.page.driving import box, marked, open_page, row, rows_of

EVENTS = {"ns": "wide", "dataset": "events"}


def test_a_wide_table_shows_a_page_of_its_columns_with_lineage(page: Page, address: str) -> None:
    open_page(page, address, EVENTS)
    assert rows_of(page, "wide", "events") == [f"c{at:03}" for at in range(0, 60, 5)]
    expect(box(page, "wide", "events").locator(".foot")).to_contain_text("12 of 300 columns")


def test_more_and_all_columns_are_shown_on_demand(page: Page, address: str) -> None:
    open_page(page, address, EVENTS)
    box(page, "wide", "events").get_by_role("button", name="More").click()
    expect(box(page, "wide", "events").locator(".row")).to_have_count(60)  # of 62 asked for
    box(page, "wide", "events").get_by_role("button", name="All").click()
    expect(box(page, "wide", "events").locator(".foot")).to_contain_text("62 of 300 columns")
    for shown in (112, 162, 212, 262, 300):
        page.keyboard.press("0")
        box(page, "wide", "events").get_by_role("button", name="More").dispatch_event("click")
        expect(box(page, "wide", "events").locator(".foot")).to_contain_text(f"{shown} of 300 columns")


def test_a_filter_finds_columns_and_keeps_the_focus(page: Page, address: str) -> None:
    open_page(page, address, EVENTS)
    box(page, "wide", "events").get_by_role("searchbox").click()
    page.keyboard.type("29")
    expect(box(page, "wide", "events").locator(".row .name")).to_have_text(["c290", "c295"])
    expect(box(page, "wide", "events").get_by_role("searchbox")).to_be_focused()
    assert "filter=wide/events/29" in page.url


def test_the_filter_of_a_box_is_reached_by_a_key_and_left_by_escape(page: Page, address: str) -> None:
    open_page(page, address, EVENTS)
    page.locator("#graph").focus()
    page.keyboard.press("f")
    expect(box(page, "wide", "events").get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#graph")).to_be_focused()


def test_a_locked_path_shows_its_rows_although_their_page_is_not_drawn(page: Page, address: str) -> None:
    open_page(page, address, {**EVENTS, "filter": "wide/events/c200"})
    row(page, "wide", "events", "c200").click()
    expect(row(page, "wide", "events_clean", "c200")).to_be_visible()
    assert marked(page) == {"wide/events/c200": "self", "wide/events_clean/c200": "down"}
