"""Files of HDFS, without Java. Needs hdfs-native, an extra of lakelog.

The NameNode decides which writer creates a snapshot: a file is written completely under a unique name, and then renamed
to its final name, which must not exist yet. If the answer to the rename is lost, the unique name shows the outcome: the
rename took effect if, and only if, that name is missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from hdfs_native import Client, FileStatus, FileWriter, WriteOptions

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnavailableError
from lakelog.filestore.io.client_cache import ClientCache
from lakelog.filestore.io.fileio import FileEntry, check_whole
from lakelog.filestore.io.folders import folder_in_place_of_file, folders_below, missing
from lakelog.filestore.io.range_reader import TAIL_BYTES, RangeReader
from lakelog.filestore.io.store_writer import StoreWriter

SCHEME = "hdfs"
_STORE_ERRORS = (OSError, RuntimeError, ValueError)
_LENGTH_MAX = 400
_DIRECTORY_PERMISSION = 0o755


@dataclass(frozen=True, slots=True)
class HdfsFileIO:
    """The files of HDFS; paths are `hdfs://host:port/path`, `hdfs://nameservice/path` or `hdfs:///path`.

    `settings` are Hadoop's, and override those of `core-site.xml` and `hdfs-site.xml` in the folder HADOOP_CONF_DIR.
    """

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    root: str = ""  # see `rooted`

    def rooted(self, root: str) -> HdfsFileIO:
        """The same files, but writes create folders only below `root`; without it they raise NotFoundError."""
        return replace(self, root=root) if type(self) is HdfsFileIO else self

    def rename_folder(self, source: str, target: str) -> bool:
        """Rename a folder with its contents, in one step of the NameNode; False if `target` exists.

        Raises UnavailableError if the outcome is unknown because the NameNode did not answer.
        """
        with _errors_named(source):
            client, name = self._located(source)
            _, new_name = self._located(target)
            if _exists(client, new_name):
                return False
            try:
                client.rename(name, new_name, overwrite=False)
            except FileExistsError:
                return False
            except _STORE_ERRORS:
                # The client may have sent the rename twice, and met its own first one.
                if _exists(client, name) or not _exists(client, new_name):
                    raise
        return True

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFoundError."""
        with _errors_named(path):
            client, name = self._located(path)
            file = client.read(name)
            check_whole(path, file.size)
            return file.read()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace the file by a rename."""
        with _errors_named(path):
            client, name = self._located(path)
            temporary = _write_temporary(client, name, data, self._root_name)
            try:
                client.rename(temporary, name, overwrite=True)
            except BaseException:
                _delete_quietly(client, temporary)
                raise

    def create_new(self, path: str, data: bytes) -> bool:
        """Create the file whole and durable; False when it exists.

        Raises UnavailableError if the NameNode did not answer: then the file may exist.
        """
        with _errors_named(path):
            client, name = self._located(path)
            if _exists(client, name):
                return False
            return _rename_new(client, _write_temporary(client, name, data, self._root_name), name)

    def exists(self, path: str) -> bool:
        """True if the file or folder exists."""
        with _errors_named(path):
            return _exists(*self._located(path))

    def size(self, path: str) -> int:
        """The file's bytes. Raises NotFoundError."""
        with _errors_named(path):
            client, name = self._located(path)
            return client.get_file_info(name).length

    def list_names(self, directory: str) -> list[str]:
        """Names in a folder; empty when it is missing or a file."""
        return [_name_of(status) for status in self._statuses(directory)]

    def list_entries(self, directory: str) -> list[FileEntry]:
        """The entries of a folder, with sizes and times; empty if it is missing."""
        return [
            FileEntry(_name_of(status), status.isdir, status.length, status.modification_time)
            for status in self._statuses(directory)
        ]

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        with _errors_named(path):
            client, name = self._located(path)
            client.delete(name, recursive=False)

    def delete_empty_dir(self, directory: str) -> bool:
        """Delete a folder if nothing is in it."""
        with _errors_named(directory):
            client, name = self._located(directory)
            try:
                return client.delete(name, recursive=False)
            except RuntimeError as error:
                if "PathIsNotEmptyDirectoryException" in str(error):
                    return False
                raise

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:  # noqa: ARG002  # all goes at once
        """Delete a folder with its contents, in one step of the NameNode."""
        with _errors_named(directory):
            client, name = self._located(directory)
            client.delete(name, recursive=True)

    def make_dirs(self, directory: str) -> None:
        """Make a folder and its parents."""
        with _errors_named(directory):
            client, name = self._located(directory)
            if self.root and directory != self.root:
                _make_folders(client, name, self._root_name)
            else:
                client.mkdirs(name, _DIRECTORY_PERMISSION, create_parent=True)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads, which fetch only what they read. Raises NotFoundError."""
        with _errors_named(path):
            client, name = self._located(path)
            file = client.read(name)
            start = max(0, file.size - TAIL_BYTES)
            tail = pa.py_buffer(file.read_range(start, file.size - start))

        def fetch(start: int, end: int) -> pa.Buffer:
            with _errors_named(path):
                return pa.py_buffer(file.read_range(start, end - start))

        return pa.PythonFile(RangeReader(file.size, tail, fetch), mode="r")

    def open_output(self, path: str) -> HdfsWriter:
        """Open a new file for writing; its folder is created."""
        with _errors_named(path):
            client, name = self._located(path)
            return HdfsWriter(client, name, path, root=self._root_name)

    def sync(self, path: str) -> None:
        """Nothing: a file that was closed is on the disks of its DataNodes."""

    @property
    def _root_name(self) -> str:
        return split_path(self.root)[1] if self.root else ""

    def _statuses(self, directory: str) -> list[FileStatus]:
        with _errors_named(directory):
            client, name = self._located(directory)
            try:
                found = list(client.list_status(name))
            except FileNotFoundError:
                return []
        return [status for status in found if _name_of(status) and status.path.rstrip("/") != name]

    def _located(self, path: str) -> tuple[Client, str]:
        authority, name = split_path(path)
        return _client_of(authority, self.settings), name


class HdfsWriter(StoreWriter):
    """A new file while it is written: others may see a part of it. Its bytes are durable once `close` has returned."""

    def __init__(self, client: Client, name: str, path: str, *, root: str = "") -> None:
        """Create the file, and its folder below `root`."""
        super().__init__(path)
        self._client, self._name = client, name
        self._file: FileWriter | None = _created(client, name, root, overwrite=True)

    @property
    def closed(self) -> bool:
        """True after `close` and `abort`."""
        return self._file is None

    def _send(self, data: memoryview) -> None:
        assert self._file is not None
        with _errors_named(self._path):
            self._file.write(data)

    def close(self) -> None:
        """The file is whole, and on disks. Raises UnavailableError."""
        file, self._file = self._file, None
        if file is not None:
            with _errors_named(self._path):
                _finish(file, self._size)

    def abort(self) -> None:
        """Close and delete the file."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(*_STORE_ERRORS):  # the file is deleted; why it could not be closed does not matter
                file.close()
            _delete_quietly(self._client, self._name)


