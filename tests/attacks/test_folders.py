"""Odd files in a table: pipes, ids far away, names that no id has. Nothing waits, counts up to 2^63 or is lost."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, open_table
from lakelog.cli.main import main
from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.alter.schema_applying import apply_changes
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.commit import find_commit
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots

FAR = (1 << 63) - 2


def make(path: Path, **options: str) -> FileStoreTable:
    """A table with the rows 1 to 3, in a snapshot each."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    schema = build_schema(columns, primary_keys=["id"], options={"bucket": "1"} | options)
    table = FileStoreTable.create(path / "t", schema, LocalFileIO(sync_data=False))
    for number in (1, 2, 3):
        table.write(pa.table([[number]], schema=columns))
    return table


def put_far(table: FileStoreTable, number: int = FAR, *, time_millis: int | None = None) -> None:
    """A copy of the newest snapshot under a number far away."""
    newest = table.snapshots.latest()
    assert newest is not None
    table.snapshots.create_new(replace(newest, id=number, time_millis=time_millis or newest.time_millis))
    Path(table.paths.latest_hint).write_text(str(number))


def ids(table: FileStoreTable, **which: int) -> list[int]:
    """The rows of a read, in order."""
    found: list[int] = sorted(table.to_arrow(**which)["id"].to_pylist())  # type: ignore[arg-type]  # ids and times
    return found


@pytest.mark.timeout(30)
def test_a_pipe_in_the_place_of_a_data_file_is_corrupt(tmp_path: Path) -> None:
    table = make(tmp_path)
    for path in (tmp_path / "t" / "bucket-0").iterdir():
        path.unlink()
        os.mkfifo(path)
    found: list[BaseException] = []

    def read() -> None:
        try:
            table.to_arrow()
        except CorruptDataError as error:
            found.append(error)

    reader = threading.Thread(target=read, daemon=True)  # one that waits for a writer is left behind
    reader.start()
    reader.join(10)
    assert "it is a device or a pipe" in str(found)


@pytest.mark.parametrize("pattern", ["schema/schema-0", "snapshot/snapshot-3", "manifest/*", "bucket-0/*"])
def test_a_folder_in_the_place_of_a_file_is_corrupt(tmp_path: Path, pattern: str) -> None:
    copy = shutil.copytree(make(tmp_path).path, tmp_path / "copy")  # what the process remembers is of another folder
    for path in copy.glob(pattern):
        path.unlink()
        path.mkdir()
    with pytest.raises(CorruptDataError, match="is damaged: it is a folder, expected a file"):
        FileStoreTable.open(copy).to_arrow()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [1_000_000, 1 << 40, FAR])
def test_a_snapshot_far_away_makes_no_read_count_up_to_it(tmp_path: Path, number: int) -> None:
    table = make(tmp_path)
    middle = table.snapshots.get(2)
    put_far(table, number, time_millis=middle.time_millis - 3_600_000)
    assert ids(table, timestamp=middle.time_millis)[:2] == [1, 2]
    assert find_commit(table, "no such commit").snapshot_id is None
    keep_two = Retention(count_min=1, count_max=2, age_millis=0, limit=50)
    expire_snapshots(table, retention=keep_two, now_millis=middle.time_millis + 86_400_000)
    assert ids(table) == [1, 2, 3]


def test_no_snapshot_is_written_behind_the_last_number(tmp_path: Path) -> None:
    table = make(tmp_path, **{"write-only": "true"})
    put_far(table, FAR + 1)
    table = FileStoreTable.open(table.path)
    with pytest.raises(InvalidRequestError, match=r"snapshot 9223372036854775808 .* would not be readable"):
        table.write(pa.table({"id": [4]}, schema=table.schema.arrow_schema))
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["snapshot-" + "9" * 23, "snapshot-007", "snapshot-+7", "snapshot-\u0667", "snapshot-"]
)
def test_names_that_no_snapshot_has_are_none(tmp_path: Path, name: str) -> None:
    table = make(tmp_path)
    Path(table.path, "snapshot", name).write_text("{}")
    Path(table.path, "schema", name.replace("snapshot", "schema")).write_text("{}")
    assert table.snapshots.ids() == [1, 2, 3]
    assert FileStoreTable.open(table.path).schemas.list_ids() == [0]


def test_a_column_gets_no_field_id_that_keys_have(tmp_path: Path) -> None:
    table = make(tmp_path)
    full = replace(table, schema=replace(table.schema, highest_field_id=(1 << 30) - 2))
    with pytest.raises(InvalidRequestError, match=r"'c' cannot be added: the table's highest field id is 1073741822"):
        apply_changes(full.schema, [AddColumn("c", "INT")])


@pytest.mark.parametrize("name", ["x" * 5_000, "x" * 300, "/".join(["y" * 200] * 30)])
def test_what_is_too_long_for_a_path_is_no_store_that_is_away(tmp_path: Path, name: str) -> None:
    columns = pa.schema({"id": pa.int64()})
    for call in (
        lambda: open_table(tmp_path / name),
        lambda: Catalog(tmp_path).create_table(f"db.{name}", schema=columns),
        lambda: Catalog(tmp_path).create_table(f"{name}.t", schema=columns),
        lambda: Catalog(tmp_path).drop_table(f"db.{name}"),
        lambda: Catalog(tmp_path / name).create_table("db.t", schema=columns),
    ):
        with pytest.raises(InvalidRequestError):
            call()


def test_a_table_with_the_longest_name_is_dropped(tmp_path: Path) -> None:
    catalog, name = Catalog(tmp_path), f"db.{'t' * 200}"
    catalog.create_table(name, schema=pa.schema({"id": pa.int64()}))
    catalog.drop_table(name)
    assert catalog.list_tables("db") == []
    with pytest.raises(InvalidRequestError, match="has 201 bytes; at most 200"):
        catalog.create_table(f"{name}t", schema=pa.schema({"id": pa.int64()}))


def test_a_command_takes_a_long_name_for_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["table", "snapshots", "x" * 5_000])
    assert "lakelog: " in capsys.readouterr().err
