"""The query that `write_stream` gives back."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from lakelog.spark.compaction.compaction import BackgroundCompaction


class TableQuery(StreamingQuery):
    """A streaming query whose end includes that of the compaction beside it."""

    def __init__(self, query: StreamingQuery, compaction: BackgroundCompaction, *, settles: bool) -> None:
        """Wrap a running query. `settles` says that it ends by itself, and leaves a table that reads need not merge."""
        super().__init__(query._jsq)
        self._compaction = compaction
        self._settles = settles

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end of the query, and of compaction. See StreamingQuery."""
        has_ended = super().awaitTermination(timeout)
        if has_ended is not False:
            self._finish()
        return has_ended

    def stop(self) -> None:
        """Stop the query, and wait for a compaction under way."""
        super().stop()
        self._compaction.wait()

    def _finish(self) -> None:
        if self._settles and self.exception() is None:
            self._compaction.settle()
        else:
            self._compaction.wait()
