"""The files of a broker's folder, which may come from others with the warehouse that it is in.

A link in it would lead a write, or Kafka, out of the warehouse. So a folder with a link is refused before anything in
it is used, and each file is created as a new one: an older file of that name, or a link to another file, is unlinked
and never written to.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import shown

_BYTES_MAX = 1 << 16
_KINDS = {".json", ".lock", ".log", ".new", ".pid", ".properties", ".0", ".1"}  # of the files in the broker's folder
_UNFINISHED = "data.new"
_PID_BYTES_MAX = 32
_PIDS = range(2, 1 << 31)
_LOG_TAIL_LINES = 15


def check_way(warehouse: Path, home: Path) -> None:
    """Raise CorruptDataError for a link on the path from the warehouse to the broker's folder."""
    parts = home.relative_to(warehouse).parts
    _check(warehouse, home, (warehouse.joinpath(*parts[: count + 1]) for count in range(len(parts))))


def check_no_links(warehouse: Path, home: Path) -> None:
    """Raise CorruptDataError for a link in the broker's folder, Kafka's data included, since Kafka follows links.

    Also for a folder that has the name of a file, and for anything that is neither file nor folder.
    """
    inside = [(Path(at, name), name in folders) for at, folders, files in os.walk(home) for name in (*folders, *files)]
    _check(warehouse, home, (path for path, _ in inside))
    for path, is_folder in inside:
        if is_folder and path.parent == home and path.suffix in _KINDS and path.name != _UNFINISHED:
            raise _of_no_file(path, "a folder")
        if not is_folder:
            _check_file(path, path.lstat().st_mode)


def _check(warehouse: Path, home: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_symlink():
            raise CorruptDataError(
                f"{path} is a link, to {path.readlink()}; the embedded broker of {warehouse} writes in its own "
                f"folder alone, and follows no link. Delete the link, or the folder {home} with the broker's logs"
            )


def _check_file(path: Path, mode: int) -> None:
    """Raise CorruptDataError for anything but a file: opening a pipe would wait for another program."""
    if not stat.S_ISREG(mode):
        raise _of_no_file(path, "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "no file")


def _of_no_file(path: Path, what: str) -> CorruptDataError:
    return CorruptDataError(f"{path} is {what}, expected a file of the embedded broker; delete it and start again")


def read_file(path: Path) -> bytes:
    """The bytes of a small file. Raises FileNotFoundError, and CorruptDataError for anything but a file."""
    _check_file(path, path.lstat().st_mode)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_BYTES_MAX)


def open_new(path: Path) -> BinaryIO:
    """A new file of this name, open for writing; an older file of that name is not written to."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "wb")


def write_new(path: Path, text: str) -> None:
    """Write a new file of this name; an older file of that name is not written to."""
    with open_new(path) as file:
        file.write(text.encode())


def read_pid(path: Path) -> int:
    """The process id in a file. Raises FileNotFoundError, CorruptDataError for an id of other processes."""
    text = read_file(path)[:_PID_BYTES_MAX].decode("ascii", "replace").strip()
    if not (text.isdecimal() and int(text) in _PIDS):  # 0 and below are groups of processes, 1 is the first one
        raise CorruptDataError(
            f"{path} holds {shown(text)}, expected the process id of the broker; end the process that holds "
            f"running.lock beside it, then delete the file"
        )
    return int(text)


def log_tail(path: Path) -> str:
    """The end of the broker's log, for a message."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            tail = "".join(deque(lines, maxlen=_LOG_TAIL_LINES))
    except FileNotFoundError:
        return f"it has no log {path}"
    return f"the end of {path}:\n{tail}"
