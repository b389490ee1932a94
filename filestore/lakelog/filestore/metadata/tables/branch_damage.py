"""A damaged file of a branch, met by a call about the whole table: the error names the branch, and that it may go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.schema.paths import MAIN_BRANCH


@contextlib.contextmanager
def damage_of_branch(branch: str, table_name: str) -> Iterator[None]:
    """Raise CorruptDataError with the way out of a damaged branch; that of the main branch stays as it is."""
    try:
        yield
    except CorruptDataError as error:
        if branch == MAIN_BRANCH:
            raise
        raise CorruptDataError(
            f"{error}; where branch {branch!r} of {table_name} is not needed, delete it, by `lakelog table branch "
            "delete`: no file that it may name is deleted before"
        ) from error
