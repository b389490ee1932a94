"""Checks rows, splits them by bucket, sorts them, merges them by key, and writes them to level-0 files.

Rows of a table without primary key are neither sorted nor merged: they stay in the order of arrival. The table does not
change until a commit names the files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS
from lakelog.filestore.data.bucket_writing import write_bucket_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.merge.counting import counted_rows
from lakelog.filestore.merge.deduplicate import Slice, are_adds, newest_rows
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.identity import check_log_is_own
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import CHANGELOG_FILE_PREFIX
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    ChangelogProducer,
)
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.schema.schema_rules import check_writable
from lakelog.filestore.write.assigning import BucketAssigner
from lakelog.filestore.write.places import Places, parts_of, places_of
from lakelog.filestore.write.row_kinds import written_kinds
from lakelog.filestore.write.validate import validate_rows

FirstSequence = Callable[[BucketId], int] | Mapping[BucketId, int]
_INT16_MAX = (1 << 15) - 1


def starting_at(sequence: int) -> FirstSequence:
    """Sequence numbers that start with the same number in every bucket."""
    return lambda _: sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The files that a commit adds: data files, and changelog files with `changelog-producer=input`."""

    entries: list[ManifestEntry] = field(default_factory=list)
    changelog: list[ManifestEntry] = field(default_factory=list)

    def __add__(self, more: WrittenRows) -> WrittenRows:
        """The files of both."""
        return WrittenRows(entries=[*self.entries, *more.entries], changelog=[*self.changelog, *more.changelog])


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Checked rows of one write in arrival order, as the files of `table` have them, and their places."""

    table: TableStore
    rows: pa.Table
    kinds: pa.Array
    places: Places
    first_sequence: FirstSequence

    def first(self, bucket_id: BucketId) -> int:
        """The sequence number of a bucket's first row."""
        return self.first_sequence(bucket_id) if callable(self.first_sequence) else self.first_sequence[bucket_id]


def write_rows(
    table: TableStore,
    rows: pa.Table,
    kinds: pa.Array | None = None,
    *,
    first_sequence: FirstSequence,
    assigner: BucketAssigner | None = None,
    is_overwrite: bool = False,
) -> WrittenRows:
    """Write rows of any buckets to level-0 files, and return the entries that a commit adds.

    `assigner` chooses the buckets if they are dynamic, and afterwards has the additions to the HASH index. An overwrite
    writes no changelog, which would also need the changes of the rows that it replaces.

    `first_sequence` gives the first sequence number of each bucket; a row's is that plus its position
    among all rows. Row kinds are in `kinds`, or in the column that `rowkind.field` names; with `ignore-delete`
    deletes are left out. Raises InvalidRequestError.
    """
    given = placed_rows(table, rows, kinds, first_sequence=first_sequence, assigner=assigner)
    if given is None:
        return WrittenRows()
    return WrittenRows(
        entries=write_level0_files(given.table, sorted_rows(given)),
        changelog=[] if is_overwrite else write_changelog(given),
    )


def placed_rows(
    table: TableStore,
    rows: pa.Table,
    kinds: pa.Array | None,
    *,
    first_sequence: FirstSequence,
    assigner: BucketAssigner | None = None,
    rows_before: int = 0,
) -> PlacedRows | None:
    """Check rows of any buckets, and find their places; None without rows. For the parameters see `write_rows`.

    Row numbers in errors count from `rows_before`. Raises InvalidRequestError, UnsupportedError.
    """
    check_table_writable(table)
    assert (assigner is not None) == table.schema.has_dynamic_buckets, "dynamic buckets need an assigner"
    rows = validate_rows(table.schema, rows, table_name=table.name, rows_before=rows_before)
    kinds = written_kinds(table.schema, rows, kinds, table_name=table.name, rows_before=rows_before)
    if table.schema.is_change_log:
        rows, kinds = counted_rows(rows, kinds)
        table = table.stored
    check_kinds_taken(table, kinds)
    if table.schema.primary_keys and IGNORE_DELETE.of(table.schema.options):
        adds = are_adds(to_series(kinds)).to_arrow()
        rows, kinds = rows.filter(adds), kinds.filter(adds)
    if not rows.num_rows:
        return None
    return PlacedRows(table, rows, kinds, places_of(table, rows, assigner), first_sequence)


def sorted_rows(given: PlacedRows) -> Iterator[tuple[BucketId, StoredRows]]:
    """The rows of level-0 files, bucket by bucket: in key order, each key once, merged by the merge engine.

    Rows of a table without primary key stay in the order of arrival.
    """
    schema = given.table.schema
    merge = row_merge(schema) if schema.primary_keys else None
    if merge is not None:
        for bucket_id, part in _numbered_parts(given):
            one = Slice(keys=key_frame(part, schema.key_fields), rows=part)
            merged = merge.merge([one], keeps_deletes=True)
            sequences, merged_kinds = merged.column(SEQUENCE_NUMBER), merged.column(VALUE_KIND)
            yield bucket_id, StoredRows(rows=merged, sequences=sequences, kinds=merged_kinds)
        return
    buckets, positions = _newest_by_bucket(given)
    indices = pa.array(positions)
    rows, kinds = given.rows.take(indices), given.kinds.take(indices)
    for bucket_id, start, end in buckets:
        sequences = pa.array(positions[start:end].astype(np.int64) + given.first(bucket_id))
        count = end - start
        yield bucket_id, StoredRows(rows=rows.slice(start, count), sequences=sequences, kinds=kinds.slice(start, count))


