"""Errors of an object store as errors of lakelog. Only `object_*` modules import obstore, an extra of lakelog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from lakelog.common.errors import NotFoundError, UnavailableError

# What obstore raises: errors of its own, and Python's for a missing object and a failed connection.
STORE_ERRORS = (BaseError, OSError)
_LENGTH_MAX = 400


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """Raise NotFoundError or UnavailableError for errors of the object store at a path."""
    try:
        yield
    except STORE_ERRORS as error:
        raise named_error(path, error) from error


def named_error(path: str, error: Exception) -> NotFoundError | UnavailableError:
    """The error of lakelog for an error of the object store."""
    text = first_line(error)
    if "NoSuchBucket" in str(error):
        bucket = path.split("/")[2]
        return NotFoundError(
            f"{path}: the store has no bucket {bucket!r}; create it, or check s3.endpoint and s3.region"
        )
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{path} does not exist")
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return UnavailableError(
            f"{path}: the store refuses the request: {text}. Check the keys (s3.access-key and s3.secret-key, or "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; profiles are not read) and that they may get, put, list and "
            "delete there"
        )
    if "PermanentRedirect" in str(error) or "AuthorizationHeaderMalformed" in str(error):
        return UnavailableError(f"{path}: the bucket is in another region; set s3.region or AWS_REGION: {text}")
    return UnavailableError(f"{path}: the store does not answer as it should: {text}")


def first_line(error: Exception) -> str:
    """The message of an error, without the debugging lines after it."""
    lines = str(error).splitlines()
    return (lines[0] if lines else repr(error))[:_LENGTH_MAX]
