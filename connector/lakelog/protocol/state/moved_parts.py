"""Parts of a batch that are in a table from before it got other buckets: a batch that runs again leaves their rows out.

A ledger names the buckets whose part of an unfinished batch is in the table. Where the number of buckets changes, it
goes on in the log state with the number that it is of. Source: docs/rfcs/0033-buckets-of-a-log.md, "Part-done batches".
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
    """The number of buckets that the table had, and those of them whose part of the batch it has, for each rescale."""
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
    """For each row of a batch whether it is in none of the parts that are written."""
    left = np.ones(rows.num_rows, np.bool_)
    for bucket_count, buckets in written:
        left &= ~np.isin(bucket_of(rows, schema.bucket_fields, bucket_count, schema.bucket_function), sorted(buckets))
    return pa.array(left)


def moved_state(log: LogState, *, bucket_count: int) -> LogState:
    """The log state of a table that had `bucket_count` buckets and gets others."""
    if not any(log.ledger.values()):
        return replace(log, ledger={})
    return replace(log, ledger={}, moved=(*log.moved, MovedParts(bucket_count=bucket_count, ledger=log.ledger)))
