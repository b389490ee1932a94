"""The manifests, partitions, buckets and files that a filter excludes before any data file is opened.

The statistics of value columns are of the rows of one file. A row that is merged from several files may pass although a
part of it does not, and an old row of a key may pass although the newest does not: so these statistics are used only
where a file's rows are the table's rows, and for files to be merged only if they exclude all of them. Statistics of
keys are always used: all rows of a key have the same key.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, read_slot, to_table
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import Section
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    ChangelogProducer,
)
from lakelog.filestore.predicate import (
    ColumnBounds,
    Predicate,
    bind,
    bounds_of_row,
    bounds_of_stats,
    equal_rows,
    may_hold,
)
from lakelog.filestore.schema.evolution import keeps_order
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.stored_schema import stored_schema

_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_ONLY_NULLS = ColumnBounds(may_be_null=True, may_be_present=False)


def is_merged_on_read(schema: TableSchema) -> bool:
    """Whether several files of a bucket may hold one key.

    They may not in tables without primary key. With deletion vectors and with the merge engine first-row they may, but
    only in level 0, which batch reads leave out.
    """
    if not schema.primary_keys:
        return False
    return not DELETION_VECTORS.of(schema.options) and not schema.merge_engine.traits.keeps_first


def is_merged_for(schema: TableSchema, *, is_followed: bool) -> bool:
    """Whether several files of a bucket that a reader takes may hold one key.

    A reader that follows the changes of writes must begin with every written row, including those in level 0 that batch
    reads leave out until a compaction, since the compaction writes no change for them.
    """
    if is_merged_on_read(schema) or not is_followed or not schema.primary_keys:
        return is_merged_on_read(schema)
    return CHANGELOG_PRODUCER.of(schema.options) in (ChangelogProducer.NONE, ChangelogProducer.INPUT)


class Pruning:
    """The manifests and files of a table that remain after a filter and a choice of buckets."""

    def __init__(
        self,
        table: TableStore,
        where: Predicate | None,
        buckets: Set[int] | None = None,
        *,
        is_followed: bool = False,
    ) -> None:
        schema = table.schema
        self._schema = schema
        self._wanted_buckets = buckets
        self._bound = None if where is None else bind(where, schema.fields)
        self._keys = None if where is None else equal_rows(where, schema.fields, schema.bucket_keys)
        self.is_merged = is_merged_for(schema, is_followed=is_followed)
        self.min_level = 0 if not schema.primary_keys or self.is_merged else 1
        self._merges_whole_rows = schema.merge_engine.traits.keeps_last
        self._partitions: dict[bytes, dict[str, ColumnBounds]] = {}
        self._open_partitions: dict[bytes, bool] = {}
        self._buckets: dict[int, frozenset[int]] = {}
        self._columns = StatsColumns(table)

    def may_hold_manifest(self, manifest: ManifestFileMeta) -> bool:
        """False when no entry of the manifest is of a needed file."""
        if self._wanted_buckets is not None and not _may_hold_bucket(manifest, self._wanted_buckets):
            return False
        if manifest.max_level is not None and manifest.max_level < self.min_level:
            return False
        if self._bound is None or not self._schema.partition_keys:
            return True
        known = bounds_of_stats(self._schema.partition_fields, manifest.partition_stats, row_count=None)
        # Not every writer counts the nulls among partitions.
        bounds = {name: ColumnBounds(least=column.least, most=column.most) for name, column in known.items()}
        return may_hold(self._bound, bounds)

    def may_need(self, bucket: BucketId) -> bool:
        """False when no row of the bucket can pass, for any number of buckets with which its files were written."""
        if self._wanted_buckets is not None and bucket.number not in self._wanted_buckets:
            return False
        if self._bound is None:
            return True
        partition = bucket.partition
        if partition not in self._open_partitions:
            self._partitions[partition] = bounds_of_row(self._schema.partition_fields, partition)
            self._open_partitions[partition] = may_hold(self._bound, self._partitions[partition])
        return self._open_partitions[partition]

    def may_hold(self, bucket: BucketId, total_buckets: int) -> bool:
        """False when no row of the bucket can pass."""
        if not self.may_need(bucket):
            return False
        if self._keys is None or total_buckets < 1:
            return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = _buckets_of(self._schema, self._keys, total_buckets)
        return bucket.number in self._buckets[total_buckets]

    def keys_may_match(self, partition: bytes, file: DataFileMeta) -> bool:
        """False when no key of the file can pass: then no younger or older row of its keys can pass either."""
        if self._bound is None or not self._schema.primary_keys:
            return True
        return may_hold(self._bound, FileBounds(self._columns, self._partitions[partition], file, has_values=False))

    def rows_may_match(self, partition: bytes, file: DataFileMeta) -> bool:
        """False when no row of the file can pass, before merging."""
        if self._bound is None or file.write_cols is not None:  # nothing is known for files with some of the columns
            return True
        return may_hold(self._bound, FileBounds(self._columns, self._partitions[partition], file, has_values=True))

    def left_of(self, partition: bytes, section: Section) -> tuple[DataFileMeta, ...]:
        """The files of a section that must be read."""
        if self._bound is None:
            return section.files
        if len(section.runs) == 1:
            return tuple(file for file in section.files if self.rows_may_match(partition, file))
        is_needed = not self._merges_whole_rows or any(self.rows_may_match(partition, file) for file in section.files)
        return section.files if is_needed else ()


def _may_hold_bucket(manifest: ManifestFileMeta, buckets: Set[int]) -> bool:
    low, high = manifest.min_bucket, manifest.max_bucket
    return low is None or high is None or any(low <= bucket <= high for bucket in buckets)


def _buckets_of(schema: TableSchema, keys: Sequence[tuple[StoredValue, ...]], total_buckets: int) -> frozenset[int]:
    if not keys:
        return frozenset()
    fields = schema.bucket_fields
    return frozenset(bucket_of(to_table(fields, keys), fields, total_buckets, schema.bucket_function).tolist())


class FileBounds:
    """The bounds of one file's columns, read from its statistics on demand."""

    def __init__(
        self, columns: StatsColumns, partition: dict[str, ColumnBounds], file: DataFileMeta, *, has_values: bool
    ) -> None:
        self._columns = columns
        self._partition = partition
        self._file = file
        self._has_values = has_values

    def get(self, name: str, /) -> ColumnBounds | None:
        """The bounds of a column of the table's schema."""
        if name in self._partition:
            return self._partition[name]
        known = self._columns.of_key(self._file, name)
        return self._columns.of_value(self._file, name) if known is None and self._has_values else known


