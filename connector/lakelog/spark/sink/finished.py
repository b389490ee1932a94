"""The last batch that this process has finished for each user and table in a run.

Spark gives a batch to the sink once in a run. A second write of it is a second sink on the same table, whose rows would
be taken for a replay and dropped.
"""

from __future__ import annotations

from threading import Lock

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.spark.sink.alignment import MicroBatch


class FinishedBatches:
    """The numbers of the last batches, by run, table, branch and user."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = Lock()
        self._last: dict[tuple[str | None, str, str, str], int] = {}

    def check_new(self, table: Table, micro: MicroBatch) -> None:
        """Raise InvalidRequestError when the batch is finished already."""
        with self._lock:
            last = self._last.get((micro.run, table.path, table._files.branch, micro.user), -1)
        if last >= micro.identifier:
            raise InvalidRequestError(
                f"batch {micro.identifier} writes table {table.name} a second time: give each sink on one table in one "
                "query a writer_name of its own, or unite their rows before one write"
            )

    def add(self, table: Table, micro: MicroBatch) -> None:
        """Record a finished batch."""
        with self._lock:
            self._last[(micro.run, table.path, table._files.branch, micro.user)] = micro.identifier


FINISHED = FinishedBatches()
