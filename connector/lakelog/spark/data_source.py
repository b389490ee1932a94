"""The data source `lakelog`: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` by `format("lakelog")`.

Filters are never pushed into it: Spark 4.3 keeps one read function for a relation, filters included, and gives wrong
rows when two queries filter it differently. Columns and rows are chosen by options.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError, UnavailableError, UnsupportedError
from lakelog.filestore.read.fallback import plan_read
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.write.table_write import Overwrite
from lakelog.protocol.place import original_of, recorded_place
from lakelog.spark.options import (
    BRANCH,
    CONSUMER_ID,
    TAG,
    ReadOptions,
    check_stream_write_options,
    open_for_read,
    open_from_options,
    parse_overwrite,
    parse_read_options,
)
from lakelog.spark.session import prepare_session
from lakelog.spark.sink.files_writer import AwayStreamWriter, FilesPlan, FilesStreamWriter, FilesWriter
from lakelog.spark.source.reading import PARTITION_BYTES, SplitsPartition, TableRows, pack, partition_count, read_schema
from lakelog.spark.source.source import LakelogStreamReader
from lakelog.spark.tables import log_target

logger = logging.getLogger("lakelog.spark")
FORMAT = "lakelog"
CHECKPOINT_OPTION = "checkpointLocation"


class LakelogDataSource(DataSource):
    """One use of the format, with its options."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> spark.StructType:
        """The columns that the options choose. Raises what is wrong with the options at the user's load()."""
        table, options = self._read()
        return read_schema(table.schema, options)

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        """Reads a snapshot."""
        table, options = self._read()
        if options.consumer_id is not None:
            raise InvalidRequestError(f"{CONSUMER_ID.key} is an option of streams: a batch read records no progress")
        return SnapshotReader(TableRows.of(table._files, None, schema, options), options)

    def streamReader(self, schema: spark.StructType) -> DataSourceStreamReader:
        """Reads snapshot and log, or follows snapshots."""
        table, options = self._read()
        if options.tag is not None or table._files.branch != MAIN_BRANCH:
            raise UnsupportedError(
                f"a stream takes no {TAG.key} and no {BRANCH.key}: it reads the table's snapshots and its log; read "
                "a tag or a branch as a batch, with spark.read"
            )
        target = None
        if table.log is not None:
            original = original_of(table._files, recorded_place(table._files))
            if original is None:
                target = log_target(table)
                table.log.check_topic()
            else:
                logger.warning("%s is a copy of %s: its files are followed, not the log", table.name, original)
        rows = TableRows.of(table._files, target, schema, options)
        return LakelogStreamReader(table._files, target, rows, options)

    def writer(self, schema: spark.StructType, overwrite: bool) -> DataSourceWriter:
        """Appends rows, or replaces all, or partitions. Raises InvalidRequestError for a table with a log."""
        table = open_from_options(self.options)
        replaces = parse_overwrite(self.options, table, is_overwrite=overwrite)
        return FilesWriter(FilesPlan.of(table, schema, is_overwrite=overwrite, replaces=replaces))

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, or replaces all rows by each (complete mode)."""
        commit_user = check_stream_write_options(self.options)
        replaces = Overwrite.EVERYTHING if overwrite else None
        try:
            table = open_from_options(self.options)
            plan = FilesPlan.of(table, schema, is_overwrite=overwrite, replaces=replaces)
        except UnavailableError as error:
            return AwayStreamWriter(str(error))
        return FilesStreamWriter(plan, commit_user, self.options.get(CHECKPOINT_OPTION))

    def _read(self) -> tuple[Table, ReadOptions]:
        table = open_for_read(self.options)
        return table, parse_read_options(self.options, table)


class SnapshotReader(DataSourceReader):
    """Reads one snapshot, which is chosen when Spark plans: what is made of one DataFrame sees one snapshot."""

    def __init__(self, rows: TableRows, options: ReadOptions) -> None:
        """Read nothing yet."""
        self._rows = rows
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The splits of the snapshot."""
        table, options = self._rows.table, self._options
        snapshot = table.snapshot(snapshot_id=options.snapshot_id, timestamp=options.timestamp_millis, tag=options.tag)
        splits = plan_read(table, snapshot, where=options.where).splits
        groups = pack(splits, lambda split: split.size_bytes, count=partition_count(), size_max=PARTITION_BYTES)
        return [SplitsPartition(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a worker."""
        return self._rows.read(partition)


def register(spark: SparkSession) -> None:
    """Make the format known to a session. Spark finds it by itself where lakelog is installed for its Python."""
    prepare_session(spark)
    spark.dataSource.register(LakelogDataSource)
