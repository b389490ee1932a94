"""Batch reads of changes with the commit that made each, as Spark's CHANGES gives them.

A table without a changelog gives the difference of the states before and after each snapshot, so that every change is
finished: an update has its old and its new row, and a key changes at most once in a commit.

Source: Spark, `org.apache.spark.sql.connector.catalog.Changelog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.catalog.tables.commit_columns import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    compares_states,
    with_commit,
)
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.snapshots import CommitKind, Snapshot
from lakelog.filestore.options import OptionUse, check_foreign_options
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read import ChangeSource, change_files, changed_entries
from lakelog.filestore.refs import RangeEnd
from lakelog.filestore.system import ChangeRange
from lakelog.lineage.records.sources import version_of
from lakelog.spark.failures import sentence_first
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_mark import changes_read, marked
from lakelog.spark.types import spark_arrow_schema, to_spark_schema
from lakelog.streams.reading.packing import delta_parts, difference_parts
from lakelog.streams.reading.part_rows import conform
from lakelog.streams.reading.parts import DeltaPart, DifferencePart

CHANGE_FIELDS = (
    spark.StructField(CHANGE_TYPE, spark.StringType(), False),
    spark.StructField(COMMIT_VERSION, spark.LongType(), False),
    spark.StructField(COMMIT_TIMESTAMP, spark.TimestampType(), False),
)


class CommitPartition(InputPartition):
    """Changes that one commit made: the partition that has them, the snapshot and its time."""

    def __init__(self, changes: DeltaPart | DifferencePart, snapshot_id: int, time_millis: int) -> None:
        super().__init__(None)
        self.changes = changes
        self.snapshot_id = snapshot_id
        self.time_millis = time_millis


@dataclass(frozen=True, kw_only=True)
class ChangelogReader(DataSourceReader):
    """Reads the changes after the end `after` up to `up_to`; with `is_net` only those that remain, of both states.

    `rows` gives rows with their kinds, `schema` says which columns the answer has.
    """

    rows: TableRows
    schema: spark.StructType
    after: RangeEnd
    up_to: RangeEnd | None
    is_net: bool

    @sentence_first()
    def partitions(self) -> Sequence[InputPartition]:
        """The changes of each commit. Raises NotFoundError for changes that are no longer kept."""
        table = self.rows.table
        check_foreign_options(table.schema.options, OptionUse.FOLLOW, table_name=table.name)
        if self.is_net:
            old, new = self._range.states()
            found = [] if new is None else self._differences(old, new, new)
            return marked(found, changes_read(table, version_of(old), version_of(new)))
        snapshots = self._range.snapshots()
        found = [partition for snapshot in snapshots for partition in self._of(snapshot)]
        newest = version_of(snapshots[-1]) if snapshots else None
        return marked(found, changes_read(table, version_of(self.after.snapshot), newest))

    def size_of(self, snapshot: Snapshot) -> tuple[int, int]:
        """About how many rows a snapshot has changed at most, and the bytes of the files that its changes come from.

        A compaction whose states are compared counts no rows, though they are read.
        """
        table = self.rows.table
        written: Sequence[ManifestEntry] = ()
        if not self._compares_states(snapshot):
            written = change_files(table, snapshot, self._source)
        elif snapshot.commit_kind is not CommitKind.COMPACT:
            written = changed_entries(table, snapshot, ChangeSource.DELTA)
        size_bytes = sum(partition.changes.size_bytes for partition in self._of(snapshot))
        return sum(entry.file.row_count for entry in written), size_bytes

    def _of(self, snapshot: Snapshot) -> list[CommitPartition]:
        table = self.rows.table
        if self._compares_states(snapshot):
            return self._differences(self._range.state_before(snapshot), snapshot, snapshot)
        buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for entry in change_files(table, snapshot, self._source):
            buckets.setdefault(entry.bucket_id, []).append(entry)
        return _of_commit(delta_parts(buckets.values()), snapshot)

    def _compares_states(self, snapshot: Snapshot) -> bool:
        return self._source is ChangeSource.DIFFERENCE or self._range.takes_states(snapshot)

    @property
    def _range(self) -> ChangeRange:
        return ChangeRange(table=self.rows.table, first=self.after, last=self.up_to, source=self._source)

    @cached_property
    def _source(self) -> ChangeSource:
        return ChangeSource.DIFFERENCE if compares_states(self.rows.table.schema) else ChangeSource.AUTO

    def _differences(self, old: Snapshot | None, new: Snapshot, made_by: Snapshot) -> list[CommitPartition]:
        return _of_commit(difference_parts(self.rows.table, old, new, is_followed=not self.is_net), made_by)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a partition, in a worker."""
        if not isinstance(partition, CommitPartition):  # Spark's own partition, if a plan has none
            return
        wanted = spark_arrow_schema(self.schema)
        for batch in self.rows.read_part(partition.changes):
            with_columns = with_commit(batch, snapshot_id=partition.snapshot_id, time_millis=partition.time_millis)
            yield conform(with_columns, wanted)


def changelog_reader(
    table: FileStoreTable,
    where: Predicate | None,
    schema: spark.StructType,
    *,
    after: RangeEnd,
    up_to: RangeEnd | None,
    is_net: bool = False,
) -> ChangelogReader:
    """The reader of a range. It reads all columns: an update of a column that `schema` lacks is a change, too."""
    fields = table.schema.fields
    kinds = spark.StructField(ROW_KIND_COLUMN, spark.StringType(), False)
    rows = TableRows(
        table=table,
        target=None,
        fields=fields,
        where=where,
        has_row_kind=True,
        schema=spark_arrow_schema(spark.StructType([*to_spark_schema(fields).fields, kinds])),
    )
    return ChangelogReader(rows=rows, schema=schema, after=after, up_to=up_to, is_net=is_net)


def _of_commit(changes: Sequence[DeltaPart | DifferencePart], snapshot: Snapshot) -> list[CommitPartition]:
    return [CommitPartition(one, snapshot.id, snapshot.time_millis) for one in changes]
