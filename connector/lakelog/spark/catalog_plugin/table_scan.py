"""Reads of a table for Spark: what a scan will read, and its rows.

Source: Spark, `org.apache.spark.sql.connector.read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader

from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import DataSplit, first_splits, plan_read
from lakelog.spark.catalog_plugin.java.java_predicates import is_long_list, joined_filters, pushed_filter
from lakelog.spark.catalog_plugin.java.local_rows import rows_in_java
from lakelog.spark.catalog_plugin.java.planned_scans import parquet_scan, python_scan, python_source, python_table
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.java.scan_proxy import ScanProxy
from lakelog.spark.source.batch.file_scan import is_scanned_by_spark, scanned_paths
from lakelog.spark.types import spark_arrow_schema, to_spark_schema

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable


# Up to this size rows are read by the driver: a task that starts a Python worker takes longer.
_LOCAL_ROWS, _LOCAL_BYTES = 10_000, 1 << 20
_RUNTIME_VALUES_MAX = 1_000


class TableScan(ScanProxy):
    """A read of one snapshot: files that need no merge by Spark's Parquet scan, others by Python workers."""

    interfaces = ("read.SupportsReportStatistics", "read.SupportsRuntimeV2Filtering")

    def __init__(
        self,
        jvm: Jvm,
        loaded: LoadedTable,
        schema: spark.StructType,
        filters: tuple[Predicate, ...],
        pushed: tuple[Any, ...],
        *,
        limit: int | None = None,
    ) -> None:
        """With `limit`, as many files are read as hold so many rows."""
        columns = ", ".join(schema.names)
        where = "".join(f" where {predicate.toString()}" for predicate in pushed)
        most = "" if limit is None else f" limit {limit}"
        super().__init__(jvm, f"lakelog scan of {loaded.identity}: {columns}{where}{most}", schema)
        self._loaded = loaded
        self._filters = list(filters)
        self._pushed = pushed
        self._limit = limit
        self._runtime: list[Any] = []
        self._lock = RLock()
        self._scan: Any = None

    def estimateStatistics(self) -> ScanStatistics:
        """Rows and bytes, by which Spark orders joins and chooses tables to broadcast."""
        rows = sum(split.row_count for split in self._splits)
        size = sum(split.size_bytes for split in self._splits)
        every = max(1, _row_bytes(to_spark_schema(self._loaded.table.schema.fields)))
        return ScanStatistics(self.jvm, rows, max(1, size * _row_bytes(self._schema) // every))

    def estimateSizeInBytes(self) -> Any:  # a java.util.OptionalLong
        """The size alone."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Whether the statistics are those behind filters that are evaluated completely."""
        return True

    def filterAttributes(self) -> Any:  # a Java NamedReference[]
        """Columns for which Spark may send values while the query runs: those that a file can be skipped by."""
        schema = self._loaded.table.schema
        names = dict.fromkeys((*schema.partition_keys, *schema.primary_keys))
        reference = self.jvm.connector("expressions.Expressions")
        chosen = [reference.column(name) for name in names if name in self._schema.names]
        return self.jvm.array(self.jvm.connector("expressions.NamedReference"), chosen)

    def filter(self, predicates: Any) -> None:  # Java Predicate[]s
        """Values that Spark has found while the query runs, for example of the other side of a join.

        A long list of them is left: a million values take long to bring here, and they exclude few files.
        """
        fields = self._loaded.table.schema.fields
        predicates = [one for one in predicates if not is_long_list(one, _RUNTIME_VALUES_MAX)]
        found = [one for predicate in predicates if (one := pushed_filter(self.jvm, predicate, fields)) is not None]
        with self._lock:
            self._filters += [one.filter for one in found]
            self._runtime += predicates
            self._scan = None
            self.__dict__.pop("_splits", None)

    def pushedPredicates(self) -> Any:  # a Java Predicate[]
        """The predicates that came while the query runs."""
        return self.jvm.array(self.jvm.connector("expressions.filter.Predicate"), self._runtime)

    def supportsIterativePushdown(self) -> bool:
        """Whether predicates come in several calls."""
        return False

    def toMicroBatchStream(self, checkpoint: str) -> Any:  # a Java MicroBatchStream
        """The stream of the table, as by `readStream.format("lakelog")`."""
        schema = self._schema
        table = python_table(self.jvm, python_source(self.jvm), schema)
        options = self.jvm.options(self._loaded.source_options())
        return table.newScanBuilder(options).build().toMicroBatchStream(checkpoint)

    def toBatch(self) -> Any:  # a Java Batch
        """The tasks; the same at each call, of which a query makes several."""
        return self._java_scan().toBatch()

    @property
    def is_small(self) -> bool:
        """Whether reading here costs less than a task that starts a Python worker."""
        rows = sum(split.row_count for split in self._splits)
        return rows <= _LOCAL_ROWS and sum(split.size_bytes for split in self._splits) <= _LOCAL_BYTES

    def as_local(self) -> LocalTableScan:
        """The same scan, whose rows are read in this process."""
        scan = LocalTableScan(
            self.jvm, self._loaded, self._schema, tuple(self._filters), self._pushed, limit=self._limit
        )
        scan._splits = self._splits
        return scan

    @cached_property
    def _splits(self) -> Sequence[DataSplit]:
        files, where = self._loaded.table.store, self._where()
        splits = plan_read(files, self._loaded.snapshot, where=where).splits
        return splits if self._limit is None or where is not None else first_splits(splits, self._limit)

    def _where(self) -> Predicate | None:
        own = self._loaded.options.where
        return joined_filters([*([] if own is None else [own]), *self._filters])

    def _java_scan(self) -> Any:  # a Java Scan
        with self._lock:
            if self._scan is None:
                self._scan = self._planned()
            return self._scan

    def _planned(self) -> Any:  # a Java Scan
        self._loaded.check_batch()
        files, options = self._loaded.table.store, self._loaded.options
        is_plain = self._loaded.is_whole and not options.has_row_kind and not options.log.metadata
        if is_plain and self._splits and all(is_scanned_by_spark(files, split) for split in self._splits):
            paths = scanned_paths(files, self._splits)
            schema = to_spark_schema(files.schema.fields)
            return parquet_scan(self.jvm, paths, schema, self.jvm.schema(self._schema), self._v1_filters())
        reader = self._reader()
        return python_scan(self.jvm, reader, self._schema)

    def _reader(self) -> DataSourceReader:
        splits = self._splits if self._loaded.is_whole else None
        return self._loaded.reader(self._schema, self._where(), splits)

    def _v1_filters(self) -> list[Any]:  # Java Filters
        """The predicates as Spark's file formats take them."""
        convert = self.jvm.scala_object("org.apache.spark.sql.internal.connector.PredicateUtils")
        found = [convert.toV1(predicate) for predicate in (*self._pushed, *self._runtime)]
        return [one.get() for one in found if one.isDefined()]


class LocalTableScan(TableScan):
    """A read of a few rows, which are read in this process when the plan is made."""

    interfaces = ("read.SupportsReportStatistics", "read.LocalScan")

    def rows(self) -> Any:  # a Java InternalRow[]
        """The rows as Spark keeps them."""
        reader = self._reader()
        batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        return rows_in_java(self.jvm, pa.Table.from_batches(batches, spark_arrow_schema(self._schema)), self._schema)


def _row_bytes(schema: spark.StructType) -> int:
    """About how wide a row is, as Spark estimates it."""
    return sum(_TYPE_BYTES.get(type(field.dataType), 20) for field in schema.fields)


_TYPE_BYTES: dict[type[spark.DataType], int] = {
    spark.BooleanType: 1,
    spark.ByteType: 1,
    spark.ShortType: 2,
    spark.IntegerType: 4,
    spark.DateType: 4,
    spark.FloatType: 4,
    spark.LongType: 8,
    spark.DoubleType: 8,
    spark.TimestampType: 8,
    spark.TimestampNTZType: 8,
}


class ScanStatistics(Proxy):
    """The size of what a scan reads."""

    interfaces = ("read.Statistics",)

    def __init__(self, jvm: Jvm, rows: int, size_bytes: int) -> None:
        super().__init__(jvm, f"{rows} rows, {size_bytes} bytes")
        self._rows = rows
        self._size_bytes = size_bytes

    def numRows(self) -> Any:  # a java.util.OptionalLong
        """How many rows there are at most."""
        return self.jvm.java_class("java.util.OptionalLong").of(self._rows)

    def sizeInBytes(self) -> Any:  # a java.util.OptionalLong
        """How many bytes are read, about."""
        return self.jvm.java_class("java.util.OptionalLong").of(self._size_bytes)

    def columnStats(self) -> Any:  # a java.util.Map
        """Nothing about single columns."""
        return self.jvm.java_class("java.util.HashMap")()
