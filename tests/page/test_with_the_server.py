"""The page with the server of lakelog itself: what the made answers of the other tests stand for."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.support.lineage.demo_page import demo_world, served
from tests.support.page.driving import locked, open_page


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server over a warehouse with lineage."""
    with served(demo_world()) as address:
        yield address


def test_a_column_is_found_locked_and_its_edges_opened(page: Page, server: str) -> None:
    page.goto(server)
    page.get_by_role("combobox", name="Search").fill("revenue")
    page.locator("#found .is-dataset", has_text="revenue").click()
    page.locator('.row[data-key="db/revenue/total"]').click()
    expect(page.locator('.row[data-key="db/orders/amount"]')).to_have_attribute("data-side", "up")
    page.locator("#drawer .edges-list button", has_text="aggregated").click()
    assert locked(page).startswith("edge/")
    expect(page.locator("#drawer .operations li").first).to_contain_text("amount")
    expect(page.locator("#drawer .operations .flow").nth(1)).to_have_text("amounttotal")  # an arrow is between
    expect(page.locator("#drawer .facts tbody tr").first).to_be_visible()


def test_a_table_shows_its_snapshots(page: Page, server: str) -> None:
    open_page(page, server, "ns=db&dataset=revenue&lock=dataset/db/revenue")
    expect(page.locator(".snapshot")).to_have_count(50)
    page.get_by_role("button", name="Older snapshots").click()
    expect(page.locator(".snapshot")).to_have_count(100)
    page.get_by_role("button", name="Lineage at snapshot 260").click()
    expect(page.locator("#drawn")).to_contain_text("at snapshot 260")


def test_a_wrong_snapshot_taints_what_is_made_of_it(page: Page, server: str) -> None:
    open_page(page, server, "ns=db&dataset=revenue&lock=dataset/db/revenue")
    expect(page.locator(".mark.bad")).to_have_count(0)
    page.get_by_role("button", name="Wrong from snapshot 280 on").click()
    expect(page.locator('.box[data-key="db/report"] .mark.bad')).to_have_text("tainted from 280")
    expect(page.locator(".snapshot.bad")).to_have_count(21)
    expect(page.locator(".snapshot.good .snapshot-id")).to_have_text("279")
    page.get_by_role("button", name="Wrong from snapshot 280 on: remove").click()
    expect(page.locator(".mark.bad")).to_have_count(0)


def test_hostile_names_of_the_server_are_text(page: Page, server: str) -> None:
    name = "<img src=x onerror=alert(1)>"
    open_page(page, server, urlencode({"ns": "db", "dataset": name}))
    assert page.locator(".box.root .title .name").text_content() == name
    assert page.locator("img").count() == 0


def test_time_and_kinds_are_asked_for_as_the_server_takes_them(page: Page, server: str) -> None:
    open_page(page, server, "ns=db&dataset=revenue")
    expect(page.locator("#drawn")).to_contain_text("edges")
    page.get_by_label("Edges that decide about rows").uncheck()
    expect(page.locator(".base .edge.rows")).to_have_attribute("d", "")
    page.get_by_label("Time of the lineage").select_option("Last hour")
    expect(page.locator("#drawn")).to_contain_text("last hour")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_token_is_taken_out_of_the_address_and_sent(page: Page) -> None:
    with served(demo_world(), token="secret") as guarded:
        page.goto(f"{guarded}/?ns=db&dataset=revenue")
        expect(page.get_by_role("alert")).to_contain_text("The server asks for a token")
        page.goto("about:blank")
        open_page(page, guarded, "ns=db&dataset=revenue#token=secret")
        expect(page.locator("#drawn")).to_contain_text("8 datasets")
        assert page.url == f"{guarded}/?ns=db&dataset=revenue"
        page.reload()
        expect(page.locator("#drawn")).to_contain_text("8 datasets")
