"""Writes the rows of several buckets to data files, those of small buckets at once where a store is slow to answer."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lakelog.common.errors import LakelogError
from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.io.network import CallsBeside
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.schema.paths import FileNames

_HELD_BYTES_MAX = 2 << 20  # of a bucket whose files are written beside those of other buckets
_Begun = list[tuple[BucketId, Callable[[], list[DataFileMeta]]]]


def write_bucket_files(
    table: TableStore,
    parts: Iterable[tuple[BucketId, StoredRows]],
    *,
    level: int,
    source: FileSource,
    prefix: str | None = None,
) -> list[tuple[BucketId, DataFileMeta]]:
    """Write the rows of buckets to data files. Neighbouring parts of one bucket, whose key ranges rise, share files.

    After an error the files written so far are deleted: no snapshot names them. Otherwise as `write_data_files`.
    """
    names = FileNames()
    begun: _Begun = []
    try:
        with CallsBeside(table.file_io) as uploads:
            for bucket_id, own in itertools.groupby(parts, key=lambda part: part[0]):
                pieces, is_whole = _first_pieces(piece for _, piece in own)
                write = partial(
                    write_data_files, table, bucket_id, pieces, level=level, source=source, names=names, prefix=prefix
                )
                begun.append((bucket_id, uploads.begin(write) if is_whole else CallsBeside.done(write)))
        return [(bucket_id, file) for bucket_id, files in begun for file in files()]
    except BaseException:
        _discard(table, begun)
        raise


def _first_pieces(pieces: Iterator[StoredRows]) -> tuple[Iterable[StoredRows], bool]:
    """The pieces of a bucket, and whether they are few enough to be held while other buckets are written."""
    held: list[StoredRows] = []
    held_bytes = 0
    for piece in pieces:
        held.append(piece)
        held_bytes += piece.rows.nbytes
        if held_bytes > _HELD_BYTES_MAX:
            return itertools.chain(held, pieces), False
    return held, True


def _discard(table: TableStore, begun: _Begun) -> None:
    """Delete the files of the buckets that were written."""
    for bucket_id, files in begun:
        with contextlib.suppress(LakelogError):  # of a bucket that was not written
            discard_files(table, [table.data_path(bucket_id, file) for file in files()])
