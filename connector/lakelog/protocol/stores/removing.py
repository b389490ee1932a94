"""Rows that batch statements take out of append-only tables: they are found in the files, and left out of new files.

The files of such a table hold no deletes. So the snapshot that takes a statement in replaces the files that hold its
rows with files that have the other rows. Rows are equal if their JSON in the log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import polars as pl
import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import DataField
from lakelog.filestore.data import WantedRows, files_without, read_data_file
from lakelog.filestore.merge import to_series
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta, FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import add_entry
from lakelog.logstore.codec.json_text import row_json
from lakelog.protocol.state.header import BucketFile
from lakelog.protocol.state.ports import PartBase

_PIECE_BYTES = 32 << 20


def still_there(table: TableStore, bucket: int, base: PartBase, rows: pa.Table) -> pa.Table:
    """Those of the rows that a bucket has in a snapshot and the tail after it, as often as it has them.

    Raises NotFoundError for files that have expired.
    """
    wanted = WantedRows([rows], partial(_texts, fields=table.schema.fields))
    snapshot = table.snapshots.get(base.snapshot_id) if base.snapshot_id else None
    live = table.live_files.of(snapshot)
    files = [
        (bucket_id, meta) for bucket_id in live.buckets if bucket_id.number == bucket for meta in live.files(bucket_id)
    ]
    files += [(file.bucket_id(bucket), file.meta) for header in base.tail for file in header.files]
    removed = _wanted(table, ((f.bucket_id(bucket), f.meta) for h in base.tail for f in h.removed))
    kept = [part.filter(pa.array(~removed.take_off(part))) for part in _tables(table, files)]
    there = [part.filter(pa.array(wanted.take_off(part))) for part in kept]
    return pa.concat_tables([table.schema.arrow_schema.empty_table(), *there])


def without_removed(
    table: TableStore,
    latest: Snapshot | None,
    files: Sequence[tuple[int, BucketFile]],
    removed: Sequence[tuple[int, BucketFile]],
) -> list[ManifestEntry]:
    """The entries of a commit that adds `files` and takes out the rows of the files `removed`, both (bucket, file).

    Writes new files. Raises CorruptDataError when a row is missing.
    """
    live = table.live_files.near(latest)
    live.read({file.partition for _, file in removed})
    entries: list[ManifestEntry] = []
    by_id: dict[BucketId, list[BucketFile]] = {}
    for bucket, file in removed:
        by_id.setdefault(file.bucket_id(bucket), []).append(file)
    added: dict[BucketId, list[DataFileMeta]] = {}
    for bucket, file in files:
        added.setdefault(file.bucket_id(bucket), []).append(file.meta)
    for bucket_id in sorted({*added, *by_id}):
        metas = added.get(bucket_id, [])
        if bucket_id not in by_id:
            entries += [add_entry(table, bucket_id, meta) for meta in metas]
            continue
        wanted = _wanted(table, ((bucket_id, file.meta) for file in by_id[bucket_id]))
        for meta in live.files(bucket_id):
            new = _without(table, bucket_id, meta, wanted)
            if new is not None:
                entries.append(replace(add_entry(table, bucket_id, meta), kind=FileKind.DELETE))
                entries += [add_entry(table, bucket_id, one) for one in new]
        for meta in metas:
            new = _without(table, bucket_id, meta, wanted)
            entries += [add_entry(table, bucket_id, one) for one in ([meta] if new is None else new)]
        if wanted.count:
            raise CorruptDataError(
                f"bucket {bucket_id.number} of table {table.name} lacks {wanted.count} rows that its log says were "
                "deleted: another engine has changed its files; `lakelog table new-identity` gives the table a new log"
            )
    return entries


def _without(
    table: TableStore, bucket_id: BucketId, meta: DataFileMeta, wanted: WantedRows
) -> list[DataFileMeta] | None:
    """The files that replace one with wanted rows, empty if no row stays; None if the file is kept unchanged."""
    return files_without(table, bucket_id, meta, _tables(table, [(bucket_id, meta)]), wanted) if wanted.count else None


def _wanted(table: TableStore, files: Iterable[tuple[BucketId, DataFileMeta]]) -> WantedRows:
    """The rows of files; rows are equal if their JSON in the log is."""
    rows = _tables(table, files)
    return WantedRows([table.schema.arrow_schema.empty_table(), *rows], partial(_texts, fields=table.schema.fields))


def _texts(rows: pa.Table, fields: Sequence[DataField]) -> pl.DataFrame:
    return pl.DataFrame({"row": to_series(row_json(rows, fields))})


def _tables(table: TableStore, files: Iterable[tuple[BucketId, DataFileMeta]]) -> Iterator[pa.Table]:
    """The rows of files, in the table's columns."""
    schema = table.schema
    for bucket_id, meta in files:
        batches = list(read_data_file(table, bucket_id, meta, schema.fields, piece_bytes=_PIECE_BYTES))
        yield pa.Table.from_batches(batches, schema.arrow_schema) if batches else schema.arrow_schema.empty_table()
