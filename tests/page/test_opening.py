"""What is seen first: datasets to choose from, boxes of columns with lineage, or a list of what is too much."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.page.driving import ORDERS_PAID, box, open_page, row, rows_of


def test_the_start_lists_the_datasets_and_leads_to_them(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="orders_paid core").click()
    expect(box(page, "core", "orders_paid")).to_be_visible()
    assert "ns=core&dataset=orders_paid" in page.url


def test_a_box_shows_at_first_only_columns_with_lineage(page: Page, address: str) -> None:
    open_page(page, address)
    assert rows_of(page, "staging", "orders") == ["order_id", "customer_id", "amount"]
    expect(box(page, "staging", "orders").locator(".foot")).to_contain_text("3 of 8 columns")


def test_all_columns_of_a_box_are_shown_on_demand_and_hidden_again(page: Page, address: str) -> None:
    open_page(page, address)
    box(page, "staging", "orders").get_by_role("button", name="All").click()
    expect(row(page, "staging", "orders", "source_file")).to_be_visible()
    assert len(rows_of(page, "staging", "orders")) == 8
    box(page, "staging", "orders").get_by_role("button", name="Fewer").click()
    expect(row(page, "staging", "orders", "source_file")).to_have_count(0)


def test_a_folded_box_keeps_its_edges(page: Page, address: str) -> None:
    open_page(page, address)
    box(page, "staging", "orders").get_by_role("button", name="Hide columns").click()
    expect(row(page, "staging", "orders", "amount")).to_have_count(0)
    expect(page.locator("#drawn")).to_contain_text("29 edges")


def test_what_is_drawn_is_said_in_one_sentence(page: Page, address: str) -> None:
    open_page(page, address)
    expect(page.locator("#drawn")).to_have_text("8 datasets, 29 edges, all time.")
    expect(page.locator("#live")).to_have_text("8 datasets, 29 edges, all time.")


def test_approximate_edges_are_dashed_and_edges_that_decide_about_rows_dotted(page: Page, address: str) -> None:
    open_page(page, address)
    dashes = {
        style: page.locator(f".base .edge.{style}").evaluate("line => getComputedStyle(line).strokeDasharray")
        for style in ("sure", "unsure", "rows")
    }
    assert dashes == {"sure": "none", "unsure": "6px, 4px", "rows": "1.5px, 4px"}


def test_edges_that_decide_about_rows_can_be_left_out(page: Page, address: str) -> None:
    open_page(page, address)
    page.get_by_label("Edges that decide about rows").uncheck()
    expect(page.locator("#drawn")).to_contain_text("22 edges")
    assert "kinds=direct" in page.url


def test_tainted_tables_and_columns_are_named_so(page: Page, address: str) -> None:
    open_page(page, address, {"ns": "marts", "dataset": "daily_revenue"})
    expect(box(page, "marts", "daily_revenue").locator(".mark.bad")).to_have_text("tainted from 31")
    expect(row(page, "marts", "daily_revenue", "revenue_eur").locator(".note")).to_have_text("tainted")
    expect(box(page, "staging", "orders").locator(".mark.bad")).to_have_count(0)


def test_a_column_says_how_many_of_its_edges_are_drawn(page: Page, address: str) -> None:
    open_page(page, address, {"ns": "wide", "dataset": "one_to_many"})
    expect(row(page, "wide", "one_to_many", "key").locator(".note")).to_have_text("12 of 20 drawn")


def test_too_many_datasets_are_a_list_with_a_sentence_and_a_filter(page: Page, address: str) -> None:
    page.goto(f"{address}/?ns=hub&dataset=calendar")
    expect(page.locator("#list")).to_contain_text(
        "A picture of more than 60 boxes is hard to read, so they are listed."
    )
    expect(page.locator("#graph")).to_be_hidden()
    page.get_by_label("Filter the datasets by name").fill("fact_33")
    expect(page.locator(".dataset")).to_have_count(10)
    expect(page.locator("#live")).to_have_text("10 datasets")


def test_too_many_datasets_are_drawn_on_demand(page: Page, address: str) -> None:
    page.goto(f"{address}/?ns=hub&dataset=calendar")
    page.get_by_role("button", name="Draw all 341").click()
    expect(page.locator("#drawn")).to_contain_text("341 datasets")
    expect(box(page, "hub", "calendar")).to_be_visible()


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"ns": "core", "dataset": "missing"}, "there is no dataset 'missing' in 'core'"),
        ({**ORDERS_PAID, "start": "yesterday"}, "the time 'yesterday' is neither seconds nor an expression"),
    ],
)
def test_a_refusal_is_shown_in_the_words_of_the_server(
    page: Page, address: str, query: dict[str, str], sentence: str
) -> None:
    page.goto(f"{address}/?" + "&".join(f"{name}={value}" for name, value in query.items()))
    expect(page.get_by_role("alert")).to_contain_text(sentence)
