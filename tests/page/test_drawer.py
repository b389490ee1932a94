"""The drawer: operations, SQL, jobs, runs and snapshots of an edge; snapshots, tags and branches of a table."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.page.driving import box, locked, open_page, row

REVENUE = "ns=marts&dataset=daily_revenue&lock=dataset/marts/daily_revenue"
EDGE = "ns=core&dataset=orders_paid&lock=edge/kafka/orders/amount/staging/orders/amount"


def test_an_edge_shows_operations_sql_job_runs_and_snapshots(page: Page, address: str) -> None:
    open_page(page, address, EDGE)
    drawer = page.locator("#drawer")
    expect(drawer.locator(".sql code")).to_contain_text("WHERE o.status <> 'cancelled'")
    expect(drawer.locator(".write > h3")).to_contain_text("load_orders")
    assert drawer.locator(".operations .kind").all_text_contents() == ["read", "transform", "write"]
    assert drawer.locator(".operations .flow").all_text_contents() == [
        "amount",
        "amountamount",
        "amount",
    ]  # an arrow is between
    expect(drawer.locator(".facts tbody tr")).to_have_count(2)
    expect(drawer.locator(".facts tbody tr").first).to_contain_text("25\u201334")


def test_the_ends_of_an_edge_lead_to_their_columns(page: Page, address: str) -> None:
    open_page(page, address, EDGE)
    page.locator("#drawer .end").nth(1).click()
    expect(page.locator("#drawer h2")).to_have_text("amount")
    assert locked(page) == "field/staging/orders/amount"


def test_a_column_lists_its_sources_its_uses_and_all_that_is_made_of_it(page: Page, address: str) -> None:
    open_page(page, address, "ns=core&dataset=orders_paid&lock=field/core/orders_paid/open")
    drawer = page.locator("#drawer")
    made, used, impact = (drawer.locator("section").nth(at) for at in range(3))
    assert made.locator(".end .name").all_text_contents() == ["paid", "amount"]
    assert used.locator(".end .name").all_text_contents() == ["score", "open", "all columns"]
    expect(impact).to_contain_text("4 columns in 4 datasets.")
    assert impact.locator("td.number").all_text_contents() == ["1", "1", "2", "3"]


def test_a_table_shows_its_snapshots_and_what_made_each(page: Page, address: str) -> None:
    open_page(page, address, REVENUE)
    newest = page.locator(".snapshot").first
    expect(newest).to_contain_text("daily_revenue")
    expect(newest).to_contain_text("72,180 rows")
    expect(newest).to_contain_text("staging.orders 61\u201362")
    assert page.locator("#drawer .ref").all_text_contents() == ["month_endtag of 30", "v1tag of 8", "auditbranch"]


def test_tainted_snapshots_and_the_last_clean_one_are_coloured_and_named(page: Page, address: str) -> None:
    open_page(page, address, REVENUE)
    expect(page.locator(".taint")).to_have_text("Tainted from snapshot 31. The last clean snapshot is 30.")
    tainted, clean = page.locator(".snapshot.bad"), page.locator(".snapshot.good")
    expect(tainted).to_have_count(30)
    expect(clean).to_contain_text("last clean")
    expect(clean.locator(".snapshot-id")).to_have_text("30")


def test_older_snapshots_are_loaded_on_demand(page: Page, address: str) -> None:
    open_page(page, address, REVENUE)
    expect(page.locator(".snapshot")).to_have_count(50)
    page.get_by_role("button", name="Older snapshots").click()
    expect(page.locator(".snapshot")).to_have_count(60)
    expect(page.get_by_role("button", name="Older snapshots")).to_be_hidden()


def test_a_snapshot_leads_to_the_lineage_at_it(page: Page, address: str) -> None:
    open_page(page, address, REVENUE)
    page.get_by_role("button", name="Lineage at snapshot 30").click()
    expect(page.locator("#drawn")).to_contain_text("at snapshot 30")
    assert "at=30" in page.url
    page.get_by_role("button", name="at snapshot 30: remove").click()
    expect(page.locator("#drawn")).to_contain_text("all time")


def test_a_source_of_a_snapshot_leads_to_its_table(page: Page, address: str) -> None:
    open_page(page, address, REVENUE)
    page.locator(".snapshot").first.get_by_role("button", name="staging.exchange_rates").click()
    expect(page.locator("#root")).to_have_text("exchange_rates")


def test_a_closed_drawer_keeps_the_lock(page: Page, address: str) -> None:
    open_page(page, address, EDGE)
    page.get_by_role("button", name="Close details").click()
    expect(page.locator("#drawer")).to_be_hidden()
    assert locked(page).startswith("edge/")
    row(page, "core", "orders_paid", "paid").click()
    expect(page.locator("#drawer")).to_be_visible()


def test_what_is_locked_stays_in_view_beside_the_drawer(page: Page, address: str) -> None:
    open_page(page, address)
    row(page, "marts", "churn_features", "score").click()
    expect(page.locator("#drawer")).to_be_visible()
    drawer, chosen = page.locator("#drawer").bounding_box(), box(page, "marts", "churn_features").bounding_box()
    assert drawer is not None
    assert chosen is not None
    assert chosen["x"] + chosen["width"] <= drawer["x"]
