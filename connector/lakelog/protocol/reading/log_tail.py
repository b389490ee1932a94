"""The changes in the log of a table as they are committed, for people and for programs that watch a table.

A batch of changes has the columns `_row_kind`, `_bucket`, `_offset`, `_timestamp` (when the writer made the record),
`_user` and `_batch_id` of the micro-batch, and the table's own; a name that the table itself has is left out. User and
batch are null for records before the first whole transaction, and if the header was in a file that was deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.timestamps import Timestamp, millis_of
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField, parse_type
from lakelog.filestore import FileStoreTable
from lakelog.filestore.encoding import bucket_of
from lakelog.logstore.codec.debezium import decode_changes
from lakelog.logstore.codec.json_text import row_json
from lakelog.logstore.codec.log_codec import codec_of
from lakelog.logstore.kafka.clients.offsets import (
    high_watermarks,
    last_stable_offsets,
    log_start_offsets,
    offsets_since,
)
from lakelog.logstore.kafka.records.follow import LogRecords, follow
from lakelog.logstore.kafka.records.reader import OFFSET_COLUMN
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.stores.table_states import newest_state

NOW, EARLIEST, SNAPSHOT = "now", "earliest", "snapshot"
BUCKET_COLUMN = "_bucket"
TIMESTAMP_COLUMN = "_timestamp"
USER_COLUMN = "_user"
BATCH_COLUMN = "_batch_id"
Start = Timestamp | Mapping[int, int]

_METADATA = (
    (ROW_KIND_COLUMN, "STRING NOT NULL"),
    (BUCKET_COLUMN, "INT NOT NULL"),
    (OFFSET_COLUMN, "BIGINT NOT NULL"),
    (TIMESTAMP_COLUMN, "TIMESTAMP_LTZ(3)"),
    (USER_COLUMN, "STRING"),
    (BATCH_COLUMN, "BIGINT"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """The key whose records are wanted: its bytes in a record, and the bucket that has them, if it is known."""

    encoded: bytes
    bucket: int | None


@dataclass(slots=True, kw_only=True)
class LogTail:
    """A continuous read of a log: `batches` of changes, and None after half a second without changes."""

    table: FileStoreTable
    log: TableLog
    starts: Mapping[int, int]
    key: _Key | None = None
    until_end: bool = False
    _batches: dict[int, tuple[str, int] | None] = field(default_factory=dict)

    @property
    def fields(self) -> list[DataField]:
        """The columns of a batch."""
        own = {one.name for one in self.table.schema.fields}
        metadata = [DataField(id=-1, name=name, type=parse_type(kind)) for name, kind in _METADATA if name not in own]
        return [*metadata, *self.table.schema.fields]

    def batches(self) -> Iterator[pa.RecordBatch | None]:
        """The changes. Raises like `follow`, and CorruptDataError for records that are not changes of the table."""
        for records in follow(kafka_topic(self.log), self.starts, until_end=self.until_end):
            batches = [self._batch_of(records, place) for place in range(len(records))]
            wanted = [place for place in range(len(records)) if self._is_wanted(records, place)]
            yield self._changes(records.take(wanted), [batches[place] for place in wanted]) if wanted else None

    def _is_wanted(self, records: LogRecords, place: int) -> bool:
        return records.values[place] is not None and (self.key is None or records.keys[place] == self.key.encoded)

    def _batch_of(self, records: LogRecords, place: int) -> tuple[str, int] | None:
        """The user and number of the batch of a record: its own header names them, or that of an earlier record."""
        bucket, header = records.partitions[place], records.headers[place]
        if header is not None:
            mark = HeaderFiles(self.table).read_mark(header, where=self._place(records, place))
            self._batches[bucket] = None if mark is None else (mark.user, mark.identifier)
        return self._batches.get(bucket)

    def _place(self, records: LogRecords, place: int) -> str:
        return f"topic {self.log.topic}, partition {records.partitions[place]}, offset {records.offsets[place]}"

    def _changes(self, records: LogRecords, batches: Sequence[tuple[str, int] | None]) -> pa.RecordBatch | None:
        fields = self.table.schema.fields
        changes = codec_of(self.log.format).decode_records(
            records.values, fields, name=lambda place: self._place(records, place)
        )
        if not changes.rows.num_rows:
            return None
        places = pa.array(changes.records)
        of_record = {
            BUCKET_COLUMN: pa.array(records.partitions, pa.int32()),
            OFFSET_COLUMN: pa.array(records.offsets, pa.int64()),
            TIMESTAMP_COLUMN: pa.array(records.time_millis, pa.timestamp("ms", "UTC")),
            USER_COLUMN: pa.array([None if one is None else one[0] for one in batches], pa.string()),
            BATCH_COLUMN: pa.array([None if one is None else one[1] for one in batches], pa.int64()),
        }
        columns = {ROW_KIND_COLUMN: pa.array(ROW_KIND_TEXTS).take(pa.array(changes.kinds))}
        columns |= {name: values.take(places) for name, values in of_record.items()}
        rows = changes.rows.combine_chunks()
        own = {one.name: _flat(rows.column(one.name)) for one in fields}
        return pa.RecordBatch.from_pydict(columns | own)


def tail_of(
    table: FileStoreTable,
    log: TableLog,
    *,
    start: Start = NOW,
    key: Mapping[str, object] | None = None,
    follow_on: bool = True,
) -> LogTail:
    """A read of the log of a table from `start` on.

    `start` is `now`, `earliest`, `snapshot` (after the newest snapshot), a timestamp, or bucket -> offset for only
    those buckets. `key` has the value of each primary key column: then only changes of that key are given, and only its
    bucket is read. Raises InvalidRequestError for a key or bucket that the table does not have, NotFoundError without
    the topic, CorruptDataError for another topic of its name, UnavailableError.
    """
    wanted = None if key is None else _key_of(table, key)
    log.check_topic()
    starts = log.patience().keep_trying(lambda: _starts(table, log, start))
    if wanted is not None and wanted.bucket is not None:
        starts = {bucket: at for bucket, at in starts.items() if bucket == wanted.bucket}
    return LogTail(table=table, log=log, starts=starts, key=wanted, until_end=not follow_on)


def _starts(table: FileStoreTable, log: TableLog, start: Start) -> dict[int, int]:
    topic, count = kafka_topic(log), table.bucket_count
    if isinstance(start, Mapping):
        unknown = sorted(bucket for bucket in start if bucket not in range(count))
        if unknown:
            raise InvalidRequestError(f"table {table.name} has the buckets 0 to {count - 1}, found {listed(unknown)}")
        return dict(start)
    if start == NOW:
        return {bucket: at.offset for bucket, at in last_stable_offsets(topic, count).items()}
    if start == EARLIEST:
        return {bucket: at.offset for bucket, at in log_start_offsets(topic, count).items()}
    if start == SNAPSHOT:
        state = newest_state(table, topic_id=log.topic_id).logged
        return {bucket: state.position(bucket).offset for bucket in range(count)}
    since, ends = offsets_since(topic, count, millis_of(start)), high_watermarks(topic, count)
    return {bucket: ends[bucket].offset if at is None else at for bucket, at in since.items()}


def _key_of(table: FileStoreTable, key: Mapping[str, object]) -> _Key:
    schema = table.schema
    if not schema.primary_keys:
        raise UnsupportedError(f"table {table.name} has no primary key: the records of its log have no key")
    if set(key) != set(schema.primary_keys):
        raise InvalidRequestError(
            f"a key of table {table.name} has the columns {listed(schema.primary_keys)}, found {listed(key)}"
        )
    fields = schema.select(schema.primary_keys)
    given = json.dumps({"before": None, "after": dict(key), "op": "c"}, default=str).encode()
    try:
        rows, _ = decode_changes([given], fields, name=lambda _: "the key")
    except CorruptDataError as error:
        raise InvalidRequestError(
            f"{error}; a key has values as the log has them, such as 7 or '2026-01-31'"
        ) from error
    is_hashed = {one.name for one in schema.bucket_fields} <= set(schema.primary_keys)
    bucket = int(bucket_of(rows, schema.bucket_fields, table.bucket_count, schema.bucket_function)[0])
    return _Key(encoded=row_json(rows, fields)[0].as_py().encode(), bucket=bucket if is_hashed else None)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
