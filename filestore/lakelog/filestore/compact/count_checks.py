"""Compares what a compaction has written with what it has read, before its commit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.counted_schema import COUNT_COLUMN


def check_row_counts(
    before: Sequence[DataFileMeta], after: Sequence[DataFileMeta], *, table_name: str, deleted: int | None = None
) -> None:
    """Raise CorruptDataError for a compaction that has written more rows than it has read.

    Files that are not merged must have exactly as many, less the `deleted` rows, which are marked as deleted.
    """
    had, has = (sum(file.row_count for file in files) for files in (before, after))
    if has > had or (deleted is not None and has != had - deleted):
        wanted = f"at most {had}" if deleted is None else str(had - deleted)
        raise _not_committed(table_name, f"{has} rows", wanted)


def check_summed_counts(
    table: TableStore,
    bucket: BucketId,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    *,
    piece_bytes: int,
) -> None:
    """Raise CorruptDataError if the merge of a value-count table has changed the total number of rows.

    A merge sums the counts of equal rows, so it keeps the sum of all counts: see FLIP-188, value-count tables. Reads
    only that column of the files again. Other tables pass.
    """
    if not table.schema.is_counted:
        return
    had, has = (sum(_counted(table, bucket, file, piece_bytes) for file in files) for files in (before, after))
    if has != had:
        raise _not_committed(table.name, f"counts of {has} rows in all", str(had))


def _counted(table: TableStore, bucket: BucketId, file: DataFileMeta, piece_bytes: int) -> int:
    counts = [table.schema.field(COUNT_COLUMN)]
    batches = read_data_file(table, bucket, file, counts, piece_bytes=piece_bytes)
    return sum(int(np.sum(batch.column(0).to_numpy(), dtype=np.int64)) for batch in batches)


def _not_committed(table_name: str, has: str, wanted: str) -> CorruptDataError:
    return CorruptDataError(
        f"a compaction of table {table_name} has written {has}, expected {wanted}: nothing was committed, and "
        "the table is as it was. This is an error of lakelog or a damaged file: keep the table, and report it"
    )
