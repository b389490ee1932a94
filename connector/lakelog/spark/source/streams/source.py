"""The streaming source: snapshot rows first, then the log from exactly the offsets that the snapshot holds.

Spark runs one planner process for the whole run of a query, asks it for offsets and partitions, and sends the reader to
the workers. Only the offsets survive a restart, so they say everything. The planner is in
`lakelog.streams.planner`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any  # Any: offsets are JSON objects

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from lakelog.filestore import FileStoreTable
from lakelog.protocol.stores import LogTarget
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import ReadOptions
from lakelog.spark.read_ways import check_stream
from lakelog.spark.source.phases.stream_group import StreamGroup
from lakelog.spark.source.phases.stream_grouped import GroupPhase
from lakelog.spark.source.reading.input_partitions import TableRows, partitions_of
from lakelog.spark.source.streams.read_limits import limits_of, read_limit
from lakelog.streams.phases.generations import FindTopic, no_topic
from lakelog.streams.phases.stream_follow import FollowPhase
from lakelog.streams.phases.stream_head import TableHead
from lakelog.streams.phases.stream_log import LogPhase
from lakelog.streams.phases.stream_start import ReadStart
from lakelog.streams.planner import StreamPlanner

if TYPE_CHECKING:
    from lakelog.spark.source.streams.audit_stream import AuditRows


class LakelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream of changes."""

    def __init__(
        self,
        table: FileStoreTable,
        target: LogTarget | None,
        rows: TableRows | AuditRows,
        options: ReadOptions,
        *,
        check_log: Callable[[], None] | None = None,
        find_topic: FindTopic = no_topic,
        group: StreamGroup | None = None,
    ) -> None:
        """Read nothing yet. Raises InvalidRequestError for options that do not go together."""
        self._rows = rows
        check_stream(options, table_name=table.name, has_log=target is not None)

        def grouped(head: TableHead, start: ReadStart, log: LogPhase | None, following: FollowPhase) -> GroupPhase:
            assert group is not None
            return GroupPhase(table, group, options, head, start, log=log, following=following)

        self._planner: StreamPlanner | None = StreamPlanner(
            table,
            target,
            options,
            check_log=check_log,
            find_topic=find_topic,
            group=None if group is None else grouped,
        )

    def __getstate__(self) -> TableRows | AuditRows:
        # Workers only read; the planner's state stays in its process.
        return self._rows

    def __setstate__(self, rows: TableRows | AuditRows) -> None:
        self._rows = rows
        self._planner = None

    @property
    def planner(self) -> StreamPlanner:
        """The planner; only in the planner process."""
        assert self._planner is not None
        return self._planner

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        """Always the same: the first batch, which Spark stores, decides where to start."""
        return self.planner.to_json(self.planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options, in the only form that Spark can carry.

        Spark asks each stream of a query for it before it asks one for the end of a batch.
        """
        self.planner.enter_group()
        return read_limit(self.planner.limits)

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the batch that begins at `start`."""
        limits = limits_of(limit, self.planner.limits)
        asked = time.monotonic()
        begin = self.planner.from_json(start)
        end = self.planner.end_of_batch(begin, limits)
        if end == begin and self.planner.rest(asked):
            end = self.planner.end_of_batch(begin, limits)
        return self.planner.to_json(end)

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what exists now, and no further."""
        self.planner.fix_head()

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What the tasks of a batch read."""
        return partitions_of(self.planner.parts(self.planner.from_json(start), self.planner.from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a worker."""
        return self._rows.read(partition)

    @sentence_first()
    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is processed: release the snapshots before it."""
        self.planner.let_go(self.planner.from_json(end))

    def stop(self) -> None:
        """Release every snapshot. Spark calls this only after errors."""
        self.planner.release()
