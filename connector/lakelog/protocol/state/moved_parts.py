"""Parts of a batch that were in a table before a rescale: a batch that runs again leaves out their rows.

A ledger names the buckets whose part of an unfinished batch is in the table. When the number of buckets changes, the
log state keeps the ledger together with its number of buckets. Source: docs/rfcs/0033-buckets-of-a-log.md, "Part-done
batches".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.filestore.encoding import bucket_of
from lakelog.filestore.schema import TableSchema
from lakelog.protocol.state.state import Batch, LogState, MovedParts


def written_parts(log: LogState, batch: Batch) -> tuple[tuple[int, frozenset[int]], ...]:
    """For each rescale, the earlier number of buckets, and those of them whose part of the batch the table has."""
    found = []
    for moved in log.moved:
        buckets = [
            bucket
            for bucket, users in moved.ledger.items()
            if batch.user in users and users[batch.user].identifier >= batch.identifier
        ]
        if buckets:
            found.append((moved.bucket_count, frozenset(buckets)))
    return tuple(found)


def rows_left(schema: TableSchema, rows: pa.Table, written: Iterable[tuple[int, frozenset[int]]]) -> pa.Array:
    """For each row of a batch, whether it is in none of the written parts."""
    left = np.ones(rows.num_rows, np.bool_)
    for bucket_count, buckets in written:
        left &= ~np.isin(bucket_of(rows, schema.bucket_fields, bucket_count, schema.bucket_function), sorted(buckets))
    return pa.array(left)


def moved_state(log: LogState, *, bucket_count: int) -> LogState:
    """The log state of a table that had `bucket_count` buckets and gets another number."""
    if not any(log.ledger.values()):
        return replace(log, ledger={})
    return replace(log, ledger={}, moved=(*log.moved, MovedParts(bucket_count=bucket_count, ledger=log.ledger)))
