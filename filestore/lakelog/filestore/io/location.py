"""The place of a table or a warehouse: a folder of this machine, of an object store, or of HDFS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.filestore.io.bounded_files import bounded_io
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.io.path_forms import EXTERNAL_PATHS, external_places, is_local, user_path
from lakelog.filestore.io.s3_access import PREFIX as S3_PREFIX
from lakelog.filestore.io.s3_access import S3Access

HADOOP_PREFIX = "hadoop."
_LOCAL = LocalFileIO()


@dataclass(frozen=True, slots=True)
class Location:
    """A folder: an absolute path or a URL without a slash at its end, and the FileIO of its files.

    `external_places` are folders outside the table's folder from which its files may be read.
    """

    path: str
    file_io: FileIO
    external_places: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str | Path, options: Mapping[str, str] | None = None) -> Location:
        """The folder that a path or URL names; does no I/O. `options` configure the access to an object store or HDFS.

        Raises InvalidRequestError (OptionError for options), and UnsupportedError for other stores.
        """
        text = user_path(path)
        given = dict(options or {})
        places = external_places(given)
        given.pop(EXTERNAL_PATHS.key, None)
        if is_local(text):
            if given:
                raise OptionError(
                    f"{listed(given)}: a local folder takes no options of an object store or HDFS, found {text}"
                )
            return cls(text, _LOCAL, places)
        opened = _STORES.get(text.partition("://")[0])
        if opened is None:
            raise UnsupportedError(
                f"{text.partition('://')[0]}:// is not supported: tables are in local folders, in S3-compatible stores "
                "as s3://bucket/folder, and in HDFS as hdfs://namenode:8020/folder"
            )
        return cls(text, opened(text, given), places)

    def files_of_table(self, file_io: FileIO | None = None) -> FileIO:
        """The FileIO for only the files of the table in this folder; `file_io` replaces the folder's own."""
        return bounded_io(file_io or self.file_io, self.path, self.external_places)


def store_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options that configure the access to files: keys, addresses, external folders."""
    return {
        key: value
        for key, value in given.items()
        if key.startswith((S3_PREFIX, HADOOP_PREFIX)) or key == EXTERNAL_PATHS.key
    }


def _object_store(path: str, options: Mapping[str, str]) -> FileIO:
    try:
        from lakelog.filestore.io.object_store import ObjectStoreFileIO, split_path  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise InvalidRequestError(f"{path} needs obstore: pip install 'lakelog[s3]'") from error
    split_path(path)
    return ObjectStoreFileIO(S3Access.of(options))


def _hdfs(path: str, options: Mapping[str, str]) -> FileIO:
    try:
        from lakelog.filestore.io.hdfs import HdfsFileIO, split_path  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name != "hdfs_native":
            raise
        raise InvalidRequestError(f"{path} needs hdfs-native: pip install 'lakelog[hdfs]'") from error
    split_path(path)
    others = [key for key in options if not key.startswith(HADOOP_PREFIX)]
    if others:
        raise OptionError(
            f"{listed(others)}: HDFS takes Hadoop's settings with {HADOOP_PREFIX!r} before them, such as "
            f"{HADOOP_PREFIX}dfs.ha.namenodes.mycluster"
        )
    return HdfsFileIO(tuple(sorted((key.removeprefix(HADOOP_PREFIX), value) for key, value in options.items())))


_STORES = {"s3": _object_store, "s3a": _object_store, "hdfs": _hdfs}
