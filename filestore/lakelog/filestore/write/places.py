"""The partition and the bucket of each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.filestore.encoding.binary_row import serialize_row, stored_row
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.write.assigning import BucketAssigner


@dataclass(frozen=True, slots=True)
class Places:
    """The partition and the bucket of each row: `partitions[codes[row]]`, `buckets[row]`."""

    partitions: list[bytes]
    codes: pl.Series
    buckets: npt.NDArray[np.int32]


def places_of(table: TableStore, rows: pa.Table, assigner: BucketAssigner | None) -> Places:
    """The places of rows. Without a number of buckets or an assigner all rows are in bucket 0."""
    schema = table.schema
    partitions, codes = partitions_of(table, rows)
    if assigner is not None:
        buckets = assigner.assign_rows(rows, partitions, codes)
    elif table.bucket_count > 1:
        buckets = bucket_of(rows, schema.bucket_fields, table.bucket_count, schema.bucket_function)
    else:
        buckets = np.zeros(rows.num_rows, np.int32)
    return Places(partitions, codes, buckets)


def parts_of(places: Places, given: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
    """`given`, which has the rows and maybe more columns, split by partition and bucket, each part in arrival order."""
    frame = pl.DataFrame({"code": places.codes, "bucket": places.buckets}).with_row_index("row")
    ordered = frame.sort("code", "bucket", maintain_order=True)
    taken = given.take(ordered["row"].to_arrow())
    start = 0
    for code, bucket, count in ordered.group_by("code", "bucket", maintain_order=True).len().iter_rows():
        yield BucketId(places.partitions[code], bucket), taken.slice(start, count)
        start += count


def partitions_of(table: TableStore, rows: pa.Table) -> tuple[list[bytes], pl.Series]:
    """The serialized partitions among the rows, and for each row the position of its own."""
    fields = table.schema.partition_fields
    if not fields:
        return [serialize_row([], [])], pl.Series(np.zeros(rows.num_rows, np.uint32))
    keys = key_frame(rows, fields)
    names = keys.columns
    firsts = keys.with_row_index("row").group_by(names, maintain_order=True).first()
    codes = keys.join(
        firsts.select(*names).with_row_index("code"), on=names, how="left", nulls_equal=True, maintain_order="left"
    )["code"]
    kinds = [field.type for field in fields]
    columns = [rows.column(field.name) for field in fields]
    partitions = [serialize_row(kinds, stored_row(kinds, columns, row)) for row in firsts["row"]]
    return partitions, codes
