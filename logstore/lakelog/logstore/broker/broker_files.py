"""The files of a broker's folder, which may come from others with the warehouse that it is in.

A link in it would lead a write, or Kafka, out of the warehouse. So a folder with a link is refused before anything in
it is used, and each file is created anew: what had its name before, be it a link to another file, loses the name and
stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from lakelog.common.errors import CorruptDataError
from lakelog.common.quoting import shown

_PID_BYTES_MAX = 32
_PIDS = range(2, 1 << 31)


def check_way(warehouse: Path, home: Path) -> None:
    """Raise CorruptDataError for a link on the way from the warehouse to the broker's folder."""
    parts = home.relative_to(warehouse).parts
    _check(warehouse, home, (warehouse.joinpath(*parts[: count + 1]) for count in range(len(parts))))


def check_no_links(warehouse: Path, home: Path) -> None:
    """Raise CorruptDataError for a link in the broker's folder: in Kafka's too, since Kafka follows links."""
    inside = (Path(at, name) for at, folders, files in os.walk(home) for name in (*folders, *files))
    _check(warehouse, home, inside)


def _check(warehouse: Path, home: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_symlink():
            raise CorruptDataError(
                f"{path} is a link, to {path.readlink()}; the embedded broker of {warehouse} writes in its own "
                f"folder alone, and follows no link. Delete the link, or the folder {home} with the broker's logs"
            )


def open_new(path: Path) -> BinaryIO:
    """A new file of this name, open for writing; what had the name before is not touched."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "wb")


def write_new(path: Path, text: str) -> None:
    """Write a new file of this name; what had the name before is not touched."""
    with open_new(path) as file:
        file.write(text.encode())


def read_pid(path: Path) -> int:
    """The process id in a file. Raises FileNotFoundError, and CorruptDataError for what would name other processes."""
    text = path.read_bytes()[:_PID_BYTES_MAX].decode("ascii", "replace").strip()
    if not (text.isdecimal() and int(text) in _PIDS):  # 0 and below are groups of processes, 1 is the first one
        raise CorruptDataError(
            f"{path} holds {shown(text)}, expected the process id of the broker; end the process that holds "
            f"running.lock beside it, then delete the file"
        )
    return int(text)
