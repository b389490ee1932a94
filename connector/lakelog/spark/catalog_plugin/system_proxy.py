"""System tables for Spark's SQL: `lake.db.t$files`, `lake.sys.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from pyspark.sql import types as spark

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.spark.catalog_plugin.java.planned_scans import python_scan
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.java.scan_proxy import pruned
from lakelog.spark.options import COLUMNS, TABLE, WAREHOUSE
from lakelog.spark.system_read import INCREMENTAL, SystemReader, system_schema
from lakelog.streams.options.shown_state import STATE_OPTIONS

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm


_SHOWN = frozenset(option.key for option in (*STATE_OPTIONS, INCREMENTAL, WAREHOUSE))


class SystemTableProxy(Proxy):
    """A system table, which is read."""

    interfaces = ("catalog.SupportsRead",)

    def __init__(self, jvm: Jvm, catalog: str, name: str, warehouse: str, options: Mapping[str, str]) -> None:
        shown, given = f"{catalog}.{name}", {**options, TABLE.key: name, WAREHOUSE.key: warehouse}
        named = {key: value for key, value in given.items() if key in _SHOWN}  # others may be keys of a store
        super().__init__(jvm, f"lakelog system table {shown} {sorted(named.items())}")
        self._shown = shown
        self._options = given
        self._schema = system_schema(given)

    def name(self) -> str:
        """The name in the statement."""
        return self._shown

    def id(self) -> None:
        """None: a system table has no identity of its own."""

    def version(self) -> None:
        """None: Spark reads it anew each time."""

    def schema(self) -> Any:  # a Java StructType
        """The columns."""
        return self.jvm.schema(self._schema)

    def columns(self) -> Any:  # a Java Column[]
        """The columns."""
        return self.jvm.columns(self._schema)

    def partitioning(self) -> Any:  # a Java Transform[]
        """No partition columns."""
        return self.jvm.array(self.jvm.connector("expressions.Transform"), ())

    def constraints(self) -> Any:  # a Java Constraint[]
        """No constraints."""
        return self.jvm.array(self.jvm.connector("catalog.constraints.Constraint"), ())

    def properties(self) -> Any:  # a java.util.Map
        """No properties."""
        return self.jvm.string_map({})

    def capabilities(self) -> Any:  # a java.util.Set of TableCapability
        """A system table is read."""
        return self.jvm.constants("catalog.TableCapability", ("BATCH_READ",))

    def newScanBuilder(self, options: Any) -> Proxy:  # a Java CaseInsensitiveStringMap; known at load
        """A scan for one place of a plan."""
        return SystemScanBuilder(self.jvm, self._shown, self._options, self._schema)


class SystemScanBuilder(Proxy):
    """Collects the columns that are read."""

    interfaces = ("read.SupportsPushDownRequiredColumns",)

    def __init__(self, jvm: Jvm, shown: str, options: Mapping[str, str], schema: spark.StructType) -> None:
        super().__init__(jvm, f"scan builder of {shown}")
        self._options = options
        self._schema = schema

    def pruneColumns(self, required: Any) -> None:  # a Java StructType
        """Read only these columns."""
        self._schema = pruned(self._schema, required, self._schema.fields[0])

    def build(self) -> Any:  # a Java Scan
        """The scan, by one Python worker."""
        options = {**self._options, COLUMNS.key: ",".join(map(quoted_name, self._schema.names))}
        return python_scan(self.jvm, SystemReader(options, self._schema), self._schema)
