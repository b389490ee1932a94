"""Files of an S3-compatible object store. Needs obstore, an extra of lakelog.

A put with `If-None-Match: *` decides which of many racing writers creates a snapshot. The answer to such a put can get
lost, and a retried put can lose against its own first try: so each put carries a unique token in the object's metadata,
and a writer whose put is refused compares the token of the existing object with its own.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import S3Store

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnavailableError
from lakelog.filestore.io.client_cache import ClientCache
from lakelog.filestore.io.fileio import FileEntry, check_whole
from lakelog.filestore.io.object_errors import STORE_ERRORS, errors_named, named_error
from lakelog.filestore.io.object_files import ObjectWriter, fetch_end, open_known_object, open_object
from lakelog.filestore.io.object_probe import TOKEN_KEY, check_store
from lakelog.filestore.io.s3_access import S3Access

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

SCHEMES = ("s3", "s3a")
_BACKOFF_SECONDS = 0.2
_MILLIS_PER_SECOND = 1_000
_BACKOFF_SECONDS_MAX = 5.0
_CALLS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class ObjectStoreFileIO:
    """The files of S3-compatible stores; paths are `s3://bucket/key`. It is pickled with its keys; its repr hides them.

    Before its first write a process checks that the object store does what commits rely on; see
    `lakelog.filestore.io.object_probe`. An existing file is always complete.
    """

    access: S3Access = field(default_factory=S3Access)

    @property
    def calls_at_once(self) -> int:
        """Requests that wait for answers at once."""
        return _CALLS_AT_ONCE

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFoundError."""
        store, key = self._located(path)
        with errors_named(path):
            found = obstore.get(store, key)
            check_whole(path, found.meta["size"])
            return found.bytes().to_bytes()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace the file."""
        store, key = self._writable(path)
        with errors_named(path):
            obstore.put(store, key, data, use_multipart=False)

    def create_new(self, path: str, data: bytes) -> bool:
        """Create the file whole and durable; False when it exists.

        Raises UnavailableError if the outcome is unknown: then the file may exist, or appear later.
        """
        store, key = self._writable(path)
        return put_new(store, key, path, data, attempts_max=self.access.attempts_max)

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        store, key = self._located(path)
        try:
            with errors_named(path):
                obstore.head(store, key)
        except NotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """The file's bytes. Raises NotFoundError."""
        store, key = self._located(path)
        with errors_named(path):
            return obstore.head(store, key)["size"]

    def list_names(self, directory: str) -> list[str]:
        """Names below a folder; empty if there are none. Raises NotFoundError for a missing bucket."""
        store, key = self._located(directory)
        with errors_named(directory):
            found = obstore.list_with_delimiter(store, key or None)
        paths = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return [path.rpartition("/")[2] for path in paths]

    def list_entries(self, directory: str) -> list[FileEntry]:
        """The entries below a folder, with sizes and times; folders have none."""
        store, key = self._located(directory)
        with errors_named(directory):
            found = obstore.list_with_delimiter(store, key or None)
        folders = [FileEntry(path.rpartition("/")[2], True, 0, 0) for path in found["common_prefixes"]]
        files = [
            FileEntry(
                entry["path"].rpartition("/")[2],
                False,
                entry["size"],
                int(entry["last_modified"].timestamp() * _MILLIS_PER_SECOND),
            )
            for entry in found["objects"]
        ]
        return [*folders, *files]

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        store, key = self._located(path)
        with errors_named(path):
            obstore.delete(store, key)

    def delete_empty_dir(self, directory: str) -> bool:  # noqa: ARG002  # there is none
        """False: an object store has no folders."""
        return False

    def delete_tree(self, directory: str, *, last: Sequence[str] = ()) -> None:
        """Delete everything below a folder; what is below its folders `last` is deleted at the end, in their order.

        After an error the rest still exists: delete again.
        """
        store, key = self._located(directory)
        with errors_named(directory):
            found = [entry["path"] for entry in obstore.list(store, key).collect()]
            ends = [f"{key}/{name}/" for name in last]
            parts: list[list[str]] = [[] for _ in range(len(ends) + 1)]
            for path in found:
                at = next((number for number, end in enumerate(ends) if path.startswith(end)), -1)
                parts[at + 1].append(path)
            for part in parts:
                if part:
                    obstore.delete(store, part)

    def make_dirs(self, directory: str) -> None:
        """Nothing: an object store has no folders."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads, which fetch only what they read. Raises NotFoundError."""
        store, key = self._located(path)
        return pa.PythonFile(open_object(store, key, path), mode="r")

    def open_known(self, path: str, size_bytes: int) -> pa.NativeFile:
        """Open a file of a known size for random reads, without a request. Its reads raise NotFoundError."""
        store, key = self._located(path)
        return pa.PythonFile(open_known_object(store, key, path, size_bytes), mode="r")

    def fetch_end(self, path: str, *, start: int, size_bytes: int) -> None:
        """Fetch the bytes of a file from `start` on, for the next `open_known`. Raises NotFoundError."""
        store, key = self._located(path)
        fetch_end(store, key, path, start=start, size_bytes=size_bytes)

    def open_output(self, path: str) -> ObjectWriter:
        """Open a new file for writing. It exists, complete, once it is closed."""
        store, key = self._writable(path)
        return ObjectWriter(store, key, path)

    def sync(self, path: str) -> None:
        """Nothing: an object is durable once it is put."""

    def _located(self, path: str) -> tuple[S3Store, str]:
        bucket, key = split_path(path)
        return store_of(self.access, bucket), key

    def _writable(self, path: str) -> tuple[S3Store, str]:
        """The client and the key, after the object store has been tested."""
        store, key = self._located(path)
        check_store(store, path, self.access)
        return store, key


