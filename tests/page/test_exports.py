"""The graph as a file: SVG, CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

from playwright.sync_api import Page

from tests.support.page.driving import ORDERS_PAID, open_page
from tests.support.page.made_world import HOSTILE, SHOWN

SVG = "{http://www.w3.org/2000/svg}"


def exported(page: Page, words: str, folder: Path) -> Path:
    """The file that an item of the menu saves."""
    page.locator("#export summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=words).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_csv_has_a_line_for_each_edge(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address, ORDERS_PAID)
    path = exported(page, "CSV", tmp_path)
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert path.name == "orders_paid-lineage.csv"
    assert len(lines) == 29
    by_rows = [line for line in lines if line["to_field"] == ""]
    assert {(line["from_field"], line["kinds"]) for line in by_rows} >= {("order_id", "JOIN"), ("status", "FILTER")}


def test_names_survive_the_csv(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address, urlencode({"ns": "odd", "dataset": HOSTILE[1], "depth": 9}))
    with exported(page, "CSV", tmp_path).open(encoding="utf-8", newline="") as file:
        assert {line["from_field"] for line in csv.DictReader(file)} == set(HOSTILE)


def test_the_json_has_the_datasets_and_edges(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address, ORDERS_PAID)
    graph = json.loads(exported(page, "JSON", tmp_path).read_text("utf-8"))
    assert graph["root"] == ["core", "orders_paid"]
    assert len(graph["datasets"]) == 8
    assert {tuple(edge["source"]) for edge in graph["edges"]} >= {("staging", "orders", "amount")}


def test_the_svg_is_a_document_with_all_boxes_and_edges(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address, urlencode({"ns": "odd", "dataset": HOSTILE[1], "depth": 9}))
    root = ElementTree.fromstring(exported(page, "SVG", tmp_path).read_text("utf-8"))
    texts = [element.findtext(f"{SVG}title") or element.text for element in root.iter(f"{SVG}text")]
    assert set(SHOWN) <= set(texts)
    assert texts.count(SHOWN[0]) == len(HOSTILE) + 1  # one box, and a row in each box
    curves = [path for path in root.iter(f"{SVG}path") if "C" in path.attrib["d"]]
    assert len(curves) == len(HOSTILE) * (len(HOSTILE) - 1)
    assert list(root.iter(f"{SVG}script")) == []


def test_a_locked_path_is_marked_in_the_svg(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address, "ns=core&dataset=orders_paid&lock=field/core/orders_paid/open")
    root = ElementTree.fromstring(exported(page, "SVG", tmp_path).read_text("utf-8"))
    colours = [path.attrib["stroke"] for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    assert sorted(set(colours)) == ["#0a6a70", "#8435a8"]
    assert len(colours) == page.locator(".top .edge").count()
