"""`lakelog lineage fields|impact|tainted --column`: lineage of columns in a terminal, as JSON, CSV and a picture."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, RenameColumn, Table
from tests.cli.conftest import Run
from tests.support.lineage.field_tables import make_table, write_fields


def printed(run: Run, *arguments: str) -> str:
    code, out, error = run("lineage", *arguments)
    assert (code, error) == (0, "")
    return out


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Table]:
    """Orders go into a report, by amount and filtered by day, and that into a page."""
    catalog = Catalog(tmp_path)
    orders = make_table(catalog, "db.orders", "day", "amount")
    report = make_table(catalog, "db.report", "total")
    page = make_table(catalog, "db.page", "shown")
    write_fields(orders, {"day": [], "amount": []}, job="load")
    write_fields(report, {"total": [(orders, "amount", "AGGREGATION")]}, dataset=[(orders, "day", "FILTER")], job="sum")
    write_fields(page, {"shown": [(report, "total")]}, job="show")
    return {"orders": orders, "report": report, "page": page}


def test_fields_prints_an_edge_per_row_both_ways(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    lines = printed(run, "fields", "db.report.total", "-w", str(tmp_path)).splitlines()

    assert [line.split() for line in lines[1:]] == [
        ["up", "1", "db.orders.amount", "db.report.total", "aggregation", "sum", "1"],
        ["up", "1", "db.orders.day", "db.report.*", "filter", "sum", "1"],
        ["down", "1", "db.report.total", "db.page.shown", "identity", "show", "1"],
    ]


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        (["--up"], ["report.total", "orders.amount", "orders.day"]),
        (["--up", "--depth", "1"], ["report.total"]),
        (["--up", "--direct"], ["report.total", "orders.amount"]),
        (["--down"], []),
        (["--up", "--at", "1"], ["report.total", "orders.amount", "orders.day"]),
        (["--up", "--at", "release"], ["report.total", "orders.amount", "orders.day"]),
        (["--up", "--start", "now-1h"], ["report.total", "orders.amount", "orders.day"]),
        (["--up", "--end", "now-1d"], []),
        (["--up", "--start", "2000-01-01", "--end", "2000-01-02"], []),
    ],
)
def test_options_choose_what_is_printed(  # parameters and fixtures
    tables: dict[str, Table], run: Run, tmp_path: Path, options: list[str], sources: list[str]
) -> None:
    tables["page"].tags.create("release", snapshot_id=1)

    lines = printed(run, "fields", "db.page.shown", *options, "--json", "-w", str(tmp_path)).splitlines()

    found = [json.loads(line) for line in lines]
    assert [f"{one['source_dataset']}.{one['source_field']}" for one in found] == sources


def test_csv_has_the_columns_of_the_answer(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    text = printed(run, "fields", "db.report", "--up", "--csv", "-w", str(tmp_path))

    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["source_field"], row["target_field"], row["kinds"]) for row in rows] == [
        ("amount", "total", '["AGGREGATION"]'),
        ("day", "", '["FILTER"]'),
    ]


def test_a_page_is_written_beside_what_is_printed(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    page = tmp_path / "fields.html"

    text = printed(run, "fields", "db.report.total", "--html", str(page), "-w", str(tmp_path))

    assert text.splitlines()[-1] == f"wrote {page}"
    assert '"ns":"db","dataset":"orders"' in page.read_text("utf-8")


def test_svg_names_html(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    code, _, err = run("lineage", "fields", "db.report.total", "--svg", "a.svg", "-w", str(tmp_path))

    assert (code, "--html a.html writes a page that saves SVG" in err) == (1, True)


def test_a_column_is_asked_for_by_its_present_name(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    tables["orders"].alter(RenameColumn("amount", "dollars.and.cents"))

    lines = printed(run, "impact", "db.orders.dollars.and.cents", "--json", "-w", str(tmp_path)).splitlines()

    found = [json.loads(line) for line in lines]
    assert [(one["dataset"], one["field"], one["depth"], one["jobs"]) for one in found] == [
        ("report", "total", 1, ["sum"]),
        ("page", "shown", 2, ["show"]),
    ]


def test_impact_prints_a_row_per_field(tables: dict[str, Table], run: Run, tmp_path: Path) -> None:
    lines = printed(run, "impact", "db.orders.day", "-w", str(tmp_path)).splitlines()

    assert [line.split() for line in lines[1:]] == [
        ["1", "db.report.total", "indirect:", "filter", "sum"],
        ["2", "db.page.shown", "indirect:", "filter", "show"],
    ]
    assert printed(run, "impact", "db.orders.day", "--direct", "--json", "-w", str(tmp_path)) == ""


def test_tainted_prints_the_columns_that_a_wrong_one_has_reached(
    tables: dict[str, Table], run: Run, tmp_path: Path
) -> None:
    place = ["-w", str(tmp_path)]
    lines = printed(run, "tainted", "db.orders", "--snapshot-id", "1", "--column", "amount", *place).splitlines()

    assert [line.split() for line in lines[1:4]] == [
        ["db.orders", "amount", "1", "yes"],
        ["db.report", "total", "1", "yes", "sum"],
        ["db.page", "shown", "1", "yes", "show"],
    ]
    text = printed(run, "tainted", "db.report", "--snapshot-id", "1", "--column", "total", "--json", *place)
    assert [one["field"] for one in json.loads(text)["fields"]] == ["total", "shown"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fields", "db.order.amount"], "no lineage of fields names 'db.order'; it names db.orders"),
        (["fields", "db.orders.price"], "db.orders has no field 'price'; it has day, amount"),
        (["fields", "orders"], "no lineage of fields names 'orders.'"),
        (["fields", "db.report.total", "--at", "9.9"], "9.9"),
        (["fields", "db.report.total", "--at", "1", "--start", "now-1d"], "give one of them"),
        (["fields", "db.report.total", "--start", "now-1w"], "now-1w; expected a timestamp, or now and steps"),
        (["fields", "db.report.total", "--csv", "--json"], "give one"),
        (["impact", "db.nothing.x"], "no lineage of fields names 'db.nothing'"),
        (["tainted", "db.orders", "--snapshot-id", "1", "--column", "x"], "has no field 'x'"),
        (["serve", "--host", "0.0.0.0"], "lets other machines read the lineage"),
        (["serve", "--token", "short"], "expected 16 or more"),
    ],
)
def test_an_error_says_what_to_do(  # parameters and fixtures
    tables: dict[str, Table],
    run: Run,
    tmp_path: Path,
    arguments: list[str],
    text: str,
) -> None:
    code, _, error = run("lineage", *arguments, "-w", str(tmp_path))
    assert code == 1
    assert text in error
