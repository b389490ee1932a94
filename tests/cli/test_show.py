"""`lakelog table cat`, `count`, `describe` and `files` as a user types them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, DropColumn, RemoveOption, Table
from lakelog.common.clock import system_millis
from tests.cli.conftest import Run

SCHEMA = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"day": [number % 2 for number in ids], "id": ids, "name": ["x" for _ in ids]}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two commits of keys 1 to 4 and 3 to 6, in two partitions, one bucket in each."""
    table = Catalog(tmp_path).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={"write-only": "true", "bucket": "1"},
        comment="days of rows",
    )
    table.write(rows(1, 2, 3, 4))
    table.write(rows(3, 4, 5, 6))
    return table


def test_rows_are_counted_as_the_table_shows_them(run: Run, table: Table) -> None:
    assert run("table", "count", "db.t") == (0, "6\n", "")
    assert run("table", "count", "db.t", "--snapshot-id", "1")[1] == "4\n"
    assert json.loads(run("table", "count", "db.t", "--where", "id > 4", "--json")[1]) == {"row_count": 2}


def test_files_are_listed_with_their_keys(run: Run, table: Table) -> None:
    listed = [json.loads(line) for line in run("table", "files", "db.t", "--json")[1].splitlines()]
    assert [(file["partition"], file["min_key"], file["max_key"], file["row_count"]) for file in listed] == [
        ({"day": "1970-01-01"}, [2], [4], 2),
        ({"day": "1970-01-01"}, [4], [6], 2),
        ({"day": "1970-01-02"}, [1], [3], 2),
        ({"day": "1970-01-02"}, [3], [5], 2),
    ]
    assert all(Path(file["path"]).stat().st_size == file["size_bytes"] for file in listed)
    first_line, *lines = run("table", "files", "db.t", "--snapshot-id", "1")[1].splitlines()
    assert first_line.split() == [
        "partition", "bucket", "level", "row_count", "size_bytes", "min_key", "max_key", "file"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == ["day=1970-01-01", "day=1970-01-02"]


def test_a_table_is_described(run: Run, table: Table) -> None:
    fields = json.loads(run("table", "describe", "db.t", "--json")[1])
    columns = fields.pop("columns")
    assert columns[0] == {"name": "day", "type": "DATE NOT NULL", "key": "primary, partition", "comment": None}
    assert [column["key"] for column in columns[1:]] == ["primary", None]
    assert fields["options"]["write-only"] == "true"
    assert (fields["comment"], fields["snapshot_id"], fields["file_count"], fields["rows_in_files"]) == (
        "days of rows", 2, 4, 8,
    )  # fmt: skip
    text = run("table", "describe", "db.t")[1]
    assert ["primary_keys", "day,", "id"] in [line.split() for line in text.splitlines()]
    assert ["write-only", "true"] in [line.split() for line in text.splitlines()]


def test_a_description_has_the_rows_of_describe_extended(run: Run, table: Table) -> None:
    fields = json.loads(run("table", "describe", "db.t", "--json")[1])
    assert (fields["log_system"], fields["log_topic"], fields["change_tracking"]) == ("none", None, None)
    assert (fields["file_format"], fields["watermark"], fields["is_compacted"]) == ("parquet", None, False)
    found = table.describe()
    assert found.last_modified_millis is not None
    assert abs(found.last_modified_millis - system_millis()) < 3_600_000, "a wall clock, as a timestamp"
    assert (found.name, found.bucket_count, found.file_count) == ("db.t", table.schema.bucket_count, 4)


def test_the_partitions_of_a_table_are_described(run: Run, table: Table) -> None:
    lines = [json.loads(line) for line in run("table", "partitions", "db.t", "--json")[1].splitlines()]
    assert [line["partition"] for line in lines] == [{"day": "1970-01-01"}, {"day": "1970-01-02"}]
    assert {(line["file_count"], line["rows_in_files"], line["compacted"]) for line in lines} == {(2, 4, False)}
    assert lines[0]["path"] == [f"{table.path}/day=0"]
    table.alter(RemoveOption("write-only")).compact(full=True)
    assert [one.is_compacted for one in table.system.partitions()] == [True, True]
    text = run("table", "partitions", "db.t")[1]
    assert text.splitlines()[1].startswith("day=1970-01-01")


def test_a_snapshot_dated_beyond_the_years_of_dates_is_shown_in_milliseconds(run: Run, table: Table) -> None:
    beyond = 253_402_300_800_000
    files = table.store
    last = files.snapshots.get(2)
    assert files.snapshots.create_new(replace(last, id=3, uuid="3", time_millis=beyond))
    assert run("table", "snapshots", "db.t")[1].splitlines()[-1].split()[2:4] == [str(beyond), "ms"]
    assert json.loads(run("table", "snapshots", "db.t", "--json")[1].splitlines()[-1])["time"] == f"{beyond} ms"
    assert f"{beyond} ms" in run("table", "describe", "db.t")[1]
    newest = table.snapshot()
    assert newest is not None
    assert f"{beyond} ms" in repr(newest)
    assert f"{beyond} ms" in newest._repr_html_()


def test_a_table_without_rows_is_looked_at(run: Run, tmp_path: Path) -> None:
    Catalog(tmp_path).create_table("db.empty", schema=SCHEMA)
    assert run("table", "count", "db.empty")[1] == "0\n"
    assert run("table", "files", "db.empty", "--json") == (0, "", "")
    assert json.loads(run("table", "describe", "db.empty", "--json")[1])["snapshot_id"] is None


def test_a_limit_reads_no_further_than_its_rows(run: Run, table: Table) -> None:
    last = table.system.files()[-1].path
    Path(last).unlink()
    code, out, err = run("table", "cat", "db.t", "--limit", "2")
    assert (code, len(out.splitlines()), err) == (0, 2, "")
    assert run("table", "cat", "db.t", "--limit", "0") == (0, "", "")
    assert Path(last).name in run("table", "cat", "db.t")[2]


def test_a_limit_cuts_changes_too(run: Run, table: Table) -> None:
    _, out, _ = run("table", "cat", "db.t", "--changes", "--after", "1", "--limit", "3")
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize(
    "words",
    [
        *([command, "db.t"] for command in ("cat", "count", "files", "describe", "schema", "snapshots", "compact")),
        ["list"],
        ["list", "db"],
        ["drop", "db.t", "--yes"],
    ],
    ids=" ".join,
)
def test_a_missing_warehouse_is_an_error_that_names_it(run: Run, words: list[str]) -> None:
    code, out, err = run("table", *words, "-w", "nowhere")
    assert (code, out) == (1, "")
    assert f"the warehouse {Path('nowhere').absolute()} does not exist" in err


@pytest.mark.parametrize("state", [("--snapshot-id", "1"), ("--version", "1"), ("--tag", "then")])
def test_cat_prints_a_state_in_its_own_columns(run: Run, table: Table, state: tuple[str, str]) -> None:
    table.tags.create("then", snapshot_id=1)
    table.alter(DropColumn("name")).write(rows(7).drop_columns(["name"]))
    out = run("table", "cat", "db.t", *state, "--where", "name = 'x' AND id = 1")[1]
    assert json.loads(out) == {"day": "1970-01-02", "id": 1, "name": "x"}
    assert "name" not in json.loads(run("table", "cat", "db.t", "--limit", "1")[1])
