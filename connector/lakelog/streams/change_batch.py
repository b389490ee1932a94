"""What a stream in the caller's process gives: changes, and the place behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakelog.protocol.state import TablePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Changes of a table in the order in which they were made, in each bucket.

    `rows` has the column `_row_kind` (`+I`, `-U`, `+U`, `-D`), then those of the read. `position` is the place behind
    them: a later `follow(start=position)` goes on there. `complete` is False in the middle of the rows of the snapshot
    that the stream began with, and of transactions. `snapshot` is the newest snapshot that is read as a whole, 0 before
    the first. `watermark` is the latest event-time watermark of the changes; None without one.
    """

    rows: pa.Table
    position: TablePosition
    complete: bool
    snapshot: int
    watermark: datetime | None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self.rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        return self.rows.__arrow_c_stream__(requested_schema)
