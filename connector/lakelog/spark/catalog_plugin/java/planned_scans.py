"""Scans of Spark whose read is planned in this process.

A scan of a Python data source starts a Python process for its plan, which opens the table again: some 300 ms. A scan
that is given its read function and its partitions starts none. Files that need no merge are read by Spark's own Parquet
scan, as in `lakelog.spark.source.batch.file_scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from lakelog.spark.catalog_plugin.java.jvm import Jvm
from lakelog.spark.session import FORMAT
from lakelog.spark.source.batch.file_scan import PARQUET_SCAN_OPTIONS

PYTHON_CLASSES = "org.apache.spark.sql.execution.datasources.v2.python"
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_ROWS_A_BATCH = 10_000  # only for rows that are tuples


class _OurFormat(DataSource):
    """What Spark names in an error of a reader."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT


def python_scan(jvm: Jvm, reader: DataSourceReader, schema: spark.StructType) -> Any:  # a Java Scan
    """The scan of a reader of ours, with its partitions as they are now."""
    function, partitions = _pickled(reader, schema)
    source = python_source(jvm)
    source.setReadInfo(
        jvm.java_class(f"{PYTHON_CLASSES}.PythonDataSourceReadInfo")(function, jvm.scala_seq(partitions))
    )
    return python_table(jvm, source, schema).newScanBuilder(jvm.options({})).build()


def python_source(jvm: Jvm) -> Any:  # a Java PythonDataSourceV2
    """Spark's view of our data source."""
    source = jvm.java_class(f"{PYTHON_CLASSES}.PythonDataSourceV2")()
    source.setShortName(FORMAT)
    return source


def python_table(jvm: Jvm, source: Any, schema: spark.StructType) -> Any:  # Java: a PythonDataSourceV2; a PythonTable
    """A table of our data source; its options say which."""
    return jvm.java_class(f"{PYTHON_CLASSES}.PythonTable")(source, FORMAT, jvm.schema(schema))


def _pickled(reader: DataSourceReader, schema: spark.StructType) -> tuple[bytes, list[bytes]]:
    """What Spark's own planning process would send: the read function, and the partitions."""
    sent = BytesIO()
    write_read_func_and_partitions(
        sent,
        reader=reader,
        data_source=_OurFormat({}),
        schema=schema,
        max_arrow_batch_size=_ROWS_A_BATCH,
        binary_as_bytes=True,
    )
    sent.seek(0)
    function = _sized(sent)
    return function, [_sized(sent) for _ in range(_number(sent))]


def _sized(sent: BytesIO) -> bytes:
    return sent.read(_number(sent))


def _number(sent: BytesIO) -> int:
    return int.from_bytes(sent.read(4), "big", signed=True)


def parquet_scan(
    jvm: Jvm, paths: Sequence[str], schema: spark.StructType, wanted: Any, filters: Sequence[Any]
) -> Any:  # Java: a StructType, V1 Filters; a ParquetScan
    """Spark's own scan of Parquet files of one schema. Row groups that cannot meet the filters are skipped."""
    file_format = jvm.java_class("org.apache.spark.util.Utils").classForName(
        f"{_DATASOURCES}.parquet.ParquetFileFormat", True, True
    )
    options = jvm.options(PARQUET_SCAN_OPTIONS)
    table = jvm.java_class(f"{_DATASOURCES}.v2.parquet.ParquetTable")(
        FORMAT,
        jvm.session._jsparkSession,
        options,
        jvm.scala_seq(list(paths)),
        jvm.some(jvm.schema(schema)),
        file_format,
    )
    builder = table.newScanBuilder(options)
    builder.pruneColumns(wanted)
    scan = builder.build()
    return _with_filters(scan, builder.pushDataFilters(_filters(jvm, filters))) if filters else scan


def _filters(jvm: Jvm, filters: Sequence[Any]) -> Any:  # Java: V1 Filters; a Filter[]
    return jvm.array(jvm.java_class("org.apache.spark.sql.sources.Filter"), filters)


def _with_filters(scan: Any, filters: Any) -> Any:  # Java: a ParquetScan, a Filter[]; a ParquetScan
    """The scan with filters: builders of files take filters of Spark's optimizer alone, the scan itself takes ours."""
    types = next(method.getParameterTypes() for method in scan.getClass().getMethods() if method.getName() == "copy")
    kind = filters.getClass().getName()
    arguments = [
        filters if one.getName() == kind else getattr(scan, f"copy$default${at}")()
        for at, one in enumerate(types, start=1)
    ]
    return scan.copy(*arguments)
