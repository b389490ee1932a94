"""Reads by `spark.read.format("lakelog")`: the splits of one snapshot, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.read import DataSplit, plan_read
from lakelog.lineage.records.sources import state_read
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import ReadOptions
from lakelog.spark.source.reading.input_partitions import TableRows, partitions_of
from lakelog.spark.source.reading.read_mark import marked
from lakelog.streams.reading.packing import packed_splits
from lakelog.streams.reading.parts import SplitsPart


class SnapshotReader(DataSourceReader):
    """Reads one snapshot, which is chosen when Spark plans: everything derived from one DataFrame sees one snapshot."""

    def __init__(
        self,
        rows: TableRows,
        options: ReadOptions,
        chosen: Sequence[Snapshot | None] = (),
        splits: Sequence[DataSplit] | None = None,
    ) -> None:
        """Read nothing yet.

        `chosen` has the snapshot if it is chosen already; it may have expired but for a tag. `splits` are those to read
        of it, if they are known.
        """
        self._rows = rows
        self._options = options
        self._chosen = tuple(chosen)
        self._splits = splits

    def __getstate__(self) -> dict[str, object]:
        """Without the splits, which partitions bring to the workers."""
        return {**self.__dict__, "_splits": None}

    @sentence_first()
    def partitions(self) -> Sequence[InputPartition]:
        """The splits of the snapshot."""
        table, options = self._rows.table, self._options
        snapshot = self._chosen[0] if self._chosen else table.snapshot(**options.state.choice)
        splits = self._splits
        if splits is None:
            splits = plan_read(table, snapshot, where=options.where).splits
        return marked(partitions_of(SplitsPart(group) for group in packed_splits(splits)), state_read(table, snapshot))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a worker."""
        return self._rows.read(partition)
