"""The files of the page: small modules, no HTML from text, nothing from other servers, all of them preloaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.page.page_server import STATIC

MODULES = sorted(STATIC.rglob("*.js"))
FILES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html"))
# What makes HTML, code or a request of a string, or keeps something that the URL does not have.
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|DOMParser|document\.write|eval|new Function)\b"
    r"|\blocalStorage\b"
    r"|setAttribute\(\s*['\"](on\w+|style)['\"]"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("/**")
    assert len(text.splitlines()) <= 300
    assert FORBIDDEN.search(text) is None


def test_folders_are_small() -> None:
    counts = {folder.name: len(list(folder.glob("*.js"))) for folder in {path.parent for path in MODULES}}
    assert max(counts.values()) <= 20


def test_the_page_takes_nothing_from_other_servers() -> None:
    addresses = {found for path in FILES for found in re.findall(r"https?://[^\s\"')]+", path.read_text("utf-8"))}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a namespace


def test_every_module_that_runs_is_preloaded() -> None:
    html = (STATIC / "index.html").read_text("utf-8")
    preloaded = re.findall(r'rel="modulepreload" href="static/([^"]+)"', html)
    started = re.findall(r'<script type="module" src="static/([^"]+)"', html)
    running = [str(path.relative_to(STATIC)) for path in MODULES if path.name != "types.js"]
    assert started == ["data/early.js", "main.js"]
    assert sorted(preloaded + started) == sorted(running)


def test_modules_import_only_from_lower_folders() -> None:
    order = ["data", "layout", "ui", "draw", "views"]
    allowed = {("data", "data"), ("layout", "layout"), ("layout", "data"), ("ui", "data"), ("ui", "ui")}
    allowed |= {("draw", name) for name in order[:4]} | {("views", name) for name in order}
    for path in (path for path in MODULES if path.parent != STATIC):
        imported = re.findall(r'^import .* from "([^"]+)"', path.read_text("utf-8"), re.MULTILINE)
        for name in imported:
            target = (path.parent / name).resolve().parent.name
            assert (path.parent.name, target) in allowed, f"{path.name} imports {name}"
