"""A table of ours as a table of Spark's V2 API.

Source: Spark, `org.apache.spark.sql.connector.catalog`: Table, SupportsRead, SupportsWrite, SupportsDeleteV2.
"""

from __future__ import annotations

from typing import (  # Any: py4j gives Java objects without types
    TYPE_CHECKING,
    Any,
    ClassVar,  # Any: py4j gives Java objects without types
)

from pyspark.sql import types as spark

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.catalog.logs.log_life import SET_BY_LAKELOG
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, TypeRoot
from lakelog.spark.catalog_plugin.column_defaults import default_sql
from lakelog.spark.catalog_plugin.java.java_predicates import exact_filters, joined_filters
from lakelog.spark.catalog_plugin.java.jvm import DEFAULT
from lakelog.spark.catalog_plugin.java.proxy import Proxy, WithoutMetrics
from lakelog.spark.catalog_plugin.scan_builder import TableScanBuilder
from lakelog.spark.catalog_plugin.write_proxy import TableWriteBuilder
from lakelog.spark.options import READ_OPTIONS, known_options
from lakelog.spark.session import FORMAT, java_strings
from lakelog.spark.source.reading.read_mark import note_attached
from lakelog.spark.source.reading.read_schema import read_schema

if TYPE_CHECKING:
    from lakelog.catalog.staging import StagedTable
    from lakelog.spark.catalog_plugin.java.jvm import Jvm
    from lakelog.spark.catalog_plugin.loaded_table import LoadedTable

# Options that CREATE TABLE refuses, since lakelog sets them: SHOW CREATE TABLE shows a statement that runs again.
_HIDDEN = frozenset(option.key for option in SET_BY_LAKELOG)
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_READS = ("BATCH_READ", "MICRO_BATCH_READ")
_WRITES = ("BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")


class AttachedTable(WithoutMetrics):
    """A table at one snapshot, which a statement reads or writes."""

    interfaces: ClassVar[tuple[str, ...]] = (
        "catalog.SupportsRead",
        "catalog.SupportsWrite",
        "catalog.SupportsDeleteV2",
        "catalog.SupportsRowLevelOperations",
    )

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable) -> None:
        super().__init__(jvm, f"lakelog table {name}: {loaded.identity}")
        self._name = name
        self._loaded = loaded
        self._noted = note_attached(self.toString(), loaded)
        self._schema = read_schema(loaded.table.schema, loaded.options, table_name=loaded.table.name)

    def name(self) -> str:
        """The name with which the statement has found the table."""
        return self._name

    def id(self) -> str:
        """The identity of the table, which it keeps when it is renamed."""
        return self._loaded.table.uuid

    def version(self) -> str:
        """The commit that is read."""
        return self._loaded.version

    def schema(self) -> Any:  # a Java StructType
        """The columns."""
        return self.jvm.schema(self._schema)

    def columns(self) -> Any:  # a Java Column[]
        """The columns, with comments and defaults; CHAR and VARCHAR with their lengths, as Spark checks them."""
        own = {field.name: field for field in self._loaded.table.schema.fields}
        return self.jvm.columns(
            spark.StructType([_declared(field, own.get(field.name)) for field in self._schema.fields])
        )

    def partitioning(self) -> Any:  # a Java Transform[]
        """The partition columns."""
        expressions = self.jvm.connector("expressions.Expressions")
        chosen = [expressions.identity(quoted_name(key)) for key in self._loaded.table.schema.partition_keys]
        return self.jvm.array(self.jvm.connector("expressions.Transform"), chosen)

    def constraints(self) -> Any:  # a Java Constraint[]
        """The primary key."""
        kind = self.jvm.connector("catalog.constraints.Constraint")
        keys = self._loaded.table.schema.primary_keys
        if not keys:
            return self.jvm.array(kind, ())
        key = kind.primaryKey("pk", self.jvm.references(keys)).enforced(False).rely(True).build()
        return self.jvm.array(kind, [key])

    def properties(self) -> Any:  # a java.util.Map
        """Options of the table, and what Spark shows of every table: its provider, its comment, its folder."""
        table = self._loaded.table
        found = {key: value for key, value in table.schema.options.items() if key not in _HIDDEN}
        if table.schema.primary_keys:
            found["primary-key"] = ",".join(table.schema.primary_keys)
        if table.schema.comment:
            found["comment"] = table.schema.comment
        return self.jvm.string_map({**found, "provider": FORMAT, "location": table.path})

    def capabilities(self) -> Any:  # a java.util.Set of TableCapability
        """What Spark may ask of the table. A named state is not written."""
        names = _READS if self._loaded.is_named else (*_READS, *_WRITES)
        return self.jvm.constants("catalog.TableCapability", names)

    def newScanBuilder(self, options: Any) -> Proxy:  # a Java CaseInsensitiveStringMap
        """A scan for one place of a plan. Raises OptionError for an unknown option; the others were taken at load."""
        known_options(java_strings(options.asCaseSensitiveMap()), READ_OPTIONS)
        return TableScanBuilder(self.jvm, self._loaded)

    def newWriteBuilder(self, info: Any) -> Proxy:  # a Java LogicalWriteInfo
        """A write of rows."""
        return TableWriteBuilder(self.jvm, self._loaded, info)

    def newRowLevelOperationBuilder(self, info: Any) -> Proxy:  # a Java RowLevelOperationInfo
        """A DELETE that may be done by its condition; refused for UPDATE and MERGE."""
        command = str(info.command().toString())
        if command != DELETE:
            raise refused_statement(command, self._name)
        return DeleteOperationBuilder(self.jvm, self._name, self._loaded)

    def canDeleteWhere(self, predicates: Any) -> bool:  # Java Predicate[]s
        """Whether our readers can evaluate the predicates exactly as Spark does."""
        return exact_filters(self.jvm, predicates, self._loaded.table.schema.fields) is not None

    def deleteWhere(self, predicates: Any, *options: Any) -> None:  # Java Predicate[]s
        """Delete the rows that meet all predicates, in one commit."""
        where = joined_filters(exact_filters(self.jvm, predicates, self._loaded.table.schema.fields) or [])
        if where is None:
            raise UnsupportedError("the condition of DELETE holds something that lakelog does not know")
        self._loaded.table.delete(where)

    def truncateTable(self, *options: Any) -> bool:
        """Delete all rows."""
        self._loaded.table.truncate()
        return True


