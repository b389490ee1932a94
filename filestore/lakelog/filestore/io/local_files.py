"""Files of this machine's file system."""

# Paths are strings, because most of them name objects of a store, and these calls are on the hot path.
# ruff: noqa: PTH102, PTH103, PTH104, PTH105, PTH106, PTH108, PTH110, PTH116, PTH118, PTH120, PTH208

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError, UnavailableError
from lakelog.common.quoting import cut
from lakelog.filestore.io.fileio import FileEntry, FileMark, NewFile, OutputFile, check_whole
from lakelog.filestore.io.folders import folder_in_place_of_file, folders_below, missing
from lakelog.filestore.io.network import name_taken
from lakelog.filestore.io.path_forms import is_below
from lakelog.filestore.io.syncing import is_synced_later, sync_at_once

_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)  # a pipe would wait
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}
# So old a change must be that no later one can have its time: file systems count in ticks, some in seconds.
_SETTLED_NANOS = 2_000_000_000
_SETTLED_OF_SECONDS_NANOS = 60_000_000_000
_FOLDER_TRIES = 5  # a folder may be deleted as empty between its creation and its first file
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """Files of the local file system.

    `sync_data` False leaves data files to the operating system: they survive a killed process, but not a power cut.
    `root` is the folder that writes never create, see `lakelog.filestore.io.folders`; if empty, they create any folder.
    """

    sync_data: bool = True
    root: str = ""

    def rooted(self, root: str) -> LocalFileIO:
        """The same files, but writes create folders only below `root`; a subclass returns itself, with its state."""
        return replace(self, root=root) if type(self) is LocalFileIO else self

    def rename_folder(self, source: str, target: str) -> bool:
        """Rename a folder with its contents; False if `target` exists and is not an empty folder."""
        with _errors_named(source):
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno in (*_NOT_EMPTY, errno.ENOTDIR):
                    return False
                raise
            _sync_directory(os.path.dirname(source))
            _sync_directory(os.path.dirname(target))
            return True

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFoundError, and CorruptDataError for one too large, a folder or a device."""
        with _errors_named(path):
            descriptor = os.open(path, _READ_FLAGS)
            try:
                found = os.fstat(descriptor)
                check_whole(path, found.st_size)
                _check_file(path, found.st_mode)
                parts = []
                while part := os.read(descriptor, found.st_size + 1):
                    parts.append(part)
                return parts[0] if len(parts) == 1 else b"".join(parts)
            finally:
                os.close(descriptor)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace the file by a rename."""
        with _errors_named(path):
            temporary = _write_temporary(path, data, self.root)
            try:
                os.replace(temporary, path)
            except OSError:
                _unlink(temporary)
                raise

    def create_new(self, path: str, data: bytes) -> bool:
        """Create the file whole and durable; False when it exists.

        A temporary file is filled and synced, then linked to its name: the name appears with all bytes or not at all.
        If the file system has no hard links, the name is created exclusively and filled in place: there is still one
        winner, but a crash meanwhile may leave a part of the file.
        """
        with _errors_named(path):
            if os.path.lexists(path):
                return False
            temporary = _write_temporary(path, data, self.root, sync=True)
            try:
                created = _link_new(temporary, path, data)
            finally:
                _unlink(temporary)
            if created:
                _sync_directory(os.path.dirname(path))
            return created

    def create_all(self, files: Sequence[tuple[str, bytes]], unsynced: Sequence[str]) -> None:
        """Create files with new names, durably, and make other files durable: see `create_all` of `io.network`."""
        for path, data in files:
            with _errors_named(path):
                _create_in_place(path, data, self.root)
        made = [path for path, _ in files] + (list(unsynced) if self.sync_data else [])
        sync_at_once([*dict.fromkeys([*made, *map(os.path.dirname, made)])])

    def exists(self, path: str) -> bool:
        """True if the file or folder exists."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """The file's bytes. Raises NotFoundError."""
        with _errors_named(path):
            return os.stat(path).st_size

    def list_names(self, directory: str) -> list[str]:
        """Names in a folder; empty when it is missing or a file."""
        try:
            with _errors_named(directory), contextlib.suppress(NotADirectoryError):
                return os.listdir(directory)
        except NotFoundError:
            pass
        return []

    def list_entries(self, directory: str) -> list[FileEntry]:
        """The entries of a folder, with sizes and times; empty if it is missing or a file.

        Files that are deleted meanwhile are left out.
        """
        found: list[FileEntry] = []
        try:
            with _errors_named(directory), contextlib.suppress(NotADirectoryError):
                descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)  # the system then looks up names alone
                try:
                    with os.scandir(descriptor) as entries:
                        for entry in entries:
                            try:  # not `suppress`, which takes as long as the rest: a folder may have 10,000 tags
                                status = entry.stat(follow_symlinks=False)
                            except FileNotFoundError:
                                continue
                            found.append(_entry_of(entry.name, status))
                finally:
                    os.close(descriptor)
        except NotFoundError:
            return []
        return found

    def marks(self, paths: Sequence[str]) -> list[FileMark | None]:
        """Device, inode, size and both times of files, see `marks_of`. No program can set the time of an inode."""
        now = system_millis() * 1_000_000
        return [_mark_of(path, now) for path in paths]

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        with _errors_named(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def delete_empty_dir(self, directory: str) -> bool:
        """Delete a folder if nothing is in it."""
        try:
            with _errors_named(directory):
                os.rmdir(directory)
        except NotFoundError:
            return False
        except UnavailableError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NOT_EMPTY:
                return False
            raise
        return True

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:  # noqa: ARG002  # all goes at once
        """Delete a folder with its contents: first a rename removes its name, in one step."""
        folder, name = os.path.split(directory)
        dropped = os.path.join(folder, f".{name}-{uuid.uuid4()}")
        with _errors_named(directory), contextlib.suppress(FileNotFoundError):
            os.rename(directory, dropped)
            shutil.rmtree(dropped)

    def make_dirs(self, directory: str) -> None:
        """Make a folder and its parents."""
        with _errors_named(directory):
            _make_folders(directory, "" if directory == self.root else self.root)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads. Raises NotFoundError."""
        with _errors_named(path):
            _check_file(path, os.stat(path).st_mode)  # opening a pipe would wait for its writer
            return pa.OSFile(path, "rb")

    def open_output(self, path: str) -> OutputFile:
        """Open a new file for writing; its folder is created."""
        with _errors_named(path):
            for _ in range(_FOLDER_TRIES):
                with contextlib.suppress(FileNotFoundError):
                    return _LocalOutput(path, "wb")
                _make_folders(os.path.dirname(path), self.root)
            return _LocalOutput(path, "wb")

    def sync(self, path: str) -> None:
        """Make the file and its folder entry durable, if `sync_data` is set; or later, see `LaterSyncs`."""
        if not self.sync_data or is_synced_later(path):
            return
        with _errors_named(path):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _sync_directory(os.path.dirname(path))


class _LocalOutput(pa.OSFile):  # type: ignore[misc]  # pyarrow has no types here
    """A file that is written by Arrow itself."""

    def __init__(self, path: str, mode: str) -> None:  # noqa: ARG002  # Arrow has opened the file before
        super().__init__()
        self._path = path

    def abort(self) -> None:
        """Close and delete the file."""
        self.close()
        _unlink(self._path)

    # Arrow's own `__exit__` closes a file as complete even after an error; its class cannot inherit ours.
    __exit__ = NewFile.__exit__


def _entry_of(name: str, status: os.stat_result) -> FileEntry:
    kind = stat.S_IFMT(status.st_mode)
    return FileEntry(name, kind == stat.S_IFDIR, status.st_size, status.st_mtime_ns // 1_000_000, kind == stat.S_IFLNK)


def _mark_of(path: str, now_nanos: int) -> FileMark | None:
    try:
        found = os.lstat(path)
    except OSError:  # whoever reads the file gets the error
        return None
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    is_of_seconds = found.st_ctime_ns % 1_000_000_000 == 0
    if now_nanos - changed < (_SETTLED_OF_SECONDS_NANOS if is_of_seconds else _SETTLED_NANOS):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextlib.contextmanager
def _errors_named(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise folder_in_place_of_file(path) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidRequestError(
                f"{cut(path)} is too long for a path, or a part of it for a name; use shorter ones"
            ) from error
        raise UnavailableError(f"{path}: {error.strerror or error}") from error


def _check_file(path: str, mode: int) -> None:
    """Raise CorruptDataError for a folder, a device or a pipe."""
    if stat.S_ISDIR(mode):
        raise folder_in_place_of_file(path)
    if not stat.S_ISREG(mode):
        raise CorruptDataError(f"{path} is damaged: it is a device or a pipe; restore the file from a copy")


def _make_folders(folder: str, root: str) -> None:
    """Create a folder and its parents, durably, if they do not exist; with `root`, only those below it.

    Raises NotFoundError if `root` is missing.
    """
    made: list[str] = []
    if root and is_below(folder, root):
        try:
            for one in folders_below(folder, root):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(one)
                    made.append(one)
        except FileNotFoundError as error:
            raise missing(root) from error
    else:
        at = folder
        while at and not os.path.exists(at):
            made.append(at)
            at = os.path.dirname(at)
        os.makedirs(folder, exist_ok=True)
    for parent in map(os.path.dirname, made):
        if not is_synced_later(parent):
            _sync_directory(parent)


def _write_temporary(path: str, data: bytes, root: str, *, sync: bool = False) -> str:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        _make_folders(folder, root)
        descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        _unlink(temporary)
        raise
    return temporary


def _create_in_place(path: str, data: bytes, root: str) -> None:
    """Create a file that nothing names, not durably. Raises CorruptDataError if it exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        try:
            descriptor = os.open(path, flags, 0o666)
        except FileNotFoundError:
            _make_folders(os.path.dirname(path), root)
            descriptor = os.open(path, flags, 0o666)
    except FileExistsError as error:
        raise name_taken(path) from error
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(data)
    except BaseException:
        _unlink(path)
        raise


def _link_new(temporary: str, path: str, data: bytes) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _create_exclusively(path, data)
    return True


def _create_exclusively(path: str, data: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _unlink(path)
        raise
    return True


def _sync_directory(directory: str) -> None:
    """Make the names in a folder durable, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
