"""Row statements that do not pass through `spark.sql`: `df.mergeInto`, scripts, EXECUTE IMMEDIATE, JVM callers.

Spark would write their rows by writers in the JVM. UPDATE and MERGE are refused with the way out; a DELETE that Spark
can hand over as a condition is done, and Spark asks for this operation before it knows.

Source: Spark, `org.apache.spark.sql.connector.write.RowLevelOperation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from lakelog.common.errors import UnsupportedError
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.catalog_plugin.scan_builder import TableScanBuilder

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

DELETE = "DELETE"


def refused_statement(command: str, name: str) -> UnsupportedError:
    """The error of a row statement that Spark would run by itself."""
    return UnsupportedError(
        f"{command} of {name}: lakelog runs this statement where it comes by spark.sql of a session with attach, and "
        "not in EXPLAIN, a script, EXECUTE IMMEDIATE or df.mergeInto: write it there, or use lakelog.spark.merge"
    )


class DeleteOperationBuilder(Proxy):
    """The operation of a DELETE."""

    interfaces = ("write.RowLevelOperationBuilder",)

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable) -> None:
        super().__init__(jvm, f"builder of a delete of {loaded.identity}")
        self._name = name
        self._loaded = loaded

    def build(self) -> Proxy:
        """The operation."""
        return DeleteOperation(self.jvm, self._name, self._loaded)


class DeleteOperation(Proxy):
    """A DELETE before Spark knows whether the table takes its condition."""

    interfaces = ("write.RowLevelOperation",)

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable) -> None:
        super().__init__(jvm, f"delete of {loaded.identity}")
        self._name = name
        self._loaded = loaded

    def description(self) -> str:
        """The text of the operation."""
        return self.toString()

    def command(self) -> Any:  # a Java Command
        """DELETE."""
        return self.jvm.connector("write.RowLevelOperation$Command").DELETE

    def requiredMetadataAttributes(self) -> Any:  # a Java NamedReference[]
        """None."""
        return self.jvm.array(self.jvm.connector("expressions.NamedReference"), ())

    def newScanBuilder(self, options: Any) -> Proxy:
        """The rows of the table."""
        return TableScanBuilder(self.jvm, self._loaded)

    def newWriteBuilder(self, info: Any) -> Proxy:
        """Refused: the condition is not one that the table takes."""
        raise refused_statement(DELETE, self._name)