def write_level0_files(table: TableStore, parts: Iterable[tuple[BucketId, StoredRows]]) -> list[ManifestEntry]:
    """Write sorted rows to level-0 files. Neighbouring parts of one bucket, whose key ranges rise, share files."""
    return _write_parts(table, parts, prefix=None)


def write_changelog_files(table: TableStore, parts: Iterable[tuple[BucketId, StoredRows]]) -> list[ManifestEntry]:
    """Write changes to changelog files, in the order in which they are given."""
    return _write_parts(table, parts, prefix=CHANGELOG_FILE_PREFIX.of(table.schema.options))


def _write_parts(
    table: TableStore, parts: Iterable[tuple[BucketId, StoredRows]], *, prefix: str | None
) -> list[ManifestEntry]:
    files = write_bucket_files(table, parts, level=0, source=FileSource.APPEND, prefix=prefix)
    return [add_entry(table, bucket_id, file) for bucket_id, file in files]


def write_changelog(given: PlacedRows) -> list[ManifestEntry]:
    """Write every row as it was given, by key and then in the order of arrival, to changelog files.

    Writes no files without `changelog-producer=input`.
    """
    table = given.table
    if CHANGELOG_PRODUCER.of(table.schema.options) is not ChangelogProducer.INPUT:
        return []
    return write_changelog_files(table, _changes_by_key(given))


def _changes_by_key(given: PlacedRows) -> Iterator[tuple[BucketId, StoredRows]]:
    for bucket_id, part in _numbered_parts(given):
        keys = key_frame(part, given.table.schema.key_fields)
        order = keys.with_row_index("row").sort(keys.columns, maintain_order=True)["row"]
        ordered = part.take(order.to_arrow())
        sequences, kinds = ordered.column(SEQUENCE_NUMBER), ordered.column(VALUE_KIND)
        yield bucket_id, StoredRows(rows=ordered, sequences=sequences, kinds=kinds)


def _numbered_parts(given: PlacedRows) -> Iterator[tuple[BucketId, pa.Table]]:
    """The rows of each bucket in the order of arrival, with their sequence numbers and kinds."""
    numbered = given.rows.append_column(SEQUENCE_NUMBER, pa.array(np.arange(given.rows.num_rows)))
    for bucket_id, part in parts_of(given.places, numbered.append_column(VALUE_KIND, given.kinds)):
        numbers = pc.add(part.column(SEQUENCE_NUMBER), given.first(bucket_id))
        yield bucket_id, part.set_column(part.column_names.index(SEQUENCE_NUMBER), SEQUENCE_NUMBER, numbers)


def _newest_by_bucket(given: PlacedRows) -> tuple[list[tuple[BucketId, int, int]], npt.NDArray[np.uint32]]:
    """The positions of the rows that stay, bucket by bucket, and where each bucket starts and ends.

    For each primary key the last row stays, in key order: one sort by key, then a stable one by bucket, since a sort by
    both at once takes four times as long. Without primary key all rows stay in the order of arrival.
    """
    schema, places = given.table.schema, given.places
    partitions = places.partitions
    if schema.primary_keys:
        keys = key_frame(given.rows, schema.key_fields)
        if len(partitions) > 1:
            keys = keys.with_columns(places.codes.alias("partition"))
        staying = newest_rows(keys).to_numpy()
    else:
        staying = np.arange(given.rows.num_rows, dtype=np.uint32)
    bucket_count = int(places.buckets.max()) + 1
    groups = (places.codes.to_numpy().astype(np.int64) * bucket_count + places.buckets)[staying]
    narrow = groups.astype(np.int16) if len(partitions) * bucket_count <= _INT16_MAX else groups
    order = np.argsort(narrow, kind="stable")  # of 16 bits: a radix sort
    ordered = groups[order]
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    found = []
    for start, end in itertools.pairwise(bounds):
        code, bucket = divmod(int(ordered[start]), bucket_count)
        found.append((BucketId(partitions[code], bucket), start, end))
    return found, staying[order]


def check_kinds_taken(table: TableStore, kinds: pa.Array | pa.ChunkedArray) -> None:
    """Raise InvalidRequestError for deletes if the table cannot hold them.

    Without a log, the merge of rows may refuse more deletes, depending on the rows that they meet.
    """
    schema = table.schema
    merge = row_merge(schema) if schema.is_merged_at_write else None
    if merge is not None:
        merge.check_kinds(kinds)
    if schema.primary_keys:
        is_refused = schema.merge_engine.traits.keeps_first and not IGNORE_DELETE.of(schema.options)
        what, advice = "has merge-engine=first-row and takes no {}", "set ignore-delete=true to leave deletes out"
    else:
        is_refused = not schema.is_change_log
        what = "has no primary key and takes inserts only, found a {}"
        advice = "give the table a primary key, or make it with write-mode=change-log"
    if not is_refused:
        return
    adds = are_adds(to_series(kinds))
    if not adds.all():
        odd = ROW_KIND_TEXTS[kinds[(~adds).arg_max() or 0].as_py()]
        raise InvalidRequestError(f"table {table.name} {what.format(odd)}; {advice}")


def add_entry(table: TableStore, bucket: BucketId, file: DataFileMeta) -> ManifestEntry:
    """The entry that adds a file to the table."""
    return ManifestEntry(
        kind=FileKind.ADD,
        partition=bucket.partition,
        bucket=bucket.number,
        total_buckets=table.bucket_count,
        file=file,
    )


def check_table_writable(table: TableStore) -> None:
    """Raise UnsupportedError for tables that lakelog cannot write correctly, InvalidRequestError for a pinned state."""
    if table.pinned is not None:
        raise InvalidRequestError(f"this handle of table {table.name} shows one state of it: write the table itself")
    check_writable(table.schema)
    check_log_is_own(table)
