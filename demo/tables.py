"""The demo's two tables: made, and read back without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from demo.flights import KEY, TABLE_SCHEMA
from demo.log_fold import FoldedLog, fold, unite, until
from demo.workspace import FLIGHTS, FLIGHTS_BY_STATUS
from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.stores.table_states import read_state

BUCKET_COUNT = 4

STATUS_SCHEMA = pa.schema(
    [
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("count", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLine:
    """What the report says of one snapshot.

    `batch` is the micro-batch that made it, `offsets` bucket -> log offset, `record_count` the rows in its files,
    where a key may still be in several.
    """

    id: int
    kind: CommitKind
    batch: int
    record_count: int
    time_millis: int
    offsets: Mapping[int, int]


def create_tables(catalog: Catalog) -> None:
    """Make `flights`, with a log that keeps old values, and `flights_by_status`, without one. Starts the broker."""
    catalog.create_table(
        FLIGHTS,
        schema=TABLE_SCHEMA,
        primary_keys=list(KEY),
        options={"bucket": str(BUCKET_COUNT), "log.system": "kafka", "log.changelog-mode": "all"},
        comment="The flights that left New York in 2013, as far as they are known",
    )
    catalog.create_table(
        FLIGHTS_BY_STATUS,
        schema=STATUS_SCHEMA,
        primary_keys=["carrier", "status"],
        options={"bucket": "1"},
        comment="How many flights of each carrier are scheduled, departed, arrived",
    )


def list_snapshots(table: Table) -> list[SnapshotLine]:
    """The snapshots of a table with a log, oldest first."""
    assert table.log is not None
    lines = []
    for snapshot in table.snapshots():
        log = read_state(table.store, snapshot, topic_id=table.log.topic_id).logged
        lines.append(
            SnapshotLine(
                id=snapshot.id,
                kind=snapshot.commit_kind,
                batch=snapshot.commit_identifier,
                record_count=snapshot.total_record_count,
                time_millis=snapshot.time_millis,
                offsets={bucket: position.offset for bucket, position in log.positions.items()},
            )
        )
    return lines


def fold_log(table: Table, ends: Sequence[Mapping[int, int]]) -> list[FoldedLog]:
    """Read the log, a bucket at a time, and fold it up to each of `ends`: bucket -> offset, exclusive."""
    folded: list[list[FoldedLog]] = [[] for _ in ends]
    for bucket in range(table.schema.bucket_count):
        changes = _read_bucket(table, bucket, max(end[bucket] for end in ends))
        for parts, end in zip(folded, ends, strict=True):
            parts.append(fold(until(changes, end[bucket])))
    return [unite(parts) for parts in folded]


def _read_bucket(table: Table, bucket: int, end: int) -> pl.DataFrame:
    assert table.log is not None
    fields = table.schema.fields
    batches = read_range(kafka_topic(table.log).partition(bucket), fields, start=0, end=end, with_offset=True)
    return pl.concat([pl.DataFrame(batch) for batch in batches])
