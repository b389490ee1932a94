"""Lineage never fails a job: an analysis that fails is a warning, a count, and an unknown origin in the record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import local
from typing import TypeVar

from lakelog.common.errors import LakelogError

Found = TypeVar("Found")

logger = logging.getLogger("lakelog.lineage")


class _Failures(local):
    count = 0


_failures = _Failures()


def known_or(
    what: str,
    find: Callable[[], Found],
    otherwise: Callable[[Exception], Found],
    *,
    raises: tuple[type[Exception], ...] = (),
) -> Found:
    """What `find` gives; what `otherwise` makes of its error if it fails. `what` begins the warning: "the sources are".

    The error may be any: analyses read plans of other versions of Spark, and what users' programs have made. Those of
    `raises` fail the job.
    """
    try:
        return find()
    except raises:
        raise
    except Exception as error:
        _failures.count += 1
        logger.warning("%s not known: %r", what, error, exc_info=None if isinstance(error, LakelogError) else error)
        return otherwise(error)


def failure_count() -> int:
    """How many analyses have failed in this thread."""
    return _failures.count