class StatsColumns:
    """The position of each column of the table in the statistics of a file, by field ids: a file has its own schema."""

    def __init__(self, table: TableStore) -> None:
        self._table = table
        self._keys = {field.name: (index, field.type) for index, field in enumerate(table.schema.key_fields)}
        self._wanted = {field.name: field for field in table.schema.fields}
        self._layouts: dict[tuple[int, tuple[str, ...] | None], dict[int, tuple[int, DataField]]] = {}

    def of_key(self, file: DataFileMeta, name: str) -> ColumnBounds | None:
        """The bounds of a key column; None for other columns."""
        found = self._keys.get(name)
        if found is None:
            return None
        index, kind = found
        stats = file.key_stats
        if int.from_bytes(stats.min_values[:4], "big") != len(self._keys):
            return None
        counts = stats.null_counts
        nulls = counts[index] if counts is not None and index < len(counts) else None
        least, most = (read_slot(kind, row, index) for row in (stats.min_values, stats.max_values))
        if index == 0 and least is None and most is None and nulls == 0:  # bytes: rows are in the order of this column
            least, most = (read_slot(kind, row, index) for row in (file.min_key, file.max_key))
        return ColumnBounds(
            least=least,
            most=most,
            may_be_null=kind.nullable and nulls != 0,
            may_be_present=not kind.nullable or nulls != file.row_count,
        )

    def of_value(self, file: DataFileMeta, name: str) -> ColumnBounds | None:
        """The bounds of any column by the statistics of a file's rows; None if there are none."""
        wanted = self._wanted[name]
        if file.write_cols is not None or wanted.type.is_nested:
            return None
        layout = self._layout(file)
        if wanted.id not in layout:
            return None
        index, stored = layout[wanted.id]
        if index < 0:
            return _ONLY_NULLS
        stats = file.value_stats
        if not keeps_order(stored.type, wanted.type):
            return None
        counts = stats.null_counts
        nulls = counts[index] if counts is not None and index < len(counts) else None
        least, most = (read_slot(stored.type, row, index) for row in (stats.min_values, stats.max_values))
        if not _are_trusted(file, stored.type):
            least = most = None
        if stored.type.root in _FLOATS:  # some writers leave out NaN, which is the largest number
            most = None
        return ColumnBounds(
            least=least, most=most, may_be_null=nulls != 0, may_be_present=nulls is None or nulls != file.row_count
        )

    def _layout(self, file: DataFileMeta) -> dict[int, tuple[int, DataField]]:
        """Column id -> (position in the statistics, column in the file's schema); -1 if the file lacks it."""
        key = (file.schema_id, file.value_stats_cols)
        if key not in self._layouts:
            table = self._table
            is_same = file.schema_id == table.schema.id
            schema = table.schema if is_same else stored_schema(table.schemas.get_beside(file.schema_id, table.schema))
            names = schema.field_names if file.value_stats_cols is None else file.value_stats_cols
            covered = {field.name: field for field in schema.fields}
            layout = {covered[name].id: (index, covered[name]) for index, name in enumerate(names) if name in covered}
            arity = int.from_bytes(file.value_stats.min_values[:4], "big")
            if arity != len(names):
                layout = {}
            ids = {field.id for field in schema.fields}
            absent = {field.id: (-1, field) for field in table.schema.fields if field.id not in ids}
            self._layouts[key] = layout | absent
        return self._layouts[key]


def _are_trusted(file: DataFileMeta, kind: DataType) -> bool:
    """Whether bounds are right: Paimon's of timestamps in ORC are wrong before 1970, or by calendar."""
    return kind.root not in _TIMESTAMPS or not file.file_name.endswith(".orc")
