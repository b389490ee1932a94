"""Tests an object store before a process writes to it: some object stores ignore `If-None-Match`.

Two writers that both create snapshot 7 there would both succeed, and one commit would be lost silently. So an object is
put as new twice, read back, listed and deleted; see `_probe` for the expected result of each step.
"""

from __future__ import annotations

import contextlib
import threading
import uuid

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.io.object_errors import STORE_ERRORS, errors_named, first_line
from lakelog.filestore.io.s3_access import S3Access

TOKEN_KEY = "lakelog-writer"  # in an object's metadata: which put created it
_PASSED: set[tuple[S3Access, str]] = set()
_LOCK = threading.Lock()
_NOT_IMPLEMENTED = ("501 Not Implemented", "NotImplemented")


def check_store(store: S3Store, path: str, access: S3Access) -> None:
    """Test the object store, once per process and bucket, in the folder of `path`, which is about to be written.

    Raises UnsupportedError if a step fails, UnavailableError for an object store that does not answer.
    """
    root = path.partition("://")[2].partition("/")[0]
    with _LOCK:
        if (access, root) not in _PASSED:
            _probe(store, path.rpartition("/")[0], access)
            _PASSED.add((access, root))


def _probe(store: S3Store, folder: str, access: S3Access) -> None:
    """Run the steps, and delete their object."""
    path = f"{folder}/.lakelog-probe-{uuid.uuid4()}/probe"
    key = path.partition("://")[2].partition("/")[2]
    with errors_named(path):
        try:
            _try_steps(store, key, path, access)
        except BaseException:
            with contextlib.suppress(*STORE_ERRORS):  # the first error is the one to report
                obstore.delete(store, key)
            raise
        obstore.delete(store, key)


def _try_steps(store: S3Store, key: str, path: str, access: S3Access) -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    _put_first(store, key, path, first, access)
    _put_second(store, key, path, second, access)
    found = obstore.get(store, key)
    token, held = found.attributes.get(TOKEN_KEY), found.bytes().to_bytes().decode(errors="replace")
    if held != first:
        raise _refusal(path, access, "reading the object back", "gave other bytes than were put")
    if token != first:
        raise _refusal(path, access, "reading the object's metadata back", f"gave the token {token!r}, not {first!r}")
    if [entry["path"] for entry in obstore.list(store, key.rpartition("/")[0]).collect()] != [key]:
        raise _refusal(path, access, "listing after a put", "did not show the new object")


def _put_first(store: S3Store, key: str, path: str, token: str, access: S3Access) -> None:
    try:
        obstore.put(store, key, token.encode(), mode="create", attributes={TOKEN_KEY: token})
    except (AlreadyExistsError, PreconditionError):
        return  # the answer was lost, and the object was put again: it is read back below
    except STORE_ERRORS as error:
        if any(sign in str(error) for sign in _NOT_IMPLEMENTED):
            step = "the first put with If-None-Match: *"
            raise _refusal(path, access, step, f"was not taken: {first_line(error)}") from error
        raise


def _put_second(store: S3Store, key: str, path: str, token: str, access: S3Access) -> None:
    try:
        obstore.put(store, key, token.encode(), mode="create", attributes={TOKEN_KEY: token})
    except (AlreadyExistsError, PreconditionError):
        return
    step = "the second put with If-None-Match: *"
    raise _refusal(path, access, step, "replaced the object; a precondition error was expected")


def _refusal(path: str, access: S3Access, step: str, what: str) -> UnsupportedError:
    bucket = path.split("/")[2]
    return UnsupportedError(
        f"the store of bucket {bucket!r} at {access.effective_endpoint or 'AWS'} cannot hold tables that lakelog "
        f"writes: {step} {what} (object {path}). Commits of two writers could overwrite each other there. Use a store "
        "with conditional writes, such as AWS S3 or a current MinIO, or remove the proxy that drops the header; "
        "reading needs none of this"
    )
