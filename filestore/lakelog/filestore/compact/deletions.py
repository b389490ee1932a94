"""The deletion vectors of a bucket after a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lakelog.filestore.index.deletion_vectors import DeletionFile, Positions, read_positions
from lakelog.filestore.index.index_manifest import BucketDeletions, write_vectors
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore


def bucket_deletions(  # noqa: PLR0917  # each is another part of one compaction
    table: TableStore,
    bucket: BucketId,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    seen: Mapping[str, DeletionFile],
    met: Mapping[str, Positions],
) -> BucketDeletions | None:
    """The change of the vectors `seen` of the bucket's files, if the rows at the positions `met` are overwritten.

    Vectors of files that the compaction removes are dropped. An index file is written if other vectors remain. None for
    a bucket that has no vectors and gets none.
    """
    if not seen and not met:
        return None
    stays = {file.file_name for file in after}
    removed = {file.file_name for file in before if file.file_name not in stays}
    is_changed = bool(met) or any(name in removed for name in seen)
    file = None
    if is_changed:
        vectors = {
            name: _rising(_of(table, seen, name), met.get(name, np.zeros(0, np.uint64)))
            for name in sorted((seen.keys() | met.keys()) - removed)
        }
        file = write_vectors(table, vectors) if vectors else None
    return BucketDeletions(bucket_id=bucket, seen=dict(seen), file=file, is_changed=is_changed)


def _of(table: TableStore, seen: Mapping[str, DeletionFile], name: str) -> Positions:
    return read_positions(table.file_io, seen[name]) if name in seen else np.zeros(0, np.uint64)


def _rising(first: Positions, second: Positions) -> Positions:
    """The positions of both, each once. They are nearly in order, so that a sort is quicker than a set."""
    both = np.sort(np.concatenate([first, second]), kind="stable")
    return both[np.append(True, both[1:] != both[:-1])] if len(both) else both
