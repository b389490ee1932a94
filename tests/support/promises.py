"""The promises of the design as checks over a table and its log. They read everything through public interfaces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.catalog import Table
from lakelog.common.types import RowKind
from lakelog.logstore.reader import LogReader, read_tail
from lakelog.protocol.header import CommitHeader
from tests.support.changes import Row


def snapshot_rows(table: Table, snapshot_id: int | None = None) -> frozenset[Row]:
    """The rows of a snapshot; a row that is there twice fails."""
    rows = list(_rows_of(table.to_arrow(snapshot_id=snapshot_id)))
    assert len(set(rows)) == len(rows)
    return frozenset(rows)


def _rows_of(table: pa.Table) -> list[Row]:
    names = [name for name in table.column_names if not name.startswith("_")]
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def read_headers(table: Table) -> list[tuple[int, CommitHeader]]:
    """(bucket, header) of every committed transaction of the log, in log order per bucket."""
    assert table.log is not None
    headers = []
    for bucket in range(table.file_store.bucket_count):
        tail = read_tail(table.log.client_config, table.log.topic, bucket, 0)
        for transaction in tail.transactions:
            where = f"bucket {bucket}, offset {transaction.first_offset}"
            header = CommitHeader.from_bytes(transaction.header, where=where)
            assert header.record_count == transaction.record_count
            headers.append((bucket, header))
    return headers


def check_log_equals_files(table: Table) -> None:
    """Promise 2: at every snapshot, the fold of the log up to the snapshot's offsets is the snapshot."""
    assert table.log is not None
    changes = {bucket: _changes(table, bucket) for bucket in range(table.file_store.bucket_count)}
    for snapshot, state in table.states():
        rows: Counter[Row] = Counter()
        for bucket, records in changes.items():
            end = state.logged.position(bucket).offset
            for offset, kind, row in records:
                if offset < end:
                    rows[row] += 1 if RowKind(kind).is_add else -1
        rows = Counter({row: count for row, count in rows.items() if count})
        assert rows == Counter(snapshot_rows(table, snapshot.id)), f"log and files differ at snapshot {snapshot.id}"


def _changes(table: Table, bucket: int) -> list[tuple[int, int, Row]]:
    assert table.log is not None
    end = read_tail(table.log.client_config, table.log.topic, bucket, 0).high_watermark
    reader = LogReader(table.log.client_config, table.log.topic, table.file_store.schema.fields)
    changes: list[tuple[int, int, Row]] = []
    for batch in reader.read_range(partition=bucket, start=0, end=end, with_offset=True):
        whole = pa.Table.from_batches([batch])
        changes += zip(whole["_offset"].to_pylist(), whole["_row_kind"].to_pylist(), _rows_of(whole), strict=True)
    reader.close()
    return changes


def fold_read_batches(folder: Path) -> Counter[Row]:
    """Promise 3: the signed sum of all rows that a hybrid stream delivered; exact rows once each when it holds."""
    rows: Counter[Row] = Counter()
    for file in sorted(folder.glob("batch-*.parquet")):
        batch = pq.read_table(file)
        for kind, row in zip(batch["_row_kind"].to_pylist(), _rows_of(batch), strict=True):
            rows[row] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in rows.items() if count})
