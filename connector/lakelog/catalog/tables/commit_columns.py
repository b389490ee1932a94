"""The columns of CHANGES that say what happened to a row, and by which commit.

Source: Spark, `org.apache.spark.sql.connector.catalog.Changelog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.filestore.options import CHANGELOG_PRODUCER, ChangelogProducer

if TYPE_CHECKING:
    from lakelog.filestore.schema import TableSchema

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
COMMIT_TIME = pa.timestamp("us", tz="UTC")
_CHANGE_TYPES = dict(zip(ROW_KIND_TEXTS, ("insert", "update_preimage", "update_postimage", "delete"), strict=True))


def with_commit(batch: pa.RecordBatch, *, snapshot_id: int, time_millis: int) -> pa.RecordBatch:
    """The rows of a batch with the three columns of their commit, in place of their row kinds."""
    kinds = batch.column(ROW_KIND_COLUMN).dictionary_encode()
    names = pa.array([_CHANGE_TYPES[kind] for kind in kinds.dictionary.to_pylist()], pa.string())
    columns = {name: batch.column(name) for name in batch.schema.names if name != ROW_KIND_COLUMN}
    columns[CHANGE_TYPE] = names.take(kinds.indices) if len(names) else kinds.indices.cast(pa.string())
    columns[COMMIT_VERSION] = pa.repeat(pa.scalar(snapshot_id, pa.int64()), batch.num_rows)
    columns[COMMIT_TIMESTAMP] = pa.repeat(pa.scalar(time_millis * 1000, COMMIT_TIME), batch.num_rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def compares_states(schema: TableSchema) -> bool:
    """Whether the changes of a commit are the difference of two states: no changelog has their old values."""
    is_kept = CHANGELOG_PRODUCER.of(schema.options) is not ChangelogProducer.NONE
    return not is_kept and bool(schema.primary_keys)
