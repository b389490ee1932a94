"""What must hold of every table with dynamic buckets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.filestore.encoding.bucket import hashes_of
from lakelog.filestore.index.hash_index import read_hashes
from lakelog.filestore.index.index_manifest import hash_index
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits


def assignments(table: TableStore, snapshot: Snapshot | None) -> dict[BucketId, set[int]]:
    """The hashes that the HASH index has for each bucket."""
    return {
        BucketId(partition, bucket): set(read_hashes(table, file).tolist())
        for partition, files in hash_index(table, snapshot).items()
        for bucket, file in files.items()
    }


def keys_by_bucket(table: TableStore) -> dict[BucketId, pa.Table]:
    """The keys that the data files of each bucket hold: the truth that the HASH index must tell."""
    parts: dict[BucketId, list[pa.RecordBatch]] = {}
    for split in plan_splits(table, table.snapshots.latest()).splits:
        parts.setdefault(split.bucket_id, []).extend(read_splits(table, [split]))
    names = list(table.schema.primary_keys)
    return {bucket: pa.Table.from_batches(batches).select(names) for bucket, batches in parts.items() if batches}


def check_index(table: TableStore) -> None:
    """Each key is in one bucket, whose index file has its hash; no hash is in two buckets of a partition."""
    index = assignments(table, table.snapshots.latest())
    keys = keys_by_bucket(table)
    for bucket, held in keys.items():
        assert set(hashes_of(held, table.schema.key_fields).tolist()) <= index[bucket]
    for partition in {partition for partition, _ in index}:
        hashes = [one for (where, _), held in index.items() if where == partition for one in held]
        assert len(np.unique(hashes)) == len(hashes), partition
    rows = [tuple(row.values()) for held in keys.values() for row in held.to_pylist()]
    assert len(set(rows)) == len(rows)
