"""The query that `write_stream` returns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.common.errors import LakelogError
from lakelog.spark.compaction.compaction import BackgroundCompaction
from lakelog.spark.failures import error_of
from lakelog.spark.sink.commits import progress_with_commits, progresses_with_commits

logger = logging.getLogger("lakelog.spark")

LISTENER_SECONDS = 60.0  # how long the end of a query waits for its listeners


class TableQuery(StreamingQuery):
    """A streaming query whose end includes that of the compaction beside it.

    Its progress reports what each batch did to the table, see `progress_with_commits`.
    """

    def __init__(
        self,
        query: StreamingQuery,
        compaction: BackgroundCompaction,
        *,
        settles: bool,
        before_end: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
        watch: Thread | None = None,
    ) -> None:
        """Wrap a running query. `settles` says that it ends by itself, and then leaves files that need no merge.

        `before_end` makes the snapshot of batches that are in the log alone, when the query has ended or was stopped;
        `on_end` is called when the query has ended without an error, or was stopped. `watch` is the thread that tells
        listeners about any end.
        """
        super().__init__(query._jsq)
        self._compaction = compaction
        self._settles = settles
        self._before_end = before_end
        self._on_end = on_end
        self._watch = watch

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end of the query, and of compaction. See StreamingQuery.

        Raises StreamingQueryException; if a lakelog error ended the query, that error is its cause.
        """
        try:
            has_ended = super().awaitTermination(timeout)
        except StreamingQueryException as error:
            try:
                self._before_end()
            except LakelogError as second:
                logger.warning("batches of the query that failed stay in the log, for the next run: %s", second)
            self._await_listeners()
            ours = error_of(error)
            if ours is None:
                raise
            raise error from ours
        if has_ended is not False:
            self._finish()
        return has_ended

    def stop(self) -> None:
        """Stop the query, and wait for a running compaction."""
        super().stop()
        self._before_end()
        self._compaction.wait()
        self._on_end()
        self._await_listeners()

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The progress of the last trigger; None before the first."""
        progress = super().lastProgress
        return None if progress is None else progress_with_commits(progress)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The progress of the last `spark.sql.streaming.numRecentProgressUpdates` triggers."""
        return progresses_with_commits(super().recentProgress)

    def _finish(self) -> None:
        self._before_end()
        if self._settles and self.exception() is None:
            self._compaction.settle()
        else:
            self._compaction.wait()
        self._on_end()
        self._await_listeners()

    def _await_listeners(self) -> None:
        if self._watch is not None:
            self._watch.join(LISTENER_SECONDS)
