"""Rows are deleted by a condition, as of the snapshot that the delete follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete as delete_rows
from lakelog.filestore.write.deleting import TableChange

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
KEYS = ["id"]


def table_of(folder: Path, keys: list[str], **options: str) -> FileStoreTable:
    return FileStoreTable.create(
        folder / "t", build_schema(COLUMNS, primary_keys=keys, options={"bucket": "2"} | options)
    )


def rows_of(values: Mapping[int, int]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=COLUMNS)


def content(table: FileStoreTable) -> list[tuple[int, int]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def files_of(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*")}


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_that_meet_the_condition_are_deleted(tmp_path: Path, is_compacted: bool) -> None:
    table = table_of(tmp_path, KEYS)
    table.write(rows_of({1: 10, 2: 20, 3: 30}))
    table.write(rows_of({2: 5}))
    if is_compacted:
        table.compact(full=True)

    assert delete_rows(table, "v >= 10") is not None

    assert content(table) == [(2, 5)]
    assert delete_rows(table, "v >= 10") is None


def test_a_change_log_table_takes_away_each_row_as_often_as_it_is_there(tmp_path: Path) -> None:
    table = table_of(tmp_path, [], **{"write-mode": "change-log"})
    for _ in range(2):
        table.write(rows_of({1: 10, 2: 20}))

    delete_rows(table, "id = 1")
    table.write(rows_of({1: 10}))

    assert content(table) == [(1, 10), (2, 20), (2, 20)]


def test_a_delete_that_is_overtaken_reads_its_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, KEYS, **{"write-only": "true"})
    table.write(rows_of({1: 10, 2: 20}))
    resolve = TableChange.resolve
    overtaking = [{1: 5}, {3: 30}]

    def overtaken(delete: TableChange, latest: Snapshot | None) -> object:
        request = resolve(delete, latest)
        if overtaking:
            FileStoreTable.open(table.path).write(rows_of(overtaking.pop(0)))
        return request

    monkeypatch.setattr(TableChange, "resolve", overtaken)
    delete_rows(table, "v >= 10")

    assert content(table) == [(1, 5)]
    live = {entry.file.file_name for entry in table.live_files.of(table.snapshots.latest()).entries()}
    assert files_of(table) == live  # what the first attempts wrote is deleted


def test_a_delete_of_nothing_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, KEYS)
    monkeypatch.setattr(TableCommit, "_create", lambda *_: 1 / 0)
    assert delete_rows(table, "id = 1") is None


@pytest.mark.parametrize(
    ("keys", "options", "reason"),
    [
        (KEYS, {"merge-engine": "first-row"}, "merge-engine=first-row"),
        (KEYS, {"ignore-delete": "true"}, "ignore-delete=true"),
    ],
)
def test_a_table_whose_rows_no_retraction_deletes_is_refused_with_the_way_out(
    tmp_path: Path, keys: list[str], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnsupportedError, match=rf"{reason}.*mode='overwrite'.*drop_partitions"):
        delete_rows(table_of(tmp_path, keys, **options), "id = 1")


def test_a_condition_on_an_unknown_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no_such"):
        delete_rows(table_of(tmp_path, KEYS), "no_such = 1")