def split_path(path: str) -> tuple[str, str]:
    """NameNode, or nameservice, or nothing for the default one, and the path. Raises InvalidRequestError."""
    scheme, _, rest = path.partition("://")
    authority, _, name = rest.partition("/")
    if scheme != SCHEME or "@" in authority:
        found = f"{scheme}://{authority.rpartition('@')[2]}/{name}"
        raise InvalidRequestError(f"{found} names no folder of HDFS; expected a path such as hdfs://namenode:8020/lake")
    return authority, f"/{name.strip('/')}"


def _finish(file: FileWriter, size: int) -> None:
    if size:
        file.hsync()
    file.close()


def _created(client: Client, name: str, root: str, *, overwrite: bool) -> FileWriter:
    """A new file, and its folders: those below `root`, or all of them without `root`. Raises NotFoundError."""
    options = WriteOptions(overwrite=overwrite, create_parent=not root)
    try:
        return client.create(name, options)
    except _STORE_ERRORS as error:
        if not root or not _is_missing(error):
            raise
    _make_folders(client, name.rpartition("/")[0], root)
    return client.create(name, options)


def _make_folders(client: Client, folder: str, root: str) -> None:
    """Create the folders from below `root` to `folder`. Raises NotFoundError if `root` is missing."""
    for one in folders_below(folder, root):
        try:
            client.mkdirs(one, _DIRECTORY_PERMISSION, create_parent=False)
        except _STORE_ERRORS as error:
            if _is_missing(error):
                raise missing(root) from error
            raise


def _is_missing(error: Exception) -> bool:
    """Whether the NameNode says that a folder is missing."""
    return isinstance(error, FileNotFoundError) or "FileNotFoundException" in str(error)


def _write_temporary(client: Client, name: str, data: bytes, root: str) -> str:
    folder, _, last = name.rpartition("/")
    temporary = f"{folder}/.{last}.{uuid.uuid4()}.tmp"
    file = _created(client, temporary, root, overwrite=False)
    try:
        file.write(data)
        _finish(file, len(data))
    except BaseException:
        _delete_quietly(client, temporary)
        raise
    return temporary


def _rename_new(client: Client, temporary: str, name: str) -> bool:
    try:
        client.rename(temporary, name, overwrite=False)
    except _STORE_ERRORS as error:
        # The client may have sent the rename twice, and met its own first one: the temporary name shows the outcome.
        if client.delete(temporary, recursive=False):
            if isinstance(error, FileExistsError):
                return False
            raise
        if not _exists(client, name):
            raise
    return True


def _exists(client: Client, name: str) -> bool:
    try:
        client.get_file_info(name)
    except FileNotFoundError:
        return False
    return True


def _delete_quietly(client: Client, name: str) -> None:
    with suppress(*_STORE_ERRORS):  # nothing names the file; `remove_orphan_files` deletes it
        client.delete(name, recursive=False)


def _name_of(status: FileStatus) -> str:
    return status.path.rstrip("/").rpartition("/")[2]


@contextmanager
def _errors_named(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise folder_in_place_of_file(path) from error
    except _STORE_ERRORS as error:
        lines = str(error).splitlines()
        said = (lines[0] if lines else repr(error))[:_LENGTH_MAX]
        raise UnavailableError(f"{path}: HDFS does not answer as it should: {said}") from error


_CLIENTS: ClientCache[Client] = ClientCache("HDFS")


def _client_of(authority: str, settings: tuple[tuple[str, str], ...]) -> Client:
    """The client of a NameNode."""
    url = f"{SCHEME}://{authority}" if authority else None
    return _CLIENTS.get((authority, settings), lambda: Client(url, dict(settings)))
