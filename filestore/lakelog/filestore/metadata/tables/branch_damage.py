"""A damaged file of a branch, found by a call about the whole table: the error names the branch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.schema.paths import MAIN_BRANCH


@contextlib.contextmanager
def damage_of_branch(branch: str, table_name: str) -> Iterator[None]:
    """Raise CorruptDataError with what to do about a damaged branch; the error of the main branch is not changed."""
    try:
        yield
    except CorruptDataError as error:
        if branch == MAIN_BRANCH:
            raise
        raise CorruptDataError(
            f"{error}; if branch {branch!r} of {table_name} is not needed, delete it with `lakelog table branch "
            "delete`: until then no file that it may name is deleted"
        ) from error