def put_new(store: S3Store, key: str, path: str, data: bytes, *, attempts_max: int) -> bool:
    """Put an object that does not exist yet; False if another one does. Raises UnavailableError as `create_new`.

    A put is tried again with the same token: should the first try take effect after all, it is the same object.
    """
    token = str(uuid.uuid4())
    is_unknown = False
    for attempt in range(attempts_max):
        try:
            obstore.put(store, key, data, mode="create", attributes={TOKEN_KEY: token})
            return True
        except (AlreadyExistsError, PreconditionError):
            return _token_of(store, key, path) == token
        except STORE_ERRORS as error:
            named = named_error(path, error)
            is_refused = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
            if isinstance(named, NotFoundError) or (is_refused and not is_unknown) or attempt == attempts_max - 1:
                raise named from error
            is_unknown = True
        time.sleep(min(_BACKOFF_SECONDS * (1 << attempt), _BACKOFF_SECONDS_MAX) * random.random())
    raise AssertionError("unreachable")


def _token_of(store: S3Store, key: str, path: str) -> str | None:
    """The token of the existing object; None if others wrote it. Raises UnavailableError if it is missing."""
    try:
        with errors_named(path):
            return obstore.get(store, key, options={"head": True}).attributes.get(TOKEN_KEY)
    except NotFoundError as error:
        raise UnavailableError(f"{path} existed and was deleted meanwhile: its writer is unknown; try again") from error


def split_path(path: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`. Raises InvalidRequestError."""
    scheme, colon, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not colon or scheme not in SCHEMES or not bucket or "@" in bucket:
        raise InvalidRequestError(
            f"{scheme}://{bucket.rpartition('@')[2]} names no bucket; expected a path such as s3://bucket/folder"
        )
    return bucket, key.strip("/")


_STORES: ClientCache[S3Store] = ClientCache("an object store")


def store_of(access: S3Access, bucket: str) -> S3Store:
    """The client for a bucket. Raises InvalidRequestError if it would wait forever."""

    def make() -> S3Store:
        with errors_named(f"{SCHEMES[0]}://{bucket}"):
            return _new_store(access, bucket)

    return _STORES.get((access, bucket), make)


@dataclass(frozen=True, slots=True)
class _GivenKeys:
    """Gives the keys of the options to obstore: as configuration they would mix with those of the environment."""

    access: S3Access = field(repr=False)

    def __call__(self) -> S3Credential:
        return {
            "access_key_id": self.access.access_key,
            "secret_access_key": self.access.secret_key,
            "token": self.access.session_token or None,
            "expires_at": None,
        }


def _new_store(access: S3Access, bucket: str) -> S3Store:
    endpoint = access.effective_endpoint
    is_path_style = access.is_path_style
    if is_path_style is None:
        is_path_style = bool(endpoint) or "." in bucket
    config: S3Config = {"virtual_hosted_style_request": not is_path_style}
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        config["aws_endpoint_url_s3"] = endpoint if is_path_style else f"{scheme}://{bucket}.{host}"
    if access.region:
        config["region"] = access.region
    return S3Store(
        bucket,
        config=config,
        client_options={
            "timeout": timedelta(milliseconds=access.timeout_millis),
            "allow_http": endpoint.startswith("http://"),
        },
        retry_config={
            "max_retries": access.attempts_max - 1,
            "retry_timeout": timedelta(milliseconds=access.timeout_millis * access.attempts_max),
            "backoff": {
                "init_backoff": timedelta(seconds=_BACKOFF_SECONDS),
                "max_backoff": timedelta(seconds=_BACKOFF_SECONDS_MAX),
            },
        },
        credential_provider=_GivenKeys(access) if access.access_key else None,
    )
