"""The words of a read of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Any: values of keys

from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.verbs import Selection
from lakelog.protocol.state import TablePosition

Keys = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Position = TablePosition | Snapshot | str


class ReadWords(Selection, total=False):
    """The rows and columns of a read, and whether it shows what the log has behind the newest snapshot, see `at`."""

    fresh: bool
    at_least: Position | None
