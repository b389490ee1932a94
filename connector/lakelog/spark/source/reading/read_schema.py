"""The columns of a read as Spark knows them."""

from __future__ import annotations

from pyspark.sql import types as spark

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.schema import TableSchema
from lakelog.spark.options import ReadOptions
from lakelog.spark.types import to_spark_schema
from lakelog.streams.options.log_options import MetadataColumn
from lakelog.streams.reading.metadata_columns import check_metadata

_METADATA_TYPES: dict[MetadataColumn, spark.DataType] = {
    MetadataColumn.BUCKET: spark.IntegerType(),
    MetadataColumn.OFFSET: spark.LongType(),
    MetadataColumn.TIMESTAMP: spark.TimestampType(),
    MetadataColumn.USER: spark.StringType(),
    MetadataColumn.BATCH_ID: spark.LongType(),
    MetadataColumn.SNAPSHOT_ID: spark.LongType(),
    MetadataColumn.WATERMARK: spark.TimestampType(),
}
_ROW_KIND_FIELD = spark.StructField(ROW_KIND_COLUMN, spark.StringType(), False)


def read_schema(table: TableSchema, options: ReadOptions, *, table_name: str) -> spark.StructType:
    """The schema of a read: the requested columns, `_row_kind` if the read has it, and metadata columns.

    Raises InvalidRequestError for a metadata column whose name is a column of the table.
    """
    fields = table.fields if options.columns is None else table.select(options.columns)
    schema = to_spark_schema(fields)
    if options.has_row_kind:
        schema = spark.StructType([*schema.fields, _ROW_KIND_FIELD])
    about = metadata_fields(options, table, table_name=table_name)
    return spark.StructType([*schema.fields, *about]) if about else schema


def check_read_schema(given: spark.StructType, table: TableSchema, options: ReadOptions, *, table_name: str) -> None:
    """Raise InvalidRequestError when a user's schema has other columns or types than the read."""
    about = {field.name: field.dataType for field in metadata_fields(options, table, table_name=table_name)}
    for field in given.fields:
        if field.name == ROW_KIND_COLUMN:
            expected: spark.DataType = spark.StringType()
        elif field.name in about:
            expected = about[field.name]
        else:
            expected = to_spark_schema(table.select([field.name])).fields[0].dataType
        if field.dataType.simpleString() != expected.simpleString():  # without nullability
            raise InvalidRequestError(
                f"the schema given for table {table_name} has {field.name!r} as {field.dataType.simpleString()}, "
                f"the table has {expected.simpleString()}; leave the schema out, or choose columns of it"
            )


def metadata_fields(options: ReadOptions, table: TableSchema, *, table_name: str) -> list[spark.StructField]:
    """The metadata columns of the rows. Raises InvalidRequestError for a table that has a column of the same name."""
    columns = options.log.metadata
    check_metadata(columns, table, table_name=table_name)
    return [spark.StructField(one.column, _METADATA_TYPES[one], True) for one in columns]
