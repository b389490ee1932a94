"""Which files a reader of changes takes."""

from __future__ import annotations

from enum import StrEnum


class ChangeSource(StrEnum):
    """Which files hold the changes that a reader takes."""

    AUTO = "auto"  # changelog files where the table has a producer of them, else deltas
    CHANGELOG = "changelog"
    DELTA = "delta"
