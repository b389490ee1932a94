"""Names that a page must not take for HTML, for a path or for a part of its own text."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import open_page
from tests.support.page.made_world import HOSTILE, SHOWN


@pytest.mark.parametrize("at", [0, 2, 4, *(pytest.param(at, marks=pytest.mark.full) for at in (1, 3, 5, 6))])
def test_any_name_is_shown_as_it_is_and_can_be_locked(page: Page, address: str, at: int) -> None:
    name, shown = HOSTILE[at], SHOWN[at]
    open_page(page, address, urlencode({"ns": "odd", "dataset": name, "depth": 1}))
    root = page.locator(".box.root")
    assert root.locator(".title .name").text_content() == shown
    assert root.locator(".row .name").all_text_contents() == SHOWN
    root.locator(".row").nth(HOSTILE.index(name)).click()
    assert page.locator("#drawer h2").text_content() == name
    assert root.locator('.row[data-side="self"] .name').text_content() == shown
    assert page.title() == f"{' '.join(name.split())} \u2013 lineage"  # a title has no runs of blanks


def test_a_hostile_job_and_its_sql_are_text(page: Page, address: str) -> None:
    source, target = HOSTILE[0], HOSTILE[1]
    open_page(page, address, urlencode({"ns": "odd", "dataset": target, "depth": 1}))
    page.locator("#graph").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")
    assert page.locator(".sql code").text_content() == source
    expect(page.locator("#drawer h3 .job").first).to_have_text(source)
    assert page.locator("img").count() == 0


def test_hostile_names_are_text_in_the_table_the_search_and_the_start(page: Page, address: str) -> None:
    open_page(page, address, urlencode({"ns": "odd", "dataset": HOSTILE[1], "depth": 5, "view": "tree"}))
    assert set(page.locator(".level-1 .name").all_text_contents()) == set(SHOWN)
    page.get_by_role("combobox", name="Search").fill("onerror")
    expect(page.locator("#found .name").first).to_have_text(HOSTILE[0])
    assert page.locator("img").count() == 0


def test_a_long_name_is_cut_and_moves_nothing(page: Page, address: str) -> None:
    open_page(page, address, urlencode({"ns": "odd", "dataset": "x" * 500, "depth": 1}))
    page.locator(".box.root .title").click()
    expect(page.locator("#drawer")).to_be_visible()
    widths = page.evaluate(
        "() => [document.documentElement.scrollWidth, document.querySelector('.drawer').scrollWidth, "
        "...[...document.querySelectorAll('.box .row')].map((row) => row.scrollWidth)]"
    )
    assert widths[0] <= 1280
    assert widths[1] <= 400
    assert max(widths[2:]) <= 224 + 4  # the ports stand out on both sides
