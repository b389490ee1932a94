"""Scans of a table for Spark: the columns and the filters of each one, what it will read, and its rows.

Spark asks a builder once for each place where a plan names the table, so that no two reads share a filter.

Source: Spark, `org.apache.spark.sql.connector.read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark.sql import types as spark

from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import known_range, plan_read
from lakelog.spark.catalog_plugin.java.java_predicates import column_name, pushed_filter
from lakelog.spark.catalog_plugin.java.local_rows import LocalRows
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.java.scan_proxy import pruned
from lakelog.spark.catalog_plugin.table_scan import TableScan
from lakelog.spark.source.reading.read_schema import read_schema

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

_COUNT, _MIN, _MAX = "CountStar", "Min", "Max"


class TableScanBuilder(Proxy):
    """Collects what a scan needs, then builds it."""

    interfaces = (
        "read.SupportsPushDownRequiredColumns",
        "read.SupportsPushDownV2Filters",
        "read.SupportsPushDownAggregates",
        "read.SupportsPushDownLimit",
    )

    def __init__(self, jvm: Jvm, loaded: LoadedTable) -> None:
        super().__init__(jvm, f"scan builder of {loaded.identity}")
        self._loaded = loaded
        self._schema = read_schema(loaded.table.schema, loaded.options, table_name=loaded.table.name)
        self._pushed: list[Any] = []
        self._filters: list[Predicate] = []
        self._answer: pa.Table | None = None
        self._asked: Any = None  # a Java Aggregation
        self._found: pa.Table | None = None
        self._limit: int | None = None

    def pruneColumns(self, required: Any) -> None:  # a Java StructType
        """Read only these columns; whole ones, also where a query needs a field of them."""
        self._schema = pruned(self._schema, required, _narrowest(self._schema))

    def pushPredicates(self, predicates: Any) -> Any:  # Java Predicate[]s
        """Skip files and rows by these predicates. Spark evaluates them again."""
        fields = self._loaded.table.schema.fields
        for predicate in predicates:
            found = pushed_filter(self.jvm, predicate, fields)
            if found is not None:
                self._pushed.append(predicate)
                self._filters.append(found.filter)
        return predicates

    def pushedPredicates(self) -> Any:  # a Java Predicate[]
        """The predicates by which files are skipped."""
        return self.jvm.array(self.jvm.connector("expressions.filter.Predicate"), self._pushed)

    def supportsIterativePushdown(self) -> bool:
        """Whether predicates come in several calls."""
        return False

    def supportCompletePushDown(self, aggregation: Any) -> bool:  # a Java Aggregation
        """Whether metadata alone answers the aggregates of a query."""
        self._asked, self._found = aggregation, self._answered(aggregation)
        return self._found is not None

    def pushAggregation(self, aggregation: Any) -> bool:  # a Java Aggregation
        """Answer the aggregates by metadata, if that is exact."""
        # The one that Spark has just asked about: its plan is not made again.
        self._answer = self._found if aggregation == self._asked else self._answered(aggregation)
        return self._answer is not None

    def _answered(self, aggregation: Any) -> pa.Table | None:  # a Java Aggregation
        """The row of `count(*)`, `min` and `max`; None for others, and where files have other rows than the table.

        Spark leaves functions out whose values nobody reads: the row of none has no column.
        """
        self._loaded.check_batch()
        if len(aggregation.groupByExpressions()) or self._filters or not self._loaded.is_whole:
            return None
        functions = list(aggregation.aggregateExpressions())
        kinds = [str(function.getClass().getSimpleName()) for function in functions]
        if not {_COUNT, _MIN, _MAX}.issuperset(kinds):
            return None
        files = self._loaded.table.store
        splits = plan_read(files, self._loaded.snapshot, where=None).splits
        if files.schema.is_change_log or not all(split.is_plain for split in splits):
            return None
        found: dict[str, pa.Array] = {}
        for at, (kind, function) in enumerate(zip(kinds, functions, strict=True)):
            if kind == _COUNT:
                found[f"count_{at}"] = pa.array([sum(split.row_count for split in splits)], pa.int64())
                continue
            name = column_name(function.column())
            both = None if name is None else known_range(files, splits, name)
            if both is None:
                return None
            found[f"{kind.lower()}_{at}"] = both.slice(0 if kind == _MIN else 1, 1).combine_chunks()
        return pa.table(found) if found else pa.Table.from_struct_array(pa.array([{}]))

    def pushLimit(self, limit: int) -> bool:
        """Read no more files than have so many rows, if files have the rows of the table. Spark counts the rows."""
        if self._filters or not self._loaded.is_whole or self._loaded.table.schema.is_change_log:
            return False
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        """Whether a scan may give more rows than the limit."""
        return True

    def build(self) -> Proxy:
        """The scan."""
        if self._answer is not None:
            return LocalRows(self.jvm, f"lakelog aggregates of {self._loaded.identity}", self._answer)
        filters, pushed = tuple(self._filters), tuple(self._pushed)
        scan = TableScan(self.jvm, self._loaded, self._schema, filters, pushed, limit=self._limit)
        return scan.as_local() if self._loaded.is_whole and scan.is_small else scan


def _narrowest(schema: spark.StructType) -> spark.StructField:
    """The column that costs least to read, for a query that needs rows without columns."""
    plain = [field for field in schema.fields if isinstance(field.dataType, spark.NumericType | spark.BooleanType)]
    return (plain or list(schema.fields))[0]
