"""The files of one table and no others: whatever a table's folder holds, no call through here leaves it.

Names are checked when they are parsed; this is the second guard, at the calls themselves, and the only one against
links. A path below the table's folder may be a link to another path below it. A link or an external path that leads out
of the table is followed only by reads, and only into folders that the user allows. Nothing is written or deleted there.
The table's own folder is where the user says it is, also through links. It is created only with the table's first
schema: a write to a table that was renamed or dropped raises NotFoundError.

Reads and creations rely on a check of their folder for a second, so that a commit does not check each folder ten times;
a deletion always checks. A link that another process creates between the check and the call is followed: the guard is
against the contents of a folder, not against a process that changes the folder meanwhile.
"""

# Paths are strings, as everywhere in the file store.
# ruff: noqa: PTH114, PTH120

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.filestore.io.fileio import FileEntry, FileIO, FileMark, OutputFile, marks_of
from lakelog.filestore.io.folders import FolderStore
from lakelog.filestore.io.network import calls_at_once, create_all, fetch_end, open_known
from lakelog.filestore.io.path_forms import (
    as_s3,
    has_control,
    how_to_allow,
    is_below,
    is_local,
    names_from_metadata,
    scheme_of,
    shown_path,
)

_NO_PARTS = frozenset({"", ".", ".."})
KNOWN_FOLDERS: dict[tuple[str, str], float] = {}  # (root, folder) -> until when it need not be checked again
_KNOWN_MAX = 10_000
_KNOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BoundedFileIO:
    """Calls of `inner` for paths below `root`, and reads in the folders `places`. Other calls raise before any I/O.

    Raises CorruptDataError for a path that cannot be in the table and for a link out of it, InvalidRequestError for
    an external path that is not allowed.
    """

    inner: FileIO
    root: str
    places: tuple[str, ...] = ()

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        self.check_readable(path)
        return self.inner.read_bytes(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace the file; a link of that name is replaced, not followed."""
        self._check_new(path)
        self.inner.write_bytes(path, data)

    def create_new(self, path: str, data: bytes) -> bool:
        """Create the file; False when the name exists already, even as a link."""
        self._check_new(path)
        return self.inner.create_new(path, data)

    def create_all(self, files: Sequence[tuple[str, bytes]], unsynced: Sequence[str]) -> None:
        """Create files with new names, and make others durable."""
        for path, _ in files:
            self._check_new(path)
        for path in unsynced:
            self._check_own(path)
        create_all(self.inner, files, unsynced=unsynced)

    def exists(self, path: str) -> bool:
        """True if the file exists, or a link of that name leads to one."""
        self.check_readable(path, is_followed=False)
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        """The file's bytes."""
        self.check_readable(path)
        return self.inner.size(path)

    def list_names(self, directory: str) -> list[str]:
        """Names in a folder."""
        self.check_readable(directory)
        return self.inner.list_names(directory)

    def list_entries(self, directory: str) -> list[FileEntry]:
        """The entries of a folder."""
        self.check_readable(directory)
        return self.inner.list_entries(directory)

    def marks(self, paths: Sequence[str]) -> list[FileMark | None]:
        """The marks of files in the table, see `marks_of`: a link has its own mark, and is not followed."""
        for path in paths:
            if self._parts(path) is None:
                self._check_own(path)
        return marks_of(self.inner, paths)

    def delete(self, path: str) -> None:
        """Delete a file; for a link, the link itself."""
        self._check_own(path, is_followed=False)
        self.inner.delete(path)

    def delete_empty_dir(self, directory: str) -> bool:
        """Delete a folder if nothing is in it."""
        self._check_own(directory)
        return self.inner.delete_empty_dir(directory)

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:
        """Delete a folder with its contents."""
        self._check_own(directory)
        self.inner.delete_tree(directory, last=last)

    def make_dirs(self, directory: str) -> None:
        """Make a folder and its parents."""
        self._check_own(directory)
        self.inner.make_dirs(directory)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads."""
        self.check_readable(path)
        return self.inner.open_input(path)

    @property
    def calls_at_once(self) -> int:
        """That of `inner`."""
        return calls_at_once(self.inner)

    def open_known(self, path: str, size_bytes: int) -> pa.NativeFile:
        """Open a file of a known size for random reads, without a request if `inner` can."""
        self.check_readable(path)
        return open_known(self.inner, path, size_bytes)

    def fetch_end(self, path: str, *, start: int, size_bytes: int) -> None:
        """Fetch the bytes of a file from `start` on, for the next `open_known`."""
        self.check_readable(path)
        fetch_end(self.inner, path, start=start, size_bytes=size_bytes)

    def open_output(self, path: str) -> OutputFile:
        """Open a new file for writing."""
        self._check_own(path)
        return self.inner.open_output(path)

    def sync(self, path: str) -> None:
        """Make a file durable."""
        self._check_own(path)
        self.inner.sync(path)

    def check_readable(self, path: str, *, is_followed: bool = True) -> None:
        """Raise unless the path is in the table, or in a folder that may be read."""
        if self._is_known(path):
            link = path if is_followed and self._is_local and os.path.islink(path) else None
        else:
            parts = self._parts(path)
            if parts is None:
                self._check_external(path)
                return
            link = self._link(parts if is_followed else parts[:-1])
            self._remember(path, link)
        if link is not None:
            real = os.path.realpath(path)
            if not self._is_own(real) and not any(
                is_below(real, os.path.realpath(at)) for at in filter(is_local, self.places)
            ):
                raise self._led_out(link, real)

    def _check_new(self, path: str) -> None:
        """Raise unless a file of that name in the table can be created by a rename, which follows no link."""
        if not self._is_known(path):
            self._check_own(path, is_followed=False)
            self._remember(path, None)

    def _check_own(self, path: str, *, is_followed: bool = True) -> None:
        """Raise unless the path is in the table; `is_followed` False leaves its last part, which may be a link."""
        parts = self._parts(path)
        if parts is None:
            raise CorruptDataError(
                f"{shown_path(path)} is outside of the table at {self.root}, and nothing is written or deleted there: "
                "a name in the table's metadata is wrong; restore its files from a copy"
            )
        link = self._link(parts if is_followed else parts[:-1])
        if link is not None:
            real = os.path.realpath(path if is_followed else os.path.dirname(path))
            if not self._is_own(real):
                raise self._led_out(link, real)

    @property
    def _is_local(self) -> bool:
        return is_local(self.root)

    def _is_known(self, path: str) -> bool:
        """Whether the folder of a path was checked within the last second, and no link led to it."""
        folder, _, name = path.rpartition("/")
        until = KNOWN_FOLDERS.get((self.root, folder))
        return until is not None and until > time.monotonic() and name not in _NO_PARTS and not has_control(name)

    def _remember(self, path: str, link: str | None) -> None:
        folder = path.rpartition("/")[0]
        if link is not None and link != path:
            return
        if is_below(folder, self.root):
            if len(KNOWN_FOLDERS) >= _KNOWN_MAX:
                KNOWN_FOLDERS.clear()
            KNOWN_FOLDERS[self.root, folder] = time.monotonic() + _KNOWN_SECONDS

    def _parts(self, path: str) -> list[str] | None:
        """The names on the path from the table's folder to this one; None for a path outside the folder."""
        if path == self.root:
            return []
        if not path.startswith(f"{self.root}/"):
            return None
        parts = path[len(self.root) + 1 :].split("/")
        if not _NO_PARTS.isdisjoint(parts) or any(map(has_control, names_from_metadata(parts))):
            raise CorruptDataError(
                f"{shown_path(path)} cannot be a file of the table at {self.root}: a name in its metadata is wrong; "
                "restore its files from a copy"
            )
        return parts

    def _link(self, parts: Sequence[str]) -> str | None:
        """The first link on the path; None without one, as in an object store, which has no links."""
        if not self._is_local:
            return None
        at = self.root
        for part in parts:
            at = f"{at}/{part}"
            if os.path.islink(at):
                return at
        return None

    def _is_own(self, real: str) -> bool:
        return is_below(real, os.path.realpath(self.root))

    def _check_external(self, path: str) -> None:
        is_odd = has_control(path) or (not is_local(path) and not {".", ".."}.isdisjoint(path.split("/")))
        if is_odd or (is_local(path) and not path.startswith("/")):
            raise CorruptDataError(
                f"{shown_path(path)} cannot be a file of the table at {self.root}: a name in its metadata is "
                "wrong; restore its files from a copy"
            )
        if is_local(path):
            real = os.path.realpath(path)
            is_allowed = any(is_below(real, os.path.realpath(place)) for place in filter(is_local, self.places))
        else:
            is_allowed = any(is_below(as_s3(path), as_s3(place)) for place in self.places)
        if not is_allowed:
            raise InvalidRequestError(
                f"the table at {self.root} names the file {shown_path(path)}, which is outside of its folder; to read "
                f"it, allow the folder that it is in: {how_to_allow()}"
            )
        if scheme_of(path) != scheme_of(self.root):
            raise UnsupportedError(
                f"the table at {self.root} has the file {path} in another store, which is not supported; copy the "
                "rows with the engine that wrote them"
            )

    def _led_out(self, link: str, real: str) -> CorruptDataError:
        return CorruptDataError(
            f"{link} is a link that leads out of the table at {self.root}, to {real}; put the files themselves in its "
            f"place. To read, and only read, what is there: {how_to_allow()}"
        )


def bounded_io(file_io: FileIO, root: str, places: Sequence[str]) -> FileIO:
    """`file_io` for only the files of the table at `root`, in place of the bounds that it has."""
    if isinstance(file_io, BoundedFileIO):
        if file_io.root == root and not places:
            return file_io
        file_io = file_io.inner
    if isinstance(file_io, FolderStore):
        file_io = file_io.rooted(root)
    return BoundedFileIO(file_io, root, tuple(places))
