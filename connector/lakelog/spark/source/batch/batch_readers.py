"""Which reader a batch read has: of a snapshot, of the changes between two states, or of a part of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader

from lakelog.spark.options import ReadOptions
from lakelog.spark.read_ways import check_batch
from lakelog.spark.source.batch.snapshot_reader import SnapshotReader
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.streams.options.log_options import check_log_batch

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.protocol.stores import LogTarget


def batch_reader(table: Table, options: ReadOptions, schema: spark.StructType) -> DataSourceReader:
    """The reader that the options ask for, with the columns of `schema`. Raises InvalidRequestError."""
    check_batch(options, table_name=table.name, has_log=table.log is not None)
    if options.log.reads_batch:
        from lakelog.spark.source.batch.log_reader import LogReader

        target, check_log = log_of(table)
        check_log_batch(options.log, options.state, table_name=table.name, has_log=target is not None)
        assert target is not None
        return LogReader(TableRows.of(table.store, target, schema, options), target, options, check_log=check_log)
    store = table.at(fresh=True).store if options.fresh else table.store
    rows = TableRows.of(store, None, schema, options)
    if options.between is not None:
        from lakelog.spark.source.batch.range_reader import RangeReader

        return RangeReader(rows, options.between)
    return SnapshotReader(rows, options)


def log_of(table: Table) -> tuple[LogTarget | None, Callable[[], None] | None]:
    """Where the table's log is, and a function that checks its topic; nothing for a table without a log or a copy."""
    from lakelog.spark.tables import log_target
    from lakelog.streams.opening import log_to_read

    log = log_to_read(table.store, table.log)
    return (None, None) if log is None else (log_target(table), log.check_topic)
