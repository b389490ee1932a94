"""The promises of the design as checks over a table and its log. They read everything through public interfaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.catalog import Table
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.logstore.kafka.clients.offsets import high_watermark
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.state import TableState
from lakelog.protocol.stores.table_states import states_of
from tests.support.logs.changes import Row


def snapshot_rows(table: Table, snapshot_id: int | None = None) -> frozenset[Row]:
    """The rows of a snapshot in the newest columns; a row that is there twice fails."""
    snapshot, schema = table.snapshot(snapshot_id=snapshot_id), table.store.schema
    read = PlannedRead.of(table.store, snapshot, schema.fields, where=None)
    rows = list(_rows_of(pa.Table.from_batches(read.batches(), schema.arrow_schema)))
    assert len(set(rows)) == len(rows)
    return frozenset(rows)


def _rows_of(table: pa.Table) -> list[Row]:
    names = [name for name in table.column_names if not name.startswith("_")]
    return list(zip(*(map(_hashable, table[name].to_pylist()) for name in names), strict=True))


def _hashable(value: object) -> object:
    """A value that a row may be counted by: lists, maps and structs are tuples."""
    if isinstance(value, dict):
        return tuple((name, _hashable(one)) for name, one in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def read_headers(table: Table) -> list[tuple[int, CommitHeader]]:
    """(bucket, header) of every committed transaction of the log, in log order per bucket."""
    assert table.log is not None
    headers = []
    for bucket in range(table.store.bucket_count):
        tail = read_tail(kafka_topic(table.log).partition(bucket), 0)
        for transaction in tail.transactions:
            where = f"bucket {bucket}, offset {transaction.first_offset}"
            header = HeaderFiles(table.store).read(transaction.header, where=where)
            assert header.record_count == transaction.record_count
            headers.append((bucket, header))
    return headers


def snapshot_states(table: Table) -> Iterator[tuple[Snapshot, TableState]]:
    """Every snapshot, oldest first, with what it holds of users and log."""
    assert table.log is not None
    return states_of(table.store, topic_id=table.log.topic_id)


def log_changes(table: Table, bucket: int) -> list[tuple[int, int, int, pa.Table]]:
    """(bucket, offset, kind, row) of every committed change in a bucket's log, in log order."""
    assert table.log is not None
    partition, fields = kafka_topic(table.log).partition(bucket), table.store.schema.fields
    end = high_watermark(partition).offset if table.log.is_eventual else read_tail(partition, 0).high_watermark
    changes: list[tuple[int, int, int, pa.Table]] = []
    for batch in read_range(partition, fields, start=0, end=end, with_offset=True):
        whole = pa.Table.from_batches([batch])
        rows = whole.drop_columns(["_offset", "_row_kind"])
        places = zip(whole["_offset"].to_pylist(), whole["_row_kind"].to_pylist(), strict=True)
        changes += [(bucket, offset, kind, rows.slice(place, 1)) for place, (offset, kind) in enumerate(places)]
    return changes


def check_log_equals_files(table: Table) -> None:
    """Promise 2: at every snapshot, the fold of the log up to the snapshot's offsets is the snapshot."""
    changes = [
        (bucket, offset, 1 if RowKind(kind).is_add else -1, _rows_of(row)[0])
        for bucket in range(table.store.bucket_count)
        for bucket, offset, kind, row in log_changes(table, bucket)
    ]
    for snapshot, state in snapshot_states(table):
        rows: Counter[Row] = Counter()
        for bucket, offset, sign, row in changes:
            if offset < state.logged.position(bucket).offset:
                rows[row] += sign
        assert _present(rows) == Counter(snapshot_rows(table, snapshot.id)), f"log and files differ at {snapshot.id}"


def _present(rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if count})


def fold_read_batches(folder: Path) -> Counter[Row]:
    """Promise 3: the signed sum of all rows that a hybrid stream delivered; exact rows once each when it holds."""
    rows: Counter[Row] = Counter()
    for file in sorted(folder.glob("batch-*.parquet")):
        batch = pq.read_table(file)
        for kind, row in zip(batch["_row_kind"].to_pylist(), _rows_of(batch), strict=True):
            rows[row] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in rows.items() if count})
