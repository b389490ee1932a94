"""The source of changes: changelog files, deltas, or two states."""

from __future__ import annotations

from enum import StrEnum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown


class ChangeSource(StrEnum):
    """Where a reader takes changes from."""

    AUTO = "auto"  # changelog files if the table has a changelog producer, else deltas
    CHANGELOG = "changelog"
    DELTA = "delta"
    DIFFERENCE = "difference"  # the net difference of two states, neither changelog files nor deltas


def change_source(given: ChangeSource | str) -> ChangeSource:
    """The source with this name. Raises InvalidRequestError."""
    try:
        return ChangeSource(given)
    except ValueError as error:
        known = listed(one.value for one in ChangeSource)
        raise InvalidRequestError(f"the source of changes is {shown(given)}; expected one of {known}") from error
