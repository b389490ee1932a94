"""Files that are made durable together: all of them are, before anything names them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.io.bounded_files import bounded_io
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.io.network import create_all
from lakelog.filestore.io.syncing import LaterSyncs, sync_at_once
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import count_rows, delete

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
WAIT_SECONDS = 10.0
NAMED_FOLDERS = ("bucket-0", "bucket-1", "manifest", "index")  # of the files that snapshots name


class Disk:
    """What was made durable, and which snapshots appeared before everything that they name was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.early: list[str] = []
        self.root = ""
        self._sync, self._link = os.fsync, os.link
        monkeypatch.setattr(os, "fsync", self._note)
        monkeypatch.setattr(os, "link", self._look)

    def _note(self, descriptor: int) -> None:
        self._sync(descriptor)
        self.synced.add(os.fstat(descriptor).st_ino)

    def _look(self, source: str, target: str) -> None:
        if "/snapshot/snapshot-" in target:
            named = [path for path in Path(self.root).rglob("*") if path.parent.name in NAMED_FOLDERS]
            folders = {folder for path in named for folder in path.parents if folder.is_relative_to(self.root)}
            named += sorted(folders)
            self.early += [f"{target}: {path}" for path in named if path.stat().st_ino not in self.synced]
        self._link(source, target)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def rows(n: int) -> pa.Table:
    return pa.table([list(range(20)), [n] * 20], schema=SCHEMA)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (["id"], {"bucket": "2"}),
        (["id", "n"], {"bucket": "2"}),
        (["id"], {"bucket": "2", "changelog-producer": "input"}),
        (["id"], {"bucket": "2", "deletion-vectors.enabled": "true"}),
        (["id"], {"bucket": "-1"}),
        ([], {"write-mode": "change-log"}),
        ([], {}),
    ],
    ids=[
        "keyed",
        "in partitions",
        "with a changelog",
        "with deletion vectors",
        "dynamic buckets",
        "value counts",
        "append",
    ],
)
def test_what_a_snapshot_names_is_durable_before_it_appears(
    tmp_path: Path, disk: Disk, keys: list[str], options: dict[str, str]
) -> None:
    table = FileStoreTable.create(
        tmp_path / "t", build_schema(SCHEMA, primary_keys=keys, partition_keys=keys[1:], options=options)
    )
    disk.root = table.path
    for n in range(6):  # a compaction among them
        table.write(rows(n))
    table.write(rows(7), mode="overwrite")
    if keys:
        delete(table, "id < 3")
    newest = table.snapshots.latest_id()
    assert newest is not None
    assert newest >= 7
    assert disk.early == []


def stream_of(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


def test_files_that_stay_behind_another_stream_are_durable(tmp_path: Path, disk: Disk) -> None:
    table = FileStoreTable.create(tmp_path / "t", build_schema(SCHEMA))
    disk.root = table.path

    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        table.write(stream_of(iter(rows(2).to_batches())))

    table.write(stream_of(slow()))
    assert count_rows(table) == 40
    assert disk.early == []


def test_what_the_source_of_a_stream_writes_is_durable_at_once(tmp_path: Path, disk: Disk) -> None:
    tables = [FileStoreTable.create(tmp_path / name, build_schema(SCHEMA, primary_keys=["id"])) for name in "ab"]
    disk.root = str(tmp_path)

    def source() -> Iterator[pa.RecordBatch]:
        for n in range(2):
            tables[1].write(rows(n))
        tables[1].compact(full=True)
        yield from rows(3).to_batches()

    tables[0].write(stream_of(source()))
    assert count_rows(tables[0]) == count_rows(tables[1]) == 20
    assert disk.early == []


def test_a_file_that_is_synced_later_is_not_durable_yet(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    file_io = LocalFileIO()
    later = LaterSyncs()
    with later.collected():
        file_io.sync(str(path))
    assert later.paths == [str(path)]
    assert path.stat().st_ino not in disk.synced
    create_all(bounded_io(file_io, str(tmp_path), ()), [(str(tmp_path / "b"), b"b")], unsynced=later.paths)
    assert {one.stat().st_ino for one in (path, tmp_path / "b", tmp_path)} <= disk.synced
    file_io.sync(str(path))  # outside of the block at once
    assert later.paths == [str(path)]


def test_files_that_were_collected_are_made_durable_with_their_names(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    later = LaterSyncs()
    with later.collected():
        LocalFileIO().sync(str(path))
    later.sync()
    assert {path.stat().st_ino, tmp_path.stat().st_ino} <= disk.synced


def test_files_wait_for_the_disk_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(4)
    monkeypatch.setattr(os, "fsync", lambda _: meeting.wait(WAIT_SECONDS))  # breaks unless all four wait
    LocalFileIO().create_all([(str(tmp_path / str(number)), b"x") for number in range(3)], [])


def test_files_without_sync_are_left_to_the_system(tmp_path: Path, disk: Disk) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"d")
    LocalFileIO(sync_data=False).create_all([(str(tmp_path / "m"), b"m")], [str(data)])
    assert data.stat().st_ino not in disk.synced
    assert (tmp_path / "m").stat().st_ino in disk.synced


def test_a_file_that_was_lost_before_the_sync_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="gone does not exist"):
        sync_at_once([str(tmp_path), str(tmp_path / "gone")])


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"old")
    with pytest.raises(CorruptDataError, match="m exists already"):
        LocalFileIO().create_all([(str(tmp_path / "m"), b"new")], [])
    assert (tmp_path / "m").read_bytes() == b"old"


@pytest.mark.parametrize("calls_at_once", [1, 4])
def test_a_thread_commits_after_the_main_thread_has_ended(tmp_path: Path, calls_at_once: int) -> None:
    program = f"""
import threading
import pyarrow as pa
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable

class Store(LocalFileIO):
    calls_at_once = {calls_at_once}

    def open_known(self, path, size_bytes):
        return self.open_input(path)

    def fetch_end(self, path, *, start, size_bytes):
        pass

rows = pa.table({{"id": [1]}})
table = FileStoreTable.create({str(tmp_path / "t")!r}, build_schema(rows.schema), Store())

def write():
    threading.main_thread().join()
    table.write(rows)

threading.Thread(target=write).start()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert count_rows(FileStoreTable.open(tmp_path / "t")) == 1


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        Path(path).write_bytes(b"")
    sync_at_once(paths)  # starts the threads of this process
    child = os.fork()
    if child == 0:
        with suppress(Exception):
            sync_at_once(paths)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
