"""The rows of a snapshot as a DataFrame: by Spark's own Parquet scan if files need no merge, else merged in Python.

Spark's scan prunes columns and row groups by what the query needs, and moves no rows through Python. It takes files
whose rows are the table's rows, with the table's schema and with types that Spark reads as the format defines them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import is_local
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import DataSplit, plan_read
from lakelog.lineage.records.sources import state_read
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_mark import tag_leaves
from lakelog.spark.types import MICROS_PRECISION, spark_arrow_schema, to_spark_schema
from lakelog.streams.reading.packing import packed_splits
from lakelog.streams.reading.parts import SplitsPart

_EXTENSION = ".parquet"
_PATTERN_SIGNS = re.compile(r"[{}\[\]*?\\]")  # of Hadoop's globs
_READ_BY_SPARK = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.BINARY,
        TypeRoot.VARBINARY,
        TypeRoot.DATE,
        TypeRoot.DECIMAL,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
# What must not depend on the session: dates before 1582 are kept, pages are checked, a missing file is an error.
PARQUET_SCAN_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "parquet.page.verify-checksum.enabled": "true",
}


_RANGE_ROW_BYTES = 8  # size that Spark assumes for a row of a range


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a table that is read: columns in order, and the rows that pass a filter.

    `where` is the filter in Spark SQL, `predicate` is the same filter for our readers.
    """

    fields: tuple[DataField, ...]
    where: str | None = None
    predicate: Predicate | None = None


def scan_snapshot(
    spark: SparkSession, table: FileStoreTable, snapshot: Snapshot | None, selection: Selection
) -> DataFrame:
    """The rows of a snapshot; None is the empty table. Their plan records the snapshot, see `read_mark`."""
    splits = plan_read(table, snapshot, where=selection.predicate).splits
    scanned = [split for split in splits if is_scanned_by_spark(table, split)]
    merged = [split for split in splits if not is_scanned_by_spark(table, split)]
    parts: list[DataFrame] = []
    if scanned:
        parts.append(_by_spark(spark, table, scanned, selection))
    if merged or not parts:
        parts.append(_by_python(spark, table, merged, selection))
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    return tag_leaves(rows, state_read(table, snapshot))


def is_scanned_by_spark(table: FileStoreTable, split: DataSplit) -> bool:
    """Whether Spark's Parquet scan gives the right rows of the split.

    Spark does not scan files in an object store: it would need jars and keys of its own.
    """
    fields = table.schema.fields
    return (
        is_local(table.path)
        and not table.schema.is_change_log  # its files hold each row once, with a count
        and split.branch is None
        and split.is_plain
        and all(file.schema_id == table.schema.id and file.file_name.endswith(_EXTENSION) for file in split.files)
        and all(_is_read_by_spark(field.type) for field in fields)
        and len({field.name.lower() for field in fields}) == len(fields)
    )


def scanned_paths(table: FileStoreTable, splits: Sequence[DataSplit]) -> list[str]:
    """The files of splits for Spark's Parquet scan, which takes each path for a pattern.

    Signs of patterns are escaped: with `__globPaths__` off, Spark would leave out such a file if it is missing.
    """
    paths = (table.readable_path(split.bucket_id, file) for split in splits for file in split.files)
    return [_PATTERN_SIGNS.sub(r"\\\g<0>", path) for path in paths]


def _is_read_by_spark(kind: DataType) -> bool:
    return kind.root in _READ_BY_SPARK and (
        kind.root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) or (kind.precision or 0) <= MICROS_PRECISION
    )


def _by_spark(
    spark: SparkSession, table: FileStoreTable, splits: Sequence[DataSplit], selection: Selection
) -> DataFrame:
    reading = spark.read.schema(to_spark_schema(table.schema.fields)).options(**PARQUET_SCAN_OPTIONS)
    rows = reading.parquet(*scanned_paths(table, splits))
    if selection.where is not None:
        rows = rows.where(selection.where)
    return rows.select([quoted_name(field.name) for field in selection.fields])


def _by_python(
    spark: SparkSession, table: FileStoreTable, splits: Sequence[DataSplit], selection: Selection
) -> DataFrame:
    """The splits' rows, merged in Python workers.

    Spark takes the size of a range for the size of the output of mapInArrow, and would broadcast any table that it
    believes to have only a few bytes. The range therefore has one row per 8 bytes of the files, and only the first row
    of each partition is kept; generating them takes about 1 ns per row.
    """
    schema = to_spark_schema(selection.fields)
    groups = packed_splits(splits)
    rows = TableRows(
        table=table,
        target=None,
        fields=selection.fields,
        where=selection.predicate,
        has_row_kind=False,
        schema=spark_arrow_schema(schema),
    )
    count = max(1, len(groups))
    step = max(1, sum(split.size_bytes for split in splits) // (count * _RANGE_ROW_BYTES))
    numbers = spark.range(0, count * step, 1, count).where(f"id % {step} = 0")
    return numbers.mapInArrow(_reading(rows, groups, step), schema)


def _reading(
    rows: TableRows, groups: Sequence[Sequence[DataSplit]], step: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The body of mapInArrow: takes numbers of groups, each times `step`, and gives the rows of their splits."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                number = position // step
                for group in groups[number : number + 1]:
                    yield from rows.read_part(SplitsPart(group))

    return read
