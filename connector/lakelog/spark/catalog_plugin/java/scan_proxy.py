"""What every scan of ours answers, and the columns that a scan builder keeps.

Source: Spark, `org.apache.spark.sql.connector.read`: Scan, SupportsPushDownRequiredColumns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark

from lakelog.spark.catalog_plugin.java.proxy import WithoutMetrics

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm


class ScanProxy(WithoutMetrics):
    """A read of some columns; the text is what EXPLAIN shows."""

    def __init__(self, jvm: Jvm, text: str, schema: spark.StructType) -> None:
        super().__init__(jvm, text)
        self._schema = schema

    def description(self) -> str:
        """The text of the scan in EXPLAIN."""
        return self._identity

    def readSchema(self) -> Any:  # a Java StructType
        """The columns that are read."""
        return self.jvm.schema(self._schema)

    def columnarSupportMode(self) -> Any:  # a Java ColumnarSupportMode
        """Whether rows come in columns: the partitions say so."""
        return self.jvm.connector("read.Scan$ColumnarSupportMode").PARTITION_DEFINED


def pruned(schema: spark.StructType, required: Any, otherwise: spark.StructField) -> spark.StructType:
    """The columns of `schema` that a Java StructType names; `otherwise` for a query that needs rows without columns."""
    names = set(required.fieldNames())
    return spark.StructType([field for field in schema.fields if field.name in names] or [otherwise])
