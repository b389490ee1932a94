"""`lakelog lineage show`: the graph around a table as a tree, as JSON, as a page."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import (
    ForeignSource,
    ReadMode,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
)
from tests.cli.conftest import Run
from tests.support.lineage.lineage_records import commit_job

pytestmark = pytest.mark.usefixtures("pipeline")


@pytest.fixture
def pipeline(tmp_path: Path) -> None:
    """Kafka and something unknown into orders, orders into sums by two batches, sums and orders into report."""
    catalog = Catalog(tmp_path)
    schema = pa.schema({"id": pa.int64()})
    orders, sums, report = (catalog.create_table(f"db.{name}", schema=schema) for name in ("orders", "sums", "report"))
    commit_job(orders, 0, ForeignSource(format="kafka", name="shop"), job="ingest")
    commit_job(orders, 1, UnknownSource(why="an RDD"), job="ingest")
    for batch_id in range(2):
        commit_job(sums, batch_id, read(orders, batch_id + 1), job="summing")
    commit_job(report, 0, read(sums, 1), read(orders, 2), job="reporting")


def read(table: Table, snapshot_id: int) -> Source:
    start, end = (TableVersion(snapshot_id=one) if one else None for one in (snapshot_id - 1, snapshot_id))
    mode = ReadMode.STREAM
    return TableSource(table=table.name, uuid=table.uuid, mode=mode, start=start, end=end, is_exact=True)


def test_the_tree_has_jobs_between_tables_and_each_table_once(run: Run) -> None:
    code, out, err = run("lineage", "show", "db.report")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "db.report  snapshot 1",
        "├── made from",
        "│   └── reporting  1 batch, snapshot 1",
        "│       ├── db.orders  up to snapshot 2",
        "│       │   └── ingest  2 batches, snapshots 1 to 2",
        "│       │       ├── kafka:shop",
        "│       │       └── unknown source  an RDD",
        "│       └── db.sums  up to snapshot 2",
        "│           └── summing  2 batches, snapshots 1 to 2",
        "│               └── db.orders  up to snapshot 2  see above",
        "└── made into",
        "    └── nothing that is recorded",
    ]


def test_one_snapshot_and_one_direction_can_be_asked_for(run: Run) -> None:
    assert run("lineage", "show", "db.orders", "--snapshot-id", "2", "--down", "--depth", "1")[1].splitlines() == [
        "db.orders  snapshot 2",
        "└── made into",
        "    ├── reporting  1 batch, snapshot 1",
        "    │   └── db.report  snapshot 1",
        "    └── summing  1 batch, snapshot 2",
        "        └── db.sums  snapshot 2",
    ]
    assert "made into" not in run("lineage", "show", "db.orders", "--up")[1]


def test_the_json_is_one_object_of_nodes_and_links(run: Run) -> None:
    _, out, _ = run("lineage", "show", "db.sums", "--snapshot-id", "1", "--up", "--depth", "1", "--json")

    found = json.loads(out)
    orders, sums = Catalog(".").load_table("db.orders"), Catalog(".").load_table("db.sums")
    node = {"kind": "table", "branch": None}
    assert out.count("\n") == 1
    assert found == {
        "table": "db.sums",
        "snapshot_id": 1,
        "nodes": [
            {"id": 0, "name": "db.sums", "uuid": sums.uuid, "depth": 0, "first": 1, "last": 1, **node},
            {"id": 1, "name": "db.orders", "uuid": orders.uuid, "depth": -1, "first": None, "last": 1, **node},
        ],
        "jobs": [{"job": "summing", "sink": 0, "batch_count": 1, "first": 1, "last": 1}],
        "links": [
            {
                "source": 1,
                "sink": 0,
                "job": "summing",
                "source_from": None,
                "source_to": 1,
                "is_exact": True,
                "why": None,
                "is_above": True,
                "is_below": False,
            }
        ],
    }


def test_the_page_is_written_to_a_file(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("lineage", "show", "db.report", "--html", "report.html")

    assert (code, out.splitlines()[-1]) == (0, "wrote report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="saved">(.*)</script>', page)
    assert found is not None
    graph = json.loads(found[1])["answers"][0]["answer"]
    names = {one["id"]: (one["ns"], one["dataset"]) for one in graph["datasets"]}
    assert {(names[one["source"][0]], names[one["target"]]) for one in graph["datasetEdges"]} == {
        (("kafka", "shop"), ("db", "orders")),
        (("an RDD", "unknown source"), ("db", "orders")),
        (("db", "orders"), ("db", "sums")),
        (("db", "orders"), ("db", "report")),
        (("db", "sums"), ("db", "report")),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("db.no",), "table db.no does not exist"),
        (("db.sums", "--snapshot-id", "3"), "snapshot 3 of db.sums does not exist"),
        (("db.sums", "--html", "missing/a.html"), "the page cannot be written to missing/a.html: No such file"),
        (("db.sums", "--svg", "a.svg"), "--svg is removed: --html a.html writes a page that saves SVG"),
    ],
)
def test_an_error_names_what_is_wrong(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run("lineage", "show", *arguments)

    assert code == 1
    assert message in err


def test_what_a_snapshot_was_made_from_is_a_row_a_source(run: Run) -> None:
    _, out, _ = run("lineage", "upstream", "db.sums", "--snapshot-id", "2", "--json")

    found = [json.loads(line) for line in out.splitlines()]
    assert [(row["depth"], row["sink_table"], row["source_table"], row["source_to"]) for row in found] == [
        (1, "db.sums", "db.orders", 2),
        (2, "db.orders", None, None),
    ]
    lines = run("lineage", "upstream", "db.sums", "--depth", "1")[1].splitlines()
    assert [line.split() for line in lines] == [
        ["depth", "table", "snapshot", "job", "batch", "read", "of", "note"],
        ["1", "db.sums", "2", "summing", "1", "2", "to", "2", "db.orders"],
    ]


def test_what_was_made_from_a_snapshot_is_a_row_a_source(run: Run) -> None:
    _, out, _ = run("lineage", "downstream", "db.sums", "--snapshot-id", "1", "--json")

    assert [(row["sink_table"], row["sink_snapshot"]) for row in map(json.loads, out.splitlines())] == [
        ("db.report", 1)
    ]


def test_snapshots_that_go_together_are_printed_with_what_they_are_made_from(run: Run) -> None:
    _, out, _ = run("lineage", "consistent", "db.sums", "db.orders", "--json")

    assert json.loads(out) == {"snapshots": {"db.sums": 2, "db.orders": 2}, "versions": {}, "reasons": {}}
    code, _, err = run("lineage", "consistent", "db.sums", "--at", "now", "--at", "db.orders=1")
    assert (code, "--at takes one time" in err) == (1, True)


def test_a_picture_is_not_written_through_a_link(run: Run, tmp_path: Path) -> None:
    """In a folder that others may write, a link may lead to a file of the user's own."""
    (tmp_path / "own").write_text("own")
    (tmp_path / "page.html").symlink_to(tmp_path / "own")
    code, _, err = run("lineage", "show", "db.sums", "--html", "page.html")
    assert (code, "it is not a regular file" in err) == (1, True)
    assert (tmp_path / "own").read_text() == "own"

    (tmp_path / "page.html").unlink()
    os.link(tmp_path / "own", tmp_path / "page.html")
    assert run("lineage", "show", "db.sums", "--html", "page.html")[0] == 0
    assert (tmp_path / "own").read_text() == "own"
