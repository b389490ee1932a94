"""The rows of a state that have given keys, found in the row groups that may hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.data.key_lookup import read_rows_of_keys
from lakelog.filestore.index.deletion_vectors import read_positions
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import key_frame, to_series
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD
from lakelog.filestore.refs.states.table_state import TableState
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from lakelog.filestore.write.places import partitions_of, places_of

_ROW, _SEQUENCE, _IS_ADD, _BUCKET = "row", "sequence", "is_add", "bucket"


def rows_of_keys(
    state: TableState, keys: pa.Table, fields: Sequence[DataField], *, without: Set[str] = frozenset()
) -> pa.Table:
    """The rows of a state whose primary key is among `keys`, in the columns `fields` of another line, in no order.

    The files `without`, by name, are known to hold none of the keys.
    """
    schema = to_arrow_schema(fields)
    if not keys.num_rows or state.snapshot is None:
        return schema.empty_table()
    own = [*state.table.schema.select(field.name for field in fields), SEQUENCE_FIELD, KIND_FIELD]
    key_fields = state.table.schema.select(state.table.schema.primary_keys)
    parts: list[pa.Table] = []
    buckets: list[int] = []
    files = state.buckets()
    for number, (bucket, wanted) in enumerate(_asked(state, keys, list(files))):
        for file, vector in files[bucket]:
            if file.file_name in without:
                continue
            deleted = None if vector is None else read_positions(state.table.file_io, vector)
            for found in read_rows_of_keys(state.table.stored, bucket, file, own, wanted, deleted=deleted):
                parts.append(found.rows)
                buckets += [number] * found.rows.num_rows
    if not parts:
        return schema.empty_table()
    rows = pa.concat_tables(parts)
    frame = key_frame(rows, key_fields)
    names = frame.columns
    ordered = frame.with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW),
        pl.Series(_BUCKET, buckets, pl.Int32),
        to_series(rows.column(SEQUENCE_NUMBER)).alias(_SEQUENCE),
        are_adds(to_series(rows.column(VALUE_KIND))).alias(_IS_ADD),
    ).sort(_SEQUENCE, _IS_ADD, maintain_order=True)
    youngest = ordered.unique([*names, _BUCKET], keep="last", maintain_order=True).filter(pl.col(_IS_ADD))
    return rows.select(schema.names).take(youngest[_ROW].to_arrow()).cast(schema)


def _asked(state: TableState, keys: pa.Table, there: Sequence[BucketId]) -> Iterator[tuple[BucketId, pl.DataFrame]]:
    """The buckets that may have keys, each with those keys as a key frame in key order."""
    table = state.table
    key_fields = table.stored.schema.key_fields
    names = {field.name for field in key_fields} | set(table.schema.primary_keys)
    partition_is_key = set(table.schema.partition_keys) <= names
    partitions, codes = partitions_of(table, keys) if partition_is_key else ([], pl.Series([], dtype=pl.UInt32))
    live = table.live_files.of(state.snapshot)
    counts = live.total_buckets({bucket.partition for bucket in there})
    is_fixed = table.bucket_count > 0
    numbers = pl.Series(places_of(table, keys, None).buckets) if is_fixed else None
    for bucket in sorted(there):
        chosen = pl.repeat(True, keys.num_rows, eager=True, dtype=pl.Boolean)
        if partition_is_key:
            if bucket.partition not in partitions:
                continue
            chosen &= codes == partitions.index(bucket.partition)
        if numbers is not None and counts.get(bucket.partition) == table.bucket_count:
            chosen &= numbers == bucket.number
        if chosen.any():
            frame = key_frame(keys.filter(chosen.to_arrow()), key_fields)
            yield bucket, frame.unique().sort(frame.columns, nulls_last=False)
