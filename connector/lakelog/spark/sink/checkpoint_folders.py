"""The folders of checkpoints, in any file system: Spark's, this machine's, or the file system of a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: py4j gives Java objects without types
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from lakelog.common.errors import NotFoundError
from lakelog.filestore.io import FileIO, LocalFileIO, is_object_store
from lakelog.filestore.metadata.tables import TableStore


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """The folder of a checkpoint on this machine."""

    path: Path

    @property
    def location(self) -> str:
        """The location of the folder."""
        return str(self.path)

    def find_text(self, name: str) -> str | None:
        """The text of a file below the folder; None when it is not there."""
        return text_of(self.path / name)

    def write_text(self, name: str, text: str) -> None:
        """Write or replace a file below the folder."""
        LocalFileIO().write_bytes(str(self.path / name), text.encode())

    def has_files(self, name: str) -> bool:
        """Whether a folder below the folder has any file."""
        return (self.path / name).is_dir() and any((self.path / name).iterdir())


@dataclass(frozen=True, slots=True)
class HadoopFolder:
    """The folder of a checkpoint in a Hadoop file system, accessed through a Spark session."""

    session: SparkSession
    location: str

    def find_text(self, name: str) -> str | None:
        """The text of a file below the folder; None when it is not there."""
        return _find_text(self.session, f"{self.location}/{name}")

    def write_text(self, name: str, text: str) -> None:
        """Write or replace a file below the folder."""
        path, files = _hadoop_file(self.session, f"{self.location}/{name}")
        stream = files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def has_files(self, name: str) -> bool:
        """Whether a folder below the folder has any file."""
        path, files = _hadoop_file(self.session, f"{self.location}/{name}")
        return bool(files.exists(path)) and len(files.listStatus(path)) > 0


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """The folder of a checkpoint in the file system of a table, read with the table's own access to it."""

    files: FileIO
    location: str

    def find_text(self, name: str) -> str | None:
        """The text of a file below the folder; None when it is not there. Raises UnavailableError."""
        try:
            return self.files.read_bytes(f"{self.location}/{name}").decode()
        except NotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write or replace a file below the folder. Raises UnavailableError."""
        self.files.write_bytes(f"{self.location}/{name}", text.encode())

    def has_files(self, name: str) -> bool:
        """Whether a folder below the folder has any file."""
        return bool(self.files.list_names(f"{self.location}/{name}"))


def folder_beside(table: TableStore, location: str) -> LocalFolder | StoreFolder | None:
    """The folder of a checkpoint that Python can read by itself: on this machine, or in the file system of a table."""
    local = local_path(location)
    if local is not None:
        return LocalFolder(local)
    ours, theirs = (urlsplit(text) for text in (table.path, location))
    is_same_store = is_object_store(location) if is_object_store(table.path) else ours[:2] == theirs[:2]
    if not is_same_store or not theirs.netloc:
        return None
    root = location.rstrip("/")
    return StoreFolder(table.files_at(root), root)


def checkpoint_folder(session: SparkSession, location: str) -> LocalFolder | HadoopFolder:
    """The folder of a checkpoint at a Hadoop location, with its scheme, as Spark resolves it."""
    local = local_path(location)
    return HadoopFolder(session, location) if local is None else LocalFolder(local)


def named_folder(session: SparkSession, location: str) -> LocalFolder | HadoopFolder:
    """The folder of a location as users write it; without a scheme it is in the default file system."""
    path, files = _hadoop_file(session, location)
    return checkpoint_folder(session, files.makeQualified(path).toString())


def local_path(location: str) -> Path | None:
    """The path of a Hadoop location on this machine; None for another file system. Hadoop locations escape nothing."""
    scheme, colon, rest = location.partition(":")
    if location.startswith("/"):
        return Path(location)
    if colon and scheme == "file":
        return Path("/" + rest.lstrip("/"))
    return None


def _find_text(session: SparkSession, path: str) -> str | None:
    """The text of a file; None when it does not exist."""
    local = local_path(path)
    if local is not None:
        return text_of(local)
    hadoop_path, files = _hadoop_file(session, path)
    return read_text(session, path) if files.exists(hadoop_path) else None


def text_of(path: Path) -> str | None:
    """The text of a file on this machine; None when it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def read_text(session: SparkSession, path: str) -> str:
    """The text of a file at a Hadoop location."""
    local = local_path(path)
    if local is not None:
        return local.read_text(encoding="utf-8")
    hadoop_path, files = _hadoop_file(session, path)
    stream = files.open(hadoop_path)
    try:
        text: str = jvm_of(session).org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return text


def jvm_of(session: SparkSession) -> Any:  # py4j's view of the JVM
    """The JVM of a session."""
    return session.sparkContext._jvm


def _hadoop_file(session: SparkSession, path: str) -> tuple[Any, Any]:  # a Java Path, and its FileSystem
    hadoop_path = jvm_of(session).org.apache.hadoop.fs.Path(path)
    return hadoop_path, hadoop_path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
