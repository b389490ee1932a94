"""The source of changes: changelog files or deltas."""

from __future__ import annotations

from enum import StrEnum


class ChangeSource(StrEnum):
    """The files from which a reader takes changes."""

    AUTO = "auto"  # changelog files where the table has a changelog producer, else deltas
    CHANGELOG = "changelog"
    DELTA = "delta"
