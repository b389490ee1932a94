"""Serves the page over lineage that is made by hand: `python -m tests.support.lineage.demo_page --port 0`.

The first line of the output is the address. `--large` has 300 datasets and 900 edges, else there are about ten with
names that are hard to show: a cycle, a table of 300 columns, edges that are opaque, masked and approximate.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

import uvicorn

from lakelog.common.timestamps import utc_of
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_walk import walk
from lakelog.lineage.page.page_state import DatasetHistory, PageState, TableTaint
from lakelog.lineage.server.page_app import page_app
from lakelog.lineage.server.serving import listening_socket
from tests.support.lineage.known_world import MINUTE, START, KnownWorld

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"quoted\" & 'more'",
    "über 表 \u202ereversed",
    "a" * 300,
    "line\nbreak\ttab",
    "javascript:alert(1)",
)
WIDE = 300


class DemoHistories:
    """Three hundred snapshots of each table that has lineage."""

    def history(self, dataset: Dataset, *, limit: int, before: int | None) -> DatasetHistory:
        """Snapshots that were written by turns by two jobs."""
        newest = 300 if before is None else min(before - 1, 300)
        ids = range(newest, max(newest - limit, 0), -1)
        return DatasetHistory(
            snapshots=[
                {
                    "id": one,
                    "time": utc_of(START + one * MINUTE, separator="T", suffix="Z"),
                    "job": "revenue" if one % 2 else HOSTILE[0],
                    "operation": None if one % 2 else "MERGE",
                    "rows": None if one % 7 == 0 else one * 1_000,
                    "sources": [{"table": "db.orders", "from": one - 1, "to": one}],
                    "tags": ["release"] if one == 200 else [],
                }
                for one in ids
            ],
            next=ids[-1] if ids and ids[-1] > 1 else None,
            tags=[{"name": "release", "snapshot": 200}, {"name": HOSTILE[1], "snapshot": 100}],
            branches=["what-if", HOSTILE[2]],
        )

    def millis_of(self, dataset: Dataset, snapshot: int) -> int | None:
        """A minute for each snapshot."""
        return START + snapshot * MINUTE

    def taints(
        self, index: FieldIndex, dataset: Dataset, field: str | None, snapshot: int
    ) -> Mapping[Dataset, TableTaint]:
        """All that is below a field is tainted from the same snapshot on."""
        owner = index.dataset(dataset)
        fields = index.fields_of([owner.id]) if field is None else [index.field(owner, field)]
        below = index.fields(walk(index, [one.id for one in fields], is_up=False).hops)
        names: dict[int, set[str]] = {owner.id: set()}
        for one in below.values():
            names.setdefault(one.dataset, set()).add(one.name)
        return {
            one.dataset: TableTaint(
                first=snapshot,
                last_clean=snapshot - 1 or None,
                fields=frozenset(() if field is None else names[one.id]),
                snapshots=frozenset(range(snapshot, 301)),
            )
            for one in index.datasets(names)
        }


def demo_world() -> KnownWorld:
    """Orders become revenue, which a report shows; with a loop, code that cannot be read, and hashed names."""
    world = KnownWorld()
    world.table("db.orders", "id", "customer", "amount", "day", *HOSTILE)
    world.table("db.customers", "id", "name", "email", "country")
    world.table("db.revenue", "customer", "country", "total", "rank")
    world.table("db.report", "who", "total", HOSTILE[0])
    world.table("db.scores", "customer", "score")
    world.table("db.wide", *(f"column_{at:03}" for at in range(WIDE)))
    world.table(f"db.{HOSTILE[0]}", "x", HOSTILE[1])
    world.table("db.no_lineage", "a", "b")
    world.write(
        "db.orders",
        {
            "id": ["kafka.events.value"],
            "amount": [("kafka.events.value", "TRANSFORMATION")],
            "day": [],
            "customer": ["kafka.events.key"],
        },
        job="ingest",
        snapshots=(1, 300),
    )
    world.write(
        "db.customers",
        {
            "id": ["files.crm export.id"],
            "name": ["files.crm export.name"],
            "email": [("files.crm export.email", "TRANSFORMATION", "masked")],
            "country": ["files.crm export.country"],
        },
        job="nightly crm",
        operation="INSERT_OVERWRITE",
        sql={"email": "sha2(email, 256)"},
    )
    world.write(
        "db.revenue",
        {
            "customer": ["db.customers.name"],
            "country": ["db.customers.country", ("db.customers.country", "CONDITIONAL")],
            "total": [("db.orders.amount", "AGGREGATION")],
            "rank": [("db.orders.amount", "WINDOW")],
        },
        dataset=[
            ("db.orders.customer", "JOIN"),
            ("db.customers.id", "JOIN"),
            ("db.orders.day", "FILTER"),
            ("db.customers.name", "GROUP_BY"),
        ],
        job="revenue",
        snapshots=(2, 250),
        batches=(0, 248),
        sql={"total": "sum(amount)", "rank": "rank() OVER (ORDER BY sum(amount) DESC)"},
    )
    world.write(
        "db.scores",
        {"customer": ["db.revenue.customer"], "score": ["db.revenue.total", "db.revenue.rank", "db.revenue.country"]},
        opaque=["score"],
        is_approximate=True,
        job="model",
    )
    world.write("db.customers", {"country": ["db.scores.score"]}, job="loop", operation="UPDATE")
    world.write(
        "db.report",
        {
            "who": [("db.revenue.customer", "TRANSFORMATION", "masked")],
            "total": ["db.revenue.total"],
            HOSTILE[0]: [f"db.orders.{HOSTILE[1]}", f"db.orders.{HOSTILE[2]}"],
        },
        job=HOSTILE[0],
        sql={HOSTILE[0]: f"concat(`{HOSTILE[1]}`, '</script><script>alert(1)</script>')"},
    )
    world.write(
        "db.wide",
        {f"column_{at:03}": ["db.orders.amount"] if at % 2 else ["db.report.total"] for at in range(WIDE)},
        job="wide",
    )
    world.write(f"db.{HOSTILE[0]}", {"x": ["db.wide.column_001"], HOSTILE[1]: ["db.wide.column_002"]}, job="hostile")
    world.table("db.report", ("person", 0), ("total", 1), (HOSTILE[0], 2))  # a column was renamed
    world.table("db.scores", ("customer", 0))  # and one was dropped
    return world


def large_world(datasets: int = 300, edges: int = 900, seed: int = 7) -> KnownWorld:
    """Many datasets, each made from some before it."""
    random = Random(seed)
    world = KnownWorld()
    names = [f"layer{at * 6 // datasets}.table_{at:03}" for at in range(datasets)]
    for name in names:
        world.table(name, "a", "b", "c", "d")
    count = 0
    for at, name in enumerate(names[1:], 1):
        wanted = round(edges * at / (datasets - 1)) - count
        fields: dict[str, list[str]] = {}
        for number in range(wanted):
            source = names[random.randrange(max(0, at - 40), at)]
            fields.setdefault("abcd"[number % 4], []).append(f"{source}.{random.choice('abcd')}")
        count += sum(len(set(one)) for one in fields.values())
        if fields:
            world.write(name, {one: sorted(set(sources)) for one, sources in fields.items()}, job=f"job {at % 20}")
    return world


@contextmanager
def served(world: KnownWorld, *, port: int = 0, token: str | None = None) -> Iterator[str]:
    """A server on a port of this machine; gives its address."""
    state = PageState(world.known, histories=DemoHistories(), refresh_seconds=1.0)
    listening = listening_socket("127.0.0.1", port)
    config = uvicorn.Config(page_app(state, token=token), log_level="warning", lifespan="off", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        state.close()


def main() -> None:
    """Serve until the process is ended."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--large", action="store_true")
    arguments.add_argument("--token")
    given = arguments.parse_args()
    with served(large_world() if given.large else demo_world(), port=given.port, token=given.token) as address:
        print(address, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
