"""Reading in Spark's Python workers: partitions, and their rows in the form that Spark expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import InputPartition

from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore import FileStoreTable
from lakelog.protocol.stores import LogTarget
from lakelog.spark.failures import sentence_first
from lakelog.spark.options import ReadOptions
from lakelog.spark.source.reading.read_schema import check_read_schema
from lakelog.spark.types import spark_arrow_schema
from lakelog.spark.worker import spare_modules_from_collection
from lakelog.streams.reading.part_rows import PartRows
from lakelog.streams.reading.parts import Part


class RowsPartition(InputPartition):
    """A part that is to be read."""

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part


def partitions_of(parts: Iterable[Part]) -> list[InputPartition]:
    """The partitions of parts, one each."""
    return [RowsPartition(part) for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows(PartRows):
    """The rows of partitions, as Arrow batches of the schema that Spark expects. It is sent to the workers."""

    @classmethod
    def of(
        cls, table: FileStoreTable, target: LogTarget | None, schema: spark.StructType, options: ReadOptions
    ) -> TableRows:
        """The rows in the columns of `schema`, which a user may have given. Raises InvalidRequestError."""
        check_read_schema(schema, table.schema, options, table_name=table.name)
        metadata = tuple(one for one in options.log.metadata if one.column in schema.names)
        own = {ROW_KIND_COLUMN, *(one.column for one in metadata)}
        names = [name for name in schema.names if name not in own]
        return cls(
            table=table,
            target=target,
            fields=table.schema.select(names),
            where=options.where,
            has_row_kind=ROW_KIND_COLUMN in schema.names,
            schema=spark_arrow_schema(schema),
            metadata=metadata,
            fails_on_loss=options.log.fails_on_loss,
            on_untracked=options.on_untracked,
            stops=options.log.stops,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; none of Spark's own, which it has where a plan has none."""
        return self.read_part(partition.part) if isinstance(partition, RowsPartition) else iter(())

    def read_part(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in a worker."""
        with sentence_first():
            spare_modules_from_collection()
            yield from self.rows(part)
