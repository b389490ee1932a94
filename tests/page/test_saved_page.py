"""The page in one file: it is opened without a server, shows the graph with its details, and asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, Request, expect

from lakelog.lineage.columns.questions.field_index import build_index
from lakelog.lineage.page.page_state import KnownState
from lakelog.lineage.page.saved_page import SavedPage
from tests.page.test_exports import SVG, exported
from tests.support.lineage.demo_page import DemoHistories, demo_world
from tests.support.lineage.known_world import KnownWorld
from tests.support.page.driving import IS_DRAWN

END = "</script><script>document.title='changed'</script><!--"
REVENUE = {"ns": "db", "dataset": "revenue"}


def saved(world: KnownWorld, query: dict[str, str]) -> str:
    return SavedPage(KnownState(build_index(world.known()), DemoHistories()), query).html()


@pytest.fixture
def open_file(page: Page, tmp_path: Path) -> Iterator[Path]:
    """A file that the page shows; nothing but the file may have been asked for."""
    path, asked = tmp_path / "lineage.html", list[str]()

    def hear(request: Request) -> None:
        asked.append(request.url)

    page.on("request", hear)
    yield path
    page.remove_listener("request", hear)
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {path.as_uri()}


def test_a_file_shows_the_graph_and_the_details_of_its_parts(page: Page, open_file: Path) -> None:
    open_file.write_text(saved(demo_world(), REVENUE), "utf-8")
    page.goto(open_file.as_uri())
    page.wait_for_function(IS_DRAWN)

    page.locator('.row[data-key="db/revenue/total"]').click()
    expect(page.locator('.row[data-key="db/orders/amount"]')).to_have_attribute("data-side", "up")
    expect(page.locator("#drawer")).to_contain_text("All that is made of it")
    expect(page.locator("#drawer .waiting, #drawer .problem")).to_have_count(0)
    page.locator("#drawer .edges-list button", has_text="aggregated").click()
    expect(page.locator("#drawer .operations li").first).to_contain_text("amount")
    page.locator('.box[data-key="db/revenue"] .title').click()
    expect(page.locator(".snapshot")).to_have_count(50)
    page.locator("#view label", has_text="Table").click()
    expect(page.locator("#tree")).to_be_visible()


def test_a_file_saves_the_picture(page: Page, open_file: Path, tmp_path: Path) -> None:
    open_file.write_text(saved(demo_world(), REVENUE), "utf-8")
    page.goto(open_file.as_uri())
    page.wait_for_function(IS_DRAWN)

    root = ElementTree.fromstring(exported(page, "SVG", tmp_path).read_text("utf-8"))

    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert {"revenue", "total", "orders", "amount"} <= texts
    assert len(list(root.iter(f"{SVG}path"))) > 1


def test_another_graph_is_refused_and_the_one_that_is_there_stays(page: Page, open_file: Path) -> None:
    open_file.write_text(saved(demo_world(), REVENUE), "utf-8")
    page.goto(open_file.as_uri())
    page.wait_for_function(IS_DRAWN)

    page.locator('.row[data-key="db/orders/amount"]').click()
    page.get_by_role("button", name="Centre on this column").click()

    expect(page.get_by_role("alert")).to_have_text("This file has one graph. `lakelog lineage serve` shows others.")
    expect(page.locator('.row[data-key="db/revenue/total"]')).to_be_visible()
    expect(page.get_by_role("combobox", name="Search")).to_be_hidden()
    expect(page.locator("#direction")).to_be_hidden()


def test_names_that_end_a_script_are_text(page: Page, open_file: Path) -> None:
    world = KnownWorld().table("db.s", "v").table("db.t", END)
    world.write("db.t", {END: ["db.s.v"]})
    open_file.write_text(saved(world, {"ns": "db", "dataset": "t"}), "utf-8")
    page.goto(open_file.as_uri())
    page.wait_for_function(IS_DRAWN)

    assert page.locator(".box.root .row .name").text_content() == END
    assert page.title().startswith("t ")


def test_a_frame_of_a_notebook_shows_the_page(page: Page, open_file: Path) -> None:
    """The frame has no origin, and so no address, no history and no storage."""
    frame = f'<iframe srcdoc="{escape(saved(demo_world(), REVENUE))}" sandbox="allow-scripts allow-downloads"></iframe>'
    open_file.write_text(frame, "utf-8")
    page.goto(open_file.as_uri())

    row = page.frame_locator("iframe").locator('.row[data-key="db/revenue/total"]')
    row.click()
    expect(row).to_have_attribute("data-side", "self")
