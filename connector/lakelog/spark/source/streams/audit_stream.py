"""Streams of `t$audit_log` and `t$binlog`: the stream of the table with row kinds, in the columns of the system table.

`audit_log` has the column `rowkind` before the table's. `binlog` has lists: one value, or the old value of an update
before the new one, where the stream has old values. Both begin, like any stream, with the rows of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import InputPartition

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore import FileStoreTable
from lakelog.filestore.system import OVER_RANGE, packed, row_table_fields
from lakelog.filestore.system import ROW_KIND as KIND_COLUMN
from lakelog.protocol.stores import LogTarget
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import COLUMNS, PATH, ROW_KIND, TABLE, WHERE, ReadOptions
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_schema import read_schema
from lakelog.spark.types import spark_arrow_schema
from lakelog.streams.options.log_options import METADATA_COLUMNS
from lakelog.streams.options.shown_state import BRANCH
from lakelog.streams.reading.part_rows import conform
from lakelog.warehouse.system_names import ReadName, split_name

_BINLOG = "binlog"


def audited(given: Mapping[str, str]) -> tuple[ReadName, dict[str, str]]:
    """The name of the system table in the options of a stream, and the options of the stream of its table.

    Raises InvalidRequestError for a system table that has no changes.
    """
    options = {key.lower(): value for key, value in given.items()}
    key = TABLE.key if options.get(TABLE.key) else PATH.key
    name = split_name(options.get(key, ""))
    if name.system not in OVER_RANGE:
        raise InvalidRequestError(
            f"{options.get(key)} has no changes to follow: read it with spark.read; streams are of a table, and of its "
            f"{' and '.join(OVER_RANGE)}"
        )
    if ROW_KIND.key in options:
        raise InvalidRequestError(f"{ROW_KIND.key}: {options[key]} has its column {KIND_COLUMN} always; leave it out")
    options |= {key: name.table, ROW_KIND.key: "true"}
    if name.branch is not None:
        options[BRANCH.key] = name.branch
    columns = [column for column in COLUMNS.of(options) if column != KIND_COLUMN]
    options.pop(COLUMNS.key, None)
    return name, {**options, **({COLUMNS.key: ",".join(map(quoted_name, columns))} if columns else {})}


@dataclass(frozen=True, slots=True)
class AuditRows:
    """The rows of a stream in the columns of the system table, as Spark expects them. It is sent to the workers."""

    rows: TableRows
    schema: pa.Schema
    is_packed: bool

    @classmethod
    def of(
        cls,
        name: ReadName,
        table: FileStoreTable,
        target: LogTarget | None,
        schema: spark.StructType,
        options: ReadOptions,
    ) -> AuditRows:
        """The rows in the columns of `schema`, which are among the system table's. Raises InvalidRequestError."""
        _check(name, options)
        assert name.system is not None, "only names of system tables come here"
        known = [field.name for field in row_table_fields(table.schema, name.system)]
        unknown = [column for column in schema.names if column not in known]
        if unknown:
            raise InvalidRequestError(
                f"{table.name}${name.system} has no column {listed(unknown)}; it has {listed(known)}"
            )
        whole = read_schema(table.schema, replace(options, columns=None), table_name=table.name)
        read = [field for field in whole.fields if field.name in (*schema.names, ROW_KIND_COLUMN)]
        rows = TableRows.of(table, target, spark.StructType(read), options)
        return cls(rows, spark_arrow_schema(schema), is_packed=name.system == _BINLOG)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        with sentence_first():
            changes = (self._renamed(batch) for batch in self.rows.read(partition))
            for table in packed(changes, self.schema.names) if self.is_packed else changes:
                for batch in table.select(self.schema.names).combine_chunks().to_batches():
                    yield conform(batch, self.schema)

    @staticmethod
    def _renamed(batch: pa.RecordBatch) -> pa.Table:
        names = [KIND_COLUMN if name == ROW_KIND_COLUMN else name for name in batch.schema.names]
        return pa.Table.from_batches([batch.rename_columns(names)])


def _check(name: ReadName, options: ReadOptions) -> None:
    """Raise InvalidRequestError for options that do not fit a stream of a system table."""
    if options.log.metadata:
        raise InvalidRequestError(
            f"{METADATA_COLUMNS.key} is an option of tables, and {name.table}${name.system} has columns of its own: "
            f"leave it out, or read the table with {ROW_KIND.key}=true"
        )
    if options.where is not None and name.system == _BINLOG:
        raise InvalidRequestError(
            f"{WHERE.key} filters rows, and {name.table}${name.system} has lists of old and new values: filter the "
            "DataFrame"
        )