def _declared(field: spark.StructField, own: DataField | None) -> spark.StructField:
    """A column of strings with its length, if it has one, and any column with its default."""
    if own is None:
        return field
    kind, said = field.dataType, field.metadata
    length_max = own.type.length_max
    if own.type.root in _TEXT and length_max is not None:
        kind = (spark.CharType if own.type.root is TypeRoot.CHAR else spark.VarcharType)(length_max)
    default = default_sql(own)
    if default is not None:
        said = {**(said or {}), DEFAULT: default}
    return spark.StructField(field.name, kind, field.nullable, said)


class StagedAttachedTable(AttachedTable):
    """A new table that appears with its rows."""

    interfaces = (*AttachedTable.interfaces, "catalog.StagedTable")

    def __init__(self, jvm: Jvm, name: str, loaded: LoadedTable, staged: StagedTable) -> None:
        super().__init__(jvm, name, loaded)
        self._staged = staged

    def commitStagedChanges(self) -> None:
        """Give the table its name."""
        self._staged.commit()

    def abortStagedChanges(self) -> None:
        """Delete the table."""
        self._staged.discard()


class ReplacedTable(AttachedTable):
    """A table that REPLACE TABLE gives other rows, or none: the write of the rows is the commit."""

    interfaces = (*AttachedTable.interfaces, "catalog.StagedTable")
    _is_written = False

    def newWriteBuilder(self, info: Any) -> Proxy:  # a Java LogicalWriteInfo
        """A write that replaces all rows."""
        self._is_written = True
        return TableWriteBuilder(self.jvm, self._loaded, info).truncate()

    def commitStagedChanges(self) -> None:
        """Delete the rows, if the statement has no new ones."""
        if not self._is_written:
            self._loaded.table.truncate()

    def abortStagedChanges(self) -> None:
        """Nothing: a write that fails commits nothing."""


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
