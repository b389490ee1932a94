"""Search, depth, time and centre: what the page asks the server for."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.support.page.driving import box, marked, open_page, row


def test_a_search_finds_datasets_first_and_then_columns(page: Page, address: str) -> None:
    open_page(page, address)
    page.keyboard.press("/")
    page.keyboard.type("ORDERS")
    expect(page.locator("#found-note")).to_have_text("4 results")
    names = page.locator("#found li .name").all_text_contents()
    assert names == ["orders", "orders", "orders_paid", "orders"]
    expect(page.locator("#live")).to_have_text("4 results")


def test_a_result_is_chosen_by_keys_and_put_in_the_middle(page: Page, address: str) -> None:
    open_page(page, address)
    page.keyboard.press("/")
    page.keyboard.type("churn")
    expect(page.locator("#found [role=option]")).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#found [role=option]").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#root")).to_have_text("board.churn")
    expect(row(page, "reports", "board", "churn")).to_have_attribute("data-side", "self")


def test_a_search_without_results_says_so(page: Page, address: str) -> None:
    open_page(page, address)
    page.get_by_role("combobox", name="Search").fill("no such thing")
    expect(page.locator("#found-note")).to_have_text("Nothing has this in its name.")
    expect(page.locator("#found [role=option]")).to_have_count(0)


def test_the_depth_is_counted_from_the_middle_one_hop_at_a_time(page: Page, address: str) -> None:
    open_page(page, address)
    page.get_by_role("button", name="More hops").click()
    expect(page.locator("#depth")).to_contain_text("3 hops")
    expect(box(page, "reports", "board")).to_be_visible()
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(page.locator("#depth")).to_contain_text("1 hop")
    expect(box(page, "kafka", "orders")).to_have_count(0)
    expect(box(page, "staging", "orders")).to_be_visible()
    expect(page.get_by_role("button", name="Fewer hops")).to_be_disabled()


def test_one_box_is_unfolded_one_hop_further(page: Page, address: str) -> None:
    open_page(page, address)
    expect(box(page, "staging", "customers")).to_have_count(0)
    box(page, "core", "customer_360").get_by_role("button", name="One hop further upstream").click()
    expect(box(page, "staging", "customers")).to_be_visible()
    expect(box(page, "postgres", "crm.customers")).to_have_count(0)
    page.get_by_role("button", name="1 box unfolded: remove").click()
    expect(box(page, "staging", "customers")).to_have_count(0)


def test_a_preset_of_time_leaves_out_what_did_not_run_in_it(page: Page, address: str) -> None:
    open_page(page, address, {"ns": "core", "dataset": "customer_360"})
    expect(box(page, "marts", "churn_features")).to_be_visible()
    page.get_by_label("Time of the lineage").select_option("Last 7 days")
    expect(box(page, "marts", "churn_features")).to_have_count(0)
    expect(page.locator("#drawn")).to_contain_text("last 7 days")
    assert "start=now-7d&end=now" in page.url


def test_a_range_of_time_is_asked_for_in_seconds(page: Page, address: str) -> None:
    open_page(page, address)
    page.get_by_label("Time of the lineage").select_option("Range…")
    page.get_by_label("From").fill("2020-01-01T10:00")
    page.get_by_label("Until").fill("2020-01-02T10:00")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#drawn")).to_have_text("No lineage: from 2020-01-01 10:00 until 2020-01-02 10:00.")
    start, end = page.evaluate(
        "() => ['start', 'end'].map((name) => Number(new URLSearchParams(location.search).get(name)))"
    )
    assert end - start == 86_400


def test_a_range_that_ends_before_it_starts_is_refused(page: Page, address: str) -> None:
    open_page(page, address)
    page.get_by_label("Time of the lineage").select_option("Range…")
    page.get_by_label("From").fill("2020-01-02T10:00")
    page.get_by_label("Until").fill("2020-01-01T10:00")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_have_text("The range ends before it starts.")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Time of the lineage")).to_have_value("")


@pytest.mark.parametrize("by", ["the button", "a double click", "the drawer"])
def test_another_dataset_is_put_in_the_middle(page: Page, address: str, by: str) -> None:
    open_page(page, address)
    other = box(page, "staging", "payments")
    if by == "the button":
        other.hover()
        other.get_by_role("button", name="Centre on this dataset").click()
    elif by == "a double click":
        other.locator(".title").dblclick()
    else:
        other.locator(".title").click()
        page.locator("#drawer").get_by_role("button", name="Centre on this dataset").click()
    expect(page.locator("#root")).to_have_text("payments")
    expect(other).to_have_class(re.compile(r"\broot\b"))


def test_a_column_in_the_middle_has_its_own_lineage_alone(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, "core", "orders_paid", "paid").click()
    page.get_by_role("button", name="Centre on this column").click()
    expect(page.locator("#root")).to_have_text("orders_paid.paid")
    expect(box(page, "marts", "open_items")).to_have_count(0)
    assert marked(page)["core/orders_paid/paid"] == "self"
    page.get_by_role("button", name="This column alone: remove").click()
    expect(box(page, "marts", "open_items")).to_be_visible()


def test_a_slow_answer_does_not_overwrite_a_later_one(page: Page, address: str) -> None:
    open_page(page, address)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/graph?*depth=3*", hold)
    with page.expect_request("**/api/graph?*depth=3*"):  # the page ends an unsent one, and there is no answer to hold
        page.keyboard.press("]")
    expect(page.locator("#depth")).to_contain_text("3 hops")
    page.keyboard.press("[")
    expect(page.locator("#drawn")).to_have_text("8 datasets, 29 edges, all time.")
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#drawn")).to_have_text("8 datasets, 29 edges, all time.")


def test_the_first_graph_is_asked_for_once(page: Page, address: str) -> None:
    asked: list[str] = []

    def hear(request: Request) -> None:
        if "/api/graph" in request.url:
            asked.append(request.url)

    page.on("request", hear)
    open_page(page, address)
    page.get_by_role("button", name="More hops").click()
    expect(box(page, "reports", "board")).to_be_visible()
    page.remove_listener("request", hear)
    assert [url.partition("depth=")[2][0] for url in asked] == ["2", "3"]
