"""The table view: a treegrid of datasets, columns and directions with the same lock and the same URL."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.support.page.driving import locked, marked, open_page

OPEN = "lock=field/core/orders_paid/open"


def tree_row(page: Page, text: str) -> Locator:
    """The first row with a text."""
    return page.locator(".tree-row", has_text=text).first


def focused(page: Page) -> str:
    """The name in the focused row."""
    return str(page.evaluate("() => document.activeElement.querySelector('.name')?.textContent"))


def names(page: Page) -> list[str]:
    """The names of all rows."""
    return page.locator(".tree-row .name").all_text_contents()


def test_the_table_has_the_datasets_of_the_graph_from_upstream_to_downstream(page: Page, address: str) -> None:
    open_page(page, address, "ns=core&dataset=orders_paid&view=tree&expanded=none")
    assert names(page) == [
        "orders", "payments", "orders", "payments", "orders_paid", "customer_360", "open_items", "churn_features",
    ]  # fmt: skip
    assert page.locator("#graph").is_hidden()


def test_rows_name_their_level_place_and_state(page: Page, address: str) -> None:
    open_page(page, address, f"ns=core&dataset=orders_paid&view=tree&{OPEN}")
    grid = page.get_by_role("treegrid", name="Lineage")
    expect(grid.get_by_role("row")).to_have_count(1 + 8 + 7 + 2 + 5)
    column = page.locator('.tree-row[aria-selected="true"]')
    found = {
        name: column.get_attribute(name) for name in ("aria-level", "aria-posinset", "aria-setsize", "aria-expanded")
    }
    assert found == {"aria-level": "2", "aria-posinset": "6", "aria-setsize": "7", "aria-expanded": "true"}
    assert page.locator(".tree-row[tabindex='0']").count() == 1


def test_arrows_walk_and_unfold_the_table(page: Page, address: str) -> None:
    open_page(page, address, "ns=core&dataset=orders_paid&view=tree&expanded=none")
    page.locator("#export summary").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page) == "orders_paid"
    page.keyboard.press("ArrowRight")
    expect(tree_row(page, "customer_id")).to_be_visible()
    walked = []
    for key in (
        "ArrowRight",
        "ArrowDown",
        "ArrowRight",
        "ArrowRight",
        "ArrowLeft",
        "ArrowLeft",
        "ArrowLeft",
        "Home",
        "End",
    ):
        page.keyboard.press(key)
        walked.append(focused(page))
    column = "order_id"
    assert walked == [
        "Rows decided by 2 columns", column, column, "Made from 1 column", column, column, "orders_paid", "orders",
        "churn_features",
    ]  # fmt: skip


def test_the_lock_of_the_graph_is_the_selection_of_the_table(page: Page, address: str) -> None:
    open_page(page, address, f"ns=core&dataset=orders_paid&{OPEN}")
    page.keyboard.press("t")
    expect(page.locator('.tree-row[aria-selected="true"] .name')).to_have_text("open")
    tree_row(page, "paid_at").click()
    page.keyboard.press("t")
    assert marked(page)["core/orders_paid/paid_at"] == "self"
    assert locked(page) == "field/core/orders_paid/paid_at"


def test_enter_on_an_end_opens_what_made_it(page: Page, address: str) -> None:
    open_page(page, address, f"ns=core&dataset=orders_paid&view=tree&{OPEN}")
    tree_row(page, "Made from 2 columns").focus()
    page.locator('.tree-row[aria-selected="true"]').click()  # frees it, and the keys are there
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert locked(page) == "edge/staging/payments/paid/core/orders_paid/open"
    expect(page.locator("#drawer")).to_contain_text("match_payments")


def test_an_approximate_edge_says_so_in_the_table(page: Page, address: str) -> None:
    open_page(page, address, "ns=core&dataset=customer_360&view=tree&lock=field/core/customer_360/score")
    unsure = page.locator(".tree-row.unsure .note")
    assert unsure.all_text_contents() == ["computed, by opaque code"] * 3
