"""Tables that look up old rows when they are written: to merge new rows with them, or to log what is replaced.

The result goes to both stores: the changes to the log, the new rows to the files. It is right only after the fence, on
the newest snapshot and the tail: then no other writer can change the bucket until the part is logged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, RowKind
from lakelog.filestore.compact import BucketLookup, changes_between
from lakelog.filestore.data import CacheShare, GroupCache
from lakelog.filestore.merge import (
    RowMerge,
    Slice,
    are_adds,
    key_frame,
    newest_rows,
    row_merge,
    to_series,
    without_deletes,
)
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta, runs_of
from lakelog.filestore.metadata.tables import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.options import LOOKUP_CACHE_MAX_MEMORY_SIZE
from lakelog.filestore.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.protocol.state.ports import PartBase
from lakelog.protocol.stores.logged_rows import BucketRows, ResolvedRows, StayingRows, staying_rows
from lakelog.protocol.stores.old_values import changed_rows

CACHE = GroupCache()  # of this process


def resolve(table: TableStore, part: BucketRows, base: PartBase) -> ResolvedRows:
    """The changes by rows of one partition of a bucket, given the rows that their keys had before the part.

    Raises like `old_rows`.
    """
    merge = row_merge(table.schema)
    if merge is not None:
        old = old_rows(table, part.bucket_id, base, distinct_keys(table, part.rows), also=(SEQUENCE_FIELD,))
        return resolved(table, merge, part, old)
    newest = staying_rows(table, part.rows, part.kinds)
    old = old_rows(table, part.bucket_id, base, key_frame(newest.rows, table.schema.key_fields))
    return changed_rows(table.schema, newest, old)


def old_rows(
    table: TableStore, bucket_id: BucketId, base: PartBase, keys: pl.DataFrame, *, also: Sequence[DataField] = ()
) -> pa.Table | None:
    """The rows that keys had in a bucket before the part, including deletes, with kinds and the columns `also`.

    `keys` is a key frame in key order, each key once. Returns None when no key has a row. What is read stays in the
    cache of the process. Raises NotFoundError for files that have expired, and InvalidRequestError when the files have
    columns that the table did not have when it was opened.
    """
    files = _files(table, bucket_id, base)
    _check_columns(table, files)
    runs = runs_of(files, table.key_types)
    lookup = BucketLookup(
        table=table.stored,
        bucket=bucket_id,
        runs=runs,
        fields=[*table.schema.fields, *also, KIND_FIELD],
        deletions={},
        cache=CacheShare(cache=CACHE, bytes_max=LOOKUP_CACHE_MAX_MEMORY_SIZE.understood(table.schema.options)),
    )
    return lookup.find(keys)


def _files(table: TableStore, bucket_id: BucketId, base: PartBase) -> list[DataFileMeta]:
    """The files of a bucket in the snapshot, and those that the tail adds."""
    snapshot = table.snapshots.get(base.snapshot_id) if base.snapshot_id else None
    live = table.live_files.near(snapshot).files(bucket_id)
    return [*live, *(file.meta for header in base.tail for file in header.files if file.partition == bucket_id[0])]


def _check_columns(table: TableStore, files: Sequence[DataFileMeta]) -> None:
    """Raise InvalidRequestError for files with values that a row merged under this schema would drop."""
    newest = max((file.schema_id for file in files), default=table.schema.id)
    if newest <= table.schema.id:
        return
    known = {field.id for field in table.schema.fields}
    added = [field.name for field in table.schemas.get(newest).fields if field.id not in known]
    if added:
        raise InvalidRequestError(
            f"the table's schema has changed since it was opened: table {table.name} has the columns {listed(added)} "
            "too, whose values this writer would drop from the rows that it merges; open the table again, restart the "
            "stream"
        )


def distinct_keys(table: TableStore, rows: pa.Table) -> pl.DataFrame:
    """The keys of rows as a key frame in key order, each key once."""
    keys = key_frame(rows, table.schema.key_fields)
    return keys[newest_rows(keys)]


def resolved(table: TableStore, merge: RowMerge, part: BucketRows, old: pa.Table | None) -> ResolvedRows:
    """Fold rows, in arrival order, onto the old rows of their keys. Pure.

    `old` is the result of `old_rows`.
    """
    given = part.rows.append_column(SEQUENCE_NUMBER, _after(old, part.rows.num_rows))
    given = given.append_column(VALUE_KIND, part.kinds)
    key_fields = table.schema.key_fields
    slices = [Slice(keys=key_frame(given, key_fields), rows=given)]
    if old is None:
        old = given.schema.empty_table()
    else:
        old = old.select(given.column_names).cast(given.schema)
        if not _keeps_deletes(merge):
            old = without_deletes(old)
        slices.append(Slice(keys=key_frame(old, key_fields), rows=old, level=1))
    merged = merge.merge(slices, keeps_deletes=True)
    values = [name for name in table.schema.field_names if name not in table.schema.primary_keys]
    told = changes_between(without_deletes(old), without_deletes(merged), key_fields, compared=values)
    # A delete that differs from the previous one is kept: later rows may have to lose against it.
    deletes = changes_between(_deletes(old), _deletes(merged), key_fields, compared=values)
    return ResolvedRows(
        changes=told.rows.drop_columns([SEQUENCE_NUMBER, VALUE_KIND]),
        kinds=told.kinds,
        positions=_last_positions(table, part, key_frame(told.rows, key_fields)),
        staying=_staying(table, part, [(told.rows, told.kinds), (deletes.rows, deletes.kinds)]),
    )


def _keeps_deletes(merge: RowMerge) -> bool:
    """Whether later rows of a key may lose against its delete, by a sequence field.

    In other tables a deleted row no longer exists: an aggregation would subtract its values from the next row.
    """
    return merge.engine.traits.keeps_last or bool(merge.removal_groups)


def _after(old: pa.Table | None, count: int) -> pa.Array:
    """Sequence numbers that come after those of the old rows."""
    last = -1 if old is None else int(pc.max(old.column(SEQUENCE_NUMBER)).as_py())
    return pa.array(np.arange(last + 1, last + 1 + count))


def _deletes(rows: pa.Table) -> pa.Table:
    return rows.filter((~are_adds(to_series(rows.column(VALUE_KIND)))).to_arrow())


def _staying(table: TableStore, part: BucketRows, parts: Sequence[tuple[pa.Table, pa.Array]]) -> StayingRows:
    """What level 0 holds in key order: the rows after changes (first part) and deletes (second part)."""
    kinds = (RowKind.INSERT, RowKind.DELETE)
    after = [rows.filter(are_adds(to_series(found)).to_arrow()) for rows, found in parts]
    counts = [rows.num_rows for rows in after]
    rows = pa.concat_tables(after).drop_columns([SEQUENCE_NUMBER, VALUE_KIND])
    keys = key_frame(rows, table.schema.key_fields)
    order = keys.with_row_index("row").sort(keys.columns)["row"].to_numpy()
    return StayingRows(
        rows=rows.take(pa.array(order)),
        kinds=pa.array(np.repeat([int(kind) for kind in kinds], counts).astype(np.int8)[order]),
        positions=_last_positions(table, part, keys)[order],
        given_count=part.rows.num_rows,
    )


def _last_positions(table: TableStore, part: BucketRows, keys: pl.DataFrame) -> npt.NDArray[np.uint32]:
    """For each of `keys`, the index of its last row in the part."""
    given = key_frame(part.rows, table.schema.key_fields)
    last = newest_rows(given)
    positions = keys.join(
        given[last].with_columns(last.alias("position")), on=keys.columns, how="left", nulls_equal=True,
        maintain_order="left",
    )["position"]  # fmt: skip
    return positions.to_numpy().astype(np.uint32)
