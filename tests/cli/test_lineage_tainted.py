"""`lakelog lineage tainted` names what a wrong snapshot has reached; the commands that it prints mend the tables."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import made_from
from tests.cli.conftest import Run

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def copy(source: Table, sink: Table) -> None:
    found = source.snapshot()
    assert found is not None
    made_from(sink, f"{source.name}@{found.id}", job=f"into {sink.name}").write(source.to_arrow())


def put(table: Table, number: int, value: int) -> None:
    table.write(pa.table({"id": [number], "v": [value]}, schema=SCHEMA))


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Table]:
    """Orders go into sums, sums into a report; snapshot 2 of the orders is wrong. Nothing was made into `other`."""
    catalog = Catalog(tmp_path)
    options = {"write-only": "true", "bucket": "1"}
    names = ("orders", "sums", "report", "other")
    more = {"schema": SCHEMA, "primary_keys": "id", "options": options}
    found = {name: catalog.create_table(f"db.{name}", **more) for name in names}
    for number, value in enumerate((10, -1, 30), start=1):
        put(found["orders"], number, value)
        put(found["other"], number, value)
        copy(found["orders"], found["sums"])
        copy(found["sums"], found["report"])
    return found


def rows(table: Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in table.to_arrow().to_pylist())


def test_the_commands_that_are_printed_mend_the_tables_and_no_other(run: Run, tables: dict[str, Table]) -> None:
    printed = run("lineage", "tainted", "db.orders", "--snapshot-id", "2")[1].splitlines()
    commands = [line for line in printed if line.startswith("lakelog ")]

    assert [shlex.split(command)[:6] for command in commands] == [
        ["lakelog", "table", "restore", f"db.{name}", "--snapshot-id", "1"] for name in ("orders", "sums", "report")
    ]
    for command in commands:
        assert run(*shlex.split(command)[1:])[0] == 0
    assert {name: rows(table) for name, table in tables.items()} == {
        "orders": [(1, 10)],
        "sums": [(1, 10)],
        "report": [(1, 10)],
        "other": [(1, 10), (2, -1), (3, 30)],
    }

    put(tables["orders"], 2, 20)
    put(tables["orders"], 3, 30)
    copy(tables["orders"], tables["sums"])
    copy(tables["sums"], tables["report"])
    assert rows(tables["report"]) == [(1, 10), (2, 20), (3, 30)]
    after = run("lineage", "tainted", "db.orders", "--snapshot-id", "2")[1]
    assert "lakelog table restore" not in after


def test_the_json_has_tables_snapshots_and_commands(run: Run, tables: dict[str, Table]) -> None:
    found = json.loads(run("lineage", "tainted", "db.sums", "--snapshot-id", "3", "--json")[1])

    assert found.keys() == {"tables", "snapshots", "commands"}
    assert [(row["table"], row["first_tainted"], row["last_clean"]) for row in found["tables"]] == [
        ("db.sums", 3, 2),
        ("db.report", 3, 2),
    ]
    assert len(found["commands"]) == 2
