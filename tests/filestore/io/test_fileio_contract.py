"""What every FileIO keeps: on a local disk, in an object store, in HDFS."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import NotFoundError
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.folders import FolderStore
from lakelog.filestore.io.hdfs import HdfsFileIO
from lakelog.filestore.io.local_files import LocalFileIO
from tests.support.servers.hdfs_server import Hdfs
from tests.support.servers.s3_server import S3Server


@dataclass(frozen=True)
class Place:
    """A FileIO, and a folder in it that nobody else uses."""

    io: FileIO
    root: str


@pytest.fixture(params=["local", "s3", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(LocalFileIO(), str(tmp_path))
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        return Place(HdfsFileIO(), f"{hdfs.url}{tmp_path}")
    server: S3Server = request.getfixturevalue("s3")
    return Place(server.file_io(), f"s3://{server.new_bucket()}/some/folder")


def test_create_new_leaves_an_existing_file_alone(place: Place) -> None:
    path = f"{place.root}/a/b"
    assert place.io.create_new(path, b"first")
    assert not place.io.create_new(path, b"second")
    assert not place.io.create_new(path, b"first")  # equal bytes of another caller
    assert place.io.read_bytes(path) == b"first"


def test_of_racing_threads_exactly_one_creates_the_file(place: Place) -> None:
    path, won = f"{place.root}/snapshot-1", []
    start = threading.Barrier(8)

    def race(racer: int) -> None:
        start.wait()
        if place.io.create_new(path, str(racer).encode()):
            won.append(racer)

    racers = [threading.Thread(target=race, args=(racer,)) for racer in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [place.io.read_bytes(path)] == [str(racer).encode() for racer in won]


def test_write_bytes_replaces_the_whole_file(place: Place) -> None:
    path = f"{place.root}/new/LATEST"
    place.io.write_bytes(path, b"12345")
    place.io.write_bytes(path, b"6")
    assert place.io.read_bytes(path) == b"6"
    assert place.io.size(path) == 1
    assert place.io.list_names(f"{place.root}/new") == ["LATEST"]


def test_a_missing_file_is_not_found_by_name(place: Place) -> None:
    path = f"{place.root}/gone"
    for call in (place.io.read_bytes, place.io.size, place.io.open_input):
        with pytest.raises(NotFoundError, match="gone does not exist"):
            call(path)
    place.io.delete(path)
    place.io.delete_tree(path)
    assert not place.io.exists(path)
    assert place.io.list_names(path) == []


@pytest.mark.parametrize("size", [0, 1, 100_000, 20_000_000])
def test_a_data_file_is_written_and_read_at_random(place: Place, size: int) -> None:
    path, data = f"{place.root}/bucket-0/data", (b"0123456789" * (size // 10 + 1))[:size]
    output = place.io.open_output(path)
    for start in range(0, size, 3_000_000):
        output.write(data[start : start + 3_000_000])
    assert output.tell() == size
    output.close()
    place.io.sync(path)

    assert place.io.size(path) == size
    with place.io.open_input(path) as source:
        assert source.size() == size
        for start, length in ((size // 2, 7), (0, 3), (size // 2 + 7, 200_000), (max(0, size - 5), 10), (size, 1)):
            source.seek(start)
            assert source.tell() == start
            assert source.read(length) == data[start : start + length]
        source.seek(0)
        assert source.read() == data


def test_a_file_that_is_given_up_is_not_there(place: Place) -> None:
    path = f"{place.root}/bucket-0/data"
    output = place.io.open_output(path)
    output.write(pa.py_buffer(bytes(20_000_000)))
    output.abort()
    assert not place.io.exists(path)
    assert place.io.list_names(f"{place.root}/bucket-0") == []


def test_a_file_whose_writing_fails_is_not_there(place: Place) -> None:
    def fail() -> None:
        with place.io.open_output(f"{place.root}/index/one") as output:
            output.write(b"half")
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        fail()
    assert place.io.list_names(f"{place.root}/index") == []
    with place.io.open_output(f"{place.root}/index/two") as output:
        output.write(b"whole")
    assert place.io.read_bytes(f"{place.root}/index/two") == b"whole"


def test_folders_and_files_are_listed_by_their_names(place: Place) -> None:
    names = ["k=a%2Fb", "ü ö", "a+b&c=d~", "__DEFAULT_PARTITION__", "t=2024-01-01T10%3A00"]
    for name in names:
        place.io.write_bytes(f"{place.root}/t/{name}/file", name.encode())
    place.io.write_bytes(f"{place.root}/t/file", b"")
    place.io.write_bytes(f"{place.root}/t2/other", b"")

    assert sorted(place.io.list_names(f"{place.root}/t")) == sorted([*names, "file"])
    assert [place.io.read_bytes(f"{place.root}/t/{name}/file").decode() for name in names] == names


def test_a_deleted_file_does_not_exist(place: Place) -> None:
    path = f"{place.root}/file"
    place.io.write_bytes(path, b"1")
    assert place.io.exists(path)
    place.io.delete(path)
    assert not place.io.exists(path)


def test_a_deleted_folder_does_not_exist_nor_what_was_in_it(place: Place) -> None:
    for name in ("t/schema/schema-0", "t/snapshot/snapshot-1", "t/bucket-0/data", "t/x", "t2/schema/schema-0"):
        place.io.write_bytes(f"{place.root}/{name}", b"1")
    place.io.delete_tree(f"{place.root}/t", last=["snapshot", "schema"])
    assert place.io.list_names(f"{place.root}/t") == []
    assert place.io.list_names(place.root) == ["t2"]


def test_it_travels_to_other_processes(place: Place) -> None:
    place.io.write_bytes(f"{place.root}/file", b"1")
    again: FileIO = pickle.loads(pickle.dumps(place.io))
    assert again == place.io
    assert again.read_bytes(f"{place.root}/file") == b"1"


def test_a_folder_is_renamed_whole_and_takes_no_name_that_is_taken(place: Place) -> None:
    if not isinstance(place.io, FolderStore):
        assert place.root.startswith("s3://")
        return
    place.io.write_bytes(f"{place.root}/a/b/c", b"1")
    place.io.write_bytes(f"{place.root}/d/e", b"2")
    assert not place.io.rename_folder(f"{place.root}/a", f"{place.root}/d")
    assert place.io.rename_folder(f"{place.root}/a", f"{place.root}/f")
    assert place.io.read_bytes(f"{place.root}/f/b/c") == b"1"
    assert sorted(place.io.list_names(place.root)) == ["d", "f"]
    with pytest.raises(NotFoundError):
        place.io.rename_folder(f"{place.root}/a", f"{place.root}/g")


def test_a_folder_that_was_renamed_is_not_made_again_by_a_late_write(place: Place) -> None:
    if not isinstance(place.io, FolderStore):
        assert place.root.startswith("s3://")
        return
    root = f"{place.root}/t"
    late = place.io.rooted(root)
    late.make_dirs(root)
    late.write_bytes(f"{root}/a/b/c", b"1")
    with late.open_output(f"{root}/d/e/f") as file:
        file.write(b"2")
    assert late.create_new(f"{root}/g/h", b"3")
    assert place.io.rename_folder(root, f"{place.root}/u")
    for write in (
        lambda: late.write_bytes(f"{root}/LATEST", b"1"),
        lambda: late.write_bytes(f"{root}/a/b/c", b"1"),
        lambda: late.create_new(f"{root}/snapshot/snapshot-1", b"1"),
        lambda: late.open_output(f"{root}/bucket-0/data"),
        lambda: late.make_dirs(f"{root}/index"),
    ):
        with pytest.raises(NotFoundError):
            write()
    assert place.io.list_names(place.root) == ["u"]
