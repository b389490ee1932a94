"""A disk that is full, a file that cannot be read: errors that say so, and nothing left behind."""

from __future__ import annotations

import errno
import io
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, UnavailableError
from lakelog.filestore.io.fileio import OutputFile
from lakelog.filestore.io.local_files import LocalFileIO
from tests.support.files.abortable_file import AbortableFile
from tests.support.tables.small_tables import content, content_after, in_new_process, make_table, rows_of


class _FullDisk(io.BytesIO):
    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: object) -> int:
        self._room -= len(bytes(data))  # type: ignore[call-overload]  # whatever Arrow hands over is a buffer
        if self._room < 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(data)  # type: ignore[arg-type]  # likewise


class _Unreadable(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError(errno.EIO, "input/output error")


@dataclass(frozen=True, slots=True)
class SickDisk(LocalFileIO):
    """`room` bytes for each data file, or reads of data files that fail."""

    room: int | None = None

    def open_output(self, path: str) -> OutputFile:
        LocalFileIO.open_output(self, path).close()
        assert self.room is not None
        file = AbortableFile(_FullDisk(self.room), mode="w")
        file.give_up = lambda: LocalFileIO.delete(self, path)
        return file

    def open_input(self, path: str) -> pa.NativeFile:
        with LocalFileIO.open_input(self, path) as file:
            return pa.PythonFile(_Unreadable(file.read()), mode="r")


@pytest.mark.parametrize("room", [0, 3, 4, 100, 400])
def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path, room: int) -> None:
    table = make_table(tmp_path)
    with pytest.raises(UnavailableError, match=r"could not be written: .*no space left on device"):
        in_new_process(table.path, SickDisk(sync_data=False, room=room)).write(rows_of(0))
    assert list(Path(table.path).rglob("data-*")) == []
    table.write(rows_of(0))
    assert content(table) == content_after(1)


def test_a_disk_that_cannot_be_read_is_not_called_corrupt_data(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    with pytest.raises(UnavailableError, match=r"could not be read: .*input/output error"):
        in_new_process(table.path, SickDisk(sync_data=False)).to_arrow()
    for path in Path(table.path).rglob("data-*"):
        path.write_bytes(path.read_bytes()[:-4] + b"ORC1")
    with pytest.raises(CorruptDataError):
        in_new_process(table.path).to_arrow()
