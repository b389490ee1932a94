"""The partitions of a table for Spark's SHOW PARTITIONS, DESCRIBE ... PARTITION and ALTER TABLE ... DROP PARTITION.

Source: Spark, `org.apache.spark.sql.connector.catalog.SupportsPartitionManagement`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any  # Any: py4j gives Java objects without types

import pyarrow as pa
from pyspark.sql import types as spark

from lakelog.catalog.tables.describing import PartitionDescription, described_rows
from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.filestore.predicate import Or, Predicate
from lakelog.spark.catalog_plugin.java.java_predicates import equality, joined_filters
from lakelog.spark.catalog_plugin.java.local_rows import rows_in_java
from lakelog.spark.catalog_plugin.table_proxy import AttachedTable
from lakelog.spark.types import spark_arrow_schema, to_spark_schema

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
_BY_ROWS = "partitions come and go with their rows: insert rows, or delete them"


class PartitionedTable(AttachedTable):
    """A table with partition columns."""

    interfaces = (*AttachedTable.interfaces, "catalog.SupportsAtomicPartitionManagement")

    def partitionSchema(self) -> Any:  # a Java StructType
        """The partition columns."""
        return self.jvm.schema(self._partition_schema)

    def listPartitionIdentifiers(self, names: Any, given: Any) -> Any:  # Java: String[], InternalRow; InternalRow[]
        """The partitions with these values in some of the partition columns."""
        wanted = [self._value(given, at, str(name)) for at, name in enumerate(names)]
        found = [one for one in self._partitions() if all(one.values[name] == value for name, value in wanted)]
        return self._rows(found)

    def loadPartitionMetadata(self, row: Any) -> Any:  # Java: an InternalRow; a java.util.Map
        """What is known of a partition."""
        return self.jvm.string_map({label: text for label, text in described_rows(self._found(row)) if text})

    def partitionExists(self, row: Any) -> bool:  # a Java InternalRow
        """Whether there is such a partition."""
        return any(True for _ in self._matching(row))

    def dropPartition(self, row: Any) -> bool:  # a Java InternalRow
        """Delete the rows of a partition; whether there was one."""
        return self.dropPartitions([row])

    def dropPartitions(self, rows: Any) -> bool:  # a Java InternalRow[]
        """Delete the rows of partitions, in one commit; whether there was one."""
        parts = tuple(self._where(row, self._partition_schema.names) for row in rows)
        return bool(parts) and self._loaded.table.upkeep.drop_partitions(Or(parts=parts)) is not None

    def purgePartition(self, row: Any) -> bool:  # a Java InternalRow
        """Like DROP PARTITION."""
        return self.dropPartition(row)

    def truncatePartition(self, row: Any) -> bool:  # a Java InternalRow
        """Delete the rows of a partition."""
        return self.dropPartition(row)

    def purgePartitions(self, rows: Any) -> bool:  # a Java InternalRow[]
        """Like DROP PARTITION."""
        return self.dropPartitions(rows)

    def truncatePartitions(self, rows: Any) -> bool:  # a Java InternalRow[]
        """Delete the rows of partitions."""
        return self.dropPartitions(rows)

    def createPartition(self, row: Any, properties: Any) -> None:
        """Refused: a partition without rows does not exist."""
        raise UnsupportedError(f"ALTER TABLE ... ADD PARTITION: {_BY_ROWS}")

    def createPartitions(self, rows: Any, properties: Any) -> None:
        """Refused, too."""
        self.createPartition(rows, properties)

    def renamePartition(self, old: Any, new: Any) -> bool:
        """Refused: the values are in the rows."""
        raise UnsupportedError(f"ALTER TABLE ... PARTITION ... RENAME: {_BY_ROWS}")

    def replacePartitionMetadata(self, row: Any, properties: Any) -> None:
        """Refused: a partition has no properties."""
        raise UnsupportedError("a partition has no properties")

    @property
    def _partition_schema(self) -> spark.StructType:
        return to_spark_schema(self._loaded.table.schema.partition_fields)

    def _partitions(self) -> list[PartitionDescription]:
        return self._loaded.table.system.partitions()

    def _rows(self, found: list[PartitionDescription]) -> Any:  # a Java InternalRow[]
        schema = self._partition_schema
        columns = {name: [one.values[name] for one in found] for name in schema.names}
        return rows_in_java(self.jvm, pa.table(columns, schema=spark_arrow_schema(schema)), schema)

    def _value(self, row: Any, at: int, name: str) -> tuple[str, object]:
        """The value of a partition column, as `PartitionDescription` has it."""
        field = self._partition_schema[name]
        return name, _python_value(self._raw(row, at, name), field.dataType)

    def _raw(self, row: Any, at: int, name: str) -> Any:  # an InternalRow; a value of Spark's own form
        kind = self.jvm.schema(self._partition_schema).apply(name).dataType()
        return None if row.isNullAt(at) else row.get(at, kind)

    def _matching(self, row: Any) -> Iterator[PartitionDescription]:
        wanted = [self._value(row, at, name) for at, name in enumerate(self._partition_schema.names)]
        return (one for one in self._partitions() if all(one.values[name] == value for name, value in wanted))

    def _found(self, row: Any) -> PartitionDescription:
        return next(self._matching(row))

    def _where(self, row: Any, names: Sequence[str]) -> Predicate:
        """The condition that the rows of a partition meet; the row has the values of these columns."""
        kinds = self._partition_schema
        parts = [
            equality(name, self._raw(row, at, name), kinds[name].dataType.typeName()) for at, name in enumerate(names)
        ]
        where = joined_filters(parts)
        assert where is not None, "a partition has values"
        return where


def drop_partitions(table: PartitionedTable, plan: Any) -> None:  # a Java DropPartitions
    """ALTER TABLE ... DROP PARTITION, in one commit. Each PARTITION may name some of the columns, which Spark refuses.

    Raises NotFoundError where there is no such partition, without IF EXISTS.
    """
    parts, wanted = plan.parts(), list[Predicate]()
    for at in range(parts.size()):
        row, names = _resolved(table, parts.apply(at))
        if len(table.listPartitionIdentifiers(names, row)):
            wanted.append(table._where(row, names))
        elif not plan.ifExists():
            given = ", ".join("{} = {}".format(*table._value(row, place, name)) for place, name in enumerate(names))
            raise NotFoundError(f"table {table.name()} has no partition ({given})")
    if wanted:
        table._loaded.table.upkeep.drop_partitions(Or(parts=tuple(wanted)))


def _resolved(table: PartitionedTable, part: Any) -> tuple[Any, list[str]]:  # Java: a PartitionSpec; an InternalRow
    """The values of PARTITION in the types of their columns, and the columns."""
    resolver = table.jvm.scala_object(f"{_ANALYSIS}.ResolvePartitionSpec")
    resolve = getattr(resolver, f"{_ANALYSIS.replace('.', '$')}$ResolvePartitionSpec$$resolvePartitionSpec")
    found = resolve(table.name(), part, table.partitionSchema(), True)
    return found.ident(), [str(found.names().apply(at)) for at in range(found.names().size())]


def _python_value(value: Any, kind: spark.DataType) -> object:  # a value of Spark's own form
    """The value as Arrow gives it to Python."""
    match kind:
        case _ if value is None:
            return None
        case spark.DateType():
            return date(1970, 1, 1) + timedelta(days=int(value))
        case spark.DecimalType():
            return Decimal(str(value.toString()))
        case spark.StringType():
            return str(value.toString())
        case spark.BooleanType():
            return bool(value)
        case spark.ByteType() | spark.ShortType() | spark.IntegerType() | spark.LongType():
            return int(value)
    raise UnsupportedError(
        f"a partition is not found by a value of type {kind.simpleString()}; use DELETE with a condition"
    )
