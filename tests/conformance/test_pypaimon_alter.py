"""Tables that lakelog alters: pypaimon reads them row for row, and lakelog alters what pypaimon wrote."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.conformance.test_pypaimon import run_job
from tests.support.jobs import pypaimon_job
from tests.support.tables.altered import altered as with_changes

FIRST, LAST = Position(Place.FIRST), Position(Place.LAST)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("gone", pa.string()),
        pa.field("must", pa.int32(), nullable=False),
        pa.field("d", pa.decimal128(8, 2)),
        pa.field("r", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
        pa.field("items", pa.list_(pa.int32())),
    ]
)
STEPS: Sequence[Sequence[SchemaChange]] = [
    [AddColumn("c", "TIMESTAMP(3)"), AddColumn("mid", "INT", position=Position(Place.AFTER, "id"))],
    [RenameColumn("a", "renamed"), UpdateColumnType("renamed", "BIGINT")],
    [DropColumn("gone"), SetNullability("must", nullable=True), UpdateColumnType("d", "DECIMAL(12, 4)")],
    [AddColumn("gone", "INT"), UpdateColumnPosition("must", FIRST), UpdateColumnType(("items", "element"), "BIGINT")],
    [
        AddColumn(("r", "z"), "INT", position=FIRST),
        UpdateColumnType(("r", "x"), "BIGINT"),
        RenameColumn(("r", "y"), "w"),
    ],
    [RenameColumn("id", "key"), UpdateColumnType("must", "STRING"), DropColumn(("r", "x"))],
]
KINDS = {"plain": (["id"], []), "partitioned": (["id", "day"], ["day"]), "append": ([], ["day"])}


def rows_for(table: FileStoreTable, number: int) -> pa.Table:
    """Four rows that meet two of the keys of the commit before."""
    keys = range(2 * number, 2 * number + 4)
    rows = [{field.name: _value(field, key, number) for field in table.schema.arrow_schema} for key in keys]
    return pa.Table.from_pylist(rows, schema=table.schema.arrow_schema)


def _value(field: pa.Field, key: int, number: int) -> Any:
    if field.name in ("id", "key"):
        return key
    if field.name == "day":
        return f"d{key % 2}"
    if pa.types.is_struct(field.type):
        return {member.name: key for member in field.type}
    if pa.types.is_list(field.type):
        return [key, None]
    if pa.types.is_timestamp(field.type):
        return datetime(2026, 1, 1 + key)
    return f"{field.name}-{number}" if pa.types.is_string(field.type) else key + 100 * number


def altered_table(warehouse: Path, kind: str) -> FileStoreTable:
    """A table written under seven schemas."""
    primary, partition = KINDS[kind]
    options = {"bucket": "2", "write-only": "true", **({"bucket-key": "id"} if kind == "append" else {})}
    schema = build_schema(SCHEMA, primary_keys=primary, partition_keys=partition, options=options)
    table = FileStoreTable.create(warehouse / "db.db" / "ours", schema)
    table.write(rows_for(table, 0))
    for number, changes in enumerate(STEPS):
        table = with_changes(table, *changes)
        table.write(rows_for(table, number + 1))
    return table


@pytest.mark.parametrize(
    "kind", ["plain", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("partitioned", "append"))]
)
def test_it_reads_the_tables_that_we_alter(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    table = altered_table(tmp_path, kind)
    ours = pypaimon_job.rows_shown(table.to_arrow())
    assert len(ours) == (28 if kind == "append" else 16)
    assert run_job(pypaimon_python, "rows", str(tmp_path), "db.ours") == ours


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_a_compaction_of_them_leaves(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    table = altered_table(tmp_path, kind)
    ours = pypaimon_job.rows_shown(table.to_arrow())
    table.compact(full=True)
    assert run_job(pypaimon_python, "rows", str(tmp_path), "db.ours") == ours


WIDER: Sequence[UpdateColumnType] = [
    UpdateColumnType("i1", "SMALLINT"),
    UpdateColumnType("i2", "INT"),
    UpdateColumnType("i4", "BIGINT"),
    UpdateColumnType("i8", "DECIMAL(19, 0)"),
    UpdateColumnType("f4", "DOUBLE"),
    UpdateColumnType("d9", "DECIMAL(12, 4)"),
    UpdateColumnType("d18", "DECIMAL(38, 20)"),
    UpdateColumnType("ts3", "TIMESTAMP(6)"),
    UpdateColumnType(("items", "element"), "BIGINT"),
    UpdateColumnType(("inner", "x"), "BIGINT"),
]
TEXTS: Sequence[UpdateColumnType] = [UpdateColumnType(name, "STRING") for name in ("i1", "i2", "i4", "i8", "flag")]


@pytest.mark.full
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_its_files_of_every_format_are_read_as_wider_types(
    tmp_path: Path, pypaimon_python: Path, file_format: str
) -> None:
    run_job(pypaimon_python, "extremes", str(tmp_path), "db.theirs", file_format)
    folder = tmp_path / "db.db" / "theirs"
    for number, changes in enumerate((WIDER, TEXTS)):
        copy = shutil.copytree(folder, tmp_path / "db.db" / f"copy{number}")
        check_widened(FileStoreTable.open(copy), changes)


def check_widened(table: FileStoreTable, changes: Sequence[UpdateColumnType]) -> None:
    """Widen columns of the table of extremes; each must still hold what it held."""
    before = table.to_arrow().sort_by("id")
    assert before.drop_columns(["id"]).to_pylist() == pa.table(pypaimon_job.EXTREMES).to_pylist()
    altered = with_changes(table, *changes, AddColumn("new", "INT"), RenameColumn("text", "words"))
    found = altered.to_arrow().sort_by("id")
    assert found["words"].equals(before["text"])
    assert found["new"].null_count == 3
    for change in changes:
        name = change.column if isinstance(change.column, str) else change.column[0]
        assert found[name].type != before[name].type
        if change.type == "STRING":
            expected = [None if value is None else str(value).lower() for value in before[name].to_pylist()]
        else:
            expected = before[name].to_pylist()
        assert found[name].to_pylist() == expected, name
