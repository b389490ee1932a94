"""How soon the page of the lineage is there with 300 datasets and 900 edges, and what panning and zooming cost.

Chromium shows the page from a server on this machine that has the answer ready. `page_300_ms` is the median time from
the navigation until the graph is drawn and the main thread is free, less that of an empty page, in a new profile each
time, which loads every file; `page_300_ms_again` has the files in its cache. `task_ms_longest` is the longest task
while the picture is dragged and zoomed, and `task_cpu_ms_longest_*` what the longest one computes.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, ViewportSize

from benchmarks.command import run_command
from tests.support.page.made_world import made_world
from tests.support.page.page_server import page_server
from tests.support.servers.chromium import running_chromium

GRAPH = "/?ns=big&dataset=table_000&depth=20&limit=400"
NEAR = f"{GRAPH}&place=-1500,-1200,0.8"
EMPTY = "/static/icon.svg"
SIZE: ViewportSize = {"width": 1280, "height": 800}
FREE = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
DRAWN = "() => performance.getEntriesByName('lineage-drawn').length > 0"


def run(_: Path, is_small: bool) -> dict[str, object]:
    """The figures, each the median or the longest of some rounds."""
    rounds = 3 if is_small else 20
    with running_chromium() as browser, page_server(made_world()) as address:
        first_millis(browser, f"{address}{GRAPH}")  # the server keeps its answer from now on
        empty = median(first_millis(browser, f"{address}{EMPTY}") for _ in range(rounds))
        first = [first_millis(browser, f"{address}{GRAPH}") for _ in range(rounds)]
        page = browser.new_page(viewport=SIZE)
        again = [millis_of(page, f"{address}{GRAPH}") for _ in range(rounds + 1)][1:]
        said = page.locator("#drawn").text_content() or ""
        tasks = {
            name: longest_task(browser, page, f"{address}{query}") for name, query in (("far", GRAPH), ("near", NEAR))
        }
    if not said.startswith("300 datasets, 900 edges"):
        raise SystemExit(f"the page shows something else: {said}")
    return {
        "page_300_ms": round(median(first) - empty, 1),
        "page_300_ms_slowest": round(max(first) - empty, 1),
        "page_300_ms_again": round(median(again) - empty, 1),
        "empty_page_ms": round(empty, 1),
        "task_ms_longest": max(clock for clock, _ in tasks.values()),
        "task_cpu_ms_longest_far": tasks["far"][1],
        "task_cpu_ms_longest_near": tasks["near"][1],
    }


def first_millis(browser: Browser, address: str) -> float:
    """The time of a page in a new profile."""
    with browser.new_context(viewport=SIZE) as context:
        return millis_of(context.new_page(), address)


def millis_of(page: Page, address: str) -> float:
    """From the start of the navigation until the main thread is free after the picture."""
    page.goto(address)
    if address.endswith(EMPTY):
        return float(page.evaluate(FREE))
    page.wait_for_function(DRAWN)
    return float(page.evaluate("() => performance.getEntriesByName('lineage-drawn')[0].startTime"))


def longest_task(browser: Browser, page: Page, address: str) -> tuple[float, float]:
    """The longest task of the main thread while the pointer drags and zooms, in milliseconds: by the clock, by its CPU.

    By the clock, a task also waits for others on a busy machine.
    """
    page.goto(address)
    page.wait_for_function(DRAWN)
    if "place" not in address:
        page.get_by_role("button", name="Fit").click()
    page.evaluate(FREE)
    browser.start_tracing(page=page, categories=["toplevel"])
    page.mouse.move(640, 400)
    page.mouse.down()
    for at in range(120):
        page.mouse.move(640 - at * 5, 400 - at * 2)
    page.mouse.up()
    page.keyboard.down("Control")
    for at in range(40):
        page.mouse.wheel(0, 60 if at < 20 else -60)
    page.keyboard.up("Control")
    page.wait_for_timeout(300)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in events if one.get("args", {}).get("name") == "CrRendererMain"}
    tasks = [one for one in events if (one["pid"], one["tid"]) in main and one["name"].endswith("RunTask")]
    if not tasks:
        raise SystemExit("the trace has no tasks of the main thread")
    clock, cpu = (max(one.get(key, 0) for one in tasks) for key in ("dur", "tdur"))
    return round(clock / 1_000, 1), round(cpu / 1_000, 1)


if __name__ == "__main__":
    run_command(__doc__, run)
