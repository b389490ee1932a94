"""`lakelog table alter` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from tests.cli.conftest import Run

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a", pa.int32(), nullable=False),
        pa.field("b", pa.string()),
        pa.field("r", pa.struct([("x", pa.int32())])),
        pa.field("items", pa.list_(pa.struct([("x", pa.int32())]))),
    ]
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"write-only": "true"}
    return Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def columns(table: Table) -> list[str]:
    return [f"{field.name} {field.type}" for field in open_table(table.path).schema.fields]


def test_columns_and_options_are_changed_together(run: Run, table: Table) -> None:
    ended = run(
        "table", "alter", "db.t",
        "--add", "c INT", "--add", "d DECIMAL(10, 2) after id", "--add", "r.y STRING first",
        "--drop", "b",
        "--rename", "a=n",
        "--widen", "n BIGINT", "--widen", "items.element.x BIGINT",
        "--nullable", "n",
        "--move", "c before r", "--move", "items first",
        "--comment", "n=how many", "--table-comment", "things",
        "--set", "snapshot.num-retained.min=3", "--unset", "write-only",
    )  # fmt: skip
    assert ended == (0, "schema 1\n", "")
    assert columns(table) == [
        "items ARRAY<ROW<x BIGINT>>",
        "id BIGINT NOT NULL",
        "d DECIMAL(10, 2)",
        "n BIGINT",
        "c INT",
        "r ROW<y STRING, x INT>",
    ]
    schema = open_table(table.path).schema
    assert (schema.field("n").description, schema.comment) == ("how many", "things")
    assert "write-only" not in schema.options
    assert schema.options["snapshot.num-retained.min"] == "3"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no change is given"),
        (("--add", "c"), "'c' has another form than 'c INT after a'"),
        (("--move", "b"), "'b' has another form than 'c after a'"),
        (("--rename", "b"), "'b' has another form than OLD=NEW"),
        (("--set", "bucket"), "'bucket' has another form than KEY=VALUE"),
        (("--set", "bucket=4"), "use Table.upkeep.rescale"),
        (("--drop", "id"), "belongs to the primary key"),
        (("--drop", "b", "--widen", "a TINYINT"), "cannot become TINYINT"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    run: Run, table: Table, arguments: tuple[str, ...], text: str
) -> None:
    code, out, err = run("table", "alter", "db.t", *arguments)
    assert (code, out) == (1, "")
    assert text in err
    assert open_table(table.path).schema.id == 0
