"""Tables whose schema changes: old files under new columns, writers and compactors that know an older schema, races."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.filestore.alter.alter import alter_schema
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from tests.support.tables.altered import altered
from tests.support.tables.small_tables import NO_WAIT, UNSYNCED

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int32()), pa.field("b", pa.string())])
Rows = Sequence[dict[str, Any]]


def make(
    folder: Path, options: dict[str, str] | None = None, *, schema: pa.Schema = SCHEMA, keys: Sequence[str] = ("id",)
) -> FileStoreTable:
    given = {"write-only": "true", **(options or {})}
    return FileStoreTable.create(folder / "t", build_schema(schema, primary_keys=keys, options=given), UNSYNCED)


def write(table: FileStoreTable, rows: Rows, kinds: Sequence[int] | None = None) -> None:
    given = pa.Table.from_pylist(list(rows), schema=table.schema.arrow_schema)
    table.write(given, kinds=None if kinds is None else pa.array(kinds, pa.int8()))


def file_names(table: FileStoreTable) -> list[str]:
    return [entry.file.file_name for entry in table.live_files.of(table.snapshots.latest()).entries()]


def rows_of(table: FileStoreTable, **what: Any) -> Rows:
    rows: Rows = table.to_arrow(**what).to_pylist()
    return sorted(rows, key=lambda row: [repr(value) for value in row.values()])


def test_old_rows_are_read_under_new_columns_before_and_after_a_compaction(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 20, "b": "y"}])
    table = altered(
        table,
        AddColumn("c", "DOUBLE", position=Position(Place.FIRST)),
        RenameColumn("a", "n"),
        UpdateColumnType("n", "BIGINT"),
    )
    write(table, [{"c": 0.5, "id": 2, "n": 1 << 40, "b": None}, {"c": None, "id": 3, "n": 3, "b": "z"}])
    table = altered(table, DropColumn("b"), UpdateColumnPosition("c", Position(Place.LAST)))
    expected = [{"id": 1, "n": 10, "c": None}, {"id": 2, "n": 1 << 40, "c": 0.5}, {"id": 3, "n": 3, "c": None}]
    assert rows_of(table) == expected
    assert rows_of(table, where="n > 5 and c is null") == [{"id": 1, "n": 10, "c": None}]
    table.compact(full=True)
    assert rows_of(table) == expected
    assert {entry.file.schema_id for entry in table.live_files.of(table.snapshots.latest()).entries()} == {2}


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_two_formats_are_read_filtered_and_compacted_together(tmp_path: Path, file_format: str) -> None:
    table = make(tmp_path)
    write(table, [{"id": 1, "a": 10, "b": "x"}, {"id": 2, "a": 20, "b": "y"}])
    table = altered(table, SetOption("file.format", file_format), AddColumn("c", "DOUBLE"))
    write(table, [{"id": 2, "a": 21, "b": None, "c": 0.5}, {"id": 3, "a": 30, "b": "z", "c": None}])
    table = FileStoreTable.open(table.path, UNSYNCED)
    assert {name.rpartition(".")[2] for name in file_names(table)} == {"parquet", file_format}
    expected = [
        {"id": 1, "a": 10, "b": "x", "c": None},
        {"id": 2, "a": 21, "b": None, "c": 0.5},
        {"id": 3, "a": 30, "b": "z", "c": None},
    ]
    for _ in range(2):
        assert rows_of(table) == expected
        assert rows_of(table, where="a > 20 and c is not null") == expected[1:2]
        assert rows_of(table, where="a = 20") == []
        table.compact(full=True)
    assert {name.rpartition(".")[2] for name in file_names(table)} == {file_format}


@pytest.mark.parametrize("is_compacted", [False, True])
def test_values_of_a_dropped_column_do_not_come_back_under_its_name(tmp_path: Path, *, is_compacted: bool) -> None:
    table = make(tmp_path)
    write(table, [{"id": 1, "a": 10, "b": "x"}])
    write(table, [{"id": 2, "a": 20, "b": "y"}])
    table = altered(table, DropColumn("b"))
    if is_compacted:
        table.compact(full=True)
    table = altered(table, AddColumn("b", "STRING"))
    write(table, [{"id": 3, "a": 30, "b": "z"}])
    expected = [{"id": 1, "a": 10, "b": None}, {"id": 2, "a": 20, "b": None}, {"id": 3, "a": 30, "b": "z"}]
    assert rows_of(table) == expected
    assert rows_of(table, where="b = 'x'") == []
    table.compact(full=True)
    assert rows_of(table) == expected


def test_a_compaction_planned_with_an_older_schema_loses_no_newer_value(tmp_path: Path) -> None:
    old = make(tmp_path)
    write(old, [{"id": 1, "a": 10, "b": "x"}])
    new = altered(old, AddColumn("c", "INT"), UpdateColumnType("a", "BIGINT"))
    write(new, [{"id": 1, "a": 1 << 40, "b": "x", "c": 5}])
    write(old, [{"id": 2, "a": 20, "b": "y"}])
    expected = [{"id": 1, "a": 1 << 40, "b": "x", "c": 5}, {"id": 2, "a": 20, "b": "y", "c": None}]
    assert rows_of(new) == expected
    assert old.compact(full=True) is not None
    assert rows_of(new) == expected


def test_small_files_of_a_table_without_key_are_joined_across_schemas(tmp_path: Path) -> None:
    old = make(tmp_path, keys=())
    write(old, [{"id": 1, "a": 10, "b": "x"}])
    new = altered(old, AddColumn("c", "INT"), DropColumn("b"))
    write(new, [{"id": 2, "a": 20, "c": 5}])
    expected = [{"id": 1, "a": 10, "c": None}, {"id": 2, "a": 20, "c": 5}]
    assert rows_of(new) == expected
    assert old.compact(full=True) is not None
    assert rows_of(new) == expected
    assert rows_of(new, where="c = 5") == expected[1:]


def test_a_writer_of_an_older_schema_commits_on_the_newest_one(tmp_path: Path) -> None:
    old = make(tmp_path)
    new = altered(altered(old, AddColumn("c", "INT")), SetTableComment("newer"))
    write(old, [{"id": 1, "a": 10, "b": "x"}])
    snapshot = new.snapshots.latest()
    assert snapshot is not None
    assert snapshot.schema_id == 2
    assert [entry.file.schema_id for entry in new.live_files.of(snapshot).entries()] == [0]
    assert rows_of(new) == [{"id": 1, "a": 10, "b": "x", "c": None}]


def test_a_reader_of_an_older_schema_gets_right_rows_or_an_error(tmp_path: Path) -> None:
    old = make(tmp_path)
    write(old, [{"id": 1, "a": 10, "b": "x"}])
    new = altered(old, AddColumn("c", "INT"), DropColumn("b"), UpdateColumnType("a", "BIGINT"))
    write(new, [{"id": 2, "a": 1 << 40, "c": 5}])
    assert rows_of(old, columns=["id", "b"]) == [{"id": 1, "b": "x"}, {"id": 2, "b": None}]
    with pytest.raises(ConflictError, match=r"column 'a' is INT here and BIGINT in data file .*; open the table again"):
        old.to_arrow()
    assert rows_of(FileStoreTable.open(old.path)) == [{"id": 1, "a": 10, "c": None}, {"id": 2, "a": 1 << 40, "c": 5}]


def test_a_reader_that_knows_no_nulls_is_not_given_any(tmp_path: Path) -> None:
    columns = [*SCHEMA, pa.field("must", pa.int32(), nullable=False)]
    old = make(tmp_path, schema=pa.schema(columns))
    write(old, [{"id": 1, "a": 10, "b": "x", "must": 7}])
    new = altered(old, SetNullability("must", nullable=True))
    write(new, [{"id": 2, "a": 20, "b": "y", "must": None}])
    assert [row["must"] for row in rows_of(new)] == [7, None]
    with pytest.raises(ConflictError, match="column 'must' is INT NOT NULL here and INT in data file"):
        old.to_arrow()


def test_a_reader_that_knows_no_nulls_is_not_given_a_dropped_column(tmp_path: Path) -> None:
    old = make(tmp_path, schema=pa.schema([*SCHEMA, pa.field("must", pa.int32(), nullable=False)]))
    write(altered(old, DropColumn("must")), [{"id": 3, "a": 30, "b": "z"}])
    assert rows_of(old, columns=["id"]) == [{"id": 3}]
    with pytest.raises(ConflictError, match="no such column any more"):
        old.to_arrow()


def test_a_renamed_key_still_finds_its_rows_and_skips_the_others(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "3"})
    for start in (0, 100):
        write(table, [{"id": start + number, "a": number, "b": None} for number in range(10)])
    table.compact(full=True)
    table = altered(table, RenameColumn("id", "key"), RenameColumn("a", "id"))
    assert table.schema.primary_keys == ("key",)
    write(table, [{"key": 105, "id": -1, "b": "new"}])
    assert rows_of(table, where="key = 105") == [{"key": 105, "id": -1, "b": "new"}]
    assert rows_of(table, where="key = 3") == [{"key": 3, "id": 3, "b": None}]
    assert [row["key"] for row in rows_of(table, where="id = 4")] == [104, 4]
    assert len(rows_of(table)) == 20


def test_a_snapshot_is_read_with_its_own_schema_and_changes_with_the_newest(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, [{"id": 1, "a": 10, "b": "x"}])
    table = altered(table, RenameColumn("a", "n"), AddColumn("c", "INT"))
    write(table, [{"id": 1, "n": 11, "b": "x", "c": 1}])
    assert rows_of(table, snapshot_id=1) == [{"id": 1, "a": 10, "b": "x"}]
    assert [batch.to_pylist() for batch in changes(table)] == [
        [{"_row_kind": "+I", "id": 1, "n": 10, "b": "x", "c": None}],
        [{"_row_kind": "+I", "id": 1, "n": 11, "b": "x", "c": 1}],
    ]


def test_parts_of_rows_join_across_schemas(tmp_path: Path) -> None:
    columns = pa.schema([*SCHEMA, pa.field("seq", pa.int32())])
    options = {"merge-engine": "partial-update", "fields.seq.sequence-group": "b"}
    old = make(tmp_path, options, schema=columns)
    write(old, [{"id": 1, "a": 10, "b": "x", "seq": 5}])
    new = altered(
        old,
        RenameColumn("b", "text"),
        RenameColumn("seq", "moment"),
        UpdateColumnType("a", "BIGINT"),
        AddColumn("c", "INT"),
        AddColumn("total", "INT"),
        SetOption("fields.moment.sequence-group", "text,total"),
        SetOption("fields.total.aggregate-function", "sum"),
    )
    assert new.schema.options["fields.moment.sequence-group"] == "text,total"
    write(new, [{"id": 1, "a": None, "text": "older", "moment": 4, "c": 1, "total": 3}])
    write(new, [{"id": 1, "a": 1 << 40, "text": None, "moment": 6, "c": None, "total": 4}])
    write(old, [{"id": 1, "a": None, "b": "late", "seq": 1}])
    expected = [{"id": 1, "a": 1 << 40, "text": None, "moment": 6, "c": 1, "total": 7}]
    assert rows_of(new) == expected
    assert rows_of(new, columns=["total"]) == [{"total": 7}]
    old.compact(full=True)
    assert rows_of(new) == expected


def test_aggregates_go_on_across_schemas(tmp_path: Path) -> None:
    old = make(tmp_path, {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"})
    write(old, [{"id": 1, "a": 2_000_000_000, "b": "x"}])
    new = altered(
        old,
        RenameColumn("a", "sum"),
        UpdateColumnType("sum", "BIGINT"),
        AddColumn("most", "INT"),
        SetOption("fields.most.aggregate-function", "max"),
    )
    assert new.schema.options["fields.sum.aggregate-function"] == "sum"
    write(new, [{"id": 1, "sum": 2_000_000_000, "b": None, "most": 3}])
    write(new, [{"id": 1, "sum": 1, "b": "y", "most": 2}])
    expected = [{"id": 1, "sum": 4_000_000_001, "b": "y", "most": 3}]
    assert rows_of(new) == expected
    new.compact(full=True)
    assert rows_of(new) == expected


def test_changes_are_looked_up_across_schemas(tmp_path: Path) -> None:
    old = make(tmp_path, {"changelog-producer": "lookup", "num-levels": "3"})
    new = altered(old, RenameColumn("a", "n"), UpdateColumnType("n", "BIGINT"), AddColumn("c", "INT"))
    write(new, [{"id": number, "n": 1 << 40, "b": "x", "c": number} for number in range(100)])
    new.compact(full=True)
    write(old, [{"id": 1, "a": 10, "b": "y"}])
    assert old.compact(full=False) is not None  # looks into files of the newer schema
    newest = new.snapshots.latest_id() or 0
    found = [row for batch in changes(new, after=newest - 1) for row in batch.to_pylist()]
    assert found == [
        {"_row_kind": "-U", "id": 1, "n": 1 << 40, "b": "x", "c": 1},
        {"_row_kind": "+U", "id": 1, "n": 10, "b": "y", "c": None},
    ]
    assert rows_of(new, where="id = 1") == [{"id": 1, "n": 10, "b": "y", "c": None}]


@pytest.mark.parametrize("is_older", [False, True])
def test_overtaken_rows_are_marked_across_schemas(tmp_path: Path, *, is_older: bool) -> None:
    old = make(tmp_path, {"deletion-vectors.enabled": "true"})
    write(old, [{"id": number, "a": number, "b": "x"} for number in range(100)])
    old.compact(full=True)
    new = altered(old, RenameColumn("id", "key"), AddColumn("c", "INT"))
    write(new, [{"key": 7, "a": 70, "b": "y", "c": 7}])
    by = old if is_older else new
    assert by.compact(full=False) is not None
    assert rows_of(new, where="key = 7") == [{"key": 7, "a": 70, "b": "y", "c": 7}]
    assert len(rows_of(new)) == 100


def test_deletes_hold_across_schemas(tmp_path: Path) -> None:
    old = make(tmp_path)
    write(old, [{"id": number, "a": number, "b": None} for number in range(4)])
    new = altered(old, AddColumn("c", "INT"), RenameColumn("id", "key"))
    write(new, [{"key": 1, "a": None, "b": None, "c": None}], [3])
    write(old, [{"id": 2, "a": None, "b": None}], [3])
    assert [row["key"] for row in rows_of(new)] == [0, 3]
    new.compact(full=True)
    assert [row["key"] for row in rows_of(new)] == [0, 3]


def test_alters_at_the_same_time_all_take_effect_and_share_no_id(tmp_path: Path) -> None:
    table = make(tmp_path, {"commit.max-retries": "100"})
    start = Barrier(4)

    def add(number: int) -> None:
        start.wait()
        opened = FileStoreTable.open(table.path, UNSYNCED)
        for turn in range(5):
            opened = altered(opened, AddColumn(f"c{number}_{turn}", "INT"), clock=NO_WAIT)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    found = FileStoreTable.open(table.path).schema
    assert found.id == 20
    assert len({field.id for field in found.fields}) == len(found.fields) == 23
    assert found.highest_field_id == 22


def test_the_loser_of_a_race_is_applied_on_top_of_the_winner_or_fails_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    create = SchemaManager.create
    raced: list[TableSchema] = []

    def create_second(manager: SchemaManager, schema: TableSchema) -> None:
        if not raced:
            raced.append(schema)
            altered(FileStoreTable.open(table.path), AddColumn("c", "INT"), DropColumn("b"))
        create(manager, schema)

    monkeypatch.setattr(SchemaManager, "create", create_second)
    second = altered(table, AddColumn("d", "INT"), clock=NO_WAIT)
    assert second.schema.field_names == ("id", "a", "c", "d")
    assert second.schema.id == 2
    raced.clear()
    table = second

    def drop_first(manager: SchemaManager, schema: TableSchema) -> None:
        if not raced:
            raced.append(schema)
            altered(FileStoreTable.open(table.path), DropColumn("d"))
        create(manager, schema)

    monkeypatch.setattr(SchemaManager, "create", drop_first)
    with pytest.raises(InvalidRequestError, match="column 'd' does not exist"):
        altered(table, RenameColumn("d", "e"), clock=NO_WAIT)
    assert FileStoreTable.open(table.path).schema.field_names == ("id", "a", "c")


def test_an_alter_that_is_refused_after_its_lost_success_is_done_once(tmp_path: Path) -> None:
    class Repeating(LocalFileIO):
        def create_new(self, path: str, data: bytes) -> bool:
            return super().create_new(path, data) and super().create_new(path, data)

    table = make(tmp_path)
    again = FileStoreTable.open(table.path, Repeating())
    assert altered(again, AddColumn("c", "INT"), clock=NO_WAIT).schema.id == 1
    assert FileStoreTable.open(table.path).schema.field_names == ("id", "a", "b", "c")


def test_only_so_many_races_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, {"commit.max-retries": "2"})

    def never_first(manager: SchemaManager, schema: TableSchema) -> None:
        create(manager, replace(schema, comment=f"winner {schema.id}"))
        raise ConflictError("lost")

    create = SchemaManager.create
    monkeypatch.setattr(SchemaManager, "create", never_first)
    with pytest.raises(ConflictError, match="lost"):
        alter_schema(table, [SetTableComment("mine")], clock=NO_WAIT)
    assert table.schemas.list_ids() == [0, 1, 2, 3]


def test_an_alter_that_changes_nothing_makes_no_schema(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert altered(table, SetOption("write-only", "true")).schema.id == 0
    assert table.schemas.list_ids() == [0]
