"""Where a table or a warehouse is: a folder of this machine, or of an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.filestore.fileio import FileIO, LocalFileIO
from lakelog.filestore.s3_access import PREFIX, S3Access

_LOCAL = LocalFileIO()
_SCHEMES = ("s3", "s3a")


@dataclass(frozen=True, slots=True)
class Location:
    """A folder: an absolute path or a URL, without a slash at its end, and what reaches its files."""

    path: str
    file_io: FileIO

    @classmethod
    def of(cls, path: str | Path, options: Mapping[str, str] | None = None) -> Location:
        """The folder that a path or URL names; does no I/O. `options` say how an object store is reached.

        Raises InvalidRequestError (OptionError for options), and UnsupportedError for other stores.
        """
        text = str(path).removeprefix("file://")
        scheme, is_url, _ = text.partition("://")
        if not is_url:
            if options:
                raise OptionError(f"{', '.join(options)}: a local folder takes no options of a store, found {text}")
            return cls(str(Path(text).absolute()), _LOCAL)
        if scheme not in _SCHEMES:
            raise UnsupportedError(
                f"{scheme}:// is not supported yet: tables are in local folders, and in S3-compatible stores as "
                "s3://bucket/folder"
            )
        return cls(text.rstrip("/"), _object_store(text.rstrip("/"), options or {}))


def is_local(path: str) -> bool:
    """True for the path of a folder or file of this machine, False for a URL."""
    return "://" not in path


def store_options(given: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that say how a store is reached."""
    return {key: value for key, value in given.items() if key.startswith(PREFIX)}


def _object_store(path: str, options: Mapping[str, str]) -> FileIO:
    try:
        from lakelog.filestore.object_store import ObjectStoreFileIO, split_path  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise InvalidRequestError(f"{path} needs obstore: pip install 'lakelog[s3]'") from error
    split_path(path)
    return ObjectStoreFileIO(S3Access.of(options))
