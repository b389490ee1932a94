"""Rows that batch statements take out of append-only tables: found in the files again, and left out of new ones.

The files of such a table hold no deletes. So the snapshot that takes a statement in replaces the files that hold its
rows by files with the others. Rows are equal when their JSON in the log is; of equal ones any may go, as a multiset
has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.data import StoredRows, read_data_file, write_data_files
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta, FileKind, FileSource, ManifestEntry
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import add_entry
from lakelog.logstore.codec.json_text import row_json
from lakelog.protocol.state.header import BucketFile
from lakelog.protocol.state.ports import PartBase

_PIECE_BYTES = 32 << 20
_ROW, _COUNT, _PLACE = "row", "count", "place"


class Multiset:
    """Rows by their JSON, with how often each is wanted; what is found of them is taken off."""

    def __init__(self, table: TableStore, rows: Iterable[pa.Table]) -> None:
        self._fields = table.schema.fields
        texts = [self._texts(part) for part in rows]
        every = pl.concat(texts) if texts else pl.Series(_ROW, [], pl.String)
        self._left = every.alias(_ROW).to_frame().group_by(_ROW).agg(pl.len().cast(pl.Int64).alias(_COUNT))

    @property
    def count(self) -> int:
        """How many rows are wanted still."""
        return int(self._left[_COUNT].sum())

    def take_off(self, rows: pa.Table) -> np.ndarray:
        """Take the wanted rows off that are among these; for each of these whether it is one."""
        given = self._texts(rows).alias(_ROW).to_frame()
        numbered = given.with_columns(pl.int_range(pl.len()).over(_ROW).alias(_PLACE))
        found = numbered.join(self._left, on=_ROW, how="left", maintain_order="left")
        is_taken = (found[_PLACE] < found[_COUNT]).fill_null(False)
        taken = given.filter(is_taken).group_by(_ROW).agg(pl.len().cast(pl.Int64).alias("taken"))
        left = self._left.join(taken, on=_ROW, how="left").with_columns(
            (pl.col(_COUNT) - pl.col("taken").fill_null(0)).alias(_COUNT)
        )
        self._left = left.filter(pl.col(_COUNT) > 0).select(_ROW, _COUNT)
        return is_taken.to_numpy()

    def _texts(self, rows: pa.Table) -> pl.Series:
        return row_json(rows, self._fields)


def still_there(table: TableStore, bucket: int, base: PartBase, rows: pa.Table) -> pa.Table:
    """Those of the rows that a bucket has in a snapshot and the tail behind it, as often as it has them.

    Raises NotFoundError for files that have expired.
    """
    wanted = Multiset(table, [rows])
    snapshot = table.snapshots.get(base.snapshot_id) if base.snapshot_id else None
    live = table.live_files.of(snapshot)
    files = [
        (bucket_id, meta) for bucket_id in live.buckets if bucket_id.number == bucket for meta in live.files(bucket_id)
    ]
    files += [(file.bucket_id(bucket), file.meta) for header in base.tail for file in header.files]
    removed = Multiset(table, _tables(table, ((f.bucket_id(bucket), f.meta) for h in base.tail for f in h.removed)))
    kept = [part.filter(pa.array(~removed.take_off(part))) for part in _tables(table, files)]
    there = [part.filter(pa.array(wanted.take_off(part))) for part in kept]
    return pa.concat_tables([table.schema.arrow_schema.empty_table(), *there])


def without_removed(
    table: TableStore,
    latest: Snapshot | None,
    files: Sequence[tuple[int, BucketFile]],
    removed: Sequence[tuple[int, BucketFile]],
) -> list[ManifestEntry]:
    """The entries of a commit that adds `files` and takes the rows of the files `removed` out, both (bucket, file).

    Writes new files. Raises CorruptDataError when a row is not there.
    """
    live = table.live_files.of(latest)
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
        wanted = Multiset(table, _tables(table, ((bucket_id, file.meta) for file in by_id[bucket_id])))
        for meta in live.files(bucket_id):
            new = _left_of(table, bucket_id, meta, wanted)
            if new is not None:
                entries.append(replace(add_entry(table, bucket_id, meta), kind=FileKind.DELETE))
                entries += [add_entry(table, bucket_id, one) for one in new]
        for meta in metas:
            new = _left_of(table, bucket_id, meta, wanted)
            entries += [add_entry(table, bucket_id, one) for one in ([meta] if new is None else new)]
        if wanted.count:
            raise CorruptDataError(
                f"bucket {bucket_id.number} of table {table.name} lacks {wanted.count} rows that its log says were "
                "deleted: "
                "another engine has changed its files; `lakelog table new-identity` gives the table a new log"
            )
    return entries


def _left_of(table: TableStore, bucket_id: BucketId, meta: DataFileMeta, wanted: Multiset) -> list[DataFileMeta] | None:
    """The files in the place of one that held wanted rows, none where nothing stays; None for the file as it is."""
    if not wanted.count:
        return None
    parts = [(rows, wanted.take_off(rows)) for rows in _tables(table, [(bucket_id, meta)])]
    if not any(mask.any() for _, mask in parts):
        return None
    rows = pa.concat_tables([part.filter(pa.array(~mask)) for part, mask in parts])
    sequences = pa.array(np.arange(rows.num_rows, dtype=np.int64) + meta.min_sequence_number)
    kinds = pa.array(np.zeros(rows.num_rows, np.int8))
    pieces = [StoredRows(rows=rows, sequences=sequences, kinds=kinds)]
    return write_data_files(table, bucket_id, pieces, level=meta.level, source=FileSource.APPEND)


def _tables(table: TableStore, files: Iterable[tuple[BucketId, DataFileMeta]]) -> Iterator[pa.Table]:
    """The rows of files, in the table's columns."""
    schema = table.schema
    for bucket_id, meta in files:
        batches = list(read_data_file(table, bucket_id, meta, schema.fields, piece_bytes=_PIECE_BYTES))
        yield pa.Table.from_batches(batches, schema.arrow_schema) if batches else schema.arrow_schema.empty_table()
