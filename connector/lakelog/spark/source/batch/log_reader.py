"""Batch reads of the log by `spark.read.format("lakelog")`: the committed records between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.common.errors import InvalidRequestError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.origins import LogRange, ReadMode, TableSource
from lakelog.lineage.records.sources import source_of_table
from lakelog.logstore.options import LogScan
from lakelog.protocol.stores import LogTarget
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import ReadOptions
from lakelog.spark.source.reading.input_partitions import TableRows, partitions_of
from lakelog.spark.source.reading.read_mark import marked
from lakelog.streams.options.log_offsets import Edge, GivenOffsets
from lakelog.streams.options.log_options import ENDING_OFFSETS, STARTING_OFFSETS, MetadataColumn
from lakelog.streams.phases.log_bounds import LogBounds
from lakelog.streams.phases.stream_head import TableHead
from lakelog.streams.phases.stream_log import LogPhase
from lakelog.streams.phases.stream_start import ReadStart
from lakelog.streams.reading.offsets import LogOffset

_EARLIEST = GivenOffsets(all_buckets=Edge.EARLIEST)
_LATEST = GivenOffsets(all_buckets=Edge.LATEST)


class LogReader(DataSourceReader):
    """Reads the log between positions that are chosen when Spark plans: all queries of a DataFrame see the same."""

    def __init__(
        self,
        rows: TableRows,
        target: LogTarget,
        options: ReadOptions,
        *,
        check_log: Callable[[], None] | None = None,
    ) -> None:
        """Read nothing yet. `check_log` raises for a topic that is not the table's."""
        self._rows = rows
        self._target = target
        self._options = options
        self._check_log = check_log

    def __getstate__(self) -> TableRows:
        # Workers only read.
        return self._rows

    def __setstate__(self, rows: TableRows) -> None:
        self._rows = rows

    @sentence_first()
    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the log. Raises InvalidRequestError for an end before the start, and like `ReadStart.changes`."""
        return Patience(self._target.unavailable_seconds).keep_trying(self._ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a worker."""
        return self._rows.read(partition)

    def _ranges(self) -> Sequence[InputPartition]:
        if self._check_log is not None:
            self._check_log()
        table, log = self._rows.table, self._options.log
        head = TableHead(table, self._target)
        bounds = LogBounds(table, self._target, fails_on_loss=log.fails_on_loss)
        phase = LogPhase(table, self._target, head, log)
        start = self._start(ReadStart(table, self._target, self._options, head, phase), bounds, head)
        ending = log.ending or _LATEST
        found = bounds.given(ENDING_OFFSETS.key, ending, latest=head.now().ends)
        # The last transaction is followed by its control record: an empty log starts behind its end.
        ends = {at: max(end, start.offsets[at]) if ending.is_edge(at) else end for at, end in found.items()}
        _check_range(start.offsets, ends, head.now().ends)
        end = LogOffset(topic_id=start.topic_id, offsets=ends, counts={}, consumed=head.now().snapshot_id)
        has_snapshots = MetadataColumn.SNAPSHOT_ID in log.metadata
        return marked(partitions_of(phase.parts(start, end, has_snapshots=has_snapshots)), self._source(start, end))

    def _source(self, start: LogOffset, end: LogOffset) -> TableSource:
        """The source that the read records."""
        return replace(
            source_of_table(self._rows.table, mode=ReadMode.BATCH),
            log=LogRange(topic_id=end.topic_id, start=start.offsets, end=end.offsets),
            why="a batch read of a part of the log",
        )

    def _start(self, start: ReadStart, bounds: LogBounds, head: TableHead) -> LogOffset:
        log = self._options.log
        if log.scan is LogScan.FROM_OFFSETS and log.starting is None:
            return start.placed(bounds.given(STARTING_OFFSETS.key, _EARLIEST, latest=head.now().ends))
        found = start.changes(log.scan)
        assert isinstance(found, LogOffset)
        return found


def _check_range(starts: Mapping[int, int], ends: Mapping[int, int], readable: Mapping[int, int]) -> None:
    for bucket, end in ends.items():
        if end > readable[bucket]:
            raise InvalidRequestError(
                f"option {ENDING_OFFSETS.key!r} has offset {end} of bucket {bucket}, and its log can be read up to "
                f"offset {readable[bucket]} (exclusive): what follows is not committed; name that, or latest (-1)"
            )
        if end < starts[bucket]:
            raise InvalidRequestError(
                f"bucket {bucket} would be read from offset {starts[bucket]} to {end}: give an end behind the start"
            )
