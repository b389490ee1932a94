"""Columns about the records of a log and the rows of a snapshot, which `metadata-columns` asks for.

| column | of a record of the log | of a row of a snapshot |
|---|---|---|
| `_bucket` | the bucket, which is the partition of the topic | the bucket |
| `_offset` | the offset; both rows of an update with old values have one | null |
| `_timestamp` | Kafka's timestamp | null |
| `_user`, `_batch_id` | user and identifier of the batch's commit | null |
| `_snapshot_id` | the snapshot that took it in; null where that is not known | the snapshot |
| `_watermark` | the event-time watermark of its batch; null without one | the snapshot's |

User, batch and watermark are stored at the beginning of a transaction: a read that begins inside a transaction shows
nulls up to the next one. In an eventual log, which has no transactions, each record has user and batch; there is no
watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import TableSchema
from lakelog.protocol.state import BatchMark, HeaderFiles
from lakelog.streams.options.log_options import METADATA_COLUMNS, MetadataColumn
from lakelog.streams.reading.parts import SnapshotMark, shown_millis

if TYPE_CHECKING:
    from lakelog.logstore.kafka.records.authors import Author

_MILLIS = pa.timestamp("ms", tz="UTC")
ARROW_TYPES: dict[MetadataColumn, pa.DataType] = {
    MetadataColumn.BUCKET: pa.int32(),
    MetadataColumn.OFFSET: pa.int64(),
    MetadataColumn.TIMESTAMP: _MILLIS,
    MetadataColumn.USER: pa.string(),
    MetadataColumn.BATCH_ID: pa.int64(),
    MetadataColumn.SNAPSHOT_ID: pa.int64(),
    MetadataColumn.WATERMARK: _MILLIS,
}
_OF_HEADERS = frozenset({MetadataColumn.USER, MetadataColumn.BATCH_ID, MetadataColumn.WATERMARK})


def check_metadata(columns: Sequence[MetadataColumn], table: TableSchema, *, table_name: str) -> None:
    """Raise InvalidRequestError for a table that has a column of the name of a metadata column."""
    own = {field.name for field in table.fields}
    spelled = {name.lower() for name in own}
    if columns and MetadataColumn.OFFSET.column in own:  # the other columns are found by it
        columns = (MetadataColumn.OFFSET, *columns)
    for one in columns:
        if one.column in spelled:
            raise InvalidRequestError(
                f"table {table_name} has a column {one.column!r} of its own: leave {one.value!r} out of "
                f"{METADATA_COLUMNS.key}"
            )


def with_snapshot_metadata(
    batch: pa.RecordBatch, columns: Sequence[MetadataColumn], *, bucket: int, snapshot: SnapshotMark
) -> pa.RecordBatch:
    """The rows of a snapshot with its metadata columns."""
    values = {
        MetadataColumn.BUCKET: bucket,
        MetadataColumn.SNAPSHOT_ID: snapshot.id,
        MetadataColumn.WATERMARK: snapshot.watermark_millis,
    }
    for one in columns:
        value, kind = values.get(one), ARROW_TYPES[one]
        column = pa.nulls(len(batch), kind) if value is None else pa.repeat(pa.scalar(value, kind), len(batch))
        batch = batch.append_column(one.column, column)
    return batch


class LogMetadata:
    """The metadata columns of one range of a bucket's log, while it is read in the order of the log.

    `snapshot_ends` are (offset, snapshot), see `stream_log.snapshot_ends`.
    """

    def __init__(
        self,
        table: TableStore,
        columns: Sequence[MetadataColumn],
        *,
        bucket: int,
        where: str,
        snapshot_ends: Sequence[tuple[int, int]],
    ) -> None:
        """Know nothing yet; `where` names topic and partition in errors."""
        self._headers = HeaderFiles(table)
        self._columns = tuple(columns)
        self._bucket = bucket
        self._where = where
        self._ends = np.array([offset for offset, _ in snapshot_ends], np.int64)
        self._snapshots = np.array([snapshot for _, snapshot in snapshot_ends], np.int64)
        self._starts: list[int] = []
        self._marks: list[BatchMark | None] = []

    @property
    def has_timestamp(self) -> bool:
        """Whether the times of records are asked for."""
        return MetadataColumn.TIMESTAMP in self._columns

    @property
    def on_header(self) -> Callable[[int, bytes], None] | None:
        """The function that takes the headers of transactions as they arrive; None if no column needs them."""
        return None if _OF_HEADERS.isdisjoint(self._columns) else self._take_header

    @property
    def on_author(self) -> Callable[[int, Author], None] | None:
        """The function that takes the batches of records of an eventual log, which has no transactions, or None."""
        return None if _OF_HEADERS.isdisjoint(self._columns) else self._take_author

    def _take_author(self, offset: int, author: Author) -> None:
        self._starts.append(offset)
        self._marks.append(BatchMark(user=author.user, identifier=author.identifier))

    def _take_header(self, offset: int, header: bytes) -> None:
        self._starts.append(offset)
        self._marks.append(self._headers.read_mark(header, where=f"{self._where}, offset {offset}"))

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the other columns to the next rows, which have `_offset`, and `_timestamp` if it is asked for."""
        offsets = np.asarray(batch.column(MetadataColumn.OFFSET.column))
        transactions = np.searchsorted(np.array(self._starts, np.int64), offsets, side="right") - 1
        names = batch.schema.names
        added = {
            one.column: self._column(one, offsets, transactions) for one in self._columns if one.column not in names
        }
        if len(transactions):  # the next rows may still belong to the last transaction
            kept = max(int(transactions[-1]), 0)
            self._starts, self._marks = self._starts[kept:], self._marks[kept:]
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=[*names, *added])

    def _column(
        self, column: MetadataColumn, offsets: npt.NDArray[np.int64], transactions: npt.NDArray[np.int64]
    ) -> pa.Array:
        kind = ARROW_TYPES[column]
        match column:
            case MetadataColumn.BUCKET:
                return pa.array(np.full(len(offsets), self._bucket, np.int32))
            case MetadataColumn.SNAPSHOT_ID:
                return self._snapshots_of(offsets)
            case MetadataColumn.USER:
                values: list[str | int | None] = [None if mark is None else mark.user for mark in self._marks]
            case MetadataColumn.BATCH_ID:
                values = [None if mark is None else mark.identifier for mark in self._marks]
            case _:
                values = [None if mark is None else shown_millis(mark.watermark_millis) for mark in self._marks]
        if all(value is None for value in values):
            return pa.nulls(len(offsets), kind)
        indices = pa.array(transactions, mask=transactions < 0)
        return pa.array(values, kind).take(indices)

    def _snapshots_of(self, offsets: npt.NDArray[np.int64]) -> pa.Array:
        """The snapshot of each record; null after the last end, and where 0 stands for the snapshot."""
        if not len(self._ends):
            return pa.nulls(len(offsets), pa.int64())
        at = np.searchsorted(self._ends, offsets, side="right")
        is_known = at < len(self._ends)
        found = self._snapshots[np.where(is_known, at, 0)]
        return pa.array(found, mask=~is_known | (found == 0))
