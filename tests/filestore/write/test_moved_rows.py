"""Rows of a reader, which gives them once, that is overtaken by other writers: they are in the table all the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import count_rows
from lakelog.filestore.verbs.write_verbs import committed
from lakelog.filestore.write import moved_rows, table_write
from lakelog.filestore.write.table_write import ROOM, TableWrite
from lakelog.filestore.write.write import write_level0_files
from tests.support.examples import pairs_in_full
from tests.support.tables.small_tables import UNSYNCED

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("part", pa.string(), nullable=False), ("v", pa.int64())]
)
KEYED = {"primary_keys": ["part", "id"]}
KINDS: dict[str, dict[str, Any]] = {
    "deduplicate": KEYED,
    "partitions": KEYED | {"partition_keys": ["part"]},
    "files that overlap": KEYED | {"options": {"write-buffer-spillable": "false"}},
    "dynamic buckets": KEYED
    | {"partition_keys": ["part"], "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}},
    "changelog": KEYED | {"options": {"changelog-producer": "input"}},
    "changelog, dynamic buckets": KEYED
    | {
        "partition_keys": ["part"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "changelog-producer": "input"},
    },
    "aggregation": KEYED | {"options": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}},
    "partial update": KEYED | {"options": {"merge-engine": "partial-update"}},
    "first row": KEYED | {"options": {"merge-engine": "first-row"}},
    "append": {},
    "append without buckets": {"options": {"bucket": "-1"}},
    "orc": KEYED | {"options": {"file.format": "orc"}},
}


def make(folder: Path, arguments: Mapping[str, Any]) -> FileStoreTable:
    options = {"bucket": "2", "write-only": "true", "write-buffer-size": "1 kb"} | arguments.get("options", {})
    schema = build_schema(COLUMNS, **{**arguments, "options": options})
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def rows(first: int, count: int, v: int | None) -> pa.Table:
    ids = [first + at % 50 for at in range(count)]
    values = [None if v is None or at % 3 == 0 else v + at for at in range(count)]
    return pa.table({"id": ids, "part": [f"p{one % 2}" for one in ids], "v": values}, schema=COLUMNS)


def stream(given: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(given.schema, iter(given.to_batches(max_chunksize=20)))


def content(table: FileStoreTable) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_arrow().to_pylist()
    return sorted(found, key=str)


def changes(table: FileStoreTable, after: int) -> list[str]:
    return sorted(str(row) for batch in changes_of(table, after=after) for row in batch.to_pylist())


def files_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "t").rglob("*") if path.parent.name.startswith(("bucket-", "index"))}


def live_names(table: FileStoreTable) -> set[str]:
    newest = table.snapshots.latest()
    assert newest is not None
    return {entry.file.file_name for entry in table.live_files.of(newest).entries()}


@pytest.mark.parametrize(("kind", "room"), pairs_in_full(KINDS, [0, ROOM]))
def test_an_overtaken_reader_leaves_what_one_that_begins_later_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, room: int
) -> None:
    monkeypatch.setattr(table_write, "ROOM", room)
    found = []
    for name in ("a", "b"):
        table = make(tmp_path / name, KINDS[kind])
        table.write(rows(0, 10, 1))
        slow = TableWrite(table, stream(rows(5, 130, 1_000)), replaces=None) if name == "a" else None
        table.write(rows(8, 40, 5_000))
        committed(table, slow or TableWrite(table, stream(rows(5, 130, 1_000)), replaces=None), None)
        shown, told = content(table), changes(table, 2)
        table.compact(full=True)
        found.append((shown, told, content(table)))
        assert count_rows(table) == len(found[-1][-1]) > 0
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["deduplicate", "aggregation", "append", "append without buckets"])
def test_a_reader_leaves_room_for_others_so_that_its_files_are_committed_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(table_write, "moved_rows", None)
    table = make(tmp_path, KINDS[kind])
    slow = TableWrite(table, stream(rows(0, 100, 1)), replaces=None)
    written = {entry.file.file_name for entry in slow.entries}
    for number in range(20):
        table.write(rows(number, 50, number))
    committed(table, slow, None)
    assert written <= live_names(table)
    if kind == "deduplicate":
        assert [row["v"] for row in content(table) if row["id"] == 2 and row["part"] == "p0"] == [1 + 52]


@pytest.mark.parametrize("kind", ["deduplicate", "dynamic buckets", "changelog"])
def test_files_of_rows_that_were_moved_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(table_write, "ROOM", 0)
    table = make(tmp_path, KINDS[kind])
    slow = TableWrite(table, stream(rows(0, 40, 1)), replaces=None)
    written = {entry.file.file_name for entry in slow.entries}
    table.write(rows(0, 50, 7))
    committed(table, slow, None)
    assert written.isdisjoint(files_of(tmp_path))
    assert live_names(table) <= files_of(tmp_path)


def test_files_of_rows_without_a_key_stay_when_they_are_numbered_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_write, "ROOM", 0)
    table = make(tmp_path, KINDS["append"])
    slow = TableWrite(table, stream(rows(0, 100, 1)), replaces=None)
    before = files_of(tmp_path)
    table.write(rows(0, 10, 7))
    others = files_of(tmp_path) - before
    committed(table, slow, None)
    assert files_of(tmp_path) == before | others
    numbers = [entry.file for entry in table.live_files.of(table.snapshots.latest()).entries()]
    assert len({(one.min_sequence_number, one.max_sequence_number) for one in numbers if one.row_count > 1}) > 1
    assert count_rows(table) == 110


@pytest.mark.full
def test_streams_that_overtake_each_other_leave_more_room_each_time(tmp_path: Path) -> None:
    table = make(tmp_path, KINDS["deduplicate"])
    slow = TableWrite(table, stream(rows(0, 100, 1)), replaces=None)
    resolve = slow.resolve
    tries: list[frozenset[str]] = []

    def overtaken(latest: Snapshot | None) -> CommitRequest:
        request = resolve(latest)
        if len(tries) < 5:  # another stream commits while this one is about to
            tries.append(frozenset(entry.file.file_name for entry in slow.entries))
            table.write(stream(rows(0, 50, 100 + len(tries))))
        return request

    slow.resolve = overtaken  # type: ignore[method-assign]  # who overtakes sits between the look and the commit
    committed(table, slow, None)
    assert len(tries) == 5
    assert len(set(tries)) == 2  # moved once: the others did not come that far up
    assert all(row["v"] is None or int(str(row["v"])) <= 100 for row in content(table))


def test_rows_that_cannot_be_moved_leave_no_file_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_write, "ROOM", 0)
    table = make(tmp_path, KINDS["deduplicate"])
    slow = TableWrite(table, stream(rows(0, 40, 1)), replaces=None)
    table.write(rows(0, 50, 7))
    before = files_of(tmp_path)
    write = write_level0_files
    calls: list[Any] = []

    def failing(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise OSError("no space")
        return write(*given)

    monkeypatch.setattr(moved_rows, "write_level0_files", failing)
    with pytest.raises(OSError, match="no space"):
        slow.resolve(table.snapshots.latest())
    assert files_of(tmp_path) == before
