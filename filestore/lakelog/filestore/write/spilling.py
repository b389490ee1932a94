"""Sorted rows in temporary files, and their merge in bounded memory.

A spilled run holds the rows of one full write buffer: for each bucket the rows in key order, each key once, with
sequence numbers and kinds. It is an Arrow file in the temporary folder of the process (`TMPDIR`) that is unlinked once
it is written: the system frees it when the run is closed or the process ends in any way.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakelog.common.arrow import pieces_of, to_arrow_schema
from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.merge.deduplicate import merge_ordered
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.runs import RunCursor, aligned_slices, piece_sizes
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.options.writing import (
    LOCAL_SORT_MAX_NUM_FILE_HANDLES,
    SPILL_COMPRESSION,
    SPILL_COMPRESSION_ZSTD_LEVEL,
    WRITE_BUFFER_SIZE,
)
from lakelog.filestore.read.bucket_reader import COPIES
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

BucketPart = tuple[BucketId, StoredRows]
SPILL_PREFIX = "lakelog-spill-"
_CODECS = {"zstd": "zstd", "lz4": "lz4", "none": None}
_BATCH_BYTES_MIN = 64 << 10


class Spills:
    """The spilled runs of one write, oldest first. A context manager, which frees them."""

    def __init__(self, table: TableStore) -> None:
        options = table.schema.options
        self._table = table
        self._merge = row_merge(table.schema)
        self._runs: list[_Run] = []
        self._runs_max = LOCAL_SORT_MAX_NUM_FILE_HANDLES.of(options)
        self._budget_bytes = WRITE_BUFFER_SIZE.of(options) // COPIES

    def __enter__(self) -> Spills:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def size_bytes(self) -> int:
        """Bytes of the temporary files."""
        return sum(run.size_bytes for run in self._runs)

    def add(self, parts: Iterable[BucketPart]) -> None:
        """Spill rows that are younger than all earlier ones. Raises UnavailableError when they cannot be written."""
        self._runs.append(self._written(parts))
        if len(self._runs) >= self._runs_max:
            joined = self._written(self.all_merged())
            self.clear()
            self._runs = [joined]

    def buckets(self) -> list[BucketId]:
        """The buckets that have rows."""
        return list(dict.fromkeys(bucket for run in self._runs for bucket in run.batches))

    def merged(self, bucket: BucketId) -> Iterator[StoredRows]:
        """The rows of a bucket in key order, each key once, in pieces; all runs share the memory of a write buffer."""
        runs = [run for run in reversed(self._runs) if bucket in run.batches]
        sizes = piece_sizes([self._budget_bytes] * len(runs), self._budget_bytes)
        cursors = [
            RunCursor(
                tables=pieces_of(run.read(bucket), piece_bytes),
                key_fields=self._table.schema.key_fields,
                rows_left=run.row_counts[bucket],
            )
            for run, piece_bytes in zip(runs, sizes, strict=True)
        ]
        for slices in aligned_slices(cursors, self._budget_bytes):
            if self._merge is None:
                rows = merge_ordered(slices, is_ranked=True, keeps_deletes=True)
            else:
                rows = self._merge.merge(slices, keeps_deletes=True)
            yield StoredRows(rows=rows, sequences=rows.column(SEQUENCE_NUMBER), kinds=rows.column(VALUE_KIND))

    def clear(self) -> None:
        """Free the temporary files."""
        for run in self._runs:
            run.source.close()
        self._runs = []

    def all_merged(self) -> Iterator[BucketPart]:
        """The rows of all buckets, one after the other. See `merged`."""
        return ((bucket, piece) for bucket in self.buckets() for piece in self.merged(bucket))

    def _written(self, parts: Iterable[BucketPart]) -> _Run:
        options = self._table.schema.options
        fields = [*self._table.schema.fields, SEQUENCE_FIELD, KIND_FIELD]
        batch_bytes = max(self._budget_bytes // self._runs_max, _BATCH_BYTES_MIN)
        write_options = _write_options(SPILL_COMPRESSION.of(options), SPILL_COMPRESSION_ZSTD_LEVEL.of(options))
        try:
            handle, path = tempfile.mkstemp(prefix=SPILL_PREFIX, suffix=".arrow")
            os.close(handle)
            try:
                return _write_run(path, to_arrow_schema(fields), parts, batch_bytes, write_options)
            finally:
                Path(path).unlink()
        except OSError as error:
            raise UnavailableError(
                f"table {self._table.name}: rows beyond {WRITE_BUFFER_SIZE.key} could not be spilled to "
                f"{tempfile.gettempdir()}: {error}; let TMPDIR name a folder with more space, or set "
                f"{WRITE_BUFFER_SIZE.key} higher"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One temporary file: its batches by bucket, and their number of rows."""

    source: pa.NativeFile
    reader: pa.RecordBatchFileReader
    batches: dict[BucketId, list[int]]
    row_counts: dict[BucketId, int]
    size_bytes: int

    def read(self, bucket: BucketId) -> Iterator[pa.RecordBatch]:
        """The rows of a bucket, in key order."""
        return (self.reader.get_batch(number) for number in self.batches[bucket])


def _write_run(
    path: str, schema: pa.Schema, parts: Iterable[BucketPart], batch_bytes: int, options: pa.ipc.IpcWriteOptions
) -> _Run:
    batches: dict[BucketId, list[int]] = {}
    row_counts: dict[BucketId, int] = {}
    written = 0
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
        for bucket, part in parts:
            names = schema.names[:-2]
            rows = pa.table([*(part.rows.column(name) for name in names), part.sequences, part.kinds], schema=schema)
            step = max(1, rows.num_rows * batch_bytes // max(1, rows.nbytes))
            for batch in rows.to_batches(max_chunksize=step):
                writer.write_batch(batch)
                batches.setdefault(bucket, []).append(written)
                written += 1
            row_counts[bucket] = row_counts.get(bucket, 0) + rows.num_rows
    source = pa.OSFile(path)
    return _Run(
        source=source,
        reader=pa.ipc.open_file(source),
        batches=batches,
        row_counts=row_counts,
        size_bytes=source.size(),
    )


def _write_options(compression: str, level: int) -> pa.ipc.IpcWriteOptions:
    if compression.lower() not in _CODECS:
        raise InvalidRequestError(
            f"{SPILL_COMPRESSION.key} {compression!r} is not known; known are {', '.join(_CODECS)}"
        )
    codec = _CODECS[compression.lower()]
    if codec is None:
        return pa.ipc.IpcWriteOptions()
    return pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, level) if codec == "zstd" else pa.Codec(codec))
