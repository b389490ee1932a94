"""Errors of requests: a status and a text."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError, UnsupportedError


class RequestError(Exception):
    """The request cannot be answered: the status says why, the text what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def status_of(error: LakelogError) -> int:
    """The status for an error of lakelog: the request, the thing in it, or what is stored."""
    if isinstance(error, InvalidRequestError):
        return 400
    if isinstance(error, NotFoundError):
        return 404
    return 422 if isinstance(error, UnsupportedError) else 503
