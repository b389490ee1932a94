"""A state that a read names has its own columns, whatever became of them since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa
import pytest

from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import diff_states, open_system_table
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import count_rows, restore, to_duckdb, to_polars
from tests.support.tables.altered import altered as altered_table
from tests.support.tables.small_tables import UNSYNCED, in_new_process

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int32()), pa.field("v", pa.string())])
ROWS = [{"id": 1, "a": 10, "v": "one"}, {"id": 2, "a": 20, "v": "two"}]
KINDS = {
    "key": (["id"], {"bucket": "1"}),
    "append": ([], {"bucket": "-1"}),
    "value count": ([], {"bucket": "1", "bucket-key": "id", "write-mode": "change-log"}),
    "deletion vectors": (["id"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "partial-update": (["id"], {"bucket": "1", "merge-engine": "partial-update", "fields.v.sequence-group": "a"}),
}
CHANGES: dict[str, Sequence[SchemaChange]] = {
    "drop": [DropColumn("v")],
    "rename": [RenameColumn("v", "w")],
    "drop and add of one name": [DropColumn("v"), AddColumn("v", "BIGINT")],
    "add": [AddColumn("more", "STRING")],
    "move": [UpdateColumnPosition("v", Position(Place.FIRST))],
    "widen": [UpdateColumnType("a", "BIGINT")],
    "change to text": [UpdateColumnType("a", "STRING")],
    "swap of names": [RenameColumn("a", "b"), RenameColumn("v", "a"), RenameColumn("b", "v")],
}
OF_COUNTED = ("rename", "move", "swap of names")  # all of a value-count table's columns are its key
CASES = [
    (kind, change)
    for kind in ("key", "append", "value count", "deletion vectors")
    for change in CHANGES
    if kind != "value count" or change in OF_COUNTED
]
DOORS: dict[str, Callable[..., pa.Table]] = {
    "arrow": lambda table, **which: table.to_arrow(**which),
    "polars": lambda table, **which: to_polars(table, **which).collect().to_arrow(),
    "DuckDB": lambda table, **which: to_duckdb(table, **which).to_arrow_table(),
    "system table ro": lambda table, **which: open_system_table(table, "ro", **which).to_arrow(),
}


def two_states(folder: Path, kind: str, changes: Sequence[SchemaChange]) -> FileStoreTable:
    """A snapshot of two rows with a tag `then`, compacted where reads need that; then other columns and a row."""
    keys, options = KINDS[kind]
    schema = build_schema(SCHEMA, primary_keys=keys, options=options)
    table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
    table.write(pa.Table.from_pylist(ROWS, SCHEMA))
    table.compact(full=True)
    newest = table.snapshots.latest()
    assert newest is not None
    write_tag(table, "then", newest)
    for change in changes:
        table = altered_table(table, change)
    table.write(pa.table({"id": pa.array([3], pa.int64())}))
    table.compact(full=True)
    return in_new_process(table.path)


def as_rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: int(row["id"]))


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_a_state_has_the_columns_of_then_in_every_door(tmp_path: Path, kind: str, change: str) -> None:
    table = two_states(tmp_path, kind, CHANGES[change])
    then = table.snapshots.tagged("then")
    ways: list[dict[str, Any]] = [
        {"tag": "then"},
        {"snapshot_id": then.id},
        {"timestamp": then.time_millis},
        {"version": "then"},
        {"version": then.id},
    ]
    for way in ways:
        for name, door in DOORS.items():
            found = door(table, **way)
            assert found.column_names == SCHEMA.names, (name, way)
            assert as_rows(found) == ROWS, (name, way)
    assert table.to_arrow(tag="then").schema.types == SCHEMA.types
    assert table.to_arrow().column_names == list(table.schema.field_names)


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_conditions_are_on_the_columns_of_then(tmp_path: Path, kind: str, change: str) -> None:
    table = two_states(tmp_path, kind, CHANGES[change])
    for door in DOORS.values():
        if door is not DOORS["system table ro"]:
            assert as_rows(door(table, tag="then", where="v = 'two' AND a > 10")) == ROWS[1:]
            assert as_rows(door(table, tag="then", where="v = 'none'", columns=["id"])) == []
            assert as_rows(door(table, tag="then", columns="id", where="a = 10")) == [{"id": 1}]
    assert count_rows(table, tag="then", where="v IS NOT NULL") == 2


def test_options_that_name_columns_are_those_of_then(tmp_path: Path) -> None:
    """Both columns of the sequence group are renamed since: the newest options name columns that the state lacks."""
    keys, options = KINDS["partial-update"]
    table = FileStoreTable.create(f"{tmp_path}/t", build_schema(SCHEMA, primary_keys=keys, options=options), UNSYNCED)
    for a, v in ((1, "b"), (2, "a"), (3, None)):  # v orders the group: the second and the third row are older
        table.write(pa.table({"id": [1], "a": pa.array([a], pa.int32()), "v": pa.array([v], pa.string())}))
    expected = table.to_arrow().to_pylist()
    assert expected == [{"id": 1, "a": 1, "v": "b"}]
    number = table.snapshots.latest_id()
    for change in (RenameColumn("a", "x"), RenameColumn("v", "y"), SetOption("snapshot.num-retained.min", "7")):
        table = altered_table(table, change)
    assert table.to_arrow(snapshot_id=number).to_pylist() == expected


def test_the_newest_state_by_its_number_has_the_columns_of_its_commit(tmp_path: Path) -> None:
    table = two_states(tmp_path, "key", [])
    altered = altered_table(table, AddColumn("more", "INT"))
    assert altered.to_arrow().column_names == ["id", "a", "v", "more"]
    assert altered.to_arrow(snapshot_id=altered.snapshots.latest_id()).column_names == ["id", "a", "v"]


def test_a_branch_has_columns_of_its_own_and_its_states_have_theirs(tmp_path: Path) -> None:
    table = two_states(tmp_path, "key", [])
    create_branch(table, "b", tag="then")
    branch = altered_table(table.on_branch("b"), RenameColumn("v", "of_branch"))
    branch.write(pa.table({"id": [9], "of_branch": ["nine"]}))
    newest = branch.snapshots.latest()
    assert newest is not None
    write_tag(branch, "mine", newest)
    altered_table(branch, DropColumn("of_branch"))
    table = altered_table(table, DropColumn("a"))
    assert table.to_arrow(version="b.mine").column_names == ["id", "a", "of_branch"]
    assert table.to_arrow(branch="b", tag="mine").column_names == ["id", "a", "of_branch"]
    assert table.to_arrow(version="b.then").column_names == ["id", "a", "v"]
    assert table.to_arrow(version="b").column_names == ["id", "a"]
    assert table.to_arrow(branch="b").column_names == ["id", "a"]
    assert table.to_arrow(tag="then").column_names == ["id", "a", "v"]


def test_differences_changes_and_restores_have_the_newest_columns(tmp_path: Path) -> None:
    table = two_states(tmp_path, "key", CHANGES["rename"])
    assert [field.name for field in diff_states(table, "then").fields] == ["id", "a", "w"]
    assert diff_states(table, "then").added == 1
    changes = [batch.schema.names for batch in changes_of(table)]
    assert {tuple(names) for names in changes} == {("_row_kind", "id", "a", "w")}
    restore(table, tag="then")
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "a": 10, "w": "one"},
        {"id": 2, "a": 20, "w": "two"},
    ]
