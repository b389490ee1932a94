"""Rows that this process has, as a scan of Spark that needs no task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from lakelog.spark.catalog_plugin.java.scan_proxy import ScanProxy
from lakelog.spark.types import spark_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import types as spark

    from lakelog.spark.catalog_plugin.java.jvm import Jvm


_ROW = "org.apache.spark.sql.catalyst.InternalRow"


class LocalRows(ScanProxy):
    """A few rows. `schema` is that of Spark; without it the types of the Arrow table say it."""

    interfaces = ("read.LocalScan",)

    def __init__(self, jvm: Jvm, text: str, rows: pa.Table, schema: spark.StructType | None = None) -> None:
        super().__init__(jvm, text, from_arrow_schema(rows.schema) if schema is None else schema)
        self._table = rows

    def rows(self) -> Any:  # a Java InternalRow[]
        """The rows as Spark keeps them."""
        return rows_in_java(self.jvm, self._table, self._schema)

    def columnarSupportMode(self) -> Any:  # a Java ColumnarSupportMode
        """Rows do not come in columns."""
        return self.jvm.connector("read.Scan$ColumnarSupportMode").UNSUPPORTED


def rows_in_java(jvm: Jvm, rows: pa.Table, schema: spark.StructType) -> Any:  # a Java InternalRow[]
    """Rows as Spark keeps them, in the types of `schema`.

    `createDataFrame` does the same by five times as many calls and a file.
    """
    if not rows.num_rows:
        return jvm.gateway.new_array(jvm.java_class(_ROW), 0)
    written = pa.BufferOutputStream()
    given = rows.cast(spark_arrow_schema(schema))
    with pa.ipc.new_stream(written, given.schema) as stream:
        stream.write_table(given)
    source = jvm.java_class("java.io.ByteArrayInputStream")(written.getvalue().to_pybytes())
    channel = jvm.java_class("java.nio.channels.Channels").newChannel(source)
    batches = jvm.scala_object("org.apache.spark.sql.execution.arrow.ArrowConverters").getBatchesFromStream(channel)
    utils = jvm.java_class("org.apache.spark.sql.api.python.PythonSQLUtils")
    relation = utils.toDataFrame(batches, schema.json(), jvm.session._jsparkSession).queryExecution().analyzed()
    made = jvm.gateway.new_array(jvm.java_class(_ROW), rows.num_rows)
    relation.data().copyToArray(made)
    return made
